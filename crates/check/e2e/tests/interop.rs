//! The NBD tools of others on a real Cairn disk: nbdinfo, nbdcopy both ways with holes, qemu-io, fio from 512 B to 1 MiB.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use cairn_e2e::{
    Cluster, Load, Outcome, Shape,
    pattern::{self, SECTOR},
    scene::{DISK, play, targets},
    tools::{run, tool},
    wait::check,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// One cluster for all tools: starting one takes longer than they do.
#[test]
fn the_tools_of_others() {
    let shape = Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() };
    play("interop", &shape, |cluster| {
        cluster.create_disk(DISK, 128, 1)?;
        let uri = targets(cluster, &[1])[0].uri(DISK);
        // A host that is not the owner forwards: the same disk through it.
        let other = targets(cluster, &[2])[0].uri(DISK);
        info(cluster, &uri)?;
        copy(cluster, &uri, &other)?;
        qemu_io(cluster, &uri, &other)?;
        fio(cluster, &uri)?;
        shadow(cluster)
    });
}

fn info(cluster: &Cluster, uri: &str) -> Outcome<()> {
    let text = run(tool("nbdinfo").args(["--json", uri]))?;
    let info: Value = serde_json::from_str(&text).map_err(|e| format!("nbdinfo: {e}"))?;
    let export = &info["exports"][0];
    check(export["export-size"] == 128 * MIB, || format!("size {}", export["export-size"]))?;
    check(info["protocol"] == "newstyle-fixed" && info["structured"] == true, || text.clone())?;
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn", "can_cache"] {
        check(export[ability] == true, || format!("no {ability}: {export}"))?;
    }
    let list = run(tool("nbdinfo").args(["--list", "--json", &uri.replace(DISK, "")]))?;
    check(list.contains(&format!("\"{DISK}\"")), || format!("not in the list: {list}"))?;
    cluster.say("nbdinfo: size, abilities, structured replies, list of exports");
    Ok(())
}

/// Data of 3 MiB, a hole, 2 MiB, a hole to the end: in and out again through different hosts.
fn copy(cluster: &Cluster, uri: &str, other: &str) -> Outcome<()> {
    use std::os::unix::fs::FileExt as _;
    let (there, back) = (cluster.folder.join("in.img"), cluster.folder.join("out.img"));
    let file = fs::File::create(&there).map_err(|e| e.to_string())?;
    file.set_len(128 * MIB).map_err(|e| e.to_string())?;
    for (at, mib) in [(0, 3), (40, 2)] {
        let mut data = vec![0; (mib * MIB) as usize];
        for (n, sector) in data.chunks_mut(SECTOR).enumerate() {
            pattern::fill(sector, 3, at * 2048 + n as u64, 1);
        }
        file.write_all_at(&data, at * MIB).map_err(|e| e.to_string())?;
    }
    let path = |p: &Path| p.display().to_string();
    run(tool("nbdcopy").args([&path(&there), uri]))?;
    let map = run(tool("nbdinfo").args(["--map", "--json", uri]))?;
    let map: Vec<Value> = serde_json::from_str(&map).map_err(|e| format!("nbdinfo --map: {e}"))?;
    let data: u64 = map.iter().filter(|part| part["type"] == 0).filter_map(|part| part["length"].as_u64()).sum();
    check(data == 5 * MIB, || format!("{data} bytes are allocated, not 5 MiB: {map:?}"))?;
    run(tool("nbdcopy").args([other, &path(&back)]))?;
    let equal = fs::read(&there).map_err(|e| e.to_string())? == fs::read(&back).map_err(|e| e.to_string())?;
    check(equal, || "what came back is not what went in".into())?;
    let blocks = fs::metadata(&back).map_err(|e| e.to_string())?.blocks() * 512;
    check(blocks <= 6 * MIB, || format!("the copy takes {blocks} bytes: its holes are gone"))?;
    cluster.say("nbdcopy: 5 MiB of data in 128 MiB, equal both ways, holes kept");
    Ok(())
}

fn qemu_io(cluster: &Cluster, uri: &str, other: &str) -> Outcome<()> {
    let io = |uri: &str, commands: &[&str]| {
        let mut qemu = tool("qemu-io");
        qemu.args(["-f", "raw", "-t", "none"]);
        for command in commands {
            qemu.args(["-c", command]);
        }
        let said = run(qemu.arg(uri))?;
        check(!said.contains("failed") && !said.contains("error"), || said.clone())
    };
    io(uri, &["write -P 0x11 64M 1M", "write -f -P 0x22 64M 4k", "write -P 0x33 67109376 1536", "flush"])?;
    io(
        other,
        &[
            "read -P 0x22 64M 512",
            "read -P 0x33 67109376 1536",
            "read -P 0x22 67110912 2048",
            "read -P 0x11 67112960 1044480",
        ],
    )?;
    io(other, &["write -z 67109888 512", "discard 65M 64k", "write -z -u 67633152 1M", "write -P 0x44 67633664 512"])?;
    io(uri, &["read -P 0x33 67109376 512", "read -P 0 67109888 512", "read -P 0x33 67110400 512"])?;
    io(uri, &["read -P 0 67633152 512", "read -P 0x44 67633664 512", "read -P 0 67634176 1047552"])?;
    cluster.say("qemu-io: FUA, flush, unaligned writes, zeroes with and without holes, discard; through two hosts");
    Ok(())
}

/// Sizes from 512 B to 1 MiB at random sector offsets, verified by fio.
fn fio(cluster: &Cluster, uri: &str) -> Outcome<()> {
    let mut fio = tool("fio");
    fio.args([
        "--name=sizes",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bsrange=512-1M",
        "--blockalign=512",
        "--iodepth=16",
    ]);
    fio.args([
        "--size=48M",
        "--io_size=96M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--randrepeat=1",
    ]);
    run(fio.arg(format!("--uri={uri}")))?;
    cluster.say("fio: 512 B to 1 MiB at random offsets, verify=crc32c");
    Ok(())
}

/// Our own shadow model of every sector, through two hosts at once, on a fresh disk.
fn shadow(cluster: &Cluster) -> Outcome<()> {
    cluster.create_disk("shadow", 64, 1)?;
    let load = Load::start(targets(cluster, &[1]), "shadow", 64, 4, Duration::ZERO, 9);
    std::thread::sleep(Duration::from_secs(5));
    load.retarget(targets(cluster, &[2]));
    load.reconnect();
    std::thread::sleep(Duration::from_secs(5));
    let report = load.stop()?.verify(&targets(cluster, &[3]))?;
    cluster.say(report.line());
    report.clean()
}
