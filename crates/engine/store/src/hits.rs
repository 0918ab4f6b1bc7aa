//! Which of a round's blocks refer to what is stored already: decided when its transaction begins.
//!
//! Promises    a reference is added only to an item that has references: by its name, or by its place, from the block that its run names; that one's
//!             entry gets the name in the same transaction (D1)
//!             what nobody provably holds is not revived: the block is written after all
//! Assumes     no other transaction between this and the round's; nobody else writes to the destage stream of a device meanwhile
//! Not here    finding and comparing (`find_twins.rs`), counting (`shares.rs`)

use std::collections::BTreeMap;

use cairn_env::Env;
use cairn_format::{SHARD_BLOCKS, shared_rows::REFERENCES_MAX};
use cairn_types::Canary;

use crate::{
    capacity::{CapacityWriter, OutBlock, Spots},
    disk_group::Inner,
    error::StoreError,
    find_twins::{Found, Hit, Stored},
    history::History,
    leaf::{Entry, LEAF_BLOCKS, LeafKey, Spot},
    run_cache::Known,
    segments::Segments,
    shards::shard_of,
    state::State,
    transaction::Transaction,
};

/// What a round shares.
#[derive(Default)]
pub(crate) struct Shared {
    /// Blocks that are equal to stored ones.
    hits: Vec<Hit>,
    /// Names of items that several blocks of the round refer to, by device.
    made: Vec<(u8, Spot)>,
}

impl Shared {
    /// Takes what was found for the blocks of a device, the others of which were written.
    pub fn take(&mut self, found: Found, spots: &mut Spots, segments: &Segments) {
        self.hits.extend(found.hits);
        for (at, first) in found.twins {
            // Nowhere where the device failed.
            if spots[first].is_place() && !spots[first].is_shared() {
                spots[first] = segments.name_of(spots[first], None);
                self.made.push((segments.device, spots[first]));
            }
            spots[at] = spots[first];
        }
    }
}

/// Counts of references as they may be at most when the transaction is durable.
type References = BTreeMap<(u8, Spot), u8>;

impl<E: Env> Inner<E> {
    /// Adds what is shared to a transaction that begins; hits that do not stand are written. False when there is no room for those.
    pub(crate) async fn settle_hits(
        &self,
        writer: CapacityWriter,
        shared: &Shared,
        spots: &mut Spots,
        transaction: &mut Transaction,
    ) -> Result<bool, StoreError> {
        shared.made.iter().for_each(|(device, name)| transaction.shares.make(*device, *name));
        if shared.hits.is_empty() {
            return Ok(true);
        }
        let mut owners: Vec<LeafKey> = self.state.borrow().leaves_of_owners(&shared.hits);
        owners.retain(|leaf| !transaction.has_leaf(*leaf));
        transaction.bring(self.fetch_leaves(&owners).await?);
        let history = self.history_of_owners(&shared.hits, transaction).await;
        let mut late: BTreeMap<u8, Vec<&Hit>> = BTreeMap::new();
        {
            let state = &mut *self.state.borrow_mut();
            let mut references = References::new();
            for hit in &shared.hits {
                // Superseded or undone since; or lost with the device.
                let is_over = hit.record.is_some_and(|record| state.components.records.get(record).is_none());
                if is_over || state.tier.of(hit.device).failed {
                    continue;
                }
                match state.share(hit, &history, &mut references, transaction) {
                    true => {
                        spots[hit.at] = hit.with.name;
                        state.counters.dedupe_hit_blocks += 1;
                    }
                    false => late.entry(hit.device).or_default().push(hit),
                }
            }
            state.counters.dedupe_late_blocks += late.values().map(|hits| hits.len() as u64).sum::<u64>();
        }
        for (device, hits) in late {
            let blocks: Vec<OutBlock> = hits.iter().map(|hit| hit.block.clone()).collect();
            let Some(written) = self.write_blocks(device, &blocks, writer).await else {
                self.state.borrow_mut().twins.passes_one = true;
                return Ok(false);
            };
            // Empty when the device failed: its components are lost.
            hits.iter().zip(written).for_each(|(hit, spot)| spots[hit.at] = spot);
        }
        Ok(true)
    }

    /// History of blocks whose entries do not stand where their runs say, by leaf.
    async fn history_of_owners(&self, hits: &[Hit], transaction: &Transaction) -> BTreeMap<LeafKey, History> {
        let mut leaves: Vec<LeafKey> = Vec::new();
        {
            let state = self.state.borrow();
            let Some(pages) = state.map.pages() else { return BTreeMap::new() };
            for Hit { with: Stored { known, name, .. }, device, .. } in hits {
                let (id, block) = known.owner;
                let leaf = (id, block / LEAF_BLOCKS);
                if state.tier.of(*device).shared(*name).is_none()
                    && transaction.has_leaf(leaf)
                    && transaction.entry(id, block).is_none_or(|entry| entry.spot != known.place)
                    && pages.shards.history(shard_of(leaf)).is_some()
                {
                    leaves.push(leaf);
                }
            }
        }
        self.history_of_leaves(leaves).await
    }
}

impl State {
    /// Leaves that tell whether what hits were compared with is still held by the block that its run names.
    fn leaves_of_owners(&self, hits: &[Hit]) -> Vec<LeafKey> {
        let plain = hits.iter().filter(|hit| {
            let Stored { known, name, .. } = &hit.with;
            known.name.is_none()
                && self.tier.of(hit.device).shared(*name).is_none()
                && self.components.is_here(known.owner.0)
        });
        let mut keys: Vec<LeafKey> =
            plain.map(|hit| (hit.with.known.owner.0, hit.with.known.owner.1 / LEAF_BLOCKS)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Whether a block may refer to what it was compared with. Where that has one reference, this becomes one by name.
    fn share(
        &self,
        hit: &Hit,
        history: &BTreeMap<LeafKey, History>,
        references: &mut References,
        transaction: &mut Transaction,
    ) -> bool {
        let Stored { known, name, segment, generation, .. } = &hit.with;
        let segments = self.tier.of(hit.device);
        if segments.row(*segment).generation != *generation && !Canary::HitUnpinned.sings() {
            return false;
        }
        let key = (hit.device, *name);
        if let Some(count) = references.get_mut(&key) {
            let fits = *count < REFERENCES_MAX;
            *count += u8::from(fits);
            return fits;
        }
        if let Some(item) = segments.shared(*name) {
            let fits = item.at == known.place && item.count < REFERENCES_MAX;
            references.insert(key, item.count + u8::from(fits));
            return fits;
        }
        // A moved item without references; or a table that is full.
        if known.name.is_some() || !self.tier.may_share() {
            return false;
        }
        let is_made = self.name_owner(hit.device, known, *name, history, transaction);
        if is_made {
            transaction.shares.make(hit.device, *name);
            references.insert(key, 2);
        }
        is_made
    }

    /// The one who holds a plain item refers to it by name from now on. False where the block that its run names does not hold it.
    fn name_owner(
        &self,
        device: u8,
        known: &Known,
        name: Spot,
        history: &BTreeMap<LeafKey, History>,
        transaction: &mut Transaction,
    ) -> bool {
        let (id, block) = known.owner;
        let leaf = (id, block / LEAF_BLOCKS);
        let here = self.components.get(id).filter(|component| component.device == device && !component.lost);
        let Some(component) = here.filter(|_| transaction.has_leaf(leaf)) else { return false };
        if let Some(entry) = transaction.entry(id, block).filter(|entry| entry.spot == known.place) {
            if !Canary::OwnerStaysPlain.sings() {
                transaction.add_spot(device, name);
                transaction.set_entry(component, block, Some(Entry { spot: name, ..entry }));
            }
            return true;
        }
        // Where a page is damaged nobody can tell what goes with it.
        let of_leaf = history.get(&leaf).filter(|history| !history.has_lost());
        let of_shard = block % SHARD_BLOCKS;
        let Some(((of, generation), entry)) = of_leaf.and_then(|history| history.in_spot(of_shard, known.place)) else {
            return Canary::HitUnpinned.sings();
        };
        transaction.add_spot(device, name);
        let at = (block - of_shard + of, generation);
        transaction.move_history(component, at, Entry { spot: name, ..entry }, known.place);
        true
    }
}
