//! The components of the disk group: those that are here, those that were deleted, and what the log holds of them.
//!
//! Promises    what a device is charged for a component follows every change of it ([`Components::change`])
//! Assumes     the transaction that is put together changes nothing that is charged ([`Components::all_mut`])
//! Not here    one component (`component.rs`), what a record does to it (`state.rs`)

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ops::Bound,
};

use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId, DeviceRoom, ObjectId, OpId, demand_bytes};

use crate::{
    component::Component,
    error::{StoreError, StoreErrorKind, refused},
    records::Records,
    tier::Tier,
};

/// A deleted component whose map is not emptied, or whose records may still be in the log.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub device: u8,
    pub position: u64,
    /// Blocks that its map still holds.
    pub base_blocks: u64,
    pub emptied: bool,
    pub dirty: bool,
}

/// All components, and the records of the log that name them.
#[derive(Debug)]
pub(crate) struct Components {
    by_id: BTreeMap<ComponentId, Component>,
    /// How many of them are witnesses, of no blocks: told with every heartbeat, so not counted each time.
    witnesses: u32,
    of_object: BTreeMap<ObjectId, BTreeSet<ComponentId>>,
    deleted: BTreeMap<ComponentId, Deleted>,
    pub records: Records,
    /// Outcomes of requests that a component remembers, at most.
    outcomes_max: usize,
}

impl Components {
    pub fn new(outcomes_max: usize) -> Self {
        Self {
            by_id: BTreeMap::new(),
            witnesses: 0,
            of_object: BTreeMap::new(),
            deleted: BTreeMap::new(),
            records: Records::default(),
            outcomes_max,
        }
    }

    pub fn outcomes_max(&self) -> usize {
        self.outcomes_max
    }
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
    pub fn witnesses(&self) -> u32 {
        self.witnesses
    }
    /// All that are here, by id.
    pub fn all(&self) -> impl Iterator<Item = &Component> {
        self.by_id.values()
    }
    /// The same, to take out what a transaction writes, or to put in what one wrote: nothing that is charged changes.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Component> {
        self.by_id.values_mut()
    }
    pub fn get(&self, id: ComponentId) -> Option<&Component> {
        self.by_id.get(&id)
    }
    /// One that is known to be here.
    pub fn of(&self, id: ComponentId) -> &Component {
        &self.by_id[&id]
    }
    pub fn is_here(&self, id: ComponentId) -> bool {
        self.by_id.contains_key(&id)
    }
    /// Ids are never reused.
    pub fn is_or_was_here(&self, id: ComponentId) -> bool {
        self.by_id.contains_key(&id) || self.deleted.contains_key(&id)
    }
    /// Those of one object, by id.
    pub fn of_object(&self, object: ObjectId) -> impl Iterator<Item = &Component> {
        self.of_object.get(&object).into_iter().flatten().filter_map(|id| self.by_id.get(id))
    }
    /// Objects that have some here, ascending from the one after `after`.
    pub fn objects_after(&self, after: Option<ObjectId>) -> impl Iterator<Item = ObjectId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.of_object.range((from, Bound::Unbounded)).map(|(object, _)| *object)
    }
    /// The device of one that is or was here.
    pub fn device_of(&self, id: ComponentId) -> Option<u8> {
        self.by_id.get(&id).map(|c| c.device).or_else(|| self.deleted.get(&id).map(|d| d.device))
    }

    pub fn known(&self, id: ComponentId) -> Result<&Component, StoreError> {
        self.by_id.get(&id).ok_or_else(|| StoreError::unknown(id))
    }
    pub fn not_lost(&self, id: ComponentId) -> Result<&Component, StoreError> {
        let component = self.known(id)?;
        match component.lost {
            false => Ok(component),
            true => {
                let text = format!("component {id} is lost: its capacity device failed");
                Err(StoreError::new(StoreErrorKind::Lost, text))
            }
        }
    }
    /// Whether `op` may change these blocks of a component.
    pub fn check(&self, id: ComponentId, op: Option<OpId>, range: BlockRange) -> Result<(), StoreError> {
        let component = self.not_lost(id)?;
        if range.count == 0 {
            return Err(refused(format!("an operation on no block of component {id}")));
        }
        component.within(range)?;
        if op.is_some_and(|op| component.is_undone(op)) {
            return Err(StoreError::new(StoreErrorKind::Undone, "the operation was undone before it arrived"));
        }
        Ok(())
    }

    /// Changes a component and keeps its device's charge right. None when it is not here.
    pub fn change<R>(
        &mut self,
        tier: &mut Tier,
        id: ComponentId,
        act: impl FnOnce(&mut Component, &mut Records) -> R,
    ) -> Option<R> {
        let component = self.by_id.get_mut(&id)?;
        let (before, used, witness) = (component.charge(), component.used(), is_witness(component));
        let reserved = component.set_aside();
        let result = act(component, &mut self.records);
        self.witnesses = self.witnesses + u32::from(is_witness(component)) - u32::from(witness);
        let device = tier.of_mut(component.device);
        device.charged = device.charged + component.charge() - before;
        device.used = device.used + component.used() - used;
        device.reserved = device.reserved + component.set_aside() - reserved;
        Some(result)
    }

    /// Begins a component; does nothing when it is here or was deleted.
    pub fn create(
        &mut self,
        tier: &mut Tier,
        id: ComponentId,
        object: ObjectId,
        (size_blocks, reserved_blocks): (u64, u64),
        device: u8,
    ) {
        if self.is_or_was_here(id) {
            return;
        }
        let mut component = Component::new(id, object, size_blocks, reserved_blocks, device);
        let Some(segments) = tier.get_mut(device) else {
            return;
        };
        component.lost = segments.failed;
        segments.charged += component.charge();
        segments.used += component.used();
        segments.reserved += component.set_aside();
        self.enter(component);
    }

    /// Puts one among those that are here; nothing is charged for it.
    pub fn enter(&mut self, component: Component) {
        self.of_object.entry(component.object).or_default().insert(component.id);
        self.witnesses += u32::from(is_witness(&component));
        self.by_id.insert(component.id, component);
    }

    /// Deletes one, by a record at `position`. False when it is not here.
    pub fn delete(&mut self, tier: &mut Tier, id: ComponentId, position: u64) -> bool {
        let Some(mut component) = self.by_id.remove(&id) else {
            return false;
        };
        self.witnesses -= u32::from(is_witness(&component));
        if let Entry::Occupied(mut of_object) = self.of_object.entry(component.object) {
            of_object.get_mut().remove(&id);
            if of_object.get().is_empty() {
                of_object.remove();
            }
        }
        let device = tier.of_mut(component.device);
        // What its map holds stays charged until destage has emptied it.
        let base_blocks = if component.lost { 0 } else { component.base.total() + component.history_blocks };
        device.charged = device.charged - component.charge() + base_blocks;
        device.used -= component.used();
        device.reserved -= component.set_aside();
        component.clear_index(&mut self.records);
        let deleted = Deleted { device: component.device, position, base_blocks, emptied: false, dirty: true };
        self.deleted.insert(id, deleted);
        true
    }

    /// A device failed: its components are lost. Gives which.
    pub fn lose_those_on(&mut self, tier: &mut Tier, device: u8) -> Vec<ComponentId> {
        let ids: Vec<ComponentId> = self.all().filter(|c| c.device == device && !c.lost).map(|c| c.id).collect();
        for &id in &ids {
            self.change(tier, id, |c, records| c.lose(records));
        }
        ids
    }

    pub fn deleted(&self) -> impl Iterator<Item = &Deleted> {
        self.deleted.values()
    }
    /// To take out what a transaction writes.
    pub fn deleted_mut(&mut self) -> impl Iterator<Item = (ComponentId, &mut Deleted)> {
        self.deleted.iter_mut().map(|(id, deleted)| (*id, deleted))
    }
    /// Takes one over from the metadata; nothing is charged for it.
    pub fn enter_deleted(&mut self, id: ComponentId, deleted: Deleted) {
        self.deleted.insert(id, deleted);
    }
    /// Deleted components whose maps wait to be emptied. Those of a device that failed keep theirs: should it be there
    /// again at the next opening, its segments' counts still include what the maps refer to.
    pub fn deleted_to_empty(&self, tier: &Tier) -> Vec<ComponentId> {
        let due = |d: &Deleted| !d.emptied && !tier.of(d.device).failed;
        self.deleted.iter().filter(|(_, d)| due(d)).map(|(id, _)| *id).collect()
    }
    /// The map of a deleted component is empty with the next transaction.
    pub fn emptied(&mut self, tier: &mut Tier, id: ComponentId) {
        let deleted = self.deleted.get_mut(&id).expect("only the destage task removes it");
        deleted.emptied = true;
        deleted.dirty = true;
        tier.of_mut(deleted.device).charged -= std::mem::take(&mut deleted.base_blocks);
    }
    /// The log begins at `tail`: it has no record any more of those deleted before.
    pub fn forget_deleted_before(&mut self, tail: u64) {
        self.deleted.retain(|_, deleted| !deleted.emptied || deleted.position >= tail);
    }

    /// The log was read: puts all of it into the index. Gives what each component is charged for, and uses: before, and then.
    pub fn build_index(&mut self) -> Vec<(u8, [u64; 2], [u64; 2])> {
        self.records.defers = false;
        let mut changed = Vec::new();
        for component in self.by_id.values_mut() {
            let before = [component.charge(), component.used()];
            component.build_index(&mut self.records);
            changed.push((component.device, before, [component.charge(), component.used()]));
        }
        changed
    }

    /// Takes over what the metadata has of a component, before anything is charged. None when it is not here.
    pub fn load<R>(&mut self, id: ComponentId, act: impl FnOnce(&mut Component, &mut Records) -> R) -> Option<R> {
        Some(act(self.by_id.get_mut(&id)?, &mut self.records))
    }
    /// The map of a deleted component holds so many blocks more.
    pub fn load_deleted_blocks(&mut self, id: ComponentId, blocks: u64) {
        if let Some(deleted) = self.deleted.get_mut(&id) {
            deleted.base_blocks += blocks;
        }
    }
    /// All rows were taken over: charges devices for what is on them. What is on one that failed is lost, for good: also when the
    /// device returns.
    pub fn finish_load(&mut self, tier: &mut Tier) {
        for component in self.by_id.values_mut() {
            let segments = tier.of_mut(component.device);
            if component.lost || segments.failed {
                component.lose(&mut self.records);
                component.base = Default::default();
            } else {
                segments.charged += component.charge();
                segments.used += component.used();
                segments.reserved += component.set_aside();
            }
        }
        for deleted in self.deleted.values() {
            tier.of_mut(deleted.device).charged += deleted.base_blocks;
        }
    }

    /// The room on each capacity device, in the order of devices. Costs a look at each component.
    pub fn rooms(&self, tier: &Tier) -> Vec<DeviceRoom> {
        let block = u64::from(BLOCK_BYTES);
        let mut growth_blocks = vec![0; tier.len()];
        for component in self.all() {
            growth_blocks[component.device as usize] += component.size_blocks.saturating_sub(component.charge());
        }
        let room = |(device, growth): (u8, u64)| match tier.of(device).failed {
            true => DeviceRoom::default(),
            false => DeviceRoom {
                total_bytes: tier.of(device).limit() * block,
                free_bytes: tier.room(device) * block,
                growth_bytes: growth * block,
            },
        };
        (0..).zip(growth_blocks).map(room).collect()
    }

    /// The capacity device for a new component; none where all have failed.
    pub fn choose_device(&self, tier: &Tier, size_blocks: u64, reserved_blocks: u64) -> Option<u8> {
        let block = u64::from(BLOCK_BYTES);
        let demand = demand_bytes(size_blocks.saturating_mul(block), reserved_blocks.saturating_mul(block));
        DeviceRoom::choose(&self.rooms(tier), demand).map(|device| device as u8)
    }
}

fn is_witness(component: &Component) -> bool {
    component.size_blocks == 0
}
