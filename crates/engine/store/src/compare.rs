//! What a component holds of its blocks, as copies are compared by it: from index and map, not from the blocks themselves.
//!
//! Promises    C1  what is told is what a read of one moment would return, wherever that stands: in the log, in a pending row, in the map
//!             C2  nothing is read but pages of the map that are not in memory
//!             C3  no more than a region is looked at before the thread's other tasks have a turn
//! Assumes     whoever compares two copies has them in one state: no write is under way (`object`)
//! Not here    whether the bytes have their checksums (`scrub.rs`), what a difference means (`object`)

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use cairn_env::Env;
use cairn_format::zero_block_crc;
use cairn_types::{BlockRange, BlockState, BlockStates, Canary, ComponentId, OpId, REGION_BLOCKS, RegionDigest};

use crate::{
    component::{Component, Newest},
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind},
    leaf::{Entry, LEAF_BLOCKS, Leaf, LeafKey, Spot},
    records::{Body, Place, Record},
    state::State,
};

/// Regions of one question, at most: 64 MiB. Each takes some 10 us of the thread where its leaves are in memory.
pub const COMPARED_REGIONS_MAX: u32 = 64;

/// What is known of some blocks, or the leaves that are lacking.
enum Known {
    All(BlockStates),
    Lacks(Vec<LeafKey>),
}

type Leaves = BTreeMap<LeafKey, Arc<Leaf>>;

impl<E: Env> DiskGroup<E> {
    /// A digest of each region that `range` touches: of the blocks of it that `range` has.
    ///
    /// # Errors
    /// The component is not here or lost, or `range` is not within it or has too many regions; the map cannot be read.
    pub fn digests(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<u64>, StoreError>> + 'static + use<E> {
        self.inner().clone().digests(component, range)
    }

    /// What it holds of each block of `range`, which is within one region.
    ///
    /// # Errors
    /// As for [`Self::digests`].
    pub fn block_states(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<BlockStates, StoreError>> + 'static + use<E> {
        let inner = self.inner().clone();
        async move {
            inner.check_compared(component, range, 1)?;
            inner.block_states(component, range).await
        }
    }

    /// What the owner found as it compared these copies: what was repaired is counted, and the rest is listed until it is written, or
    /// compared again.
    pub fn compared(&self, component: ComponentId, repaired: &[BlockRange], undecided: &[BlockRange]) {
        let State { findings, components, .. } = &mut *self.inner().state.borrow_mut();
        let Ok(known) = components.not_lost(component) else { return };
        // As an owner tells it: of one region at a time. Anything else is passed over.
        let sound = |told: &[BlockRange]| -> Vec<BlockRange> {
            let told = told.iter().take(REGION_BLOCKS as usize).copied();
            told.filter(|range| range.count <= REGION_BLOCKS && known.within(*range).is_ok()).collect()
        };
        findings.differed(component, &sound(repaired), &sound(undecided));
    }
}

impl<E: Env> Inner<E> {
    async fn digests(self: Rc<Self>, id: ComponentId, range: BlockRange) -> Result<Vec<u64>, StoreError> {
        self.check_compared(id, range, COMPARED_REGIONS_MAX)?;
        let regions = range.regions();
        // What was told of them is found again, if it is still so.
        self.state.borrow_mut().findings.compares(id, range);
        let mut digests = Vec::with_capacity(regions.len());
        for region in regions {
            let first = u64::from(region) * u64::from(REGION_BLOCKS);
            let own =
                BlockRange::new(first, REGION_BLOCKS).intersection(range).expect("a region that the range touches");
            digests.push(digest(&self.block_states(id, own).await?, (own.first - first) as u32));
            self.env.give_way().await;
        }
        Ok(digests)
    }

    /// Refuses blocks that are not here, and more than so many regions of them.
    fn check_compared(&self, id: ComponentId, range: BlockRange, regions_max: u32) -> Result<(), StoreError> {
        self.state.borrow().components.not_lost(id)?.within(range)?;
        match range.count > 0 && range.regions().len() <= regions_max as usize {
            true => Ok(()),
            false => Err(StoreError::new(
                StoreErrorKind::Refused,
                format!("blocks {}..+{} are of no region, or of more than {regions_max}", range.first, range.count),
            )),
        }
    }

    async fn block_states(&self, id: ComponentId, range: BlockRange) -> Result<BlockStates, StoreError> {
        let mut leaves = Leaves::new();
        loop {
            let (known, generation) = {
                let mut state = self.state.borrow_mut();
                (known_now(&mut state, id, range, &leaves)?, state.map.generation())
            };
            let lacks = match known {
                Known::All(states) => return Ok(states),
                Known::Lacks(lacks) => lacks,
            };
            // Of a damaged page nothing is known: its blocks are lost, and a read of them says so.
            let found = self.look_up_leaves(&lacks, Some(Leaf::default())).await?;
            match self.state.borrow().map.generation() == generation {
                true => leaves.extend(found),
                false => leaves.clear(),
            }
        }
    }
}

fn digest(states: &BlockStates, first: u32) -> u64 {
    let mut digest = RegionDigest::default();
    for (block, state) in (first..).zip(&states.blocks) {
        let crc = match *state {
            _ if Canary::DigestBlind.sings() => 0,
            BlockState::Zeroes { .. } => zero_block_crc(),
            BlockState::Data { crc, .. } | BlockState::Lost { crc } => crc,
        };
        digest.take(block, crc);
    }
    digest.value()
}

/// From the state of this moment, and leaves that were read under it.
fn known_now(state: &mut State, id: ComponentId, range: BlockRange, leaves: &Leaves) -> Result<Known, StoreError> {
    let State { components, map, .. } = state;
    let component = components.not_lost(id)?;
    component.within(range)?;
    let mut blocks = Vec::with_capacity(range.count as usize);
    let mut lacks: Vec<LeafKey> = Vec::new();
    for part in component.newest(range) {
        match part {
            Newest::Version(record, range) => {
                let record = components.records.of(record);
                blocks.extend((range.first..range.end()).map(|block| of_version(record, block)));
            }
            Newest::Hole(range) => blocks.extend((0..range.count).map(|_| BlockState::Zeroes { op: None })),
            Newest::Mapped(range) => {
                for block in range.first..range.end() {
                    let key = (id, block / LEAF_BLOCKS);
                    let leaf = match leaves.get(&key) {
                        Some(leaf) => Some(leaf),
                        None => map.leaf(key),
                    };
                    match leaf {
                        Some(leaf) => blocks.push(of_entry(leaf.get(block))),
                        None if lacks.last() == Some(&key) => {}
                        None => lacks.push(key),
                    }
                }
            }
        }
    }
    if !lacks.is_empty() {
        return Ok(Known::Lacks(lacks));
    }
    Ok(Known::All(BlockStates { touched: touched(component, range), blocks }))
}

fn touched(component: &Component, range: BlockRange) -> OpId {
    let marks = range.regions().filter_map(|region| component.regions.get(region));
    marks.map(|mark| mark.op).max().unwrap_or(OpId::ZERO)
}

fn of_version(record: &Record, block: u64) -> BlockState {
    let spot = match &record.body {
        Body::Zero { .. } => Some(Spot::ZERO),
        Body::Data { place: Place::Log(_), .. } => None,
        Body::Data { place: Place::Spots(spots), .. } => Some(spots[(block - record.range.first) as usize]),
    };
    of_spot(spot, record.crc(block), record.op)
}

/// None: the bits have the block and the map has not. That is damage.
fn of_entry(entry: Option<Entry>) -> BlockState {
    entry.map_or(BlockState::Lost { crc: 0 }, |Entry { spot, crc, op, .. }| of_spot(Some(spot), crc, op))
}

/// `spot`: none where it stands in the log.
fn of_spot(spot: Option<Spot>, crc: u32, op: OpId) -> BlockState {
    match spot {
        Some(Spot::ZERO) => BlockState::Zeroes { op: Some(op) },
        Some(spot) if !spot.is_place() => BlockState::Lost { crc },
        // Guests that write zeroes have the bytes stored.
        _ if crc == zero_block_crc() => BlockState::Zeroes { op: Some(op) },
        _ => BlockState::Data { crc, op },
    }
}
