//! Pages of the operator's handbook that are no subject's own: the first day, what to watch, a full cluster, a power loss.

use std::time::Duration;

use cairn_e2e::{
    Cluster, NbdClient, NbdError, Outcome, Shape, page,
    scene::{play, targets},
    wait::{check, wait_until},
};
use serde_json::Value;

const FIRST_DAY: &str = include_str!("../../../../docs/operating/first-day.md");
const WATCHING: &str = include_str!("../../../../docs/operating/watching.md");
const FULL: &str = include_str!("../../../../docs/operating/full-cluster.md");
const POWER_LOSS: &str = include_str!("../../../../docs/operating/power-loss.md");
/// The disk of the first day.
const FIRST: &str = "vm-1";
/// The disk that fills the cluster, and is given up for room.
const OLD: &str = "old-1";
const MIB: usize = 1 << 20;

/// Goal: every command of these pages does what the page says. Method: one cluster of four small hosts lives through them in this order;
/// what guests were told to be written is read back after the power loss.
#[test]
fn the_pages_are_lived_through() {
    let shape = Shape { cache_mib: 128, capacity_mib: 384, ..Shape::default() };
    play("handbook", &shape, |cluster| {
        let none = |_: &str| None;
        carry_out(cluster, FIRST_DAY, &none)?;
        let disk = cluster.disk(1, FIRST)?;
        check(disk["owner"] == "h2" && disk["policy"] == "important", || disk.to_string())?;
        let mut first = connect(cluster, FIRST)?;
        (0..64).try_for_each(|at| first.write(at << 20, &vec![7; MIB]).map_err(|e| e.to_string()))?;
        drop(first);
        carry_out(cluster, WATCHING, &none)?;
        a_full_cluster(cluster)?;
        cluster.kill_all()?;
        carry_out(cluster, POWER_LOSS, &none)?;
        cluster.wait_healthy(1, FIRST, Duration::from_secs(60))?;
        let (mut first, mut back) = (connect(cluster, FIRST)?, vec![0; MIB]);
        for at in 0..64 {
            first.read(at << 20, &mut back).map_err(|e| format!("MiB {at}: {e}"))?;
            check(back.iter().all(|byte| *byte == 7), || format!("MiB {at} has other bytes"))?;
        }
        Ok(())
    });
}

/// A thin disk is written until there is no room; the page makes some, and the write that was refused is taken.
fn a_full_cluster(cluster: &mut Cluster) -> Outcome<()> {
    // The reserve is for new disks: this one is made before there is one.
    let api = cluster.host(1).api();
    api.call(&["cluster", "settings", "--rebuild-reserve-hosts", "0"])?;
    for disk in [OLD, "old-2"] {
        api.call(&["disk", "create", disk, "--size", "2GiB"])?;
    }
    let mut full = 0;
    for disk in [OLD, "old-2"] {
        let mut guest = connect(cluster, disk)?;
        for at in 0..2048_u64 {
            match guest.write(at << 20, &vec![9; MIB]) {
                Ok(()) => {}
                Err(NbdError::Refused(28)) => {
                    cluster.say(format!("{disk}: no space after {at} MiB"));
                    full += 1;
                    break;
                }
                Err(error) => return Err(format!("{disk}, MiB {at}: {error}")),
            }
        }
    }
    check(full > 0, || "four hosts of 384 MiB take 4 GiB twice".into())?;
    let groups = api.call(&["disk-group", "list"])?;
    let group = groups[0]["id"].as_str().ok_or("a disk group")?.to_owned();
    let holder = groups[0]["host_name"].as_str().and_then(|name| name.strip_prefix('h')).ok_or("a host")?;
    let holder: u8 = holder.parse().map_err(|_| "a number")?;
    let device = cluster.host(holder).folder.join("added.img");
    let made = std::fs::File::create(&device).and_then(|file| file.set_len(512 << 20));
    made.map_err(|e| e.to_string())?;
    let device = device.display().to_string();
    let called = |word: &str| match word {
        "GROUP" => Some(group.clone()),
        "/dev/sdd" => Some(device.clone()),
        _ => None,
    };
    carry_out(cluster, FULL, &called)?;
    let mut guest = connect(cluster, "old-2")?;
    wait_until("there is room again", Duration::from_secs(60), || {
        (0..64_u64).try_for_each(|at| guest.write(at << 20, &vec![11; MIB]).map_err(|e| e.to_string()))
    })?;
    drop(guest);
    cluster.host(1).api().call(&["disk", "delete", "old-2", "--yes"]).map(drop)
}

fn connect(cluster: &Cluster, disk: &str) -> Outcome<NbdClient> {
    NbdClient::connect(&targets(cluster, &[1])[0], disk, Duration::from_secs(30)).map_err(|e| e.to_string())
}

/// Each command of a page's code blocks. `called` has other words for what the page names.
fn carry_out(cluster: &mut Cluster, page: &str, called: &dyn Fn(&str) -> Option<String>) -> Outcome<()> {
    let commands = page::commands(page);
    check(!commands.is_empty(), || "a page without commands".into())?;
    for command in commands {
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| called(word).unwrap_or_else(|| word.replace("host-2", "h2")))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            // Hosts of tests run without systemd.
            ["systemctl", "enable" | "start", ..] => cluster.start_all()?,
            ["cairn", words @ ..] => {
                let answer = ask(cluster, words)?;
                check(fits(words, &answer), || format!("{command}: {answer}"))?;
            }
            other => return Err(format!("nobody here knows {other:?}")),
        }
        cluster.say(command);
    }
    Ok(())
}

/// The answer of a command; of `health` also where it found something, which exit code 1 says.
fn ask(cluster: &Cluster, words: &[&str]) -> Outcome<Value> {
    let api = cluster.host(1).api();
    match words {
        ["health"] => {
            let told = api.command(words).output().map_err(|e| e.to_string())?;
            serde_json::from_slice(&told.stdout).map_err(|e| e.to_string())
        }
        _ => api.call(words),
    }
}

fn fits(words: &[&str], answer: &Value) -> bool {
    let rows = |least: usize| answer.as_array().is_some_and(|rows| rows.len() >= least);
    match words {
        ["cluster", "status"] => answer["hosts_up"] == 4,
        ["cluster", "settings", ..] => answer["repair_delay_s"] == 3600,
        ["host", "list"] | ["disk-group", "list"] => rows(4),
        ["host", "devices"] | ["policy", "list"] | ["disk", "list"] => rows(1),
        ["health"] => answer["checks"].as_array().is_some_and(|checks| checks.len() > 20),
        ["health", "history", ..] => answer["events"].is_array(),
        ["what-if", "host-loss", _] => answer["lost"] == serde_json::json!([]),
        ["what-if", "grow", "--hosts", ..] => answer["hosts_after"] == 5 && more_room(answer),
        ["what-if", "grow", ..] => more_room(answer),
        ["disk", "create", ..] => answer["name"] == FIRST,
        ["disk", "xml", ..] => answer.to_string().contains(FIRST),
        ["disk", "show", _] => answer["health"] == "healthy",
        ["disk", "attach", ..] => answer["owner"] == "h2",
        // What is deleted is seen to be gone by the room that it gives back.
        ["disk", "delete", ..] => answer.is_null(),
        ["policy", "create", ..] => answer["name"] == "important" && answer["rules"]["reservation_percent"] == 100,
        ["disk-group", "add-capacity", ..] => {
            answer["usable_bytes"].as_u64() > Some(0) && answer["components_lost"] == 0
        }
        ["resync", "list"] | ["scrub", "status"] => rows(0),
        ["counters"] => answer["hosts"].as_array().is_some_and(|hosts| hosts.len() == 4),
        ["top", "--once"] => !answer.is_null(),
        _ => false,
    }
}

/// What 512 MiB more come to: the same more capacity, and no less room once all moves are over.
fn more_room(answer: &Value) -> bool {
    let bytes = |what: &str| answer[what].as_u64().unwrap_or(0);
    bytes("raw_bytes_after") - bytes("raw_bytes_before") == 512 << 20
        && bytes("free_bytes_after") > bytes("free_bytes_before")
}
