//! Schedules of snapshots: a host begins the runs that are due, where it is its turn, and carries them out.
//!
//! Promises    a disk gets one snapshot in a run, however many hosts carry it out: its owner takes one of a run once
//!             a run whose host dies is taken over by another one; what some disks lack is tried again until the next run is due
//!             no clock decides that is set wrong on less than half of the hosts that answer
//! Assumes     the directory: without it no run begins, and afterwards the newest one that is due does
//! Not here    which run is due, whose turn it is, what is kept (`cairn-schedule`); the cut (`object`)
//!
//! Where there is no schedule it costs a look at the local copy each second.

use std::{collections::BTreeMap, time::Duration};

use cairn_api::{ApiError, ApiErrorKind};
use cairn_directory::{CatalogueEntry, DiskState, names::Name};
use cairn_env::Env;
use cairn_schedule::{ScheduleRecord, Seen, Turn, again_after, matches, middle, to_delete, turn};
use cairn_types::{Canary, Feature, HostId, ObjectConfig, ObjectId, SnapshotId, format_utc, scheduled_name};
use cairn_wire::OwnerCommand;
use futures::stream::{self, StreamExt as _};

use crate::node::Node;

/// How often a host looks: a run begins so much late at most where all is well.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What stands for the run of a schedule whose runs have not begun: none is due at the beginning of 1970.
const NO_RUN: u64 = 0;
/// Disks that are asked at once.
const AT_ONCE: usize = 8;

/// A run that this host carries out.
struct Running<'a> {
    schedule: &'a Name,
    record: &'a ScheduleRecord,
    slot_unix_s: u64,
}

impl<E: Env> Node<E> {
    /// The time of the day, in milliseconds since 1970, as the middle one of all servers that answer has it.
    pub(crate) fn day_unix_ms(&self) -> u64 {
        let ahead_ms = middle(self.clocks_ahead_ms().into_iter().map(|(_, ahead_ms)| ahead_ms));
        self.inner.env.unix_ms().saturating_add_signed(ahead_ms)
    }

    /// Servers that answer, each with how far its clock of the day is ahead of this one's; this one first. All threads of a server have one clock.
    pub(crate) fn clocks_ahead_ms(&self) -> Vec<(HostId, i64)> {
        let env = &self.inner.env;
        let (now, own_unix_ms, own) = (env.now(), env.unix_ms(), self.server_of(self.me()));
        let peers = self.inner.leases.peers();
        let ids = self.servers().into_iter().map(|server| server.id);
        let others = ids.filter(|id| *id != own && self.inner.rpc.is_up(*id));
        let told = others.filter_map(|id| Some((id, peers.get(&id)?.unix_ms(now).wrapping_sub(own_unix_ms) as i64)));
        std::iter::once((own, 0)).chain(told).collect()
    }

    /// Runs schedules for as long as the node lives.
    pub(crate) async fn run_schedules(&self) {
        while !self.inner.stopping.get() {
            self.inner.env.sleep(LOOK_EVERY).await;
            if self.level().has(Feature::Snapshots) {
                self.look_at_schedules();
            }
        }
    }

    fn look_at_schedules(&self) {
        let inner = &self.inner;
        let all = inner.copy.borrow().list::<ScheduleRecord>();
        let now_unix_ms = if all.is_empty() { 0 } else { self.day_unix_ms() };
        let wanted = |record: &ScheduleRecord| if record.is_new() { Some(NO_RUN) } else { record.due(now_unix_ms) };
        let due: BTreeMap<Name, (u64, ScheduleRecord)> =
            all.into_iter().filter_map(|(name, record)| Some((name, (wanted(&record)?, record)))).collect();
        inner.schedules.keep_due(|name| due.contains_key(name));
        if due.is_empty() || !self.may_run_schedules() {
            return;
        }
        let is_first = self.looks_for_all();
        for (name, (slot, record)) in due {
            let now = inner.env.now();
            let Some(watched) = inner.schedules.see(&name, (slot, &record), now) else { continue };
            let seen =
                Seen { due_for: now.since(watched.due_since), same_for: now.since(watched.same_since), is_first };
            let left = match turn(&record, slot, self.me(), seen) {
                Turn::Waits => continue,
                Turn::Begins => None,
                Turn::TakesOver(attempt) => Some(attempt),
            };
            inner.schedules.change(&name, |watched| watched.works = true);
            let node = self.clone();
            inner.env.spawn(async move {
                match slot {
                    NO_RUN => node.begin_schedule(&name).await,
                    slot => node.run_schedule(&name, slot, left).await,
                }
                let now = node.inner.env.now();
                node.inner.schedules.change(&name, |watched| {
                    let again_at = now + again_after(watched.tries);
                    (watched.works, watched.tries, watched.again_at) = (false, watched.tries + 1, again_at);
                });
            });
        }
    }

    /// Whether more than half of the servers answer: with fewer a clock that is wrong might be the middle one.
    pub(crate) fn knows_the_day(&self) -> bool {
        let servers = self.servers();
        let up =
            servers.iter().filter(|server| server.id == self.server_of(self.me()) || self.inner.rpc.is_up(server.id));
        2 * up.count() > servers.len()
    }

    fn may_run_schedules(&self) -> bool {
        self.inner.directory_up.get() && self.why_dismissed().is_none() && self.knows_the_day()
    }

    /// A schedule that is new, or has other times: its runs begin with the next one, by a clock that is right.
    async fn begin_schedule(&self, name: &Name) {
        let now_unix_ms = self.day_unix_ms();
        let update = self.inner.registry.update::<ScheduleRecord>(name, |known| {
            Ok(known.filter(|known| known.is_new()).map(|known| known.begins(now_unix_ms)))
        });
        // Once more with a later look, when the directory is away.
        let _ = update.await;
    }

    /// Begins a run, where nobody was first, and is at all its disks once.
    async fn run_schedule(&self, name: &Name, slot_unix_s: u64, left: Option<u32>) {
        let (inner, me, now_unix_ms) = (&self.inner, self.me(), self.day_unix_ms());
        let mut begins = false;
        let begun = inner.registry.update::<ScheduleRecord>(name, |known| {
            let next = known.and_then(|known| known.begun(slot_unix_s, me, now_unix_ms, left));
            begins = next.is_some();
            Ok(next.filter(|next| Some(next) != known))
        });
        // Where the directory is away, or the answer was lost, the next look tells whose it is.
        let Ok(Some(record)) = begun.await else { return };
        if !begins {
            return;
        }
        self.tell_missed(name, &record, now_unix_ms);
        let running = Running { schedule: name, record: &record, slot_unix_s };
        let tried = stream::iter(self.disks_of(&record)).map(|disk| self.snapshot_of_run(&running, disk));
        let results: Vec<Result<(), String>> = tried.buffered(AT_ONCE).collect().await;
        let problems: Vec<String> = results.iter().filter_map(|result| result.clone().err()).collect();
        let (done, now_unix_ms) = ((results.len() - problems.len()) as u32, self.day_unix_ms());
        if let Some(first) = problems.first() {
            let due = format_utc(slot_unix_s * 1000);
            let count = problems.len();
            inner.outside.warn(format!("schedule {name}: {count} disks lack the snapshot of {due}: {first}"));
        }
        let ended = inner.registry.update::<ScheduleRecord>(name, |known| {
            Ok(known.and_then(|known| known.tried(slot_unix_s, me, now_unix_ms, (done, &problems))))
        });
        // Once more with a later look, when the directory is away: then no disk has anything to do.
        let _ = ended.await;
    }

    fn tell_missed(&self, name: &Name, record: &ScheduleRecord, now_unix_ms: u64) {
        if let Some(missed) = record.missed.as_ref().filter(|missed| missed.noted_unix_ms == now_unix_ms) {
            let first = format_utc(missed.first_unix_s * 1000);
            let text = format!("schedule {name}: {} runs came to no end, the first of {first}", missed.runs);
            self.inner.outside.warn(text);
        }
    }

    /// The disks that a schedule matches now, by name.
    pub(crate) fn disks_of(&self, record: &ScheduleRecord) -> Vec<(ObjectId, CatalogueEntry)> {
        let mut all = self.catalogue();
        let is_named = |name: &str| record.schedule.disks.iter().any(|pattern| matches(pattern, name));
        all.retain(|(_, entry)| entry.state == DiskState::Ready && is_named(entry.name.as_str()));
        all
    }

    /// A disk has the snapshot of a run, and those that are not kept go.
    ///
    /// # Errors
    /// It has not: the disk, and why.
    async fn snapshot_of_run(
        &self,
        running: &Running<'_>,
        (object, entry): (ObjectId, CatalogueEntry),
    ) -> Result<(), String> {
        let Running { schedule, record, slot_unix_s } = *running;
        let moment = if Canary::ScheduleRunsTwice.sings() { self.day_unix_ms() / 1000 } else { slot_unix_s };
        let command = OwnerCommand::TakeSnapshot {
            id: SnapshotId(self.inner.env.random_u64()),
            name: scheduled_name(schedule.as_str(), moment),
            created_unix_ms: self.day_unix_ms(),
            held: None,
            locked_for_ms: record.schedule.locked_for_s * 1000,
            slot_unix_s: Some(slot_unix_s),
        };
        let taken = self.to_owner(object, &entry.hint_hosts, command).await;
        let config = match &taken {
            Ok(status) => Some(status.config.clone()),
            // A disk that is full: what is not kept makes room, and the next try finds it.
            Err(ApiError { kind: ApiErrorKind::Refused, .. }) => self.config_of(object, &entry).await.ok(),
            Err(_) => None,
        };
        if let Some(config) = config {
            self.delete_not_kept(running, (object, &entry), &config).await;
        }
        taken.map(drop).map_err(|error| format!("{}: {}", entry.name.as_str(), error.message))
    }

    /// What is refused or fails stays until the next run.
    async fn delete_not_kept(
        &self,
        running: &Running<'_>,
        (object, entry): (ObjectId, &CatalogueEntry),
        config: &ObjectConfig,
    ) {
        let Some(past) = &config.past else { return };
        let (schedule, keep) = (running.schedule.as_str(), &running.record.schedule.keep);
        for id in to_delete(&past.snapshots, schedule, keep, self.day_unix_ms()) {
            let deleted = self.to_owner(object, &entry.hint_hosts, OwnerCommand::DeleteSnapshot { id }).await;
            if let Err(error) = deleted {
                let (disk, why) = (entry.name.as_str(), error.message);
                let text = format!("schedule {schedule}: a snapshot of disk {disk} that is not kept stays: {why}");
                self.inner.outside.warn(text);
                return;
            }
        }
    }
}
