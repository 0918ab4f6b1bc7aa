//! Bad input to real daemons: each case is one clear error that names cause and remedy, and nothing is lost or half done.

use std::{fs, os::unix::fs::FileExt as _, process::Command, time::Duration};

use cairn_e2e::{
    Cluster, NbdClient, NbdError, Outcome, Shape,
    cli::Refused,
    scene::{DISK, play, targets},
    tools::program,
    wait::check,
    wait_until,
};

/// Damages the files of a disk group: its cache device, its capacity device.
type Damage = fn(&std::path::Path, &std::path::Path) -> std::io::Result<()>;

fn shape() -> Shape {
    Shape { hosts: 3, hosts_with_disks: 3, cache_mib: 128, capacity_mib: 256, ..Shape::default() }
}

/// The refusal of a call, which must say all of `words`.
fn refused(cluster: &Cluster, arguments: &[&str], words: &[&str]) -> Outcome<()> {
    let answer = cluster.host(1).api().ask(arguments);
    let Err(Refused { code, words: said }) = answer else {
        return Err(format!("cairn {} was not refused", arguments.join(" ")));
    };
    cluster.say(format!("cairn {}: exit {code}: {}", arguments.join(" "), said.replace('\n', " | ")));
    check(code == 1 || code == 2, || format!("exit code {code}"))?;
    let lower = said.to_lowercase();
    words
        .iter()
        .try_for_each(|word| check(lower.contains(&word.to_lowercase()), || format!("{said:?} does not say {word:?}")))
}

/// Requests that cannot be met, and a disk group that is full.
#[test]
fn requests_that_cannot_be_met() {
    play("bad_input", &shape(), |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        refused(cluster, &["disk", "create", DISK, "--size", "64MiB"], &["exists", "another name"])?;
        refused(cluster, &["disk", "create", "huge", "--size", "63T"], &["62 TiB"])?;
        refused(cluster, &["disk", "create", "odd", "--size", "1000"], &["512"])?;
        refused(cluster, &["disk", "create", "a/b", "--size", "64MiB"], &["letters"])?;
        refused(cluster, &["disk", "create", "x", "--size", "64MiB", "--policy", "gold"], &["gold"])?;
        refused(cluster, &["policy", "create", "ec", "--ftm", "erasure-coding", "--ftt", "3"], &["RAID-5", "RAID-6"])?;
        let rows = ["--ftm", "erasure-coding", "--data-strips", "3"];
        cluster.host(1).api().call(&[&["policy", "create", "3-1"], &rows[..]].concat())?;
        let wide = &["disk", "create", "x", "--size", "64MiB", "--policy", "3-1"];
        refused(cluster, wide, &["RAID-5 3+1", "4 fault domains", "3 are up", "choose 2+1"])?;
        cluster.host(1).api().call(&["policy", "create", "ftt-2", "--ftt", "2"])?;
        refused(cluster, &["disk", "create", "x", "--size", "64MiB", "--policy", "ftt-2"], &["5", "3 are up"])?;
        let disks = cluster.host(1).api().call(&["disk", "list"])?;
        check(disks.as_array().map(Vec::len) == Some(1), || format!("something is half done: {disks}"))?;
        full_disk_group(cluster)
    });
}

/// A full disk group refuses new blocks with "no space"; reads, overwrites, trims and deletions go on.
fn full_disk_group(cluster: &mut Cluster) -> Outcome<()> {
    cluster.create_disk("big", 1024, 1)?;
    let connect = |disk: &str| {
        NbdClient::connect(&targets(cluster, &[1])[0], disk, Duration::from_secs(30)).map_err(|e| e.to_string())
    };
    let mut big = connect("big")?;
    let data = vec![0x77; 1 << 20];
    let mut written = 0;
    let code = loop {
        check(written < 1024, || "1 GiB fits in 256 MiB".into())?;
        match big.write(written << 20, &data) {
            Ok(()) => written += 1,
            Err(NbdError::Refused(code)) => break code,
            Err(error) => return Err(format!("at {written} MiB: {error}")),
        }
    };
    cluster.say(format!("after {written} MiB a write is refused with error {code}"));
    check(code == 28, || format!("error {code} is not ENOSPC (28)"))?;
    check(written >= 100, || format!("full after {written} MiB of 256 MiB"))?;
    let mut back = vec![0; 1 << 20];
    let step =
        |what: &str, outcome: Result<(), NbdError>| outcome.map_err(|e| format!("{what} on a full disk group: {e}"));
    for at in 0..written {
        step("a read", big.read(at << 20, &mut back))?;
        check(back == data, || format!("MiB {at} is wrong"))?;
    }
    step("an overwrite", big.write(0, &vec![0x78; 64 << 10]))?;
    step("a trim", big.trim(10 << 20, 40 << 20))?;
    wait_until("trimmed space can be written again", Duration::from_secs(30), || {
        step("a write after the trim", big.write(10 << 20, &data))
    })?;
    drop(big);
    cluster.host(1).api().call(&["disk", "delete", "big", "--yes"])?;
    let mut small = connect(DISK)?;
    wait_until("space comes back after a deletion", Duration::from_secs(60), || {
        (0..48).try_for_each(|at| step("a write after the deletion", small.write(at << 20, &data)))
    })?;
    cluster.say("reads, an overwrite, a trim, a deletion, and writes into the space that came back");
    Ok(())
}

/// Devices that are damaged while their host is down: it says what is wrong with which, and the disk is served from the other copy.
#[test]
fn damaged_devices() {
    play("bad_devices", &shape(), |cluster| {
        cluster.create_disk(DISK, 64, 1)?;
        let connect = |cluster: &Cluster, n: u8| {
            NbdClient::connect(&targets(cluster, &[n])[0], DISK, Duration::from_secs(30)).map_err(|e| e.to_string())
        };
        let data = vec![0x5a; 1 << 20];
        (0..32_u64).try_for_each(|at| connect(cluster, 1)?.write(at << 20, &data).map_err(|e| e.to_string()))?;
        let victim = cluster.replicas(1, DISK)?[0];
        let reader = (1..=3).find(|n| *n != victim).ok_or("no other host")?;
        let cases: [(&str, Damage); 4] = [
            ("a truncated capacity device", |_, capacity| {
                fs::File::options().write(true).open(capacity)?.set_len(1 << 20)
            }),
            ("cache and capacity swapped", |cache, capacity| {
                let aside = cache.with_extension("aside");
                fs::rename(cache, &aside)?;
                fs::rename(capacity, cache)?;
                fs::rename(aside, capacity)
            }),
            ("a cache device of noise", |cache, _| {
                fs::File::options().write(true).open(cache)?.write_all_at(&[0xa5; 1 << 20], 0)
            }),
            ("bits flipped in the capacity device", |_, capacity| {
                let file = fs::File::options().read(true).write(true).open(capacity)?;
                for at in (8..200).map(|mib| (mib << 20) + 12345) {
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, at)?;
                    file.write_all_at(&[byte[0] ^ 0x10], at)?;
                }
                Ok(())
            }),
        ];
        for (what, damage) in cases {
            cluster.host_mut(victim).stop()?;
            let folder = cluster.host(victim).folder.clone();
            let (cache, capacity) = (folder.join("cache.img"), folder.join("capacity-1.img"));
            let kept = [(cache.with_extension("kept"), &cache), (capacity.with_extension("kept"), &capacity)];
            for (copy, original) in &kept {
                fs::copy(original, copy).map_err(|e| e.to_string())?;
            }
            damage(&cache, &capacity).map_err(|e| e.to_string())?;
            cluster.restart(victim)?;
            let mut back = vec![0; 1 << 20];
            // At the damaged host itself where its copy is open: reads prefer the local copy, which is the bad one.
            let bad_copy = what.starts_with("bits");
            if bad_copy {
                cluster.host(victim).api().call(&["disk", "attach", DISK, "--host", &format!("h{victim}")])?;
            }
            let mut client = connect(cluster, if bad_copy { victim } else { reader })?;
            for at in 0..32_u64 {
                client.read(at << 20, &mut back).map_err(|e| format!("{what}: {e}"))?;
                check(back == data, || format!("{what}: MiB {at} is wrong"))?;
            }
            let log = fs::read_to_string(&cluster.host(victim).log).unwrap_or_default();
            let words = log
                .lines()
                .rev()
                .find(|line| line.contains("WARN") && (line.contains("open") || line.contains("repaired")))
                .unwrap_or("(no warning)");
            cluster.say(format!("{what}: every byte is right; {words}"));
            cluster.host_mut(victim).stop()?;
            for (copy, original) in &kept {
                fs::rename(copy, original).map_err(|e| e.to_string())?;
            }
            cluster.restart(victim)?;
            cluster.wait_healthy(reader, DISK, Duration::from_secs(60))?;
        }
        Ok(())
    });
}

/// A configuration with an unknown key, and a data directory of another cluster: one line, exit code, nothing touched.
#[test]
fn wrong_configurations() {
    let mut cluster = Cluster::prepare("bad_config", &shape()).unwrap_or_else(|words| panic!("{words}"));
    cluster.start_all().unwrap_or_else(|words| panic!("{words}"));
    cluster.run(|cluster| {
        let config = cluster.host(3).config();
        let good = fs::read_to_string(&config).map_err(|e| e.to_string())?;
        fs::write(&config, good.replace("[listen]", "[listen]\npears = \"x\"")).map_err(|e| e.to_string())?;
        let mut daemon = Command::new(program("cairnd"));
        let output = daemon.arg("--config").arg(&config).output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        cluster.say(said.trim());
        check(output.status.code() == Some(2), || format!("{}", output.status))?;
        check(said.contains("pears") && said.contains("peers") && said.contains("line"), || said.clone())?;
        fs::write(&config, good).map_err(|e| e.to_string())?;

        cluster.host_mut(3).stop()?;
        let identity = cluster.host(3).folder.join("data/host.json");
        let text = fs::read_to_string(&identity).map_err(|e| e.to_string())?;
        let mut json: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        json["cluster"] = "00000000000000000000000000000bad".into();
        fs::write(&identity, json.to_string()).map_err(|e| e.to_string())?;
        let outcome = cluster.restart(3);
        let words = outcome.err().ok_or("a host of another cluster was taken")?;
        cluster.say(words.replace('\n', " | "));
        check(words.contains("cluster"), || words.clone())?;
        fs::write(&identity, text).map_err(|e| e.to_string())?;
        cluster.host_mut(3).kill_quietly();
        cluster.restart(3)
    });
}
