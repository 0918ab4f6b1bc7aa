//! Bringing a stale or new component in sync: the regions touched since it left, then the barrier, then active.
//!
//! Promises    Y1  every region touched after `stale_since`, on any survivor or on the target itself, is copied
//!             Y2  a component is activated only when it has every operation issued before, on stable media       (I4)
//!                 (when that is so, and what is proposed then: `cairn-owner`)
//!             Y3  what it is asked after an owner's death, it answers like the copies that were there: a request that they
//!                 carried out without it is not carried out again
//!             Y4  a block that no copy in sync can give keeps nothing else from being copied; when all else is there it is asked for once
//!                 more, and the target takes a mark for it (`marks`). In a cluster with hosts of releases before marks the resync waits for
//!                 it instead, and says so: until the block is written, or a copy that has it is in sync
//!             Y5  what the disk held at its snapshots comes with each piece, before what it holds now (`history`)
//! Source      the two-step activation answers the trap of an undo after a quick rejoin (docs/fault-model.md)
//!
//! A resync that is interrupted (target, source or owner gone) starts over from `stale_since`: which regions were
//! copied is not kept.

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_geometry::Piece;
use cairn_owner::{Activation, Leg, State};
use cairn_pace::{CopyMeter, PIECE_BYTES};
use cairn_types::{
    BLOCK_BYTES, BlockRange, Canary, ComponentId, ComponentOp, Contents, HostId, OpId, REGION_BLOCKS, REGION_BYTES,
    REMEMBERED_MAX, RegionIndex, ReplicaSetIndex, SessionId, Time,
};
use cairn_wire::{Answer, Request};
use futures::{StreamExt, stream};

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Owned,
        command::Queued,
        write::{Body, Lock, OpError},
    },
};

/// How long after a source failed a resync begins again: that failure is to be recorded first.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How soon blocks that no copy could give are looked at again, and how late at the most: each look reads them from every copy.
const UNREADABLE_AGAIN: Duration = Duration::from_millis(500);
const UNREADABLE_AGAIN_MAX: Duration = Duration::from_secs(10);

/// How far a resync has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) host: HostId,
    pub(crate) full: bool,
    pub(crate) session: SessionId,
    pub(crate) bytes_total: u64,
    pub(crate) bytes_done: u64,
    /// Blocks that no copy in sync can give, for which it waits.
    pub(crate) blocks_unreadable: u64,
    /// Blocks that it took marks for.
    pub(crate) blocks_marked: u64,
    pub(crate) started: Time,
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Begins the resync of a component that takes writes already.
    pub(crate) fn start_resync(self: &Rc<Self>, component: ComponentId) {
        let Some(link) = self.state.borrow().link_of(component) else {
            return;
        };
        let Some((_, since)) = self.stage(component, link.target.session) else {
            return;
        };
        let progress = Progress {
            host: link.host,
            full: since == OpId::ZERO,
            session: link.target.session,
            bytes_total: 0,
            bytes_done: 0,
            blocks_unreadable: 0,
            blocks_marked: 0,
            started: self.context.env.now(),
        };
        self.resyncs.borrow_mut().insert(component, progress);
        let owned = self.clone();
        self.context.metered(CopyMeter::begin);
        self.context.env.spawn(async move {
            let done = owned.resync_until_done(component, progress.session).await;
            owned.context.metered(CopyMeter::end);
            let mut resyncs = owned.resyncs.borrow_mut();
            // A newer admission of the same component has its own entry.
            if resyncs.get(&component).is_some_and(|p| p.session == progress.session) {
                let last = resyncs.remove(&component).expect("just seen");
                drop(resyncs);
                if done.is_some() {
                    let (object, name) = (owned.id, owned.config().name.clone());
                    if last.blocks_marked > 0 {
                        let (name, blocks) = (name.clone(), last.blocks_marked);
                        owned.context.tell(ObjectEvent::Marked { object, name, component, blocks });
                    }
                    owned.context.tell(ObjectEvent::Resynced { object, name, component, bytes: last.bytes_done });
                }
            }
        });
    }

    /// Begins again when a source failed and the target did not: nobody else would.
    async fn resync_until_done(self: &Rc<Self>, component: ComponentId, session: SessionId) -> Option<()> {
        loop {
            if self.resync(component, session).await.is_some() {
                return Some(());
            }
            self.stage(component, session)?;
            self.context.env.sleep(RETRY_AFTER).await;
            self.stage(component, session)?;
            self.progress(component, session, |p| {
                (p.bytes_done, p.blocks_unreadable, p.blocks_marked) = (0, 0, 0);
            });
        }
    }

    /// `None`: the component or a source failed, or the owner ended.
    async fn resync(self: &Rc<Self>, component: ComponentId, session: SessionId) -> Option<()> {
        let (set, stale_since) = self.stage(component, session)?;
        // Operations begun before the target took writes are not in the survivors' region tables for certain until
        // they are decided.
        // Fetched apart: a borrow inside the awaited expression would live until it resolves.
        let begun = self.state.borrow().last();
        self.until(component, session, |state| state.is_settled(begun)).await?;
        let regions = self.stale_regions(component, set, stale_since).await?;
        self.progress(component, session, |p| p.bytes_total = regions.len() as u64 * u64::from(REGION_BYTES));
        // A piece of each, as many as the window has room for when it is widest; they wait for their turn in it.
        let window = self.context.options.borrow().resync_bytes_in_flight_max;
        let at_once = (window / PIECE_BYTES).max(1) as usize;
        let mut copies = stream::iter(regions)
            .map(|region| self.copy_region(component, session, set, region))
            .buffer_unordered(at_once);
        let mut unreadable = Vec::new();
        while let Some(copied) = copies.next().await {
            unreadable.extend(copied?);
        }
        drop(copies);
        self.copy_the_rest(component, session, set, unreadable).await?;
        self.activate(component, session).await
    }

    /// Y4: copies what could not be copied, or marks for it.
    async fn copy_the_rest(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        set: ReplicaSetIndex,
        mut unreadable: Vec<BlockRange>,
    ) -> Option<()> {
        let mut told = 0;
        let mut pause = UNREADABLE_AGAIN;
        while let Some(first) = unreadable.first() {
            let blocks = unreadable.iter().map(|range| u64::from(range.count)).sum();
            let marks = self.takes_marks();
            self.progress(component, session, |p| p.blocks_unreadable = if marks { 0 } else { blocks });
            if blocks != told && !marks {
                let (object, name, first_block) = (self.id, self.name(), first.first);
                let event = ObjectEvent::ResyncWaits { object, name, component, set, first_block, blocks };
                self.context.tell(event);
                (told, pause) = (blocks, UNREADABLE_AGAIN);
            }
            self.context.env.sleep(pause).await;
            pause = (pause * 2).min(UNREADABLE_AGAIN_MAX);
            let mut left = Vec::new();
            for range in unreadable {
                left.extend(self.copy_range(component, session, (set, range), marks).await?);
            }
            unreadable = left;
        }
        self.progress(component, session, |p| p.blocks_unreadable = 0);
        self.stage(component, session).map(drop)
    }

    /// The set and the mark of a component that is still in this resync.
    pub(super) fn stage(&self, component: ComponentId, session: SessionId) -> Option<(ReplicaSetIndex, OpId)> {
        self.state.borrow().being_filled(component, session)
    }

    /// Waits for a state. None: the component is not in this resync any more.
    async fn until(&self, component: ComponentId, session: SessionId, ready: impl Fn(&State) -> bool) -> Option<()> {
        self.progressed
            .until(|| {
                if self.stage(component, session).is_none() {
                    return Some(None);
                }
                ready(&self.state.borrow()).then_some(Some(()))
            })
            .await
    }

    /// Y1: the union over all in-sync copies of the set and the target.
    async fn stale_regions(
        &self,
        component: ComponentId,
        set: ReplicaSetIndex,
        after: OpId,
    ) -> Option<BTreeSet<RegionIndex>> {
        let mut legs: Vec<Leg> = self.state.borrow().readable(set);
        legs.push(Leg { component, link: self.state.borrow().link_of(component)? });
        let mut regions = BTreeSet::new();
        for leg in legs {
            let request = Request::Regions { to: leg.link.target, after };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            let Ok((Answer::Regions(touched), _)) = reply else {
                // A survivor that cannot tell may know of regions that nobody else does: it is no survivor then.
                self.state.borrow_mut().fail(leg.component, false);
                self.work.notify();
                return None;
            };
            regions.extend(touched.into_iter().map(|(region, _)| region));
        }
        if Canary::RegionForgotten.sings() {
            regions.pop_first();
        }
        Some(regions)
    }

    /// Copies a region, piece by piece, each with its own place in the host's window. Returns the blocks of it that no copy could give.
    async fn copy_region(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        set: ReplicaSetIndex,
        region: RegionIndex,
    ) -> Option<Vec<BlockRange>> {
        let blocks = self.area_of(set)?.component_blocks(set);
        let first = u64::from(region) * u64::from(REGION_BLOCKS);
        let end = blocks.min(first + u64::from(REGION_BLOCKS));
        let mut at = first;
        let mut unreadable = Vec::new();
        while at < end {
            let between = self.between(component, set, at)?;
            let piece_bytes = ((end - at) * u64::from(BLOCK_BYTES)).min(PIECE_BYTES);
            let place = self.context.admit_copy(piece_bytes, &between).await;
            let range = BlockRange::new(at, (place.bytes / u64::from(BLOCK_BYTES)) as u32);
            unreadable.extend(self.copy_range(component, session, (set, range), false).await?);
            at = range.end();
        }
        self.progress(component, session, |p| p.bytes_done += u64::from(REGION_BYTES));
        self.context.metered(|meter, now| meter.count(now, u64::from(REGION_BYTES)));
        Some(unreadable)
    }

    /// The host that blocks from `at` on come from, and the one that they go to.
    fn between(&self, component: ComponentId, set: ReplicaSetIndex, at: u64) -> Option<[HostId; 2]> {
        let target = self.state.borrow().link_of(component)?.host;
        // Without a source the read says so.
        let source = self.choose(set, at, &[]).map_or(target, |leg| leg.link.host);
        Some([source, target])
    }

    /// Copies some blocks, and returns those that no copy could give. `None`: the component or a source failed, or the owner ended.
    /// `marks`: for those too something is found.
    async fn copy_range(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        (set, range): (ReplicaSetIndex, BlockRange),
        marks: bool,
    ) -> Option<Vec<BlockRange>> {
        if let Some(rows) = self.rows_of(set) {
            return self.copy_rows(rows, (component, session), (set, range), marks).await;
        }
        let mut unreadable: Vec<BlockRange> = Vec::new();
        for object_range in self.area_of(set)?.to_object(set, range) {
            self.not_draining().await.ok()?;
            let lock = Rc::new(self.locks.lock(object_range, true).await);
            self.stage(component, session)?;
            let piece = self.piece_of(set, object_range)?;
            self.bring_history((component, session), (set, piece.range)).await?;
            if self.copy_piece(component, session, piece, &lock).await? {
                continue;
            }
            // Block by block, to leave out only what is bad.
            for n in 0..u64::from(piece.range.count) {
                let range = BlockRange::new(piece.range.first + n, 1);
                let block = Piece { range, object_first: piece.object_first + n, ..piece };
                if self.copy_piece(component, session, block, &lock).await? {
                    continue;
                }
                if marks {
                    self.copy_mark(component, session, block, &lock).await?;
                    continue;
                }
                match unreadable.last_mut() {
                    Some(last) if last.end() == range.first => last.count += 1,
                    _ => unreadable.push(range),
                }
            }
        }
        Some(unreadable)
    }

    /// Copies a piece under its lock. False: no copy could give it.
    async fn copy_piece(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        piece: Piece,
        lock: &Lock,
    ) -> Option<bool> {
        let contents = match self.read_piece(piece, For::Resync, None).await {
            Ok(contents) => contents,
            Err(OpError::Unreadable(lost)) => {
                self.note_unreadable(&lost);
                return Some(false);
            }
            Err(_) => return None,
        };
        self.bring(component, session, (piece.set, piece.range, contents), lock).await.map(|()| true)
    }

    /// Gives the target what stands in these blocks.
    pub(super) async fn bring(
        self: &Rc<Self>,
        component: ComponentId,
        session: SessionId,
        (set, range, contents): (ReplicaSetIndex, BlockRange, Contents),
        lock: &Lock,
    ) -> Option<()> {
        let body = Body::copy(range, contents);
        let bytes = body.data.len() as u64;
        let copy = self.start_copy(component, set, body, lock.clone());
        // The ack of a copy waits for nobody (the target is not required): its end is what counts.
        let op = copy.op;
        let _ = copy.await;
        self.copy_ended(op, component, session).await?;
        self.context.count(|counted| counted.resync_out_bytes += bytes);
        Some(())
    }

    /// Waits until the copy is on the target's stable media, or the target has failed.
    pub(super) async fn copy_ended(&self, op: OpId, component: ComponentId, session: SessionId) -> Option<()> {
        self.until(component, session, |state| !state.is_in_flight(op)).await
    }

    /// Y2: the barrier, then the proposal, which the keeper makes.
    async fn activate(self: &Rc<Self>, component: ComponentId, session: SessionId) -> Option<()> {
        self.stage(component, session)?;
        let barrier = self.state.borrow_mut().begin_barrier(component);
        self.until(component, session, |state| state.is_past(barrier)).await?;
        self.carry_memory(component, session, barrier).await?;
        self.commands.borrow_mut().push(Queued::Activate(component, session));
        self.work.notify();
        self.progressed
            .until(|| {
                let state = self.state.borrow();
                if state.config().member(component).is_some_and(|m| m.state.in_sync()) {
                    return Some(Some(()));
                }
                drop(state);
                self.stage(component, session).is_none().then_some(None)
            })
            .await
    }

    /// Y3: requests that were carried out without the target. Of operations up to the barrier only: those are decided, and
    /// the target has all later ones itself. A request whose operation is undone must not be taken for done.
    async fn carry_memory(self: &Rc<Self>, component: ComponentId, session: SessionId, decided: OpId) -> Option<()> {
        let (set, _) = self.stage(component, session)?;
        let (sources, link) = {
            let state = self.state.borrow();
            (state.readable(set), state.link_of(component)?)
        };
        let mut clients = BTreeSet::new();
        for leg in sources {
            let request = Request::Clients { to: leg.link.target };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            let Ok((Answer::Clients(known), _)) = reply else {
                // What only this source knows would be forgotten.
                self.state.borrow_mut().fail(leg.component, false);
                self.work.notify();
                return None;
            };
            clients.extend(known.into_iter().filter(|(_, op)| *op <= decided).map(|(client, op)| (op, client)));
        }
        let clients: Vec<_> = clients.into_iter().map(|(op, client)| (client, op)).collect();
        for some in clients.chunks(REMEMBERED_MAX) {
            let request = Request::Change { to: link.target, op: ComponentOp::Remember { clients: some.to_vec() } };
            if self.context.request(link.host, link.target.disk_group, request, None).await.is_err() {
                self.state.borrow_mut().fail(component, false);
                self.work.notify();
                return None;
            }
        }
        self.stage(component, session).map(drop)
    }

    /// The keeper's half of the activation.
    pub(crate) async fn propose_active(self: &Rc<Self>, component: ComponentId, session: SessionId) {
        let activation = self.state.borrow().activation(component, session);
        let Some(Activation { next, was_empty }) = activation else {
            return;
        };
        if !self.change(next).await {
            return;
        }
        self.look_for_lost_bytes(component);
        if was_empty {
            self.untold.borrow_mut().insert(component);
            self.tell_untold().await;
        }
    }

    pub(super) fn progress(&self, component: ComponentId, session: SessionId, change: impl FnOnce(&mut Progress)) {
        let mut resyncs = self.resyncs.borrow_mut();
        if let Some(progress) = resyncs.get_mut(&component).filter(|p| p.session == session) {
            change(progress);
        }
    }
}
