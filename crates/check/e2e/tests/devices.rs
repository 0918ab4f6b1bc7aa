//! Devices of a disk group are added and replaced under load: the commands of the operator's page, as they stand there.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::{DISK, Scene, fill, play, roles},
    wait::check,
};

const PAGE: &str = include_str!("../../../../docs/operating/devices.md");
/// What the page calls the host and its disk group.
const HOST_CALLED: &str = "host-2";
const GROUP_CALLED: &str = "8d2f61c0";
/// A device by its stable name.
const DEVICE_CALLED: &str = "wwn-0x5000c500a1b2c3d4";
/// A component that is lost costs its owner one look: less than a host that dies.
const STALL_MAX: Duration = Duration::from_secs(6);
/// MiB of the disk that are written before, behind those that the loads write.
const FILLED_MIB: u64 = 64;

fn group_of(cluster: &Cluster, host: u8) -> Outcome<serde_json::Value> {
    let groups = cluster.host(1).api().call(&["disk-group", "list"])?;
    let all = groups.as_array().cloned().unwrap_or_default();
    all.into_iter().find(|g| g["host_name"] == cluster.host(host).name()).ok_or_else(|| "no disk group".into())
}

fn path(cluster: &Cluster, host: u8, file: &str) -> String {
    cluster.host(host).folder.join(file).display().to_string()
}

/// A blank file as large as one of the host's.
fn blank(cluster: &Cluster, host: u8, file: &str, like: &str) -> Outcome<String> {
    let bytes = std::fs::metadata(path(cluster, host, like)).map_err(|e| e.to_string())?.len();
    let new = path(cluster, host, file);
    let made = std::fs::File::create(&new).and_then(|file| file.set_len(bytes));
    made.map(|()| new).map_err(|e| e.to_string())
}

/// A program in the place of `ledctl` at a host, which lights nothing without an enclosure, and no test machine has one: it notes its words.
fn ledctl(cluster: &Cluster, host: u8) -> Outcome<()> {
    let (folder, noted) = (cluster.host(host).own_programs(), path(cluster, host, "ledctl.noted"));
    let program = folder.join("ledctl");
    let made = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{noted}'\n")))
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)));
    made.map_err(|e| format!("cannot make {}: {e}", program.display()))
}

/// A block device of this machine: hosts' own devices are files, and files have no LED.
fn block_device(cluster: &Cluster, host: u8) -> Outcome<String> {
    let listed = cluster.host(1).api().call(&["host", "devices", &cluster.host(host).name()])?;
    let mut paths = listed.as_array().into_iter().flatten().filter_map(|device| device["path"].as_str());
    let found = paths.find(|path| path.starts_with("/dev/")).map(str::to_owned);
    found.ok_or_else(|| "this machine has no block device".into())
}

/// The LED was lit, then put out, by the host that was named; without the program it is told what is missing, and a file has none.
fn check_leds(cluster: &Cluster, host: u8, device: &str) -> Outcome<()> {
    let noted = fs::read_to_string(path(cluster, host, "ledctl.noted")).map_err(|e| e.to_string())?;
    let words: Vec<&str> = noted.lines().collect();
    // Of a partition its disk.
    let is_it = |word: &str, order: &str| {
        let path = word.strip_prefix(order).and_then(|rest| rest.strip_prefix('='));
        path.is_some_and(|path| path.starts_with("/dev/") && device.starts_with(path))
    };
    let as_told = match words[..] {
        [only, lit, only_too, out] => {
            only == "--listed-only" && only_too == only && is_it(lit, "locate") && is_it(out, "locate_off")
        }
        _ => false,
    };
    check(as_told, || format!("{device}: ledctl was given {words:?}"))?;
    let refused = |device: &str, host: u8| {
        let name = cluster.host(host).name();
        let words: [&str; 5] = ["host", "locate", device, "--host", &name];
        match cluster.host(1).api().ask(&words) {
            Ok(answer) => Err(format!("{words:?}: {answer}")),
            Err(refused) => Ok(refused.words),
        }
    };
    let file = refused(&path(cluster, host, "cache.img"), host)?;
    check(file.contains("a file has no LED"), || file.clone())?;
    if ["/usr/sbin/ledctl", "/usr/bin/ledctl"].iter().any(|program| fs::exists(program).unwrap_or(false)) {
        cluster.say("this machine has ledctl: what is said without it is not seen");
        return Ok(());
    }
    let other = cluster.hosts().iter().map(|host| host.number).find(|n| *n != host).ok_or("one host only")?;
    let absent = refused(device, other)?;
    cluster.say(&absent);
    check(absent.contains("apt install ledmon"), || absent.clone())
}

/// Goal: every command of the page does what the page says, and no guest meets an error or waits long. Method: the page's commands, in
/// their order, for the disk group of the copy that is not the owner's; data are read back in the end.
#[test]
fn the_commands_of_the_page_change_devices_under_load() {
    play("devices", &Shape::default(), |cluster| {
        let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
        fill(cluster, 1, 256, FILLED_MIB)?;
        let (host, _) = roles(cluster, 1)?;
        let id = group_of(cluster, host)?["id"].as_str().ok_or("an id")?.to_owned();
        let (added, new) =
            (blank(cluster, host, "added.img", "capacity-1.img")?, blank(cluster, host, "new.img", "capacity-1.img")?);
        let old = path(cluster, host, "capacity-1.img");
        let name = cluster.host(host).name();
        let lit = block_device(cluster, host)?;
        ledctl(cluster, host)?;
        let called = [
            (HOST_CALLED, name.as_str()),
            (GROUP_CALLED, &id),
            ("/dev/sdb", &old),
            ("/dev/sdd", &added),
            ("/dev/sde", &new),
            (DEVICE_CALLED, &lit),
        ];
        for command in commands() {
            let words = command.split_whitespace().skip(1);
            let words: Vec<String> = words
                .map(|word| called.iter().fold(word.to_owned(), |word, (from, to)| word.replace(from, to)))
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let began = Instant::now();
            let answer = cluster.host(1).api().call(&words)?;
            judge(&words, &answer)?;
            cluster.say(format!("cairn {}: {answer} ({:.1} s)", words.join(" "), began.elapsed().as_secs_f64()));
            scene.goes_on(cluster, "after it", Duration::from_secs(10))?;
            if words.contains(&"--yes") {
                cluster.wait_healthy(1, DISK, Duration::from_secs(90))?;
                cluster.say(format!("all copies are there after {:.1} s", began.elapsed().as_secs_f64()));
            }
        }
        check_leds(cluster, host, &lit)?;
        let devices = group_of(cluster, host)?["devices"].to_string();
        check(devices.contains(&added) && devices.contains(&new) && !devices.contains(&old), || devices)?;
        cluster.stop(host)?;
        cluster.restart(host)?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
        let group = group_of(cluster, host)?;
        check(group["state"] == "mounted" && group["devices"].as_array().map_or(0, Vec::len) == 2, || {
            group.to_string()
        })?;
        scene.finish(cluster, &[1, 2, 3, 4], STALL_MAX)
    });
}

/// Goal: a dead cache device is replaced by one command, and what was there is rebuilt. Method: the host of a copy is stopped, its cache
/// device taken away, and it is started again; under load.
#[test]
fn a_dead_cache_device_is_replaced_under_load() {
    play("dead-cache", &Shape::default(), |cluster| {
        let scene = Scene::begin(cluster, 1, &[1, 2, 3, 4])?;
        fill(cluster, 1, 256, FILLED_MIB)?;
        let (host, _) = roles(cluster, 1)?;
        let id = group_of(cluster, host)?["id"].as_str().ok_or("an id")?.to_owned();
        let new = blank(cluster, host, "new-cache.img", "cache.img")?;
        cluster.stop(host)?;
        let cache = path(cluster, host, "cache.img");
        std::fs::rename(&cache, path(cluster, host, "dead.img")).map_err(|e| e.to_string())?;
        cluster.restart(host)?;
        let api = cluster.host(1).api();
        let words = ["disk-group", "replace-device", &id, "--device", &cache, "--with", &new];
        let preview = api.call(&[&words[..], &["--dry-run"]].concat())?;
        check(preview["made_anew"] == true && preview["last_copies"] == serde_json::json!([]), || preview.to_string())?;
        let began = Instant::now();
        let made = api.call(&[&words[..], &["--yes"]].concat())?;
        check(made["disk_group"] != id.as_str(), || made.to_string())?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(90))?;
        cluster.say(format!("all copies are there {:.1} s after the command", began.elapsed().as_secs_f64()));
        scene.finish(cluster, &[1, 2, 3, 4], STALL_MAX)
    });
}

/// Each command of the page's code blocks.
fn commands() -> Vec<&'static str> {
    page::commands(PAGE).into_iter().filter(|line| line.starts_with("cairn ")).collect()
}

fn judge(words: &[&str], answer: &serde_json::Value) -> Outcome<()> {
    let told = || format!("{words:?}: {answer}");
    match words {
        ["host", "devices", ..] => {
            let claimed = answer.as_array().into_iter().flatten().filter(|device| device["state"] == "claimed").count();
            check(claimed >= 2, told)
        }
        ["host", "locate", ..] => check(answer["lit"] == !words.contains(&"--off"), told),
        ["disk-group", "add-capacity", ..] => {
            check(answer["usable_bytes"].as_u64() > Some(0) && answer["components_lost"] == 0, told)
        }
        ["disk-group", "replace-device", ..] => {
            let lost = answer["components_lost"] == 1 && answer["bytes_lost"].as_u64() >= Some(FILLED_MIB << 20);
            check(lost && answer["reduced"] == serde_json::json!([DISK]) && answer["made_anew"] == false, told)
        }
        ["resync", "list"] => Ok(()),
        other => Err(format!("nobody here knows {other:?}")),
    }
}
