//! Bringing a copy that is filled what its disk held at each snapshot.
//!
//! Promises    Y5  before a piece is copied as it is now, the target has it as it was at each snapshot, the oldest first
//!             Y6  what cannot be read there comes as marks: a moment that is lost keeps no copy from being in sync
//! Assumes     the caller holds the piece's lock: nobody changes it, and no snapshot is taken of it. The target has the list of cuts
//! Not here    which pieces (`resync`); what copies keep, and why what either takes for changed is brought (`store`, docs/adr/0041)

use std::rc::Rc;

use cairn_env::Env;
use cairn_owner::Leg;
use cairn_types::{BlockRange, Canary, ComponentId, Contents, ReplicaSetIndex, SessionId, SnapshotId};
use cairn_wire::{Answer, Refusal, Request};

use crate::{
    copies::For,
    local_store::LocalStore,
    owner::{
        Owned,
        write::{OpError, joined},
    },
    view::merged,
};

/// Why a part of history was not brought.
pub(super) enum Broken {
    /// A snapshot went meanwhile: what is left is asked for anew.
    Gone,
    /// The target or a source failed, or the owner ended.
    Failed,
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    fn snapshots(&self) -> Vec<SnapshotId> {
        let config = self.config();
        config.past.iter().flat_map(|past| &past.snapshots).map(|snapshot| snapshot.id).collect()
    }

    /// Y5, of these blocks of a set's components. `None`: the target or a source failed, or the owner ended.
    pub(super) async fn bring_history(
        self: &Rc<Self>,
        (component, session): (ComponentId, SessionId),
        (set, range): (ReplicaSetIndex, BlockRange),
    ) -> Option<()> {
        if Canary::HistoryForgotten.sings() {
            return Some(());
        }
        loop {
            let snapshots = self.snapshots();
            if snapshots.is_empty() {
                return Some(());
            }
            self.stage(component, session)?;
            match self.bring_all((component, set), &snapshots, range).await {
                Ok(()) => return Some(()),
                Err(Broken::Gone) => {}
                Err(Broken::Failed) => return None,
            }
        }
    }

    async fn bring_all(
        self: &Rc<Self>,
        (component, set): (ComponentId, ReplicaSetIndex),
        snapshots: &[SnapshotId],
        range: BlockRange,
    ) -> Result<(), Broken> {
        let link = self.state.borrow().link_of(component).ok_or(Broken::Failed)?;
        let target = Leg { component, link };
        let sources = self.tells_history(set, range);
        if sources.is_empty() {
            return Err(Broken::Failed);
        }
        let mut changed: Vec<Vec<BlockRange>> = vec![Vec::new(); snapshots.len()];
        let own = (!Canary::StaleHistoryKept.sings()).then_some(target);
        for leg in sources.into_iter().chain(own) {
            let request = Request::History { to: leg.link.target, snapshots: snapshots.to_vec(), range };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            let told = match reply {
                Ok((Answer::Changed(told), _)) if told.len() == snapshots.len() => told,
                Ok(_) => return Err(self.history_failed(leg, snapshots, &Refusal::Lost)),
                Err(refusal) => return Err(self.history_failed(leg, snapshots, &refusal)),
            };
            changed.iter_mut().zip(told).for_each(|(changed, told)| changed.extend(told));
        }
        for (snapshot, changed) in snapshots.iter().zip(changed) {
            for run in merged(changed) {
                let contents = self.held_at((component, set), *snapshot, (run, snapshots)).await?;
                let (runs, data) = (contents.runs, joined(contents.data));
                let (to, first_block) = (target.link.target, run.first);
                let request = Request::FillHistory { to, snapshot: *snapshot, first_block, runs };
                let payload = (!data.is_empty()).then_some(data);
                let filled = self.context.request(target.link.host, to.disk_group, request, payload).await;
                filled.map_err(|refusal| self.history_failed(target, snapshots, &refusal))?;
            }
        }
        Ok(())
    }

    /// Who is asked what changed: one copy of a mirror, as each has all of it. Of rows all other members: parity changes with each column, and
    /// a member may be of data in one row, and of parity in the next.
    pub(super) fn tells_history(&self, set: ReplicaSetIndex, range: BlockRange) -> Vec<Leg> {
        match self.rows_of(set) {
            Some(_) => self.state.borrow().readable(set),
            None => self.choose(set, range.first, &[]).into_iter().collect(),
        }
    }

    /// What these blocks of the target held at a snapshot, as a copy in sync has it.
    async fn held_at(
        self: &Rc<Self>,
        (component, set): (ComponentId, ReplicaSetIndex),
        snapshot: SnapshotId,
        (range, snapshots): (BlockRange, &[SnapshotId]),
    ) -> Result<Contents, Broken> {
        if let Some(rows) = self.rows_of(set) {
            let held = self.row_held_at(rows, (component, set), (snapshot, range)).await;
            return held.map_err(|why| self.broken(why, snapshots));
        }
        let mut tried = vec![component];
        let mut bad = None;
        while let Some(leg) = self.choose(set, range.first, &tried) {
            tried.push(leg.component);
            match self.read_leg(leg, range, For::History(snapshot)).await {
                Ok(contents) => return Ok(contents),
                Err(Refusal::BadBlocks(_)) => bad = Some(leg),
                Err(refusal) => return Err(self.history_failed(leg, snapshots, &refusal)),
            }
        }
        let last = bad.ok_or(Broken::Failed)?;
        if range.count > 1 {
            let mut contents = Contents::default();
            for block in range.first..range.end() {
                let one = (BlockRange::new(block, 1), snapshots);
                let one = Box::pin(self.held_at((component, set), snapshot, one)).await?;
                contents.runs.extend(one.runs);
                contents.data.extend(one.data);
            }
            return Ok(contents);
        }
        // Y6
        let marks = self.ask_leg_at(last, snapshot, range, true).await;
        marks.map_err(|refusal| self.history_failed(last, snapshots, &refusal))
    }

    /// Asks a leg for what it held at a snapshot. `marks`: what cannot be read is answered as marks.
    pub(super) async fn ask_leg_at(
        &self,
        leg: Leg,
        snapshot: SnapshotId,
        range: BlockRange,
        marks: bool,
    ) -> Result<Contents, Refusal> {
        let request = Request::ReadAt { to: leg.link.target, snapshot, range, marks };
        self.ask_leg_for(leg, range.count, request).await
    }

    /// Why members of rows did not give history.
    fn broken(&self, why: OpError, asked: &[SnapshotId]) -> Broken {
        debug_assert!(!matches!(why, OpError::Unreadable(_)), "that comes as marks");
        let there = self.snapshots();
        if asked.iter().all(|snapshot| there.contains(snapshot)) { Broken::Failed } else { Broken::Gone }
    }

    /// Why a leg does not tell or take history: snapshots that it was asked for may be gone. Else it counts as away.
    pub(super) fn history_failed(&self, leg: Leg, asked: &[SnapshotId], refusal: &Refusal) -> Broken {
        let there = self.snapshots();
        if asked.iter().any(|snapshot| !there.contains(snapshot)) {
            return Broken::Gone;
        }
        match refusal {
            Refusal::Fenced { promised } => self.finish_owner(super::Ended::Fenced(*promised)),
            _ => {
                self.state.borrow_mut().fail(leg.component, false);
                self.work.notify();
            }
        }
        Broken::Failed
    }
}
