//! Real clients against the server: libnbd's tools, QEMU's, fio. Over the unix socket and over TCP.

mod support;

use cairn_nbd::Options;
use serde_json::Value;
use support::{Served, serve, tool, try_tool};

const MIB: u64 = 1 << 20;

fn qemu_io(uri: &str, commands: &[&str]) -> String {
    let mut args = vec!["-f", "raw"];
    commands.iter().for_each(|c| args.extend(["-c", c]));
    args.push(uri);
    let out = tool("qemu-utils", "qemu-io", &args);
    assert!(!out.contains("failed"), "{out}");
    out
}

fn uris(served: &Served, name: &str) -> [String; 2] {
    [served.unix_uri(name), served.tcp_uri(name)]
}

#[test]
fn nbdinfo_sees_every_capability_and_all_names() {
    let served = serve(&[("alpha", 8 * MIB), ("beta", 5 * 512)], Options::default());
    for uri in uris(&served, "beta") {
        let out = tool("libnbd-bin", "nbdinfo", &["--json", &uri]);
        let json: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(json["protocol"], "newstyle-fixed");
        assert_eq!(json["structured"], true);
        let export = &json["exports"][0];
        assert_eq!(export["export-name"], "beta");
        assert_eq!(export["description"], "beta in memory");
        assert_eq!(export["export-size"], 5 * 512);
        assert_eq!(export["contexts"][0], "base:allocation");
        for what in ["cache", "df", "fast_zero", "flush", "fua", "multi_conn", "trim", "zero"] {
            assert_eq!(export[format!("can_{what}")], true, "{what}");
        }
        assert_eq!(export["is_read_only"], false);
        let sizes = ["minimum", "preferred", "maximum"].map(|w| export[format!("block_size_{w}")].clone());
        assert_eq!(sizes, [512, 4096, 32 << 20]);
    }
    let list = tool("libnbd-bin", "nbdinfo", &["--list", "--json", &served.unix_uri("")]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let names: Vec<_> = list["exports"].as_array().expect("a list").iter().map(|e| &e["export-name"]).collect();
    assert_eq!(names, ["alpha", "beta"]);
    let unknown = try_tool("libnbd-bin", "nbdinfo", &[&served.unix_uri("gamma")]);
    assert!(!unknown.status.success());
    served.stop();
}

/// Goal: real clients see a read-only disk as such: they read it, and none begins to write. Method: what nbdinfo tells of it; copies from
/// it and to it; QEMU opens it for reading and for writing.
#[test]
fn tools_read_a_read_only_disk_and_do_not_write_it() {
    let served = serve(&[("disk", 8 * MIB)], Options::default());
    served.disk("disk", |d| {
        d.fill();
        d.set_read_only();
    });
    let before = served.disk("disk", |d| d.contents());
    std::fs::write(served.file("in.img"), vec![7; before.len()]).expect("write the image");
    for uri in uris(&served, "disk") {
        let out = tool("libnbd-bin", "nbdinfo", &["--json", &uri]);
        let json: Value = serde_json::from_str(&out).expect("JSON");
        let export = &json["exports"][0];
        assert_eq!(export["is_read_only"], true);
        for what in ["trim", "zero", "fast_zero"] {
            assert_eq!(export[format!("can_{what}")], false, "{what}");
        }
        for what in ["cache", "df", "flush", "fua", "multi_conn"] {
            assert_eq!(export[format!("can_{what}")], true, "{what}");
        }
        tool("libnbd-bin", "nbdcopy", &[&uri, &served.file("out.img")]);
        assert_eq!(std::fs::read(served.file("out.img")).expect("read the copy"), before);
        let copied = try_tool("libnbd-bin", "nbdcopy", &[&served.file("in.img"), &uri]);
        assert!(!copied.status.success());
        let read = ["-r", "-f", "raw", "-c", "read 0 8M", &uri];
        assert!(tool("qemu-utils", "qemu-io", &read).contains("read 8388608/8388608"));
        let written = try_tool("qemu-utils", "qemu-io", &["-f", "raw", "-c", "write 0 4k", &uri]);
        let is_refused = !written.status.success() && String::from_utf8_lossy(&written.stderr).contains("can't open");
        assert!(is_refused, "it is not even opened: {written:?}");
    }
    assert_eq!(served.disk("disk", |d| d.contents()), before);
    served.stop();
}

#[test]
fn nbdinfo_map_shows_holes_and_data() {
    let served = serve(&[("disk", 3 * MIB)], Options::default());
    let uri = served.unix_uri("disk");
    qemu_io(&uri, &["write -P 1 1M 64k", "write -P 2 2M 1M", "discard 2560k 4k"]);
    let out = tool("libnbd-bin", "nbdinfo", &["--map", "--json", &uri]);
    let map: Value = serde_json::from_str(&out).expect("JSON");
    let map: Vec<_> = map
        .as_array()
        .expect("a list")
        .iter()
        .map(|e| (e["offset"].as_u64(), e["length"].as_u64(), e["type"].as_u64()))
        .map(|(offset, len, kind)| (offset.unwrap_or(0), len.unwrap_or(0), kind.unwrap_or(99)))
        .collect();
    let k = |n: u64| n << 10;
    assert_eq!(
        map,
        [
            (0, MIB, 3),
            (MIB, k(64), 0),
            (MIB + k(64), MIB - k(64), 3),
            (2 * MIB, k(512), 0),
            (k(2560), k(4), 3),
            (k(2564), k(508), 0),
        ]
    );
    served.stop();
}

#[test]
fn nbdcopy_both_ways_keeps_data_and_holes() {
    // More than the 256 MiB that one block status request is answered for, and not a whole number of MiB.
    let size = 300 * MIB + 512;
    let served = serve(&[("disk", size), ("copy", size)], Options::default());
    let mut image = vec![0; size as usize];
    for (index, byte) in image[4 * MIB as usize..9 * MIB as usize].iter_mut().enumerate() {
        *byte = (index * 7 / 3) as u8 | 1;
    }
    let last = image.len() - 512;
    image[last..].fill(0xee);
    std::fs::write(served.file("in.img"), &image).expect("write the image");
    for uri in uris(&served, "disk") {
        served.disk("disk", move |d| d.clear());
        tool("libnbd-bin", "nbdcopy", &[&served.file("in.img"), &uri]);
        assert_eq!(served.disk("disk", |d| d.contents()), image);
        tool("libnbd-bin", "nbdcopy", &[&uri, &served.file("out.img")]);
        assert_eq!(std::fs::read(served.file("out.img")).expect("read the copy"), image);
    }
    assert!(served.disk("disk", |d| d.allocated_blocks()) < 2000, "holes were filled in");
    tool("libnbd-bin", "nbdcopy", &[&served.unix_uri("disk"), &served.tcp_uri("copy")]);
    assert_eq!(served.disk("copy", |d| d.contents()), image);
    assert!(served.disk("copy", |d| d.allocated_blocks()) < 2000, "holes were filled in");
    served.stop();
}

#[test]
fn qemu_io_writes_discards_and_zeroes() {
    let served = serve(&[("disk", 16 * MIB)], Options::default());
    for uri in uris(&served, "disk") {
        qemu_io(
            &uri,
            &[
                "write -P 0x11 0 4M",
                "write -f -P 0x22 1M 64k",
                "write -P 0x33 1000 3000",
                "write -P 0x44 4095 2",
                "write -z 2M 100k",
                "write -z -u 3M 512k",
                "discard 512k 8k",
                "flush",
            ],
        );
        qemu_io(
            &uri,
            &[
                "read -P 0x11 0 1000",
                "read -P 0x33 1000 3000",
                "read -P 0x11 4000 95",
                "read -P 0x44 4095 2",
                "read -P 0x22 1M 64k",
                "read -P 0x11 1114112 900k",
                "read -P 0 2M 100k",
                "read -P 0 3M 512k",
                "read -P 0 512k 8k",
                "read -P 0x11 520k 500k",
                "read -P 0x11 3584k 512k",
                "read -P 0 4M 12M",
            ],
        );
        let holes = served.disk("disk", |d| d.allocated_blocks());
        // 4 MiB but for what was discarded (8 KiB) and unmapped (512 KiB); plain `write -z` keeps its space.
        assert_eq!(holes, 1024 - 2 - 128);
    }
    let past = try_tool("qemu-utils", "qemu-io", &["-f", "raw", "-c", "write 16M 4k", &served.unix_uri("disk")]);
    assert!(!past.status.success());
    served.stop();
}

#[test]
fn qemu_img_converts_and_compares() {
    let served = serve(&[("disk", 64 * MIB)], Options::default());
    let source = served.file("source.qcow2");
    tool("qemu-utils", "qemu-img", &["create", "-q", "-f", "qcow2", &source, "64M"]);
    let writes = ["-c", "write -q -P 7 3M 5M", "-c", "write -q -P 8 40M 100k"];
    tool("qemu-utils", "qemu-io", &[&["-f", "qcow2"], &writes[..], &[&source]].concat());
    for uri in uris(&served, "disk") {
        let to = ["convert", "-n", "-f", "qcow2", "-O", "raw", &source, &uri];
        tool("qemu-utils", "qemu-img", &to);
        tool("qemu-utils", "qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &source, &uri]);
        let blocks = served.disk("disk", |d| d.allocated_blocks());
        assert!((1305..1400).contains(&blocks), "{blocks} blocks for 5 MiB + 100 KiB of data");
        let back = served.file("back.qcow2");
        tool("qemu-utils", "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &back]);
        tool("qemu-utils", "qemu-img", &["compare", &source, &back]);
    }
    served.stop();
}

#[test]
fn fio_verifies_sizes_from_a_sector_to_a_mebibyte() {
    let served = serve(&[("disk", 48 * MIB)], Options::default());
    served.disk("disk", |d| d.set_faults(support::ramdisk::Faults { turns_max: 4, ..Default::default() }));
    for (uri, bs) in [
        (served.unix_uri("disk"), "--bsrange=512-1m"),
        (served.unix_uri("disk"), "--bs=512"),
        (served.tcp_uri("disk"), "--bsrange=4k-256k"),
    ] {
        let uri = format!("--uri={uri}");
        let size = if bs == "--bs=512" { "--size=4m" } else { "--size=48m" };
        // fio's random map keeps writes in flight from overlapping: their order would be undefined.
        let args = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            bs,
            "--iodepth=32",
            "--verify=crc32c",
            "--verify_state_save=0",
            "--verify_fatal=1",
            size,
            "--randseed=7",
        ];
        let out = tool("fio", "fio", &args);
        assert!(out.contains("err= 0"), "{out}");
    }
    let stats = served.sessions();
    assert_eq!(stats, [], "fio left: {stats:?}");
    served.stop();
}
