//! An upgrade from the release before this one, one host at a time, under load: up, back again, up, to the end; then no way back.
//!
//! Needs the programs of that release in `CAIRN_PREVIOUS_BIN`: `make test-upgrade` builds them from its tag.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    process::tail,
    scene::{DISK, Scene},
    tools::load_time,
    wait::{check, wait_until},
};
use serde_json::Value;

/// One lease (2 s), the takeover, the reconnection of the client, on a loaded machine: as where an owner dies.
const STALL_MAX: Duration = Duration::from_secs(8);
/// Sixteen replacements, each with its resync.
const ALL_MAX: Duration = Duration::from_secs(1200);
const HOSTS: [u8; 4] = [1, 2, 3, 4];

/// Goal: no I/O error, no stall beyond P6, whichever hosts are old, and words wherever an upgrade cannot be finished or gone back on.
/// Method: four hosts of the previous release under two verified loads; each is stopped and started as this release; all go back; all
/// come again; the upgrade is finished; one is started as the previous release.
fn main() {
    let programs =
        std::env::var_os("CAIRN_PREVIOUS_BIN").map(PathBuf::from).expect("CAIRN_PREVIOUS_BIN: see make test-upgrade");
    let shape = Shape { programs: Some(programs.clone()), ..Shape::default() };
    let cluster = Cluster::start("upgrade", &shape).unwrap_or_else(|words| panic!("{words}"));
    cluster.run_within(load_time() + ALL_MAX, |cluster| scenario(cluster, &programs));
}

fn scenario(cluster: &mut Cluster, previous: &Path) -> Outcome<()> {
    let scene = Scene::begin(cluster, 1, &HOSTS)?;
    for n in HOSTS {
        replace(cluster, &scene, n, None)?;
        refused_while_old(cluster, n)?;
    }
    old_client(cluster, previous)?;
    for n in HOSTS {
        replace(cluster, &scene, n, Some(previous))?;
    }
    for n in HOSTS.into_iter().rev() {
        replace(cluster, &scene, n, None)?;
    }
    finish(cluster)?;
    scene.goes_on(cluster, "after the upgrade is finished", Duration::from_secs(5))?;
    turned_away(cluster, &scene, 4, previous)?;
    scene.finish(cluster, &HOSTS, STALL_MAX)
}

/// A host is stopped, and started with other programs; waits until nothing is left to copy.
fn replace(cluster: &mut Cluster, scene: &Scene, n: u8, programs: Option<&Path>) -> Outcome<()> {
    cluster.stop(n)?;
    cluster.host_mut(n).programs = programs.map(Path::to_owned);
    cluster
        .say(format!("h{n} runs {} from now on", if programs.is_some() { "the previous release" } else { "this one" }));
    cluster.restart(n)?;
    scene.goes_on(cluster, "with it", Duration::from_secs(20))?;
    for other in HOSTS {
        cluster.wait_healthy(other, DISK, Duration::from_secs(60))?;
    }
    wait_until("no resync is left", Duration::from_secs(60), || {
        let left = cluster.host(n).api().call(&["resync", "list"])?;
        check(left.as_array().is_some_and(Vec::is_empty), || left.to_string())
    })
}

fn upgrade(cluster: &Cluster, n: u8) -> Outcome<Value> {
    cluster.host(n).api().call(&["cluster", "upgrade", "status"])
}

/// While hosts behind `n` are old, finishing is refused, and each of them is named.
fn refused_while_old(cluster: &Cluster, n: u8) -> Outcome<()> {
    let status = upgrade(cluster, n)?;
    check(status["level"] == 13 && status["level_next"] == 14, || format!("h{n}: {status}"))?;
    let old: Vec<u8> = HOSTS.into_iter().filter(|host| *host > n).collect();
    let obstacles = status["obstacles"].as_array().cloned().unwrap_or_default();
    check(obstacles.len() == old.len(), || format!("h{n}: {status}"))?;
    if old.is_empty() {
        return Ok(());
    }
    let finished = cluster.host(n).api().ask(&["cluster", "upgrade", "finish", "--yes"]);
    let words = finished.err().map(|refused| refused.words).unwrap_or_default();
    cluster.say(format!("finish: {words}"));
    for host in old {
        let named = format!("host h{host} runs 0.3.0, which speaks protocols 12 to 13 and not 14: upgrade it");
        check(words.contains(&named), || format!("finish does not name h{host}: {words}"))?;
    }
    Ok(())
}

/// The previous release's `cairn` works with a daemon of this one.
fn old_client(cluster: &Cluster, previous: &Path) -> Outcome<()> {
    for arguments in [["cluster", "status"], ["disk", "list"], ["host", "list"], ["resync", "list"]] {
        let mut command = Command::new(previous.join("cairn"));
        command.arg("--api").arg(format!("unix:{}", cluster.host(2).api().socket().display())).args(arguments);
        cairn_e2e::tools::run(&mut command)?;
    }
    Ok(())
}

fn finish(cluster: &Cluster) -> Outcome<()> {
    let api = cluster.host(2).api();
    let preview = api.call(&["cluster", "upgrade", "finish", "--dry-run"])?;
    check(preview["level"] == 13 && preview["level_next"] == 14, || format!("the preview: {preview}"))?;
    check(upgrade(cluster, 3)?["level"] == 13, || "a preview has changed something".into())?;
    api.call(&["cluster", "upgrade", "finish", "--yes"])?;
    cluster.say("the upgrade is finished");
    wait_until("all hosts know of it", Duration::from_secs(5), || {
        HOSTS.into_iter().try_for_each(|n| {
            let status = upgrade(cluster, n)?;
            check(
                status["level"] == 14
                    && status["features"].as_array().is_some_and(|all| all.iter().all(|feature| feature["on"] == true)),
                || format!("h{n}: {status}"),
            )
        })
    })
}

/// A host that goes back all the same reads why it cannot, and so do the others; it comes again as this release.
fn turned_away(cluster: &mut Cluster, scene: &Scene, n: u8, previous: &Path) -> Outcome<()> {
    cluster.stop(n)?;
    let host = cluster.host_mut(n);
    host.programs = Some(previous.to_owned());
    let begins = log_bytes(&host.log);
    cluster.start_one(n)?;
    let words = format!(
        "host h{n} runs 0.3.0, which speaks protocols 12 to 13; this cluster was upgraded to 14 and no longer does: start 0.4.0 or later"
    );
    let log = cluster.host(n).log.clone();
    wait_until("it reads why it is refused", Duration::from_secs(60), || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        check(text[begins..].contains(&words), || tail(&log, 5))
    })?;
    cluster.say(format!("h{n} reads: {words}"));
    let at_h1 = std::fs::read_to_string(&cluster.host(1).log).unwrap_or_default();
    check(at_h1.contains(&words), || "h1 does not say why it refused".into())?;
    scene.goes_on(cluster, "without it", Duration::from_secs(20))?;
    replace(cluster, scene, n, None)
}

fn log_bytes(log: &Path) -> usize {
    std::fs::metadata(log).map_or(0, |meta| meta.len() as usize)
}
