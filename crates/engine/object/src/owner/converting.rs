//! A part of the disk goes over to another layout while guests read and write: its new sets are filled beside the old ones and take their
//! place in one change of the record.
//!
//! Promises    V1  guests' data are where the spans say; what is on its way serves nothing, whoever owns the object                (I11)
//!             V2  what is acknowledged is at the new sets before they serve: a piece is filled under its lock, and every change of a filled
//!                 piece is repeated there before its own lock goes; its guest has the answer meanwhile
//!             V3  nothing of that part is under way when the new sets take its place, and they know what was carried out
//!             V4  a member that fails, a change that cannot be repeated, an owner that ends: what was begun is dropped, and begun again later
//!             V5  members prove to each other that they have what they were filled with
//! Assumes     one part of a disk at a time; it is a chunk of the old layout, so its sets hold nothing else
//! Not here    where the new members go (`placement`), which change is legal (`votes`)
//! Source      the design of spans: docs/adr/0040
//!
//! Between the new sets and the old ones nothing has to be agreed on: never do both serve. So a repeated change needs no number of its request.
//! A crash leaves either the old sets, which have everything, or the new ones, which had everything before they served.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, Rows};
use cairn_owner::{Admitted, Leg};
use cairn_pace::PIECE_BYTES;
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Canary, ClientTag, ComponentOp, Feature, HostId, Member, Moving, ObjectConfig,
    OpId, REMEMBERED_MAX, ReplicaSetIndex, Time,
};
use cairn_wire::{Answer, OP_BYTES_MAX, Request, block_crc};
use futures::{
    channel::oneshot,
    future::{Either, join_all, select},
    stream::{self, StreamExt as _},
};

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Origin, Owned,
        guest::zeroes,
        rows::{Changed, Locked},
        write::{Body, Lock, OpError, joined},
    },
    placer::{Converted, NextMove},
    window::Window,
};

/// How long the last change waits for guests' requests to end, and new ones with it; then it is tried again later.
const SWAP_WAITS: Duration = Duration::from_millis(500);
/// Bytes that are repeated at once while no guest waits for that: some milliseconds of a busy disk. Beyond them, guests wait.
const REPEATED_UNWAITED_MAX: u64 = 4 << 20;
/// How long after one failed it is begun again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How something comes to sets that serve nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum Onto {
    /// Onto what was filled: what a guest changed is repeated.
    Filled,
    /// Onto nothing: as copies come, and zeroes stay holes.
    Nothing,
    /// Onto the same, as guests' writes come: copies are no proof of what a member took (ADR 19), and writes are.
    Same,
}

/// What is on its way.
pub(super) struct Converting {
    moving: Moving,
    /// Blocks of a piece: whole rows of the new layout.
    piece_blocks: u64,
    /// By number of the piece. It counts under its lock only.
    filled: RefCell<Vec<bool>>,
    pieces_filled: Cell<u64>,
    failed: Cell<bool>,
    /// Changes whose guests have their answer, and which are repeated now.
    unwaited: Rc<Window>,
    /// All is filled, and what was carried out before is known there.
    ready: Cell<bool>,
    pub(super) started: Time,
}

impl Converting {
    fn new(moving: Moving, now: Time) -> Self {
        let least = PIECE_BYTES / u64::from(BLOCK_BYTES);
        let rows = Rows::of(moving.to.layout.redundancy);
        let piece_blocks = rows.map_or(least, |rows| least.next_multiple_of(rows.row_blocks()));
        let pieces = (moving.end_block - moving.to.first_block).div_ceil(piece_blocks);
        Self {
            moving,
            piece_blocks,
            filled: RefCell::new(vec![false; pieces as usize]),
            pieces_filled: Cell::new(0),
            failed: Cell::new(false),
            unwaited: Rc::default(),
            ready: Cell::new(false),
            started: now,
        }
    }

    /// Its new addresses.
    pub(super) fn area(&self) -> Area {
        Area::new(self.moving.to, self.moving.end_block)
    }

    /// So much of something that all of it has, as it has pieces that are not filled.
    pub(super) fn left_of(&self, all: u64) -> u64 {
        let pieces = (self.filled.borrow().len() as u64).max(1);
        (u128::from(all) * u128::from(pieces - self.pieces_filled.get()) / u128::from(pieces)) as u64
    }

    fn blocks(&self) -> BlockRange {
        let first = self.moving.to.first_block;
        BlockRange::new(first, (self.moving.end_block - first) as u32)
    }

    fn piece(&self, number: u64) -> BlockRange {
        let first = self.moving.to.first_block + number * self.piece_blocks;
        BlockRange::new(first, self.piece_blocks.min(self.moving.end_block - first) as u32)
    }

    /// As little of a set as is written there at once: a block, or a row. None: so short a part has nothing on this stripe.
    fn least_of(&self, set: ReplicaSetIndex) -> Option<BlockRange> {
        let area = self.area();
        let blocks = match area.rows() {
            Some(rows) => area.rows_in_object(set, BlockRange::new(0, rows.strip_blocks() as u32))[0].1,
            None => area.to_object(set, BlockRange::new(0, 1))[0],
        };
        self.blocks().intersection(blocks)
    }

    /// The filled pieces that some of these blocks are in, as far as they are: neighbours together.
    fn filled_of(&self, blocks: BlockRange) -> Vec<BlockRange> {
        let Some(within) = self.blocks().intersection(blocks) else { return Vec::new() };
        let filled = self.filled.borrow();
        let number = |block: u64| (block - self.moving.to.first_block) / self.piece_blocks;
        let mut found: Vec<BlockRange> = Vec::new();
        for n in (number(within.first)..=number(within.end() - 1)).filter(|n| filled[*n as usize]) {
            let part = self.piece(n).intersection(within).expect("a piece of these blocks");
            match found.last_mut() {
                Some(last) if last.end() == part.first => last.count += part.count,
                _ => found.push(part),
            }
        }
        found
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// What is on its way and has not failed.
    pub(super) fn converting(&self) -> Option<Rc<Converting>> {
        self.converting.borrow().clone().filter(|converting| !converting.failed.get())
    }

    /// V4: what is on its way cannot be ended as it is.
    pub(super) fn conversion_failed(&self) {
        if let Some(converting) = &*self.converting.borrow() {
            converting.failed.set(true);
            self.work.notify();
        }
    }

    /// Drops what is on its way, where it was begun by another owner, has failed, or is asked for no more.
    pub(super) async fn give_up_conversion(self: &Rc<Self>) {
        let config = self.config();
        let Some(moving) = config.addresses.moving() else { return };
        let Some(placer) = self.context.placer.borrow().clone() else { return };
        let ours = self.converting().is_some_and(|converting| converting.moving == *moving);
        if ours && placer.is_whole(&config) && config.policy.fits(&moving.to.layout) {
            return;
        }
        self.conversion_failed();
        self.not_before.set(self.context.env.now() + AGAIN_AFTER);
        let Some(Converted { change, addresses }) = placer.give_up_conversion(&config) else { return };
        if self.change_members(change, (addresses, config.size_bytes)).await.is_ok() {
            *self.converting.borrow_mut() = None;
            self.tell_conversion(moving, "given up");
        }
    }

    /// The next step: one part of the disk begins, or takes its place.
    pub(super) async fn go_on_converting(self: &Rc<Self>) {
        if self.state.borrow().ended().is_some() || self.state.borrow().has_failures() {
            return;
        }
        let Some(placer) = self.context.placer.borrow().clone() else { return };
        let config = self.config();
        if let Some(converting) = self.converting() {
            if converting.ready.get() {
                self.swap(&converting).await;
            }
            return;
        }
        let unfit = config.addresses.spans().iter().find(|span| !config.policy.fits(&span.layout));
        let Some(unfit) = unfit else { return self.conversion_waits.set(false) };
        self.conversion_waits.set(true);
        let now = self.context.env.now();
        let again = if unfit.was.is_some() { self.may_go_over_again(unfit.first_block) } else { Time(0) };
        let whole = config.members.iter().all(|m| m.state.in_sync()) && config.twins().is_empty();
        let may_begin = self.context.level.get().has(Feature::Conversion)
            && config.addresses.moving().is_none()
            && config.past.as_ref().is_none_or(|past| past.snapshots.is_empty())
            && whole
            && now >= again.max(self.not_before.get())
            && placer.next_move(&config, &self.asked_to_move.borrow(), false) == NextMove::Nothing;
        if !may_begin || !self.has_turn() {
            return;
        }
        let Ok(Some(Converted { change, addresses })) = placer.begin_conversion(&config) else {
            // No room, or too few hosts: it is looked again, ever less often.
            return self.not_before.set(now + AGAIN_AFTER);
        };
        let moving = *addresses.moving().expect("it begins");
        let converting = Rc::new(Converting::new(moving, now));
        // Before the change is in force: from then on it is ours.
        *self.converting.borrow_mut() = Some(converting.clone());
        if self.change_members(change, (addresses, config.size_bytes)).await.is_err() {
            *self.converting.borrow_mut() = None;
            self.not_before.set(now + AGAIN_AFTER);
            return;
        }
        self.tell_conversion(&moving, "begun");
        let owned = self.clone();
        self.context.env.spawn(async move { owned.fill(converting).await });
    }

    /// When a part that went over may do so again: requests of the time before are repeated no more then.
    fn may_go_over_again(&self, first_block: u64) -> Time {
        let went_over = self.went_over.borrow().get(&first_block).copied().unwrap_or(self.began);
        went_over + self.context.options.borrow().repeated_within
    }

    fn tell_conversion(&self, moving: &Moving, now: &str) {
        let blocks = moving.end_block - moving.to.first_block;
        let (object, name) = (self.id, self.name());
        self.context.tell(ObjectEvent::Converted { object, name, blocks, now: now.into() });
    }

    /// Whether it is the one that is on its way, as the record in force says.
    fn is_on_its_way(&self, converting: &Rc<Converting>) -> bool {
        let same = self.converting().is_some_and(|now| Rc::ptr_eq(&now, converting));
        let state = self.state.borrow();
        same && state.ended().is_none() && state.config().addresses.moving() == Some(&converting.moving)
    }

    /// Fills all pieces, as many at a time as the window has room for.
    async fn fill(self: &Rc<Self>, converting: Rc<Converting>) {
        self.context.metered(cairn_pace::CopyMeter::begin);
        let window = self.context.options.borrow().resync_bytes_in_flight_max;
        let at_once = (window / PIECE_BYTES).max(1) as usize;
        let pieces = converting.filled.borrow().len() as u64;
        let mut fills = stream::iter(0..pieces).map(|n| self.fill_in_turn(&converting, n)).buffer_unordered(at_once);
        let mut whole = true;
        while let Some(filled) = fills.next().await {
            whole &= filled.is_some();
            if !whole {
                break;
            }
        }
        drop(fills);
        let whole = whole && self.prove(&converting).await.is_some();
        // Most of it now, so that guests wait for the rest only.
        let decided = self.state.borrow().settled();
        let whole = whole && self.carry_outcomes(&converting, Some(decided)).await.is_some();
        self.context.metered(cairn_pace::CopyMeter::end);
        if !self.is_on_its_way(&converting) {
            return;
        }
        match whole {
            true => converting.ready.set(true),
            false => converting.failed.set(true),
        }
        self.work.notify();
    }

    async fn fill_in_turn(self: &Rc<Self>, converting: &Rc<Converting>, number: u64) -> Option<()> {
        let piece = converting.piece(number);
        let hosts: BTreeSet<HostId> = [self.area_at(piece.first), converting.area()]
            .into_iter()
            .flat_map(|area| self.hosts_at(area, piece.first))
            .collect();
        let hosts: Vec<HostId> = hosts.into_iter().collect();
        let _place = self.context.admit_copy(piece.bytes(), &hosts).await;
        self.fill_piece(converting, number).await.ok()
    }

    /// Whom a piece that begins there is read from, or written to.
    fn hosts_at(&self, area: Area, block: u64) -> Vec<HostId> {
        let set = area.split(BlockRange::new(block, 1)).next().expect("a block is in a piece").set;
        let all = self.state.borrow().readable(set);
        let reads_one = area.rows().is_none() && cairn_geometry::serves(self.state.borrow().config(), set);
        let count = if reads_one { 1 } else { all.len() };
        all.iter().take(count).map(|leg| leg.link.host).collect()
    }

    /// V2: reads a piece where it is, and writes it where it will be, under one lock.
    async fn fill_piece(self: &Rc<Self>, converting: &Rc<Converting>, number: u64) -> Result<(), OpError> {
        let piece = converting.piece(number);
        let lock = self.bring_apart(converting, piece, Onto::Nothing).await?;
        converting.filled.borrow_mut()[number as usize] = true;
        drop(lock);
        converting.pieces_filled.set(converting.pieces_filled.get() + 1);
        self.context.metered(|meter, now| meter.count(now, piece.bytes()));
        self.context.count(|counted| counted.resync_out_bytes += piece.bytes());
        Ok(())
    }

    /// Reads blocks where they are, and writes them where they will be: whole rows there. Their lock, under which both was done.
    async fn bring_apart(
        self: &Rc<Self>,
        converting: &Rc<Converting>,
        blocks: BlockRange,
        onto: Onto,
    ) -> Result<Lock, OpError> {
        self.not_draining().await?;
        let around = self.around(blocks, Locked::Rows);
        let lock = Rc::new(self.locks.lock(around, true).await);
        if !self.is_on_its_way(converting) {
            return Err(OpError::Elsewhere);
        }
        let parts = self.read_blocks(blocks, (Locked::Rows, For::Resync), None).await?;
        let changed = Changed::Bytes { offset: blocks.first * u64::from(BLOCK_BYTES), data: joined(parts) };
        self.write_apart(converting, (blocks, &changed), &lock, onto).await?;
        Ok(lock)
    }

    /// From here on each member proves to the others that it has what was copied: something of each new set is written once more. Twice, as a write
    /// proves what is settled when it comes. A member that goes back to a time before lacks it, and is filled anew.
    async fn prove(self: &Rc<Self>, converting: &Rc<Converting>) -> Option<()> {
        if Canary::CopiesProveNothing.sings() {
            return Some(());
        }
        for _ in 0..2 {
            for blocks in converting.area().sets().filter_map(|set| converting.least_of(set)) {
                self.bring_apart(converting, blocks, Onto::Same).await.ok()?;
            }
            let last = self.state.borrow().last();
            let decided = || match self.is_on_its_way(converting) {
                true => (self.state.borrow().settled() >= last).then_some(Some(())),
                false => Some(None),
            };
            self.progressed.until(decided).await?;
        }
        Some(())
    }

    /// V2: repeats what stands in these blocks now, as far as they are filled. Their lock is held until then. What may be acknowledged does not
    /// wait for it: if this owner ends before, what is on its way is dropped. But guests wait where very much is being repeated already.
    pub(super) async fn shadow(self: &Rc<Self>, blocks: BlockRange, changed: &Changed, lock: &Lock) {
        let Some(converting) = self.converting() else { return };
        let parts = converting.filled_of(blocks);
        if parts.is_empty() || Canary::ShadowForgotten.sings() {
            return;
        }
        let bytes = parts.iter().map(|part| part.bytes()).sum();
        match converting.unwaited.place_now(bytes, || REPEATED_UNWAITED_MAX) {
            None => self.repeat(&converting, (&parts, changed), lock).await,
            Some(place) => {
                let (owned, changed, lock) = (self.clone(), changed.clone(), lock.clone());
                self.context.env.spawn(async move {
                    owned.repeat(&converting, (&parts, &changed), &lock).await;
                    drop(place);
                });
            }
        }
    }

    async fn repeat(
        self: &Rc<Self>,
        converting: &Converting,
        (parts, changed): (&[BlockRange], &Changed),
        lock: &Lock,
    ) {
        for part in parts {
            if converting.failed.get() {
                return;
            }
            if self.write_apart(converting, (*part, &changed.within(*part)), lock, Onto::Filled).await.is_err() {
                converting.failed.set(true);
                self.work.notify();
            }
        }
    }

    /// Carries out a change that a guest of this host asked for. While something is on its way to another layout, it goes on also where its
    /// guest has gone: what was acknowledged is repeated there, and only this task can do it.
    pub(crate) async fn to_its_end<C>(self: &Rc<Self>, change: C) -> Result<(), OpError>
    where
        C: AsyncFnOnce(Rc<Self>) -> Result<(), OpError> + 'static,
    {
        if self.converting().is_none() || Canary::ShadowNotOwed.sings() {
            return change(self.clone()).await;
        }
        let (tell, told) = oneshot::channel();
        let owned = self.clone();
        self.context.env.spawn(async move { drop(tell.send(change(owned).await)) });
        // Nobody tells: this host ends.
        told.await.unwrap_or(Err(OpError::Elsewhere))
    }

    /// V2: a change of these blocks begins, which is to be repeated at what is on its way.
    pub(super) fn owe_shadow(&self, blocks: BlockRange) -> OwedShadow<'_, E, S> {
        OwedShadow { owned: self, blocks }
    }

    /// Writes to the new sets.
    async fn write_apart(
        self: &Rc<Self>,
        converting: &Converting,
        (blocks, changed): (BlockRange, &Changed),
        lock: &Lock,
        onto: Onto,
    ) -> Result<(), OpError> {
        let area = converting.area();
        let zero = matches!(changed, Changed::Bytes { data, .. } if onto == Onto::Same && is_zero(data));
        let changed = if zero { &zeroes(false) } else { changed };
        if let Some(rows) = area.rows() {
            // Boxed: what is written there is written as guests' changes are, which come here in the end.
            return Box::pin(self.write_rows_apart((area, rows), (blocks, changed), lock, onto)).await;
        }
        let op_blocks = OP_BYTES_MAX / BLOCK_BYTES;
        let mut operations = Vec::new();
        for piece in area.split(blocks) {
            match changed {
                Changed::Zeroes { keep_allocated, .. } => {
                    let zero = BlockOp::Zero { range: piece.range, keep_allocated: *keep_allocated };
                    operations.push(self.start(piece.set, ClientTag::default(), zero.into(), lock.clone()));
                }
                Changed::Bytes { data, .. } => {
                    let at = (piece.object_first - blocks.first) as usize * BLOCK_BYTES as usize;
                    let bytes = data.slice(at..at + piece.range.bytes() as usize);
                    for run in written(&bytes, op_blocks, onto == Onto::Nothing) {
                        let data = bytes.slice(
                            run.first as usize * BLOCK_BYTES as usize..run.end() as usize * BLOCK_BYTES as usize,
                        );
                        let crcs = data.chunks_exact(BLOCK_BYTES as usize).map(block_crc).collect();
                        let blocks = BlockOp::Write { first_block: piece.range.first + run.first, crcs };
                        let body = Body { blocks, data };
                        let body = if onto == Onto::Nothing { body.copied() } else { body };
                        operations.push(self.start(piece.set, ClientTag::default(), body, lock.clone()));
                    }
                }
            }
        }
        join_all(operations).await.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    /// V3, and the end of it. The members that stay may need other witnesses than both together did: those are made before.
    async fn swap(self: &Rc<Self>, converting: &Rc<Converting>) {
        let config = self.config();
        let Some(placer) = self.context.placer.borrow().clone() else { return };
        let Ok(Some(Converted { change, addresses })) = placer.end_conversion(&config) else { return };
        let removed = change.removed.clone();
        let shape = (addresses, config.size_bytes);
        let swapped = self.admitting_new(change, shape, async |change, admitted| {
            self.put_in_place(converting, (&*config, &change.members), &admitted).await
        });
        let Ok(Some(waited)) = swapped.await else { return };
        self.remove_gone(&config, &removed);
        let ms = waited.as_secs_f64() * 1000.0;
        self.tell_conversion(&converting.moving, &format!("done; its guests waited {ms:.1} ms for the last change"));
    }

    /// Guests' requests wait for one change of the record. For how long they did; none where it came to nothing.
    async fn put_in_place(
        self: &Rc<Self>,
        converting: &Rc<Converting>,
        (config, members): (&ObjectConfig, &[Member]),
        admitted: &Admitted,
    ) -> Option<Duration> {
        let (blocks, began) = (converting.blocks(), self.context.env.now());
        let mut held = None;
        if !Canary::SwapEarly.sings() {
            let lock = std::pin::pin!(self.locks.lock(blocks, true));
            let waited = std::pin::pin!(self.context.env.sleep(SWAP_WAITS));
            match select(lock, waited).await {
                Either::Left((lock, _)) => held = Some(lock),
                Either::Right(_) => return None,
            }
        }
        // Nothing of these sets is under way now: what was carried out is decided.
        if !self.is_on_its_way(converting) || self.carry_outcomes(converting, None).await.is_none() {
            return None;
        }
        let next = self.state.borrow().config_once_moved(members).filter(|_| *self.config() == *config)?;
        if !self.change_admitting(next, admitted).await {
            return None;
        }
        *self.converting.borrow_mut() = None;
        self.went_over.borrow_mut().insert(blocks.first, self.context.env.now());
        drop(held);
        Some(self.context.env.now().since(began))
    }

    /// The new members learn which requests were carried out by the old ones: up to an operation, where later ones may still be undone. None:
    /// one of either does not answer.
    async fn carry_outcomes(self: &Rc<Self>, converting: &Converting, upto: Option<OpId>) -> Option<()> {
        let mut clients: BTreeSet<(OpId, ClientTag)> = BTreeSet::new();
        for set in self.sets_before(converting) {
            let legs = self.state.borrow().readable(set);
            for leg in legs {
                let request = Request::Clients { to: leg.link.target };
                let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
                let Ok((Answer::Clients(known), _)) = reply else { return self.lacks(leg) };
                let known = known.into_iter().filter(|(_, op)| upto.is_none_or(|upto| *op <= upto));
                clients.extend(known.map(|(client, op)| (op, client)));
            }
        }
        let clients: Vec<_> = clients.into_iter().map(|(op, client)| (client, op)).collect();
        for set in converting.area().sets() {
            let legs = self.state.borrow().readable(set);
            for leg in legs {
                for some in clients.chunks(REMEMBERED_MAX) {
                    let op = ComponentOp::Remember { clients: some.to_vec() };
                    let request = Request::Change { to: leg.link.target, op };
                    let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
                    if reply.is_err() {
                        return self.lacks(leg);
                    }
                }
            }
        }
        Some(())
    }

    fn lacks<T>(&self, leg: Leg) -> Option<T> {
        self.state.borrow_mut().fail(leg.component, false);
        self.work.notify();
        None
    }

    /// The sets that hold now what is on its way: the stripes of one chunk.
    fn sets_before(&self, converting: &Converting) -> std::ops::Range<ReplicaSetIndex> {
        let first = BlockRange::new(converting.moving.to.first_block, 1);
        let area = self.area_at(first.first);
        let set = area.split(first).next().expect("a block is in a piece").set;
        set..set + area.layout().stripe_width
    }

    /// What of these blocks was done by an earlier try of the request, when they were laid out otherwise. Of a write or zeroes.
    pub(super) async fn done_before(
        &self,
        area: Area,
        (blocks, changed): (BlockRange, &Changed),
        origin: Origin,
    ) -> Result<Vec<BlockRange>, OpError> {
        let Some(was) = area.was().filter(|_| origin.retry && !Canary::RetryByNewSplit.sings()) else {
            return Ok(Vec::new());
        };
        let mut done = Vec::new();
        for part in changed.operations(was, blocks) {
            let first = BlockRange::new(part.first, 1);
            let set = area.split(first).next().expect("a block is in a piece").set;
            if self.was_done(set, super::write::OF_ALL, origin.part(was, part.first)).await? {
                done.push(part);
            }
        }
        Ok(done)
    }
}

/// A change under way that is to be repeated at what is on its way.
///
/// It may end without that: it fails, or its guest has gone and nobody waits for it any more. Some of it may stand then where guests read, and
/// not in what is filled: that has failed.
pub(super) struct OwedShadow<'a, E: Env, S: LocalStore> {
    owned: &'a Owned<E, S>,
    blocks: BlockRange,
}

impl<E: Env, S: LocalStore> OwedShadow<'_, E, S> {
    /// It was repeated.
    pub(super) fn paid(self) {
        std::mem::forget(self);
    }
}

impl<E: Env, S: LocalStore> Drop for OwedShadow<'_, E, S> {
    fn drop(&mut self) {
        let of_filled = |converting: Rc<Converting>| !converting.filled_of(self.blocks).is_empty();
        if self.owned.converting().is_some_and(of_filled) && !Canary::ShadowNotOwed.sings() {
            self.owned.conversion_failed();
        }
    }
}

/// Runs of blocks that are to be written, each of `most` at most: all, or those that are not zeroes.
fn written(bytes: &Bytes, most: u32, but_zeroes: bool) -> Vec<BlockRange> {
    let mut runs: Vec<BlockRange> = Vec::new();
    for (at, block) in (0u64..).zip(bytes.chunks_exact(BLOCK_BYTES as usize)) {
        if but_zeroes && is_zero(block) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end() == at && last.count < most => last.count += 1,
            _ => runs.push(BlockRange::new(at, 1)),
        }
    }
    runs
}

/// Whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && tail.iter().all(|byte| *byte == 0)
}
