//! Backup: the commands of the operator's page on real hosts, with hosts that die between two backups and during one.

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, page,
    pattern::{self, SECTOR, mix},
    process::signal,
    scene::{DISK, play, targets},
    tools::{program, run, tool},
    wait::{check, wait_until},
};
use rustix::process::Signal;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/backup.md");
const MIB: usize = 1 << 20;
const DISK_MIB: usize = 256;
const BLOCK: usize = 4096;
/// One per cent of the disk's blocks.
const CHANGED: usize = DISK_MIB * MIB / BLOCK / 100;
/// What an incremental backup may read, in thousandths of the disk.
const READ_MAX_PERMILLE: u64 = 12;
/// A file system, and a format, need some room for themselves.
const FORMAT_BYTES_MAX: u64 = 2 << 20;

/// Goal: what the page says of its commands is so: each form holds what the snapshot held, holes as holes, and an incremental one reads what
/// changed and no more, whatever hosts did meanwhile. Method: a disk of which every byte is known; one per cent of its blocks changes,
/// some of them by a trim, while a copy's host is away; the incremental export reads from that copy alone. Each import is read back and
/// compared; what was read is counted by the hosts.
#[test]
fn the_commands_of_the_page_bring_a_disk_out_and_in() {
    play("backup", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, DISK_MIB as u64, 1)?;
        let mut held = vec![0; DISK_MIB * MIB];
        fill(cluster, &mut held)?;
        let (mut imported, mut trimmed, mut dead) = (0, 0, None);
        for command in page::commands(PAGE) {
            let begin = Instant::now();
            if command.contains("--since") {
                dead = Some(kill_the_other_copy(cluster)?);
                incremental(cluster, command, &held, trimmed)?;
            } else {
                let told = shell(cluster, command)?;
                match command.split_whitespace().collect::<Vec<_>>()[..] {
                    ["cairn", "snapshot", "create", "monday", _] => {}
                    ["cairn", "disk", "export", "vm-1@monday", ..] => trimmed = change(cluster, &mut held)?,
                    ["cairn", "disk", "export", _, "-", ..] => check(told.is_null(), || told.to_string())?,
                    ["cairn", "disk", "export", ..] => exported(command, &told, &held)?,
                    [.., "disk", "import", _, "--name", name] | [.., "--name", name, "--size", _] => {
                        imported += 1;
                        same(cluster, name, &told, &held)?;
                        cluster.host(caller(cluster)).api().call(&["disk", "delete", name, "--yes"])?;
                    }
                    ["cairn", "snapshot", ..] => {}
                    _ => return Err(format!("nobody here knows {command:?}")),
                }
            }
            cluster.say(format!("{command} ({:.1} s)", begin.elapsed().as_secs_f64()));
        }
        check(imported == 5, || format!("{imported} imports"))?;
        cluster.restart(dead.ok_or("the page has no incremental export")?)?;
        refused(cluster)?;
        interrupted(cluster)
    });
}

/// A host that is up: the first of them.
fn caller(cluster: &Cluster) -> u8 {
    cluster.hosts().iter().find(|host| host.running()).map_or(1, |host| host.number)
}

/// Carries out a line of the page in the test's folder; what it prints as JSON, if that is what it prints.
fn shell(cluster: &Cluster, line: &str) -> Outcome<Value> {
    let (cairn, socket) = (program("cairn"), cluster.host(caller(cluster)).api().socket().display().to_string());
    let cairn = format!("cairn() {{ {} --api unix:{socket} --output json \"$@\"; }}", cairn.display());
    let out =
        run(tool("bash").args(["-o", "pipefail", "-c", &format!("{cairn}; {line}")]).current_dir(&cluster.folder))?;
    match out.trim() {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).map_err(|error| format!("{line}: {error}: {text}")),
    }
}

fn guest(cluster: &Cluster, host: u8, disk: &str) -> Outcome<NbdClient> {
    NbdClient::connect(&targets(cluster, &[host])[0], disk, Duration::from_secs(30)).map_err(|e| e.to_string())
}

/// Data in two MiB of eight, 64 MiB in all.
fn fill(cluster: &Cluster, held: &mut [u8]) -> Outcome<()> {
    let mut guest = guest(cluster, 1, DISK)?;
    for mib in (0..DISK_MIB).filter(|mib| mib % 8 < 2) {
        let data = &mut held[mib * MIB..][..MIB];
        for (n, sector) in data.chunks_mut(SECTOR).enumerate() {
            pattern::fill(sector, 7, (mib * 2048 + n) as u64, 1);
        }
        guest.write((mib * MIB) as u64, data).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// One per cent of the blocks, spread over the disk; the second half while a copy's host is away, which then catches up. Tells how many
/// were trimmed.
fn change(cluster: &mut Cluster, held: &mut [u8]) -> Outcome<usize> {
    let blocks = held.len() / BLOCK;
    // Each once: the multiplier has no divisor in common with the number of blocks.
    let changed: Vec<usize> = (0..CHANGED).map(|n| (n * 40_503 + 11) % blocks).collect();
    let copies = cluster.replicas(1, DISK)?;
    let owner = cluster.owner(1, DISK)?;
    let away = *copies.iter().find(|host| **host != owner).ok_or("no other copy")?;
    let (mut guest, mut trimmed) = (guest(cluster, owner, DISK)?, 0);
    for (n, block) in changed.into_iter().enumerate() {
        if n == CHANGED / 2 {
            cluster.kill(away)?;
        }
        let (at, data) = ((block * BLOCK) as u64, &mut held[block * BLOCK..][..BLOCK]);
        // Of those that hold something every other one is trimmed.
        let done = if n.is_multiple_of(2) && data[0..8] != [0; 8] {
            data.fill(0);
            trimmed += 1;
            guest.trim(at, BLOCK as u32)
        } else {
            data.chunks_mut(8)
                .enumerate()
                .for_each(|(word, bytes)| bytes.copy_from_slice(&mix(at + word as u64).to_le_bytes()));
            guest.write(at, data)
        };
        done.map_err(|e| format!("block {block}: {e}"))?;
    }
    cluster.restart(away)?;
    cluster.wait_healthy(owner, DISK, Duration::from_secs(60))?;
    Ok(trimmed)
}

/// The copy that was never away goes: what is read from now on is what the other one got back.
fn kill_the_other_copy(cluster: &mut Cluster) -> Outcome<u8> {
    let owner = cluster.owner(1, DISK)?;
    cluster.kill(owner)?;
    Ok(owner)
}

/// Bytes that the hosts which answer read for guests, from devices and from memory.
fn read_bytes(cluster: &Cluster) -> Outcome<u64> {
    let told = cluster.host(caller(cluster)).api().call(&["counters"])?;
    let hosts = told["hosts"].as_array().cloned().unwrap_or_default();
    let groups = hosts.iter().flat_map(|host| host["disk_groups"].as_array().cloned().unwrap_or_default());
    let kinds = ["read_log_bytes", "read_cache_bytes", "read_capacity_bytes"];
    Ok(groups.map(|group| kinds.iter().map(|kind| find(&group, kind)).sum::<u64>()).sum())
}

/// A number of this name, however deep it lies.
fn find(value: &Value, name: &str) -> u64 {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, inner)| if key == name { inner.as_u64().unwrap_or(0) } else { find(inner, name) })
            .sum(),
        _ => 0,
    }
}

/// The page's incremental export, and once more without the comparison: what it reads is counted.
fn incremental(cluster: &Cluster, command: &str, held: &[u8], trimmed: usize) -> Outcome<()> {
    let (disk, changed) = (held.len() as u64, (CHANGED * BLOCK) as u64);
    let told = shell(cluster, command)?;
    check(told["changed_bytes"] == changed && told["compared"] == true, || told.to_string())?;
    let before = read_bytes(cluster)?;
    let again = command.replace(" tuesday.qcow2", " again.qcow2");
    let told = shell(cluster, &format!("{again} --no-compare"))?;
    let read = read_bytes(cluster)? - before;
    cluster.say(format!("an incremental export reads {read} of {disk} bytes; {changed} changed: {told}"));
    check(read <= disk * READ_MAX_PERMILLE / 1000, || format!("{read} bytes of {disk} were read"))?;
    let written = ((CHANGED - trimmed) * BLOCK) as u64;
    check(read >= written, || format!("{read} bytes were read, and {written} have been written"))?;
    let file = told["file_bytes"].as_u64().unwrap_or(u64::MAX);
    check(file <= changed + FORMAT_BYTES_MAX, || told.to_string())?;
    // As other programs read it.
    let uri = targets(cluster, &[caller(cluster)])[0].uri(&format!("{DISK}@tuesday"));
    let map = run(tool("nbdinfo").args(["--map=qemu:dirty-bitmap:monday", "--json", &uri]))?;
    let map: Value = serde_json::from_str(&map).map_err(|e| e.to_string())?;
    let dirty = map.as_array().into_iter().flatten().filter(|extent| extent["description"] == "dirty");
    let dirty: u64 = dirty.filter_map(|extent| extent["length"].as_u64()).sum();
    check(dirty == changed, || format!("nbdinfo maps {dirty} dirty bytes"))?;
    let two = ["again.qcow2", "tuesday.qcow2"].map(|name| cluster.folder.join(name));
    run(tool("qemu-img").arg("compare").args(two)).map(drop)
}

fn data_bytes(held: &[u8]) -> u64 {
    held.chunks(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)).count() as u64 * BLOCK as u64
}

/// A file has the data, and no holes of the disk.
fn exported(command: &str, told: &Value, held: &[u8]) -> Outcome<()> {
    check(told["compared"] == true && told["size_bytes"] == held.len() as u64, || format!("{command}: {told}"))?;
    // VMDK has grains of 64 KiB, which a block that is alone takes in whole.
    let room = if command.ends_with(".vmdk") { 16 * CHANGED * BLOCK } else { 0 } as u64 + FORMAT_BYTES_MAX;
    check(told["file_bytes"].as_u64() <= Some(data_bytes(held) + room), || format!("{command}: {told}"))
}

/// A disk holds that, and takes no space for holes: at each of its two copies what is data.
fn same(cluster: &Cluster, disk: &str, told: &Value, held: &[u8]) -> Outcome<()> {
    let out = cluster.folder.join("out.img");
    run(tool("nbdcopy").args([&targets(cluster, &[caller(cluster)])[0].uri(disk), &out.display().to_string()]))?;
    let read = fs::read(&out).map_err(|e| e.to_string())?;
    let wrong = read.chunks(BLOCK).zip(held.chunks(BLOCK)).position(|(a, b)| a != b);
    check(wrong.is_none() && read.len() == held.len(), || format!("{disk}: block {wrong:?} is another"))?;
    fs::remove_file(&out).map_err(|e| e.to_string())?;
    let allocated = told["allocated_bytes"].as_u64();
    check(allocated <= Some(2 * data_bytes(held)), || format!("{disk} has {} bytes of data: {told}", data_bytes(held)))
}

/// What cannot be done is refused in words, and leaves everything as it was.
fn refused(cluster: &Cluster) -> Outcome<()> {
    let api = cluster.host(1).api();
    let before = names(&cluster.folder)?;
    let packed = cluster.folder.join("two.ova");
    fs::write(cluster.folder.join("more.vmdk"), "more").map_err(|e| e.to_string())?;
    run(tool("tar").arg("-cf").arg(&packed).args(["vm-1.vmdk", "more.vmdk"]).current_dir(&cluster.folder))?;
    fs::copy(cluster.folder.join("again.qcow2"), cluster.folder.join("lies.img")).map_err(|e| e.to_string())?;
    api.call(&["snapshot", "create", "wednesday", DISK])?;
    for (words, said) in [
        ("export vm-1@tuesday vm-1.img", "is there already"),
        ("export vm-1@tuesday vm-1", "--format"),
        ("export vm-1@sunday new.img", "no snapshot"),
        ("export vm-1@tuesday new.qcow2 --since wednesday --backing monday.qcow2", "not older"),
        ("export vm-1@wednesday new.qcow2 --since tuesday --backing monday.qcow2", "is of vm-1@monday"),
        ("export vm-1@wednesday new.qcow2 --since tuesday --backing vm-1.vmdk", "does not say"),
        ("export vm-1@wednesday new.img --since tuesday --backing tuesday.qcow2", "qcow2"),
        ("export vm-1@wednesday nowhere/new.img", "cannot make"),
        ("import two.ova", "--member"),
        ("import lies.img", "looks like qcow2"),
        ("import nothing.img", "cannot read"),
        ("import vm-1.img --size 1M", "more than"),
        ("import vm-1.img --name vm-1", "vm-1"),
        ("import - --name new", "--size"),
    ] {
        let words: Vec<&str> = ["disk"].into_iter().chain(words.split(' ')).collect();
        let output = api.command(&words).current_dir(&cluster.folder).stdin(Stdio::null()).output();
        let output = output.map_err(|e| e.to_string())?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        check(!output.status.success() && told.contains(said), || format!("{words:?}: {output:?}"))?;
    }
    for name in ["two.ova", "more.vmdk", "lies.img"] {
        fs::remove_file(cluster.folder.join(name)).map_err(|e| e.to_string())?;
    }
    check(names(&cluster.folder)? == before, || format!("{:?}, and before {before:?}", names(&cluster.folder)))?;
    only_the_disk(cluster)
}

fn names(folder: &Path) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(|e| e.to_string())?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn only_the_disk(cluster: &Cluster) -> Outcome<()> {
    // One that is deleted is listed until all hosts that have something of it have let it go.
    wait_until("only the disk is there", Duration::from_secs(20), || {
        let disks = cluster.host(1).api().call(&["disk", "list"])?;
        check(disks.as_array().is_some_and(|all| all.len() == 1), || disks.to_string())
    })
}

/// Goal: Ctrl-C leaves nothing: no file, no snapshot, no disk. Method: qemu-img's own limit of its rate makes it last.
fn interrupted(cluster: &Cluster) -> Outcome<()> {
    let slow = cluster.folder.join("slow");
    fs::create_dir_all(&slow).map_err(|e| e.to_string())?;
    let real = tool("qemu-img").get_program().display().to_string();
    let script =
        format!("#!/bin/sh\ncase $1 in convert) shift; exec {real} convert -r 1M \"$@\";; esac\nexec {real} \"$@\"\n");
    fs::write(slow.join("qemu-img"), script).map_err(|e| e.to_string())?;
    run(tool("chmod").arg("755").arg(slow.join("qemu-img")))?;
    let api = cluster.host(1).api();
    let before = names(&cluster.folder)?;
    let snapshots = api.call(&["snapshot", "list", DISK])?;
    let grows = |name: &str| {
        let path = cluster.folder.join(name);
        move || fs::metadata(&path).is_ok_and(|found| found.len() > 1 << 20)
    };
    let writes = || api.call(&["disk", "show", "slow"]).is_ok_and(|disk| disk["allocated_bytes"].as_u64() > Some(0));
    let acts: [(&str, &dyn Fn() -> bool, &str); 2] = [
        ("export vm-1 slow.qcow2", &grows("slow.qcow2.partial"), "nothing is left of slow.qcow2"),
        ("import vm-1.img --name slow", &writes, "disk slow is deleted again"),
    ];
    for (words, is_under_way, said) in acts {
        let words: Vec<&str> = ["disk"].into_iter().chain(words.split(' ')).collect();
        let path = format!("{}:{}", slow.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = api.command(&words);
        command.current_dir(&cluster.folder).env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.stdin(Stdio::null()).spawn().map_err(|e| e.to_string())?;
        wait_until("it is under way", Duration::from_secs(30), || check(is_under_way(), || format!("{words:?}")))?;
        signal(child.id(), Signal::INT);
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        check(output.status.code() == Some(1), || format!("{output:?}"))?;
        check(told.contains("interrupted") && told.contains(said), || told.clone())?;
        cluster.say(format!("Ctrl-C: {}", told.trim()));
    }
    check(names(&cluster.folder)? == before, || format!("{:?}", names(&cluster.folder)))?;
    let now = api.call(&["snapshot", "list", DISK])?;
    check(now == snapshots, || now.to_string())?;
    only_the_disk(cluster)
}
