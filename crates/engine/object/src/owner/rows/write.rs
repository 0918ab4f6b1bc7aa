//! Guests' writes, trims and zeroes on rows, unit by unit.
//!
//! Promises    a unit is carried out once, in whichever of its tries; what is done is not done again though the lock was let go between
//!             units of one request that share positions run one after another
//! Assumes     the request was admitted
//! Not here    which way a part is written (`cairn-owner`)

use std::rc::Rc;

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, Piece, Rows, StripPart, Unit};
use cairn_owner::{MemberMask, PartWrite, part_write};
use cairn_types::{BLOCK_BYTES, BlockRange, ClientTag, ReplicaSetIndex};
use cairn_wire::{OP_BYTES_MAX, block_crc};
use futures::future::join_all;

use super::{
    Locked,
    bodies::{self, New},
};
use crate::{
    local_store::LocalStore,
    locks::Guard,
    owner::{
        Origin, Owned,
        converting::{Onto, is_zero},
        guest::aligned,
        write::{Bodies, Body, Lock, OpError},
    },
    stages::{Stage, Watch, mark},
};

const BLOCK: usize = BLOCK_BYTES as usize;

/// What a request leaves in its blocks.
#[derive(Debug, Clone)]
pub(in crate::owner) enum Changed {
    /// These bytes, from this offset of the disk on.
    Bytes { offset: u64, data: Bytes },
    /// Zeroes. At most so many blocks are one operation.
    Zeroes { keep_allocated: bool, blocks_max: u32 },
}

impl Changed {
    /// The same of some of its blocks. Bytes are those of whole blocks.
    pub(in crate::owner) fn within(&self, part: BlockRange) -> Self {
        match self {
            Self::Bytes { offset, data } => {
                let first = part.first * BLOCK as u64;
                let at = (first - offset) as usize;
                Self::Bytes { offset: first, data: data.slice(at..at + part.bytes() as usize) }
            }
            Self::Zeroes { .. } => self.clone(),
        }
    }

    /// The blocks of the disk that are one operation each, of a request on these blocks of an area.
    pub(in crate::owner) fn operations(&self, area: Area, blocks: BlockRange) -> Vec<BlockRange> {
        if let Some(rows) = area.rows() {
            let units = units((area, rows), blocks, self, Origin::default());
            return units.into_iter().map(|unit| BlockRange::new(unit.object_first, unit.in_set.count)).collect();
        }
        let most = match self {
            Self::Bytes { .. } => OP_BYTES_MAX / BLOCK_BYTES,
            Self::Zeroes { .. } => u32::MAX,
        };
        let mut all = Vec::new();
        for mut left in area.split(blocks).map(Piece::object_range) {
            while left.count > 0 {
                let count = left.count.min(most);
                all.push(BlockRange::new(left.first, count));
                left = BlockRange::new(left.first + u64::from(count), left.count - count);
            }
        }
        all
    }
}

/// One unit of a request.
struct RequestUnit {
    set: ReplicaSetIndex,
    unit: Unit,
    /// Its blocks of the set.
    in_set: BlockRange,
    /// Its first block in the disk.
    object_first: u64,
    client: ClientTag,
    /// What it replaces could not be read, or is not in sync: parity is made anew.
    anew: bool,
}

/// A try of a request.
struct Try<'a, E: Env> {
    rows: Rows,
    locked: Locked,
    lock: &'a Lock,
    watch: Option<&'a Watch<E>>,
    /// It fills what serves nothing yet.
    fills: bool,
}

/// Of two results that one of which is told: what the guest can do nothing about comes first.
fn worse(one: Result<(), OpError>, other: Result<(), OpError>) -> Result<(), OpError> {
    let rank = |result: &Result<(), OpError>| match result {
        Ok(()) => 0,
        Err(OpError::NeedsRows | OpError::Elsewhere) => 1,
        Err(OpError::Unreadable(_) | OpError::NotInherited(_)) => 2,
        Err(OpError::NoSpace | OpError::Io(_)) => 3,
        Err(OpError::Ended(_)) => 4,
    };
    if rank(&other) > rank(&one) { other } else { one }
}

/// What needs nothing of what is there cannot fail for want of it: a member that says so is not asked for ever.
fn needs_nothing(error: OpError) -> OpError {
    match error {
        OpError::NeedsRows => OpError::Io("a member cannot read blocks that are only written".into()),
        error => error,
    }
}

/// They hang on layout and range alone (G5).
fn units((area, rows): (Area, Rows), blocks: BlockRange, changed: &Changed, origin: Origin) -> Vec<RequestUnit> {
    let op_blocks_max = match changed {
        Changed::Bytes { .. } => OP_BYTES_MAX / BLOCK_BYTES,
        Changed::Zeroes { blocks_max, .. } => *blocks_max,
    };
    let mut all = Vec::new();
    for piece in area.split(blocks) {
        all.extend(rows.units(piece.range, op_blocks_max.into()).map(|unit| {
            let in_set = match &unit {
                Unit::Whole { rows: of } => {
                    let count = (of.end - of.start) * rows.row_blocks();
                    BlockRange::new(of.start * rows.row_blocks(), count as u32)
                }
                Unit::Part(part) => BlockRange::new(part.set_first, part.range.count),
            };
            let object_first = piece.object_first + (in_set.first - piece.range.first);
            let client = origin.part(area, object_first);
            RequestUnit { set: piece.set, unit, in_set, object_first, client, anew: false }
        }));
    }
    all
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Carries out a write or zeroes on these blocks.
    pub(in crate::owner) async fn change_rows(
        self: &Rc<Self>,
        (area, rows): (Area, Rows),
        (blocks, changed): (BlockRange, Changed),
        origin: Origin,
        watch: &mut Option<Watch<E>>,
    ) -> Result<(), OpError> {
        let since = self.context.env.now();
        let mut left = units((area, rows), blocks, &changed, origin);
        let mut locked = Locked::Blocks;
        let mut owed = None;
        loop {
            let lock = Rc::new(self.locks.lock(locked.blocks(area, blocks), true).await);
            self.still_at(area)?;
            mark(watch, Stage::Lock);
            let data = match self.bytes_of(blocks, &changed, locked).await {
                Ok(data) => {
                    owed.get_or_insert_with(|| self.owe_shadow(blocks));
                    let tried = Try { rows, locked, lock: &lock, watch: watch.as_ref(), fills: false };
                    self.try_units(&tried, (blocks, &changed, data), &mut left, origin.retry).await
                }
                Err(error) => Err(error),
            };
            drop(lock);
            match data {
                Err(OpError::NeedsRows) => locked = Locked::Rows,
                Err(OpError::Unreadable(lost)) => self.wait_for_another_copy(lost, since).await?,
                result => {
                    result?;
                    if let Some(owed) = owed {
                        owed.paid();
                    }
                    return Ok(());
                }
            }
            self.not_draining().await?;
        }
    }

    /// Writes to rows that are on their way to take the place of others. But for what a guest changed, whole rows are locked, and rows of zeroes stay
    /// holes.
    pub(in crate::owner) async fn write_rows_apart(
        self: &Rc<Self>,
        (area, rows): (Area, Rows),
        (blocks, changed): (BlockRange, &Changed),
        lock: &Lock,
        onto: Onto,
    ) -> Result<(), OpError> {
        let mut left = units((area, rows), blocks, changed, Origin::default());
        let data = match changed {
            Changed::Bytes { data, .. } => Some(data.clone()),
            Changed::Zeroes { .. } => None,
        };
        if let Some(data) = data.as_ref().filter(|_| onto != Onto::Filled) {
            left.retain(|unit| {
                let from = (unit.object_first - blocks.first) as usize * BLOCK;
                !is_zero(&data[from..from + unit.in_set.bytes() as usize])
            });
        }
        let locked = if onto == Onto::Filled { Locked::Blocks } else { Locked::Rows };
        let tried = Try { rows, locked, lock, watch: None, fills: onto == Onto::Nothing };
        self.try_units(&tried, (blocks, changed, data), &mut left, false).await
    }

    /// What is written, whole blocks; none of zeroes.
    async fn bytes_of(
        self: &Rc<Self>,
        blocks: BlockRange,
        changed: &Changed,
        locked: Locked,
    ) -> Result<Option<Bytes>, OpError> {
        let Changed::Bytes { offset, data } = changed else { return Ok(None) };
        let whole = offset.is_multiple_of(BLOCK as u64) && data.len() as u64 == blocks.bytes();
        match whole {
            true => Ok(Some(aligned(data.clone()))),
            false => self.with_edges(blocks, *offset, data, locked).await.map(Some),
        }
    }

    /// Tries the units that are left, and leaves those that are still to be done.
    async fn try_units(
        self: &Rc<Self>,
        tried: &Try<'_, E>,
        (blocks, changed, data): (BlockRange, &Changed, Option<Bytes>),
        left: &mut Vec<RequestUnit>,
        retry: bool,
    ) -> Result<(), OpError> {
        if retry {
            let mut undone = Vec::new();
            for unit in std::mem::take(left) {
                let done = self.was_done(unit.set, tried.rows.relevant(&unit.unit), unit.client).await;
                // What is not asked yet is still to be done, if the request comes again.
                if !done? {
                    undone.push(unit);
                }
            }
            *left = undone;
        }
        let new = |unit: &RequestUnit| match (&data, changed) {
            (Some(data), _) => {
                let from = (unit.object_first - blocks.first) as usize * BLOCK;
                let bytes = data.slice(from..from + unit.in_set.bytes() as usize);
                let crcs = match unit.unit {
                    Unit::Whole { .. } => Default::default(),
                    Unit::Part(_) => bytes.chunks_exact(BLOCK).map(block_crc).collect(),
                };
                New::Data(bytes, crcs)
            }
            (None, Changed::Zeroes { keep_allocated, .. }) => {
                New::Zeroes { blocks: unit.in_set.count, keep_allocated: *keep_allocated }
            }
            (None, Changed::Bytes { .. }) => unreachable!("a write has bytes"),
        };
        // Together: each is carried on by whoever waits for it.
        let carried = async |unit: &RequestUnit| {
            self.carry_unit(tried, unit, new(unit)).await?;
            if self.converting().is_some() && self.state.borrow().config().addresses.serves(unit.set) {
                let of_disk = BlockRange::new(unit.object_first, unit.in_set.count);
                let whole = match &data {
                    Some(data) => Changed::Bytes { offset: blocks.first * BLOCK as u64, data: data.clone() },
                    None => changed.clone(),
                };
                self.shadow(of_disk, &whole, tried.lock).await;
            }
            Ok(())
        };
        let results = join_all(left.iter().map(carried)).await;
        let mut worst = Ok(());
        for (mut unit, result) in std::mem::take(left).into_iter().zip(results) {
            if result.is_err() {
                unit.anew |= result == Err(OpError::NeedsRows);
                worst = worse(worst, result);
                left.push(unit);
            }
        }
        worst
    }

    async fn carry_unit(self: &Rc<Self>, tried: &Try<'_, E>, unit: &RequestUnit, new: New) -> Result<(), OpError> {
        let members = tried.rows.relevant(&unit.unit);
        match &unit.unit {
            Unit::Whole { rows: of } => {
                let begun = self.begin_unit(unit, members);
                let legs = &begun.2;
                let wanted = |member| legs.iter().any(|leg| leg.link.copy == member);
                let bodies = match new {
                    New::Data(bytes, _) if tried.fills => {
                        let whole = bodies::whole(tried.rows, of, &bytes, wanted);
                        whole.into_iter().map(|body| body.map(Body::copied)).collect()
                    }
                    New::Data(bytes, _) => bodies::whole(tried.rows, of, &bytes, wanted),
                    New::Zeroes { keep_allocated, .. } => bodies::whole_zeroes(tried.rows, of, keep_allocated),
                };
                let waits = (self.must_hold(unit.set, members), tried.watch.map(Watch::copies));
                let sent = self.send(begun, unit.client, &Bodies::ByMember(bodies), (tried.lock.clone(), None), waits);
                sent.await.map_err(needs_nothing)
            }
            Unit::Part(part) => {
                let positions = self.positions.lock(unit.set, part.range).await;
                self.carry_part(tried, (unit, part, members), new, positions).await
            }
        }
    }

    fn begin_unit(&self, unit: &RequestUnit, members: MemberMask) -> crate::owner::write::Begun {
        self.unreadable.borrow_mut().whole_again(unit.set, unit.in_set);
        self.state.borrow_mut().begin(unit.set, members)
    }

    async fn carry_part(
        self: &Rc<Self>,
        tried: &Try<'_, E>,
        (unit, part, members): (&RequestUnit, &StripPart, MemberMask),
        new: New,
        positions: Guard,
    ) -> Result<(), OpError> {
        let (rows, set) = (tried.rows, unit.set);
        let way = self.way_of(rows, set, part).await?;
        let held = (tried.lock.clone(), Some(positions));
        let waits = (self.must_hold(set, members), tried.watch.map(Watch::copies));
        match way {
            PartWrite::Difference if !unit.anew && !self.is_unlike(set, part.range) => {
                self.unreadable.borrow_mut().whole_again(set, unit.in_set);
                self.start_difference((rows, set, part), (unit.client, new), held, tried.watch).await
            }
            PartWrite::DataAlone => {
                let mut bodies = vec![None; rows.members() as usize];
                bodies[part.member as usize] = Some(new.body(members, part.range));
                let begun = self.begin_unit(unit, members);
                self.send(begun, unit.client, &Bodies::ByMember(bodies), held, waits).await.map_err(needs_nothing)
            }
            PartWrite::Difference | PartWrite::Encode if tried.locked == Locked::Rows => {
                let image = self.row_with((rows, set, part), new.strip()).await?;
                let mut bodies = vec![None; rows.members() as usize];
                bodies[part.member as usize] = Some(new.body(members, part.range));
                for (number, strip) in (0..).zip(image.parity()) {
                    let holder = rows.member(part.row, cairn_geometry::RowRole::Parity(number));
                    bodies[holder as usize] = Some(bodies::made(&strip, true, members, part.range));
                }
                let begun = self.begin_unit(unit, members);
                let sent = self.send(begun, unit.client, &Bodies::ByMember(bodies), held, waits);
                sent.await.map_err(needs_nothing)?;
                self.fits_again(set, part.range);
                Ok(())
            }
            PartWrite::Difference | PartWrite::Encode => Err(OpError::NeedsRows),
            PartWrite::AfterFailures => unreachable!("they are recorded"),
        }
    }

    /// How a part is written. Where a failure is to be recorded first, it waits for that.
    async fn way_of(&self, rows: Rows, set: ReplicaSetIndex, part: &StripPart) -> Result<PartWrite, OpError> {
        let way = || {
            let state = self.state.borrow();
            match (state.ended(), part_write(&state, set, rows, (part.row, part.column))) {
                (Some(ended), _) => Some(Err(OpError::Ended(ended.clone()))),
                // What was on its way is given up.
                (None, _) if state.config().replica_set(set).next().is_none() => Some(Err(OpError::Elsewhere)),
                (None, PartWrite::AfterFailures) => None,
                (None, way) => Some(Ok(way)),
            }
        };
        if let Some(way) = way() {
            return way;
        }
        self.work.notify();
        self.progressed.until(way).await
    }
}
