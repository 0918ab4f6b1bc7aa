//! Media of one copy go bad at rest, on real files: a scrub finds all of it and has it repaired; what no copy has any more is named. The commands are
//! those of the operator's page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::OpenOptions,
    os::unix::fs::FileExt,
    time::Duration,
};

use cairn_e2e::{
    Cluster, NbdClient, NbdError, Outcome, Shape, Target, page,
    pattern::{self, SECTOR},
    scene::{DISK, fill, play, roles},
    wait::check,
    wait_until,
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/scrub.md");
/// What the page calls the host.
const CALLED: &str = "host-2";
/// MiB of the disk that are written.
const WRITTEN_MIB: u64 = 64;
/// Blocks that go bad.
const FAULTS: usize = 1000;
const BLOCK: usize = 4096;
/// Blocks that a pass has to find within this time, and to have repaired.
const PATIENCE: Duration = Duration::from_secs(120);

/// Goal: each of a thousand blocks that went bad at one copy is found and repaired, and nothing else is found. Method: at rest half of them have
/// a bit flipped, and half hold another block; a scrub of all; then the disk is read at the host of that copy. The page's commands follow.
#[test]
fn a_thousand_bad_blocks_are_found_and_repaired() {
    play("scrub", &Shape::default(), scenario);
}

/// Blocks that go bad at the only copy that is left.
const LOST: usize = 20;

/// Goal: a rebuild whose only source has bad blocks ends; exactly these are named and refused, and they are whole once they are written. Method: the
/// other copy's host dies for good and is forgotten; what the rebuild leaves is read whole.
#[test]
fn blocks_that_no_copy_has_are_named_and_a_rebuild_ends() {
    play("bad-marks", &Shape::default(), without_another_copy);
}

fn without_another_copy(cluster: &mut Cluster) -> Outcome<()> {
    cluster.create_disk(DISK, WRITTEN_MIB * 2, 1)?;
    fill(cluster, 1, 0, WRITTEN_MIB)?;
    let api = cluster.host(1).api();
    api.call(&["cache", "clear"])?;
    let (other, _) = roles(cluster, 1)?;
    cluster.kill(other)?;
    let lost = spoil(cluster, 1, LOST)?;
    check(lost.len() == LOST, || format!("only {} blocks were found on the device", lost.len()))?;
    let name = cluster.host(other).name();
    wait_until("the dead host is silent to all", Duration::from_secs(30), || {
        let told = api.call(&["host", "forget", &name, "--dry-run"])?;
        check(told["heard_by"] == serde_json::json!([]), || told.to_string())
    })?;
    api.call(&["host", "forget", &name, "--yes"])?;
    cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
    let copies = cluster.replicas(1, DISK)?;
    let filled = *copies.iter().find(|n| **n != 1).ok_or("one copy only")?;
    cluster.say(format!("the copy is rebuilt at h{filled}, beside {LOST} blocks that nobody has"));
    for host in [1, filled] {
        let named = named(cluster, Some(host))?;
        check(named == lost, || format!("at h{host} {named:?} are named, and {lost:?} are lost"))?;
    }
    let named_anywhere = named(cluster, None)?;
    check(named_anywhere == lost, || format!("{named_anywhere:?} are named, and {lost:?} are lost"))?;
    check(findings(cluster)? > 0, || "the health check says nothing".into())?;
    verify_but(cluster, filled, &lost)?;
    let target = Target::Unix(cluster.host(filled).nbd_socket());
    let mut client = NbdClient::connect(&target, DISK, Duration::from_secs(20)).map_err(|e| e.to_string())?;
    for number in &lost {
        client.write(number * BLOCK as u64, &block(*number)).map_err(|e| format!("write block {number}: {e}"))?;
    }
    wait_until("nothing is named any more", Duration::from_secs(40), || {
        let left = named(cluster, None)?;
        check(left.is_empty(), || format!("{left:?}"))
    })?;
    check(findings(cluster)? == 0, || "the health check goes on".into())?;
    drop(client);
    verify_but(cluster, filled, &BTreeSet::new())
}

/// Blocks of the disk that are named as bad, by one host or by any.
fn named(cluster: &Cluster, host: Option<u8>) -> Outcome<BTreeSet<u64>> {
    let told = cluster.host(1).api().call(&["scrub", "status"])?;
    let name = host.map(|n| cluster.host(n).name());
    let scrubs = told.as_array().cloned().unwrap_or_default();
    let own = scrubs.iter().filter(|scrub| name.as_ref().is_none_or(|name| scrub["host_name"] == *name.as_str()));
    let mut blocks = BTreeSet::new();
    for finding in own.filter_map(|scrub| scrub["findings"].as_array()).flatten() {
        check(finding["disk_name"] == DISK && finding["unrepairable"] == true, || finding.to_string())?;
        let number = |name: &str| finding[name].as_u64().ok_or_else(|| finding.to_string());
        let (from, len) = (number("offset_bytes")?, number("len_bytes")?);
        blocks.extend((from..from + len).step_by(BLOCK).map(|at| at / BLOCK as u64));
    }
    Ok(blocks)
}

/// What the health check of scrubs finds.
fn findings(cluster: &Cluster) -> Outcome<u64> {
    let told = cluster.host(1).api().command(&["health"]).output().map_err(|e| e.to_string())?;
    let health: Value = serde_json::from_slice(&told.stdout).map_err(|e| e.to_string())?;
    let checks = health["checks"].as_array().cloned().unwrap_or_default();
    let scrub = checks.iter().find(|check| check["name"] == "scrub").ok_or("no such check")?;
    scrub["findings_total"].as_u64().ok_or_else(|| scrub.to_string())
}

/// Reads all that was written, block by block where some are lost: those are refused, and no others.
fn verify_but(cluster: &Cluster, host: u8, lost: &BTreeSet<u64>) -> Outcome<()> {
    let target = Target::Unix(cluster.host(host).nbd_socket());
    let mut client = NbdClient::connect(&target, DISK, Duration::from_secs(20)).map_err(|e| e.to_string())?;
    let mut data = vec![0; 1 << 20];
    for at in 0..WRITTEN_MIB {
        let blocks = at * 256..(at + 1) * 256;
        if lost.range(blocks.clone()).next().is_none() {
            client.read(at << 20, &mut data).map_err(|e| format!("read at {at} MiB: {e}"))?;
            for (number, page) in blocks.zip(data.chunks(BLOCK)) {
                check(page == block(number), || format!("block {number} is another than was written"))?;
            }
            continue;
        }
        for number in blocks {
            let page = &mut data[..BLOCK];
            match (client.read(number * BLOCK as u64, page), lost.contains(&number)) {
                (Ok(()), false) => check(page == block(number), || format!("block {number} is another"))?,
                (Err(NbdError::Refused(5)), true) => {}
                (read, _) => return Err(format!("block {number}: {read:?}")),
            }
        }
    }
    cluster.say(format!(
        "{WRITTEN_MIB} MiB are as they were written at h{host}, but for {} blocks that are refused",
        lost.len()
    ));
    Ok(())
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    cluster.create_disk(DISK, WRITTEN_MIB * 2, 1)?;
    fill(cluster, 1, 0, WRITTEN_MIB)?;
    let api = cluster.host(1).api();
    api.call(&["cache", "clear"])?;
    let (other, _) = roles(cluster, 1)?;
    let bad = spoil(cluster, other, FAULTS)?;
    check(bad.len() == FAULTS, || format!("only {} blocks were found on the device", bad.len()))?;
    api.call(&["scrub", "start"])?;
    let scrubs = until_scrubbed(cluster)?;
    let sum = |name: &str| scrubs.iter().filter_map(|scrub| scrub[name].as_u64()).sum::<u64>();
    let told = [sum("found_blocks"), sum("repaired_blocks"), sum("bad_blocks")];
    cluster.say(format!("{} bad blocks: {} found, {} repaired, {} bad still", FAULTS, told[0], told[1], told[2]));
    check(told == [FAULTS as u64, FAULTS as u64, 0], || format!("{told:?}: {scrubs:?}"))?;
    let name = cluster.host(other).name();
    api.call(&["disk", "attach", DISK, "--host", &name])?;
    verify(cluster, other)?;
    carry_out_the_page(cluster, other)?;
    let health = api.call(&["health"])?;
    let checks = health["checks"].as_array().cloned().unwrap_or_default();
    let scrub = checks.iter().find(|check| check["name"] == "scrub").ok_or("no such check")?;
    check(scrub["findings_total"] == 0, || format!("{scrub}"))
}

/// What a block of the disk holds.
fn block(number: u64) -> Vec<u8> {
    let mut data = vec![0; BLOCK];
    for (at, sector) in data.chunks_mut(SECTOR).enumerate() {
        pattern::fill(sector, 2, number * 8 + at as u64, 1);
    }
    data
}

/// Has blocks of the host's copy go bad on the device. Returns them.
fn spoil(cluster: &Cluster, host: u8, count: usize) -> Outcome<BTreeSet<u64>> {
    let groups = cluster.host(1).api().call(&["disk-group", "list"])?;
    let groups = groups.as_array().cloned().unwrap_or_default();
    let name = cluster.host(host).name();
    let group = groups.iter().find(|group| group["host_name"] == name).ok_or("no disk group")?;
    let known: BTreeMap<Vec<u8>, u64> = (0..WRITTEN_MIB * 256).map(|number| (block(number), number)).collect();
    let mut bad = BTreeSet::new();
    for device in group["devices"].as_array().into_iter().flatten() {
        let path = device["path"].as_str().ok_or("a path")?;
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| format!("open {path}: {e}"))?;
        let mut pages = Vec::new();
        let mut data = vec![0; 1 << 20];
        let len = device["size_bytes"].as_u64().unwrap_or(0);
        for from in (1 << 20..len / (1 << 20) * (1 << 20)).step_by(1 << 20) {
            file.read_exact_at(&mut data, from).map_err(|e| format!("read {path}: {e}"))?;
            for (at, page) in data.chunks(BLOCK).enumerate() {
                if let Some(number) = known.get(page) {
                    pages.push((from + (at * BLOCK) as u64, *number));
                }
            }
        }
        // Spread over all that there is.
        let step = (pages.len() / (count - bad.len()).max(1)).max(1);
        for (n, (offset, number)) in pages.into_iter().step_by(step).enumerate() {
            if bad.len() == count {
                break;
            }
            let mut page = block(if n % 2 == 0 { number } else { (number + 7) % (WRITTEN_MIB * 256) });
            if n % 2 == 0 {
                page[n % BLOCK] ^= 1 << (n % 8);
            }
            file.write_all_at(&page, offset).map_err(|e| format!("write {path}: {e}"))?;
            bad.insert(number);
        }
        file.sync_all().map_err(|e| format!("sync {path}: {e}"))?;
    }
    Ok(bad)
}

/// Waits until the passes are over, and nothing is bad that is being repaired.
fn until_scrubbed(cluster: &Cluster) -> Outcome<Vec<Value>> {
    let mut scrubs = Vec::new();
    wait_until("the cluster is scrubbed", PATIENCE, || {
        let told = cluster.host(1).api().call(&["scrub", "status"])?;
        scrubs = told.as_array().cloned().unwrap_or_default();
        let over = |scrub: &Value| {
            let is = scrub["state"] == "waiting" && scrub["scrubbed_unix_ms"].is_u64();
            is && scrub["bad_blocks"] == scrub["unrepairable_blocks"]
        };
        check(!scrubs.is_empty() && scrubs.iter().all(over), || told.to_string())
    })?;
    Ok(scrubs)
}

/// Reads all that was written through a host that has a copy, and so from that copy.
fn verify(cluster: &Cluster, host: u8) -> Outcome<()> {
    let target = Target::Unix(cluster.host(host).nbd_socket());
    let mut client = NbdClient::connect(&target, DISK, Duration::from_secs(20)).map_err(|e| e.to_string())?;
    let mut data = vec![0; 1 << 20];
    for at in 0..WRITTEN_MIB {
        client.read(at << 20, &mut data).map_err(|e| format!("read at {at} MiB: {e}"))?;
        for (n, page) in data.chunks(BLOCK).enumerate() {
            let number = at * 256 + n as u64;
            check(page == block(number), || format!("block {number} is another than was written"))?;
        }
    }
    cluster.say(format!("{WRITTEN_MIB} MiB are as they were written, at h{host}"));
    Ok(())
}

/// Each command of the page's code blocks.
fn carry_out_the_page(cluster: &Cluster, host: u8) -> Outcome<()> {
    let commands = page::commands(PAGE);
    check(commands.len() == 6, || format!("the page has other commands than this test knows: {commands:?}"))?;
    let name = cluster.host(host).name();
    for command in commands {
        let words: Vec<String> = command.split_whitespace().skip(1).map(|word| word.replace(CALLED, &name)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = cluster.host(1).api().call(&words)?;
        let all = |state: &[&str]| {
            let is = |scrub: &Value| state.iter().any(|state| scrub["state"] == *state);
            answer.as_array().is_some_and(|scrubs| !scrubs.is_empty() && scrubs.iter().all(is))
        };
        let fits = match words.as_slice() {
            ["scrub", "pause", ..] => all(&["paused"]),
            ["scrub", ..] => all(&["running", "waiting"]),
            ["cluster", "settings", ..] => answer["scrub_period_days"] == 7,
            _ => return Err(format!("nobody here knows {words:?}")),
        };
        check(fits, || format!("{command}: {answer}"))?;
    }
    until_scrubbed(cluster).map(drop)
}
