//! Clones: the commands of the operator's page on real hosts, read by the tools of others, while hosts die.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    images::{image, same, uri, write},
    page,
    scene::play,
    tools::{run, tool},
    wait::check,
};

const PAGE: &str = include_str!("../../../../docs/operating/clones.md");
const MIB: u64 = 1 << 20;
/// The golden disk.
const BASE: &str = "base-1";
const BASE_MIB: u64 = 32;

/// Goal: each command of the page does what the page says, and a clone outlives hosts and its parent. Method: a golden disk is filled, clones are
/// compared at every host, changed with the owner's host killed, and compared once more; one is flattened, and its snapshot deleted.
#[test]
fn the_commands_of_the_page_make_clones() {
    play("clones", &Shape { hosts: 4, hosts_with_disks: 4, ..Shape::default() }, |cluster| {
        cluster.create_disk(BASE, BASE_MIB, 1)?;
        let golden = image(cluster, "golden", BASE_MIB, |mib| (!mib.is_multiple_of(3)).then_some(1))?;
        write(cluster, &golden, BASE, 1)?;
        let mut own = None;
        for command in page::commands(PAGE) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let ["cairn", words @ ..] = words.as_slice() else { return Err(format!("nobody here knows {command:?}")) };
            let answer = cluster.host(1).api().call(words)?;
            cluster.say(format!("cairn {}: {answer}", words.join(" ")));
            match words {
                ["disk", "clone", .., "desk-1"] => {
                    check(answer["clone_of"] == "base-1@golden", || answer.to_string())?;
                    same(cluster, "desk-1", 2, &golden)?;
                }
                ["disk", "clone", ..] => own = Some(changed_while_hosts_die(cluster, &golden)?),
                ["snapshot", "list", ..] => {
                    let clones = serde_json::json!(["desk-1", "lab-1", "lab-2", "lab-3"]);
                    check(answer[0]["clones"] == clones, || answer.to_string())?;
                    refused(cluster, &["snapshot", "delete", "base-1@golden", "--yes"], "has clones")?;
                    refused(cluster, &["disk", "delete", BASE, "--yes"], "has clones")?;
                }
                ["disk", "flatten", ..] => check(answer["clone_of"].is_null(), || answer.to_string())?,
                _ => {}
            }
        }
        let own = own.ok_or("the page makes no clones")?;
        cluster.host(2).api().call(&["disk", "delete", "lab-1", "--yes"])?;
        cluster.host(2).api().call(&["disk", "delete", "lab-3", "--yes"])?;
        cluster.host(4).api().call(&["snapshot", "delete", "base-1@golden", "--yes"])?;
        cluster.host(3).api().call(&["disk", "delete", BASE, "--yes"])?;
        cluster.say("the golden disk is deleted");
        for host in [1, 2, 3, 4] {
            same(cluster, "desk-1", host, &own)?;
        }
        Ok(())
    });
}

fn refused(cluster: &Cluster, words: &[&str], why: &str) -> Outcome<()> {
    let refused = cluster.host(2).api().ask(words).err().ok_or_else(|| format!("{words:?} is not refused"))?;
    check(refused.words.contains(why), || format!("{words:?}: {refused:?}"))
}

/// Writes over parts of one clone by way of a host that is killed then; the others stay as they were. What it holds.
fn changed_while_hosts_die(cluster: &mut Cluster, golden: &Path) -> Outcome<PathBuf> {
    let own = image(cluster, "own", BASE_MIB, |mib| match mib % 3 {
        0 if mib.is_multiple_of(2) => Some(2),
        0 => None,
        _ if mib.is_multiple_of(5) => Some(3),
        _ => Some(1),
    })?;
    // Only what differs: the rest stays the parent's.
    let bytes = fs::read(&own).map_err(|e| e.to_string())?;
    let was = fs::read(golden).map_err(|e| e.to_string())?;
    let step = MIB as usize;
    // All of the golden disk is written, its zeroes too.
    let (mut left, mut changed) = (0, 0);
    for (mib, (now, was)) in bytes.chunks(step).zip(was.chunks(step)).enumerate() {
        left += if now == was { MIB } else { 0 };
        if now != was {
            changed += MIB;
            let part = cluster.folder.join("part.img");
            fs::write(&part, now).map_err(|e| e.to_string())?;
            let words = format!("write -s {} {} {step}", part.display(), mib * step);
            run(tool("qemu-io").args(["-f", "raw", "-c", &words, &uri(cluster, "desk-1", 3)]))?;
        }
    }
    let usage = cluster.host(4).api().call(&["disk", "usage", "desk-1"])?;
    let (of_parents, written) = (&usage["of_parents_bytes"], usage["head"]["logical_bytes"].as_u64());
    cluster.say(format!("a clone is changed: {} of its own, {of_parents} of its parent", usage["head"]));
    check(*of_parents == left && written == Some(changed), || {
        format!("{left} bytes are the parent's, {changed} were written: {usage}")
    })?;
    check(usage["clone_of"] == "base-1@golden", || usage.to_string())?;
    cluster.kill(3)?;
    for host in [1, 2, 4] {
        same(cluster, "desk-1", host, &own)?;
        same(cluster, "lab-2", host, golden)?;
    }
    cluster.restart(3)?;
    cluster.wait_healthy(1, "desk-1", std::time::Duration::from_secs(60))?;
    Ok(own)
}
