//! (h) A disk shared by many clients is one register per sector, whatever happens to the hosts between them and it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Outcome, Shape,
    cluster::describe,
    guests::{Guests, read_everywhere, ways},
    history::{self, Event, Recorder, judge, put_in_a_stale_read},
    inject::{self, Cycle},
    tools::{cycles, seed},
    wait::check,
    wait_until,
};

const DISK: &str = "vm-1";
/// Read whole through each way at the end.
const DISK_MIB: u64 = 32;
/// Four for each host at first: two over its unix socket, two over TCP.
const CLIENTS: u64 = 16;
/// Between the requests of a client, at most: some hundred requests a second, so that all hosts and clients run on two processors.
const PAUSE_MAX: Duration = Duration::from_millis(40);
/// Hosts that have just started wait so long for each other before they record anyone absent (`cold_start_grace`): a fault before
/// would measure that.
const COLD_START: Duration = Duration::from_secs(10);
/// Leases, a takeover, a start, a resync of some MiB, on a loaded machine.
const HEALTHY_LIMIT: Duration = Duration::from_secs(90);
/// 6 s of fault, and then some.
const CYCLE_MAX: Duration = Duration::from_secs(60);

/// Goal: what clients see is linearizable, each sector a register of its own, whoever dies, stands still or is cut off meanwhile.
/// Method: sixteen clients at four hosts write and read the same few blocks; one fault after the other, drawn from a seed; every
/// request is recorded as it begins and ends; the history is judged by the model of the simulator, from its file.
#[test]
fn clients_that_share_a_disk_see_one_order() {
    play("linearizable", None);
}

/// The same of a disk in rows of two strips of data and one of parity.
#[test]
fn clients_that_share_a_disk_in_rows_see_one_order() {
    play("linearizable_rows", Some(["--ftm", "erasure-coding", "--data-strips", "2"]));
}

fn play(name: &str, rules: Option<[&str; 4]>) {
    let (seed, cycles) = (seed(), cycles());
    let cluster = Cluster::start(name, &Shape::default()).unwrap_or_else(|words| panic!("{words}"));
    let limit = Duration::from_secs(180) + CYCLE_MAX * cycles as u32;
    cluster.run_within(limit, |cluster| {
        let policy = rules.map(|rules| {
            let create = [&["policy", "create", "rows"][..], &rules].concat();
            cluster.host(1).api().call(&create).map(|_| "rows")
        });
        cluster.create_disk_of(DISK, DISK_MIB, 1, policy.transpose()?)?;
        scenario(cluster, seed, cycles)
    });
}

fn scenario(cluster: &mut Cluster, seed: u64, cycles: usize) -> Outcome<()> {
    cluster.say(format!("CAIRN_E2E_SEED={seed} CAIRN_E2E_CYCLES={cycles}"));
    let plan = inject::draw(seed, cycles, cluster.hosts().len());
    let path = cluster.logs.join(format!("history-{seed}.jsonl"));
    let recorder = Arc::new(Recorder::new(path, DISK_MIB << 20, seed)?);
    let ways = ways(cluster);
    let guests = Guests::start(&recorder, &ways, DISK, CLIENTS, PAUSE_MAX, seed);
    thread::sleep(COLD_START.saturating_sub(cluster.time.elapsed()));
    for (number, cycle) in plan.iter().enumerate() {
        live_through(cluster, &recorder, number, cycle)?;
    }
    guests.stop()?;
    cluster.say("the clients have stopped; the whole disk is read through every host");
    read_everywhere(&recorder, &ways, DISK)?;
    conclude(cluster, &recorder, cycles)
}

/// One cycle: rest, full redundancy, a fault, its end.
fn live_through(cluster: &mut Cluster, recorder: &Recorder, number: usize, cycle: &Cycle) -> Outcome<()> {
    thread::sleep(Duration::from_millis(cycle.rest_ms));
    inject::prepare(cluster, cycle, DISK)?;
    let Cycle { what, for_ms, .. } = cycle;
    let lasts = if inject::lasts(what) { *for_ms } else { 0 };
    cluster.say(format!("{}: {what:?} for {lasts} ms", number + 1));
    recorder.note(Event::Fault { what: what.clone(), for_ms: lasts });
    inject::begin(cluster, what, DISK)?;
    thread::sleep(Duration::from_millis(lasts));
    recorder.note(Event::Healed);
    inject::end(cluster, what)?;
    wait_healthy(cluster)?;
    recorder.note(Event::Healthy);
    recorder.violation().map_or(Ok(()), Err)
}

/// Every host says that the disk is healthy, twice with a while between: what one host has just noticed the others learn.
fn wait_healthy(cluster: &Cluster) -> Outcome<()> {
    let begin = Instant::now();
    for _ in 0..2 {
        wait_until("every host sees a healthy disk", HEALTHY_LIMIT, || {
            cluster.hosts().iter().try_for_each(|host| {
                let disk = cluster.disk(host.number, DISK)?;
                check(disk["health"] == "healthy", || format!("{}: {}", host.name(), describe(&disk)))
            })
        })?;
        thread::sleep(Duration::from_millis(300));
    }
    let now = describe(&cluster.disk(1, DISK)?);
    cluster.say(format!("   healthy after {:.1} s: {now}", begin.elapsed().as_secs_f64()));
    Ok(())
}

/// The verdict, from the file; and that it would not have been given to a spoiled history.
fn conclude(cluster: &Cluster, recorder: &Recorder, cycles: usize) -> Outcome<()> {
    let mut lines = history::read(&recorder.path)?;
    let judged = judge(&lines);
    judged.tally.to_string().lines().for_each(|line| cluster.say(line));
    cluster.say(format!("history: {} ({} events)", recorder.path.display(), lines.len()));
    cluster.say(format!("LINEARIZABLE: {cycles} cycles, {} violations", judged.violations.len()));
    check(judged.violations.is_empty(), || judged.violations.join("; "))?;
    check(judged.tally.hung.is_empty(), || format!("requests that hung: {}", judged.tally.hung.join("; ")))?;
    check(put_in_a_stale_read(&mut lines), || "no sector was written often".into())?;
    let objection = judge(&lines).violations.into_iter().next();
    let objection = objection.ok_or("a stale read put into the history was not found")?;
    cluster.say(format!("with one stale read put in: {objection}"));
    Ok(())
}
