//! Latencies of the cluster in memory: a disk of host-1 with copies on host-1 and host-2, whose log is slow.
//!
//! They grow with each time they are asked for, so that differences are not empty.

use cairn_api::v1::*;
use cairn_types::ObjectId;

/// So many of this length, in microseconds.
fn stage(operation: IoOperation, stage: IoStage, count: u64, us: u64) -> StageLatencies {
    let bins = vec![[us, us + us.div_ceil(8), count]];
    StageLatencies {
        operation,
        stage,
        copy: None,
        count,
        sum_ns: count * us * 1000,
        max_ns: us * 1000,
        last_ns: 0,
        bins,
    }
}

fn copy(operation: IoOperation, of: &DiskGroup, count: u64, us: u64, last: u64) -> StageLatencies {
    let place = CopyPlace { host: of.host, disk_group: of.id };
    StageLatencies { copy: Some(place), last_ns: last * us * 1000, ..stage(operation, IoStage::Copy, count, us) }
}

/// What guests of host-1 had after it was asked for `times` times: 1000 writes and 2000 reads each.
fn of_disk(groups: &[DiskGroup], times: u64) -> Vec<StageLatencies> {
    let (read, write) = (IoOperation::Read, IoOperation::Write);
    let (reads, writes) = (2000 * times, 1000 * times);
    vec![
        stage(read, IoStage::Request, reads, 160),
        stage(read, IoStage::Admission, reads, 0),
        stage(read, IoStage::Lock, reads, 10),
        stage(read, IoStage::Copies, reads, 140),
        copy(read, &groups[0], reads, 140, 0),
        stage(write, IoStage::Request, writes, 1200),
        stage(write, IoStage::Admission, writes, 0),
        stage(write, IoStage::Lock, writes, 20),
        stage(write, IoStage::Copies, writes, 1140),
        stage(write, IoStage::SlowerCopy, writes, 840),
        copy(write, &groups[0], writes, 300, 0),
        copy(write, &groups[1], writes, 1140, writes),
    ]
}

/// Of one host.
pub fn host_latencies(host: &Host, groups: &[DiskGroup], times: u64) -> HostLatencies {
    let number = (host.id.0 >> 96) as u64;
    let disk = |stages| DiskLatencies { disk: ObjectId(2 << 96), name: "wounded".into(), stages };
    let (read, write) = (IoOperation::Read, IoOperation::Write);
    let device_us = if number == 2 { 900 } else { 200 };
    let group = |group: &DiskGroup| DiskGroupLatencies {
        id: group.id,
        open_count: 1,
        log: vec![
            stage(write, IoStage::LogQueue, 1000 * times, 60),
            stage(write, IoStage::LogDevice, 1000 * times, device_us),
        ],
        reads: vec![disk(vec![
            stage(read, IoStage::Memory, 1600 * times, 5),
            stage(read, IoStage::ReadCapacity, 400 * times, 600),
        ])],
    };
    let mine = |g: &&DiskGroup| g.host == host.id;
    HostLatencies {
        host: host.id,
        host_name: host.name.clone(),
        incarnation: host.incarnation,
        unix_ms: 1_800_000_060_000,
        disks: if number == 1 { vec![disk(of_disk(groups, times))] } else { vec![] },
        disks_left_out: 0,
        disk_groups: groups.iter().filter(mine).map(group).collect(),
    }
}
