//! `cairn inspect` on devices made here with the format's own encoder: good, truncated, damaged, foreign.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use cairn_format::{
    BatchHeader, CacheRegions, CapacityRegions, DeviceRole, LogRecord, RunEntry, RunHeader, SUPERBLOCK_OFFSETS,
    Superblock, crc32c, encode_batch, encode_run_header, encode_superblock,
};
use cairn_types::{ClientTag, ClusterId, ComponentId, DeviceId, DiskGroupId, HostId, OpId};

const LOG_OFFSET: u64 = 1 << 20;
const LOG_BYTES: u64 = 512 << 10;
const LOG_SEGMENT_BYTES: u32 = 128 << 10;
const LOG_ID: u64 = 77;
const SEGMENTS_OFFSET: u64 = 1 << 20;
const SEGMENT_BYTES: u32 = 64 << 10;

fn inspect(arguments: &[&str], device: &Path) -> (i32, serde_json::Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["inspect", "--output", "json"])
        .args(arguments)
        .arg(device)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let json = serde_json::from_str(&text).unwrap_or_default();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), json, errors)
}

fn device(dir: &Path, role: DeviceRole) -> (PathBuf, File) {
    let path = dir.join("device.img");
    let file = File::create(&path).unwrap();
    file.set_len(4 << 20).unwrap();
    let superblock = Superblock {
        cluster: ClusterId(1),
        host: HostId(2),
        disk_group: DiskGroupId(3),
        device: DeviceId(4),
        device_bytes: 4 << 20,
        generation: 9,
        role,
        needs: cairn_format::Needs::NONE,
    };
    for offset in SUPERBLOCK_OFFSETS {
        file.write_all_at(&encode_superblock(&superblock), offset).unwrap();
    }
    (path, file)
}

/// A cache device with `count` batches of one written block each, back to back, no batch across a segment.
fn cache(dir: &Path, count: u64) -> (PathBuf, Vec<BatchHeader>) {
    let regions = CacheRegions {
        metadata_offset: 128 << 10,
        metadata_bytes: 256 << 10,
        log_offset: LOG_OFFSET,
        log_bytes: LOG_BYTES,
        log_segment_bytes: LOG_SEGMENT_BYTES,
        log_id: LOG_ID,
        open_count: 3,
    };
    let (path, file) = device(dir, DeviceRole::Cache { regions, capacity: vec![DeviceId(5)] });
    let (mut headers, mut position) = (Vec::<BatchHeader>::new(), 0);
    for number in 0..count {
        let data = vec![number as u8 + 1; 4096];
        let record = LogRecord::Write {
            component: ComponentId(6),
            op: OpId::ZERO,
            settled: OpId::ZERO,
            client: ClientTag::default(),
            first_block: number,
            crcs: vec![crc32c(&data)].into(),
        };
        let header = BatchHeader {
            log_id: LOG_ID,
            position,
            previous_position: headers.last().map_or(u64::MAX, |h| h.position),
            previous_crc: headers.last().map_or(0, |h| h.crc),
            durable_position: position,
            open_count: 3,
            data_bytes: 4096,
            ..BatchHeader::default()
        };
        let (header, bytes) = encode_batch(header, &[record]);
        let at = LOG_OFFSET + position % LOG_BYTES;
        file.write_all_at(&bytes, at).unwrap();
        file.write_all_at(&data, at + bytes.len() as u64).unwrap();
        position = header.end();
        headers.push(header);
    }
    (path, headers)
}

#[test]
fn a_log_is_counted_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (path, headers) = cache(dir.path(), 40);
    let (code, report, errors) = inspect(&["--verify", "--all"], &path);
    assert_eq!((code, errors.as_str()), (0, ""), "{report}");
    let log = &report["log"];
    assert_eq!((log["batches"].as_u64(), log["records"]["write"].as_u64()), (Some(40), Some(40)));
    assert_eq!(log["blocks_verified"], 40);
    assert_eq!(log["end_position"], headers[39].end());
    assert_eq!(log["list"].as_array().unwrap().len(), 40);
    assert_eq!(report["bad"].as_array().unwrap().len(), 0);
}

#[test]
fn a_log_that_wrapped_has_its_older_batches_left_out() {
    let dir = tempfile::tempdir().unwrap();
    // 16 batches of 8 KiB fill a segment; 64 fill the ring.
    let (path, headers) = cache(dir.path(), 64 + 20);
    let (code, report, _) = inspect(&["--verify"], &path);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["log"]["end_position"], headers[83].end());
    // 20 new ones, and the two segments that were not reached.
    assert_eq!(report["log"]["batches"], 20 + 32);
}

#[test]
fn damage_in_the_log_is_told_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (path, headers) = cache(dir.path(), 40);
    let file = File::options().write(true).open(&path).unwrap();
    // One bad header in the first segment: what follows in that segment is out of reach, the next segment names what is missing.
    file.write_all_at(&[0xff; 4096], LOG_OFFSET + headers[5].position).unwrap();
    let (code, report, _) = inspect(&[], &path);
    assert_eq!(code, 1);
    let bad = report["bad"][0].as_str().unwrap();
    assert!(bad.contains(&format!("no good batch at position {}", headers[15].position)), "{bad}");
    // One flipped bit in a block: only --verify reads it.
    let (path, headers) = cache(dir.path(), 3);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0], LOG_OFFSET + headers[1].position + 4096 + 100).unwrap();
    assert_eq!(inspect(&[], &path).0, 0);
    let (code, report, _) = inspect(&["--verify"], &path);
    assert_eq!(code, 1);
    assert!(report["bad"][0].as_str().unwrap().contains("wrong checksum"), "{report}");
}

#[test]
fn one_bad_superblock_copy_is_reported_and_read_past() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = cache(dir.path(), 2);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[1], SUPERBLOCK_OFFSETS[0] + 100).unwrap();
    let (code, report, _) = inspect(&[], &path);
    assert_eq!((code, &report["log"]["batches"]), (1, &serde_json::json!(2)));
    assert!(report["bad"][0].as_str().unwrap().contains("checksum of the superblock"), "{report}");
}

#[test]
fn segments_are_walked_and_a_truncated_device_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let regions = CapacityRegions {
        segments_offset: SEGMENTS_OFFSET,
        segment_count: 48,
        segment_bytes: SEGMENT_BYTES,
        log_id: LOG_ID,
    };
    let (path, file) = device(dir.path(), DeviceRole::Capacity { regions, index: 0 });
    let block = vec![7u8; 4096];
    let entry = |block_index| RunEntry {
        component: ComponentId(6),
        block: block_index,
        crc: crc32c(&block),
        pending: false,
        sectors: 8,
        fingerprint: 0,
        name: None,
    };
    for (segment, generation) in [(0u32, 5), (2, 6)] {
        let mut at = SEGMENTS_OFFSET + u64::from(segment) * u64::from(SEGMENT_BYTES);
        for _ in 0..2 {
            let run = RunHeader { log_id: LOG_ID, device: 0, segment, generation, entries: vec![entry(0), entry(1)] };
            let bytes = encode_run_header(&run);
            file.write_all_at(&bytes, at).unwrap();
            file.write_all_at(&[block.clone(), block.clone()].concat(), at + bytes.len() as u64).unwrap();
            at += bytes.len() as u64 + 8192;
        }
    }
    let (code, report, _) = inspect(&["--verify", "--all"], &path);
    assert_eq!(code, 0, "{report}");
    let segments = &report["segments"];
    assert_eq!((segments["used"].as_u64(), segments["runs"].as_u64()), (Some(2), Some(4)));
    assert_eq!(segments["blocks_verified"], 8);

    file.set_len(2 << 20).unwrap();
    let (code, report, _) = inspect(&[], &path);
    assert_eq!(code, 1);
    assert!(report["bad"][0].as_str().unwrap().contains("formatted with 4 MiB and has 2 MiB"), "{report}");
}

#[test]
fn a_foreign_device_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.img");
    for contents in [vec![], vec![0; 100], vec![0x5a; 1 << 20]] {
        fs::write(&path, contents).unwrap();
        let (code, _, errors) = inspect(&[], &path);
        assert_eq!(code, 1);
        assert!(errors.contains("is no device of a disk group") || errors.is_empty(), "{errors}");
    }
    let (code, _, errors) = inspect(&[], &dir.path().join("none"));
    assert_eq!(code, 1);
    assert!(errors.contains("cannot open"), "{errors}");
}

/// Hostile bytes: every byte position of the first pages flipped in turn gives an answer, never a crash.
#[test]
fn flipped_bytes_never_crash_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = cache(dir.path(), 2);
    let good = fs::read(&path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    for at in (0..256).step_by(7).chain((LOG_OFFSET as usize..LOG_OFFSET as usize + 160).step_by(7)) {
        file.write_all_at(&[!good[at]], at as u64).unwrap();
        let (code, _, errors) = inspect(&["--verify"], &path);
        assert!([0, 1].contains(&code), "byte {at}: exit {code}: {errors}");
        file.write_all_at(&[good[at]], at as u64).unwrap();
    }
}
