//! One run: builds the cluster of a plan, lets the plan happen under load, heals, and checks.
//!
//! Promises    the same plan gives the same outcome, its hash too; a failure carries what is needed to understand it
//! Assumes     one run per thread at a time
//! Source      safety under faults first, then healing and liveness: the VOPR of TigerBeetle

use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Once,
    time::Duration,
};

use cairn_faults::{Event, What};

use crate::{
    cluster::{Cluster, DiskSize, Log},
    guests::Guests,
    inject::{self, FILLER},
    model,
    plan::{Menu, Plan},
    rest::{self, Spoiled},
    shape::Shape,
};

/// How long a healed cluster may take to have every disk at full redundancy.
pub const HEALTHY_WITHIN: Duration = Duration::from_secs(120);

/// Steps of a run, at most: a hundred times what an ordinary one takes.
const STEPS_MAX: u64 = 30_000_000;

/// What is counted of blocks that no copy could give when all was healed.
pub const RESTORED: &str = "blocks restored";

/// What a run without a violation did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Faults injected, by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// Requests of guests.
    pub requests: u64,
    /// Those that their guest gave up.
    pub dropped: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Messages between hosts.
    pub messages: u64,
    /// Messages that a cut held back, some for ever.
    pub messages_stalled: u64,
    /// Messages that never arrived: their connection ended, or their receiver did.
    pub messages_lost: u64,
    /// Requests that reached an owner once more after they had been carried out.
    pub done_before: u64,
    /// Time that passed in the world.
    pub lasted: Duration,
    /// Steps of the world.
    pub steps: u64,
    /// Of every step: equal for equal runs.
    pub hash: u64,
}

impl Outcome {
    /// Adds another run's counts, and its hash: in any order, as threads end when they end.
    pub fn add(&mut self, other: &Self) {
        model::add_counts(&mut self.counts, &other.counts);
        self.requests += other.requests;
        self.dropped += other.dropped;
        self.errors += other.errors;
        self.messages += other.messages;
        self.messages_stalled += other.messages_stalled;
        self.messages_lost += other.messages_lost;
        self.done_before += other.done_before;
        self.lasted += other.lasted;
        self.steps += other.steps;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// A run that broke a promise.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What was broken, in one line where it can be.
    pub what: String,
    /// What happened last.
    pub log: String,
}

thread_local! {
    /// Where this thread panicked last, and why.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics for [`run`] instead of printing them: an assertion of the product is a finding like any other.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = info.payload_as_str().unwrap_or("no text");
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PANIC.with(|panic| panic.borrow_mut().get_or_insert_with(|| format!("panic at {place}: {text}")).len());
        }));
    });
}

/// Runs a plan. `print` tells what happens as it happens.
pub fn run(plan: &Plan, print: bool) -> Result<Outcome, Failure> {
    caught(|log| run_caught(plan, print, log, |_| ()))
}

/// Like [`run`]; `meet` sees the cluster before the guests begin, and must change nothing.
pub fn run_watched(plan: &Plan, meet: impl FnOnce(&Cluster)) -> Result<Outcome, Failure> {
    caught(|log| run_caught(plan, false, log, meet))
}

/// The last log of a run, for whoever catches its failure.
pub(crate) type LastLog = Rc<RefCell<Option<Log>>>;

/// Runs `body`; a panic is a failure like any other.
pub(crate) fn caught<T>(body: impl FnOnce(&LastLog) -> Result<T, String>) -> Result<T, Failure> {
    keep_panics();
    PANIC.with(|panic| panic.take());
    let log = LastLog::default();
    let told = || log.borrow().as_ref().map(Log::text).unwrap_or_default();
    match catch_unwind(AssertUnwindSafe(|| body(&log))) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(what)) => Err(Failure { what, log: told() }),
        Err(_) => {
            let what = PANIC.with(|panic| panic.take()).unwrap_or_else(|| "panic".to_owned());
            Err(Failure { what, log: told() })
        }
    }
}

/// Ends the world however a run ends: tasks of a failed one hold it.
pub(crate) struct End(pub(crate) Cluster);

impl Drop for End {
    fn drop(&mut self) {
        self.0.world.end();
    }
}

fn run_caught(plan: &Plan, print: bool, log: &LastLog, meet: impl FnOnce(&Cluster)) -> Result<Outcome, String> {
    let cluster = Cluster::new(plan.seed, &plan.shape, print);
    let _end = End(cluster.clone());
    meet(&cluster);
    cluster.world.set_steps_max(STEPS_MAX);
    log.replace(Some(cluster.log.clone()));
    cluster.log.add(format!("{:?}, {}", plan.menu, plan.shape));
    let guests: Vec<Guests> = (0..plan.shape.disks.len()).map(|n| Guests::new(&cluster, n)).collect();
    // Where nothing else spoils devices, it is known of each block whether a medium may refuse it.
    let others_spoil = |event: &Event| event.what.spoils() && !matches!(event.what, What::OnlySource { .. });
    let judged = !plan.events.iter().any(others_spoil);
    for (guests, disk) in guests.iter().zip(&plan.shape.disks) {
        guests.media_errors_judged.set(judged);
        guests.start(disk.guests, plan.shape.pause_max_ms);
        guests.start_readers(disk.readers, plan.shape.pause_max_ms);
    }
    let (own, all, its_plan) = (cluster.clone(), guests.clone(), plan.clone());
    let result = cluster.world.block_on(async move {
        inject::inject(&own, &its_plan).await;
        if its_plan.quiet {
            all.iter().for_each(Guests::stop_soon);
        }
        own.heal_everything();
        match its_plan.menu {
            Menu::Beyond => nothing_wrong(&all).await,
            Menu::Damage => come_to_rest(&own, &all, Spoiled::Anything).await,
            _ if own.counts().contains_key(inject::SPOILED) => come_to_rest(&own, &all, Spoiled::Blocks).await,
            _ => come_to_rest(&own, &all, Spoiled::Nothing).await,
        }
    });
    // What a guest saw comes first: the rest may follow from it.
    let seen = guests.iter().flat_map(|g| g.failures.borrow().clone()).chain(cluster.violations()).next();
    if let Some(what) = seen {
        return Err(what);
    }
    result?;
    if let Some(what) = cluster.take_differences().first()
        && plan.menu != Menu::Beyond
    {
        return Err(format!("I5: copies in sync differ: {what}"));
    }
    let repaired = cluster.repairs();
    if !repaired.is_empty() && !plan.events.iter().any(|event| event.what.spoils()) {
        return Err(format!("I7: {}, and no medium was spoiled", repaired[0]));
    }
    let sum = |count: fn(&Guests) -> u64| guests.iter().map(count).sum();
    let traffic = cluster.world.traffic();
    Ok(Outcome {
        messages: traffic.sent,
        messages_stalled: traffic.stalled,
        messages_lost: traffic.sent - traffic.delivered,
        done_before: cluster.done_before(),
        counts: cluster.counts(),
        requests: sum(|g| g.done.get()),
        dropped: sum(|g| g.dropped.get()),
        errors: sum(|g| g.errors.get()),
        lasted: cluster.world.now(),
        steps: cluster.world.steps(),
        hash: cluster.world.trace_hash(),
    })
}

/// After the last fault: healthy in time, every byte right at every host, copies equal, nothing left behind.
pub async fn come_to_rest(cluster: &Cluster, guests: &[Guests], spoiled: Spoiled) -> Result<(), String> {
    cluster.world.sleep(Duration::from_secs(1)).await;
    let disks: Vec<String> = guests.iter().map(|g| g.disk().to_owned()).collect();
    // What was to fill the datastore for a while, and could not be deleted then: a copy that comes back needs room.
    delete_extra(cluster, |disk| disk.starts_with(FILLER)).await?;
    if spoiled == Spoiled::Blocks {
        cluster.wait_for_restorable(&disks, HEALTHY_WITHIN).await?;
        for guests in guests {
            guests.stop().await;
        }
        restore(cluster, guests).await?;
    }
    cluster.wait_healthy(&disks, HEALTHY_WITHIN).await?;
    for guests in guests {
        guests.stop().await;
    }
    delete_extra(cluster, |_| true).await?;
    cluster.wait_healthy(&disks, HEALTHY_WITHIN).await?;
    for (number, guests) in guests.iter().enumerate() {
        know_size(cluster, number).await?;
        guests.verify_everywhere().await?;
    }
    cluster.check_schedules().await?;
    cluster.check_snapshots(spoiled == Spoiled::Nothing).await?;
    cluster.delete_some_snapshots().await?;
    cluster.world.sleep(Duration::from_secs(2)).await;
    rest::check_at_rest(cluster, &disks, spoiled).await
}

/// What was spoiled and no copy can give is written over, or trimmed. A disk without redundancy may have read it from memory so far:
/// of that one all that was spoiled is.
async fn restore(cluster: &Cluster, guests: &[Guests]) -> Result<(), String> {
    for (number, guests) in guests.iter().enumerate() {
        know_size(cluster, number).await?;
        let at = number % cluster.members.len();
        let count = guests.restore(at, cluster.ftt(number) == 0).await?;
        if count > 0 {
            cluster.log.add(format!("{count} blocks of {} are restored", guests.disk()));
            cluster.count_more(RESTORED, count);
        }
    }
    Ok(())
}

/// After faults beyond what the policies survive: what can be read is right. Nothing else is promised.
async fn nothing_wrong(guests: &[Guests]) -> Result<(), String> {
    for guests in guests {
        guests.stop().await;
    }
    for guests in guests {
        guests.verify_what_is_left().await?;
    }
    Ok(())
}

/// Deletes those of the plan's own disks that may be left.
async fn delete_extra(cluster: &Cluster, which: impl Fn(&str) -> bool) -> Result<(), String> {
    let extra: Vec<String> = cluster.extra_disks.borrow().iter().filter(|disk| which(disk)).cloned().collect();
    for disk in extra {
        delete_at_last(cluster, &disk).await?;
    }
    Ok(())
}

/// A disk that may or may not have been made, or deleted, is not there afterwards. A making that was cut in two is finished or
/// undone a minute after it was to end, and deleted then.
async fn delete_at_last(cluster: &Cluster, disk: &str) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..180 {
        match cluster.delete_disk(0, disk).await {
            Ok(()) => return Ok(()),
            Err(error) if error.kind == cairn_api::ApiErrorKind::NotFound => return Ok(()),
            Err(error) => last = error.to_string(),
        }
        cluster.world.sleep(Duration::from_secs(1)).await;
    }
    Err(format!("liveness: {disk} cannot be deleted: {last}"))
}

/// The size is what was acknowledged last, or something larger that was asked for and never answered.
async fn know_size(cluster: &Cluster, number: usize) -> Result<(), String> {
    use cairn_api::LocalManagement as _;
    let name = Shape::disk_name(number);
    let shown = cluster.manage(0, async move |node| node.disk_show(name).await).await;
    let size = shown.map_err(|e| format!("disk {number}: {e}"))?.summary.size_bytes;
    let DiskSize { bytes: acked, asked } = cluster.sizes.borrow()[number].clone();
    if size != acked && (size < acked || !asked.contains(&size)) {
        return Err(format!("P2: disk {number} has {size} bytes; {acked} were acknowledged, {asked:?} asked for"));
    }
    cluster.sizes.borrow_mut()[number].bytes = size;
    Ok(())
}
