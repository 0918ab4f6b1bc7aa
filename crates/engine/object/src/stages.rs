//! Where the time of a guest's request goes: how long each stage took, per disk, at this host.
//!
//! Promises    recording takes one clock reading at the end of a stage and plain memory of the thread: no lock, no
//!             atomic, and memory only for a disk's first request of a kind
//!             the stages of a request follow one another: admission, lock, edges, copies and lease add up to what the owner
//!             needed for it; copies overlap, and which of them was waited for last is noted
//! Assumes     a clock of this host only: what another host needed for its part is in that host's own numbers
//! Not here    the log and the devices (`store`); what is shown (`node`, the management API)
//!
//! Trims, writes of zeroes and region copies have no stages: they would blur those of reads and writes.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use cairn_env::Env;
use cairn_measure::Latencies;
use cairn_types::{DiskGroupId, HostId, ObjectId, Time};

/// What the guest asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A part of a request's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The whole request at the guest's host: from the front end to the front end. Those that failed are left out.
    Request,
    /// Of that, tries before the one that was answered: no owner, or one that was lost. Only requests that had any.
    OwnerWait,
    /// To the owner on another host and back.
    Forward,
    /// At the owner: the whole of a request that another host forwarded.
    Served,
    /// At the owner: the IOPS limit, and bytes in flight.
    Admission,
    /// At the owner: requests for the same blocks.
    Lock,
    /// At the owner: reading the rest of the first and last block of an unaligned write. Only those.
    Edges,
    /// At the owner: from the first message until all copies that count have it, or the data is there.
    Copies,
    /// At the owner, part of that: from the first copy's answer to the last one's, where there are two or more.
    SlowerCopy,
    /// At the owner, part of that: a copy failed and is recorded absent. Only those.
    Recording,
    /// At the owner: leases that have to be renewed before an answer. Only those.
    Lease,
}

/// How many stages there are.
const STAGES: usize = Stage::Lease as usize + 1;

/// One copy that was written to or read from, as the owner sees it: sent to answered.
#[derive(Debug, Clone)]
pub struct CopyLatencies {
    /// Written or read.
    pub kind: IoKind,
    /// The host that has it.
    pub host: HostId,
    /// The disk group.
    pub disk_group: DiskGroupId,
    /// How long it took.
    pub latencies: Latencies,
    /// Nanoseconds of those among them that a request waited for, the others having come before.
    pub last_ns: u64,
}

/// Of one disk at this host.
#[derive(Debug, Clone, Default)]
pub struct DiskLatencies {
    by_stage: [[Option<Box<Latencies>>; STAGES]; 2],
    copies: Vec<CopyLatencies>,
}

impl DiskLatencies {
    /// Those of one stage, if it was ever gone through.
    pub fn of(&self, kind: IoKind, stage: Stage) -> Option<&Latencies> {
        self.by_stage[kind as usize][stage as usize].as_deref()
    }

    /// Those of the copies, in no order.
    pub fn copies(&self) -> &[CopyLatencies] {
        &self.copies
    }

    fn record(&mut self, kind: IoKind, stage: Stage, from: Time, to: Time) {
        let latencies = self.by_stage[kind as usize][stage as usize].get_or_insert_default();
        latencies.record(to.0.saturating_sub(from.0));
    }

    fn copy(&mut self, kind: IoKind, (host, disk_group): (HostId, DiskGroupId)) -> &mut CopyLatencies {
        let found = self.copies.iter().position(|c| c.kind == kind && c.host == host && c.disk_group == disk_group);
        let at = found.unwrap_or_else(|| {
            self.copies.push(CopyLatencies { kind, host, disk_group, latencies: Latencies::default(), last_ns: 0 });
            self.copies.len() - 1
        });
        &mut self.copies[at]
    }
}

/// The same, shared by whoever records at this host.
pub(crate) type Stages = RefCell<DiskLatencies>;

/// Where a handle keeps them: a pointer until the first request.
pub(crate) type StagesCell = OnceCell<Rc<Stages>>;

/// All disks of a host that had a request.
#[derive(Default)]
pub(crate) struct AllStages(RefCell<BTreeMap<ObjectId, Rc<Stages>>>);

/// When the tries of one request were.
#[derive(Clone, Copy)]
pub(crate) struct Tries {
    /// The first began.
    pub(crate) began: Time,
    /// The last began.
    pub(crate) last: Time,
    /// There was one before that was answered by nobody.
    pub(crate) retry: bool,
    /// The last went to the owner's host, which is another one.
    pub(crate) forwarded: bool,
}

/// One request at the owner, from stage to stage.
pub(crate) struct Watch<E> {
    env: E,
    stages: Rc<Stages>,
    kind: IoKind,
    at: Time,
}

impl<E: Env> Watch<E> {
    /// A stage ended now, and the next begins.
    pub(crate) fn mark(&mut self, stage: Stage) {
        let now = self.env.now();
        self.stages.borrow_mut().record(self.kind, stage, self.at, now);
        self.at = now;
    }

    /// A copy that was asked at the end of the last stage has been read, or not.
    pub(crate) fn copy_was_read(&self, at: (HostId, DiskGroupId)) {
        let took = self.env.now().0.saturating_sub(self.at.0);
        self.stages.borrow_mut().copy(self.kind, at).latencies.record(took);
    }

    /// Copies are asked at the end of the last stage.
    pub(crate) fn copies(&self) -> CopyWatch<E> {
        let (env, stages) = (self.env.clone(), self.stages.clone());
        CopyWatch { env, stages, kind: self.kind, sent: self.at, first: None, last: None }
    }
}

/// Ends a stage of a request that is watched.
pub(crate) fn mark<E: Env>(watch: &mut Option<Watch<E>>, stage: Stage) {
    if let Some(watch) = watch {
        watch.mark(stage);
    }
}

/// The copies of one operation: who answered when.
pub(crate) struct CopyWatch<E> {
    env: E,
    stages: Rc<Stages>,
    kind: IoKind,
    sent: Time,
    first: Option<Time>,
    last: Option<(Time, (HostId, DiskGroupId))>,
}

impl<E: Env> CopyWatch<E> {
    /// This one answered. `counts`: somebody waits for it.
    pub(crate) fn answered(&mut self, at: (HostId, DiskGroupId), counts: bool) {
        let now = self.env.now();
        let took = now.0.saturating_sub(self.sent.0);
        self.stages.borrow_mut().copy(self.kind, at).latencies.record(took);
        if counts {
            self.first.get_or_insert(now);
            self.last = Some((now, at));
        }
    }

    /// All that count have answered.
    pub(crate) fn all_answered(&self) {
        let (Some(first), Some((last, at))) = (self.first, self.last) else { return };
        let mut stages = self.stages.borrow_mut();
        stages.copy(self.kind, at).last_ns += last.0.saturating_sub(self.sent.0);
        if last > first {
            stages.record(self.kind, Stage::SlowerCopy, first, last);
        }
    }

    /// Those that failed are recorded absent.
    pub(crate) fn recorded(&self) {
        if let Some((last, _)) = self.last {
            self.stages.borrow_mut().record(self.kind, Stage::Recording, last, self.env.now());
        }
    }
}

impl AllStages {
    /// Those of a disk; the handle remembers them from the first request on.
    fn of<'a>(&self, object: ObjectId, cell: &'a StagesCell) -> &'a Rc<Stages> {
        cell.get_or_init(|| self.0.borrow_mut().entry(object).or_default().clone())
    }

    /// Watches a request at the owner that came at `began`.
    pub(crate) fn watch<E: Env>(
        &self,
        env: &E,
        (object, cell): (ObjectId, &StagesCell),
        kind: IoKind,
        began: Time,
    ) -> Watch<E> {
        Watch { env: env.clone(), stages: self.of(object, cell).clone(), kind, at: began }
    }

    /// A request that another host forwarded is answered at `now`.
    pub(crate) fn served(&self, (object, cell): (ObjectId, &StagesCell), kind: IoKind, began: Time, now: Time) {
        self.of(object, cell).borrow_mut().record(kind, Stage::Served, began, now);
    }

    /// A request of this host's guest was answered at `now`.
    pub(crate) fn answered(&self, (object, cell): (ObjectId, &StagesCell), kind: IoKind, tries: Tries, now: Time) {
        let mut stages = self.of(object, cell).borrow_mut();
        stages.record(kind, Stage::Request, tries.began, now);
        if tries.last > tries.began {
            stages.record(kind, Stage::OwnerWait, tries.began, tries.last);
        }
        if tries.forwarded {
            stages.record(kind, Stage::Forward, tries.last, now);
        }
    }

    /// The disks that had any.
    pub(crate) fn objects(&self) -> Vec<ObjectId> {
        self.0.borrow().keys().copied().collect()
    }

    /// The disk is deleted.
    pub(crate) fn forget(&self, object: ObjectId) {
        self.0.borrow_mut().remove(&object);
    }

    /// A copy of them all; of one disk where it is named.
    pub(crate) fn latencies(&self, only: Option<ObjectId>) -> Vec<(ObjectId, DiskLatencies)> {
        let all = self.0.borrow();
        let meant = all.iter().filter(|(object, _)| only.is_none_or(|only| only == **object));
        meant.map(|(object, stages)| (*object, stages.borrow().clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latencies: &DiskLatencies, kind: IoKind) -> Vec<(Stage, u64, u64)> {
        let stages = [Stage::Request, Stage::OwnerWait, Stage::Forward, Stage::SlowerCopy, Stage::Lease];
        let told = stages.into_iter().filter_map(|stage| Some((stage, latencies.of(kind, stage)?)));
        told.map(|(stage, l)| (stage, l.count(), l.sum_ns())).collect()
    }

    #[test]
    fn reads_writes_stages_and_copies_are_kept_apart() {
        let mut all = DiskLatencies::default();
        all.record(IoKind::Read, Stage::Request, Time(5), Time(9));
        all.record(IoKind::Write, Stage::Request, Time(5), Time(10));
        all.record(IoKind::Write, Stage::Lease, Time(5), Time(5));
        // A clock that went back is no reason to end.
        all.record(IoKind::Write, Stage::Lease, Time(5), Time(4));
        assert_eq!(counts(&all, IoKind::Read), [(Stage::Request, 1, 4)]);
        assert_eq!(counts(&all, IoKind::Write), [(Stage::Request, 1, 5), (Stage::Lease, 2, 0)]);
        let place = |n| (HostId(n), DiskGroupId(7));
        all.copy(IoKind::Read, place(1)).latencies.record(1);
        all.copy(IoKind::Write, place(1)).latencies.record(2);
        all.copy(IoKind::Write, place(2)).latencies.record(3);
        all.copy(IoKind::Write, place(1)).latencies.record(4);
        let told: Vec<_> = all.copies().iter().map(|c| (c.kind, c.host, c.latencies.sum_ns())).collect();
        assert_eq!(told, [(IoKind::Read, HostId(1), 1), (IoKind::Write, HostId(1), 6), (IoKind::Write, HostId(2), 3)]);
    }

    #[test]
    fn a_disk_at_rest_takes_a_pointer() {
        assert_eq!(size_of::<StagesCell>(), size_of::<usize>());
    }
}
