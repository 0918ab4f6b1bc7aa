//! An administrator's week under load: hosts come, each is emptied for work on it, one dies and is replaced, devices are replaced, hosts go.

use std::{
    fs,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    load::Step,
    scene::{Asked, DISK, Scene, fill, roles},
    wait::{check, wait_until},
};
use serde_json::{Value, json};

/// The host whose guests' sessions these are. It is emptied like the others, and never dies.
const ASKED: u8 = 1;
/// A host that dies: a lease, the take-over, and what the machine is slow at.
const STALL_MAX: Duration = Duration::from_secs(8);
/// How long a step may take to move or rebuild what there is.
const MOVED_WITHIN: Duration = Duration::from_secs(240);
/// Rest beside which the other steps are seen.
const REST: Duration = Duration::from_secs(5);
/// Bytes per second of a scrub that begins by itself: with these a disk group of 8 TB is read in two weeks, the period where nobody sets
/// another one. The groups here are small and would take 1 MiB/s, so that guests of large ones meet more.
const SCRUB_RATE: u64 = 7_300_000;
/// A turn of rest, and one beside such a scrub: some 3,900 requests, of whose p99 chance makes 3 to 4 %.
const TURN: Duration = Duration::from_secs(6);

/// MiB of the disk that are written before, behind those that the loads write: more of them make rates and times mean more.
fn filled_mib() -> u64 {
    std::env::var("CAIRN_E2E_FILL_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(128)
}

/// Turns of rest and of scrub, one after the other: the medians of 21 are known to one or two per cent, those of 2 to nobody.
fn turns() -> u32 {
    std::env::var("CAIRN_E2E_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(2).max(1)
}

/// What is told of each step.
struct Line {
    step: String,
    took: Duration,
    /// What was moved or rebuilt, and what was told before how long it takes.
    moved_bytes: Option<u64>,
    told_s: Option<u64>,
    guests: Step,
}

struct Week {
    scene: Scene,
    lines: Vec<Line>,
}

impl Week {
    /// Tells what a step came to.
    fn step(&mut self, step: &str, began: Instant, moved_bytes: Option<u64>, told_s: Option<u64>) {
        let (took, guests) = (began.elapsed(), self.scene.load.step());
        self.lines.push(Line { step: step.to_owned(), took, moved_bytes, told_s, guests });
    }

    fn table(&self) -> String {
        let mut table = String::from(
            "| step | took | moved | rate | told before | requests | p50 | p99 | longest |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for line in &self.lines {
            let (took, guests) = (line.took.as_secs_f64(), line.guests);
            let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
            let moved = line.moved_bytes.map_or(String::new(), |bytes| format!("{} MiB", bytes >> 20));
            let rate = line
                .moved_bytes
                .map_or(String::new(), |bytes| format!("{:.0} MiB/s", bytes as f64 / took / 1_048_576.0));
            let told = line.told_s.map_or(String::new(), |s| format!("{s} s"));
            table += &format!(
                "| {} | {took:.1} s | {moved} | {rate} | {told} | {} | {} | {} | {} |\n",
                line.step,
                guests.requests,
                ms(guests.p50),
                ms(guests.p99),
                ms(guests.longest)
            );
        }
        table
    }
}

/// Goal: a week's work is done with guests at work, and none meets an error, a wrong byte or a long wait. Method: three hosts become five;
/// each of them is emptied in turn; everything is scrubbed, at once and as it is every two weeks; one dies for good and another takes its
/// place; a capacity device and a cache device are replaced; then there are three again. Everything is read back in the end.
#[test]
fn an_administrators_week() {
    let capacity_mib = 1024 + 2 * filled_mib();
    let shape = Shape { hosts: 6, hosts_with_disks: 6, joining: 3, capacity_mib, ..Shape::default() };
    let cluster = Cluster::start("week", &shape).unwrap_or_else(|words| panic!("{words}"));
    cluster.run_within(Duration::from_secs(900 + filled_mib()) + TURN * 2 * turns(), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let through = [ASKED];
    let asked = Asked { mib: 512 + filled_mib(), ..Asked::default() };
    let mut week = Week { scene: Scene::begin_on(cluster, ASKED, &through, &asked)?, lines: Vec::new() };
    fill(cluster, ASKED, 256, filled_mib())?;
    let _ = week.scene.load.step();
    let began = Instant::now();
    std::thread::sleep(REST);
    week.step("rest", began, None, None);

    let began = Instant::now();
    for joins in [4, 5] {
        cluster.join(joins, ASKED)?;
    }
    week.step("3 hosts become 5", began, None, None);
    for n in [2, 3, 4, 5, 1] {
        maintain(cluster, &mut week, n)?;
    }
    scrub(cluster, &mut week)?;
    scrub_at_its_rate(cluster, &mut week)?;
    die(cluster, &mut week)?;
    replace_devices(cluster, &mut week)?;
    shrink(cluster, &mut week)?;
    let began = Instant::now();
    std::thread::sleep(REST);
    week.step("rest", began, None, None);
    cluster.say(format!("the week:\n{}", week.table()));
    week.scene.finish(cluster, &through, STALL_MAX)
}

/// A host is emptied as far as other hosts have room, and taken into use again.
fn maintain(cluster: &mut Cluster, week: &mut Week, n: u8) -> Outcome<()> {
    let (api, name) = (cluster.host(ASKED).api(), cluster.host(n).name());
    let words = ["host", "maintenance", "enter", &name, "--mode", "full-evacuation"];
    let told = api.call(&[&words[..], &["--dry-run"]].concat())?;
    check(told["obstacles"] == json!([]), || told.to_string())?;
    let began = Instant::now();
    let done = api.call(&[&words[..], &["--wait"]].concat())?;
    check(done["state"] == "in" && done["components_left"] == 0, || done.to_string())?;
    week.step(&format!("{name} is emptied"), began, told["bytes_left"].as_u64(), told["eta_s"].as_u64());
    let began = Instant::now();
    api.call(&["host", "maintenance", "leave", &name])?;
    cluster.wait_healthy(ASKED, DISK, MOVED_WITHIN)?;
    week.step(&format!("{name} is in use again"), began, None, None);
    Ok(())
}

/// Everything is read through once, as fast as guests allow.
fn scrub(cluster: &Cluster, week: &mut Week) -> Outcome<()> {
    let began = Instant::now();
    std::thread::sleep(REST);
    week.step("rest", began, None, None);
    let began = Instant::now();
    cluster.host(ASKED).api().call(&["scrub", "start"])?;
    let mut bytes = 0;
    wait_until("everything is scrubbed", MOVED_WITHIN, || {
        let told = cluster.host(ASKED).api().call(&["scrub", "status"])?;
        let scrubs = told.as_array().cloned().unwrap_or_default();
        bytes = scrubs.iter().filter_map(|scrub| scrub["total_bytes"].as_u64()).sum();
        let over = |scrub: &Value| scrub["state"] == "waiting" && scrub["scrubbed_unix_ms"].is_u64();
        check(!scrubs.is_empty() && scrubs.iter().all(over), || told.to_string())
    })?;
    week.step("everything is scrubbed", began, Some(bytes), None);
    Ok(())
}

/// The load beside a scrub that begins by itself, and at rest, in turns: what the machine does meanwhile is met by both.
fn scrub_at_its_rate(cluster: &Cluster, week: &mut Week) -> Outcome<()> {
    let api = cluster.host(ASKED).api();
    // A pass that somebody starts knows no other bound.
    api.call(&["resync", "settings", "--bytes-per-s-max", &SCRUB_RATE.to_string()])?;
    let (mut rest, mut beside, mut bytes) = (Vec::new(), Vec::new(), 0);
    let _ = week.scene.load.step();
    for _ in 0..turns() {
        std::thread::sleep(TURN);
        rest.push(week.scene.load.step());
        let began = Instant::now();
        let before = api.call(&["scrub", "start"])?;
        let _ = week.scene.load.step();
        std::thread::sleep(TURN);
        beside.push(week.scene.load.step());
        let after = api.call(&["scrub", "pause"])?;
        bytes += scrubbed(&before, &after, began.elapsed())?;
        let _ = week.scene.load.step();
    }
    api.call(&["scrub", "resume"])?;
    api.call(&["resync", "settings", "--bytes-per-s-max", "0"])?;
    let took = TURN * turns();
    let mut add = |step: &str, moved_bytes, turns: &[Step]| {
        let line = Line { step: step.to_owned(), took, moved_bytes, told_s: None, guests: median(turns) };
        let p99 = line.guests.p99;
        week.lines.push(line);
        p99
    };
    let at_rest = add("rest, in turns with the next", None, &rest);
    let p99 = add("everything is scrubbed as it is every two weeks", Some(bytes), &beside);
    let ratio = |beside: Duration, rest: Duration| beside.as_secs_f64() / rest.as_secs_f64().max(1e-9);
    let mut each: Vec<f64> = rest.iter().zip(&beside).map(|(rest, beside)| ratio(beside.p99, rest.p99)).collect();
    each.sort_by(f64::total_cmp);
    cluster.say(format!(
        "a scrub at {SCRUB_RATE} bytes/s and host: guests' p99 is {p99:.1?} beside it, {at_rest:.1?} at rest, ratio {:.3} (medians of {} \
         turns of {} s; half of the pairs are from {:.3} to {:.3})",
        ratio(p99, at_rest),
        each.len(),
        TURN.as_secs(),
        each[each.len() / 4],
        each[each.len() * 3 / 4],
    ));
    Ok(())
}

/// Bytes that were compared between two looks at all scrubs. Each disk group is to have gone at the rate, and some at all.
fn scrubbed(before: &Value, after: &Value, took: Duration) -> Outcome<u64> {
    let number = |scrub: &Value, name: &str| scrub[name].as_u64().ok_or_else(|| scrub.to_string());
    let mut sum = 0;
    for now in after.as_array().into_iter().flatten() {
        let then = before.as_array().into_iter().flatten().find(|then| then["disk_group"] == now["disk_group"]);
        let then = then.filter(|then| then["pass"] == now["pass"]).ok_or_else(|| format!("another pass: {now}"))?;
        let done = number(now, "done_bytes")?.saturating_sub(number(then, "done_bytes")?);
        let most = SCRUB_RATE * (took.as_secs() + 1) + (1 << 20);
        check(done <= most, || format!("{done} bytes in {took:?}, {most} at most: {now}"))?;
        sum += done;
    }
    check(sum > 0, || format!("nothing was scrubbed: {after}"))?;
    Ok(sum)
}

/// The median turn, with the requests of all and the longest of them.
fn median(turns: &[Step]) -> Step {
    let middle = |time: fn(&Step) -> Duration| {
        let mut times: Vec<Duration> = turns.iter().map(time).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Step {
        requests: turns.iter().map(|turn| turn.requests).sum(),
        p50: middle(|turn| turn.p50),
        p99: middle(|turn| turn.p99),
        longest: turns.iter().map(|turn| turn.longest).max().unwrap_or_default(),
    }
}

/// A host with a copy and no member of the directory dies for good; what it held is rebuilt; another host takes its place.
fn die(cluster: &mut Cluster, week: &mut Week) -> Outcome<()> {
    for n in [2, 3] {
        // A copy is to lie where no member of the directory runs: else its death would cost one of three.
        if cluster.replicas(ASKED, DISK)?.iter().any(|copy| *copy > 3) {
            break;
        }
        let name = cluster.host(n).name();
        if cluster.replicas(ASKED, DISK)?.contains(&n) {
            let moved = cluster.host(ASKED).api().call(&["disk", "move", DISK, "--from", &name, "--to", "h4"]);
            moved.map_err(|words| format!("the copy of {name} to h4: {words}"))?;
            wait_until("the copy is at h4", MOVED_WITHIN, || {
                let copies = cluster.replicas(ASKED, DISK)?;
                check(copies.contains(&4) && !copies.contains(&n), || format!("{copies:?}"))
            })?;
        }
    }
    let dies = cluster.replicas(ASKED, DISK)?.into_iter().find(|n| *n > 3).ok_or("no copy at a host that joined")?;
    let name = cluster.host(dies).name();
    cluster.wait_healthy(ASKED, DISK, MOVED_WITHIN)?;
    let told = cluster.host(ASKED).api().call(&["what-if", "host-loss", &name])?;
    let _ = week.scene.load.step();
    let began = Instant::now();
    cluster.kill(dies)?;
    week.scene.goes_on(cluster, "without it", Duration::from_secs(10))?;
    wait_until("it is silent to all", Duration::from_secs(20), || {
        let told = cluster.host(ASKED).api().call(&["host", "forget", &name, "--dry-run"])?;
        check(told["heard_by"] == json!([]), || told.to_string())
    })?;
    week.step(&format!("{name} dies"), began, None, None);
    let began = Instant::now();
    cluster.host(ASKED).api().call(&["host", "forget", &name, "--yes"])?;
    cluster.wait_healthy(ASKED, DISK, MOVED_WITHIN)?;
    let bytes = told["rebuilt_bytes"].as_u64();
    week.step(&format!("{name} is forgotten, and rebuilt"), began, bytes, told["rebuild_s"].as_u64());
    let began = Instant::now();
    cluster.join(6, ASKED)?;
    week.step("another takes its place", began, None, None);
    Ok(())
}

/// A capacity device and then a cache device of a copy's host are replaced by blank ones.
fn replace_devices(cluster: &mut Cluster, week: &mut Week) -> Outcome<()> {
    for (role, file) in [("capacity", "capacity-1.img"), ("cache", "cache.img")] {
        let (host, _) = roles(cluster, ASKED)?;
        let group = group_of(cluster, host)?;
        let id = group["id"].as_str().ok_or("an id")?.to_owned();
        let old = cluster.host(host).folder.join(file);
        let new = cluster.host(host).folder.join(format!("new-{file}"));
        let bytes = fs::metadata(&old).map_err(|e| e.to_string())?.len();
        fs::File::create(&new).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())?;
        let [old, new] = [old, new].map(|path| path.display().to_string());
        let words = ["disk-group", "replace-device", &id, "--device", &old, "--with", &new];
        let told = cluster.host(ASKED).api().call(&[&words[..], &["--dry-run"]].concat())?;
        let began = Instant::now();
        cluster.host(ASKED).api().call(&[&words[..], &["--yes"]].concat())?;
        wait_until("the disk is whole again", MOVED_WITHIN, || {
            let disk = cluster.disk(ASKED, DISK)?;
            let group = group_of(cluster, host)?.to_string();
            check(disk["health"] == "healthy" && group.contains(&new), || format!("{disk} {group}"))
        })?;
        let name = cluster.host(host).name();
        week.step(&format!("a {role} device of {name} is replaced"), began, told["bytes_lost"].as_u64(), None);
    }
    Ok(())
}

/// The hosts that joined are emptied and removed.
fn shrink(cluster: &mut Cluster, week: &mut Week) -> Outcome<()> {
    for n in cluster.numbers(ASKED)?.into_iter().filter(|n| *n > 3) {
        let (api, name) = (cluster.host(ASKED).api(), cluster.host(n).name());
        let words = ["host", "maintenance", "enter", &name, "--mode", "full-evacuation"];
        let told = api.call(&[&words[..], &["--dry-run"]].concat())?;
        let began = Instant::now();
        api.call(&[&words[..], &["--wait"]].concat())?;
        api.call(&["host", "remove", &name, "--wait", "--yes"])?;
        week.step(&format!("{name} is removed"), began, told["bytes_left"].as_u64(), told["eta_s"].as_u64());
    }
    let left = cluster.numbers(ASKED)?;
    check(left.len() == 3, || format!("the hosts are {left:?}"))?;
    cluster.wait_healthy(ASKED, DISK, MOVED_WITHIN)
}

fn group_of(cluster: &Cluster, host: u8) -> Outcome<Value> {
    let groups = cluster.host(ASKED).api().call(&["disk-group", "list"])?;
    let all = groups.as_array().cloned().unwrap_or_default();
    all.into_iter().find(|group| group["host_name"] == cluster.host(host).name()).ok_or_else(|| "no disk group".into())
}
