//! A capacity device more, or one in the place of another, while the disk group is in use.
//!
//! Promises    G1  power may go at any moment: the group has the device, or it has not and the device can be given again
//!             G2  nothing is written to segments of the device before the cache device's superblock names it
//!             G3  a number is never given to a second device: rows and records of the log name devices by it
//! Assumes     the caller has looked at the device: nothing that anybody needs stands on it
//! Not here    who asks for it, and under which name the device is found again (`node`)
//!
//! The device's own superblock is written first. Then the destage task, between two transactions, has the cache device's superblock name
//! it: with that it is the group's. A device that is given up stays as a number without a device: no build looks for more than
//! one of that id, and every build opens such a group as one whose device is missing.

use std::rc::Rc;

use cairn_env::{Disk, DiskError, Env};
use cairn_format::{CapacityRegions, DeviceRole, NO_DEVICE, Needs, Superblock};
use cairn_types::{BLOCK_BYTES, DeviceId};
use futures::channel::oneshot;

use crate::{
    create::{CAPACITY_DEVICES_MAX, write_superblock},
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind},
    growth::{Growth, gone},
    occupant::wipe_superblocks,
    options::{FormatOptions, capacity_regions, metadata_bytes_of},
    segments::Segments,
    shards::Bounds,
};

/// What a disk group would be with a capacity device more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// Bytes that components may use on the device.
    pub usable_bytes: u64,
    /// Bytes of the metadata region, which stays as it is.
    pub metadata_bytes: u64,
    /// Bytes of it that a group of that size would be made with.
    pub metadata_wanted_bytes: u64,
}

/// One device is added at a time.
struct Turn<E: Env>(Rc<Inner<E>>);

impl<E: Env> Turn<E> {
    fn take(inner: &Rc<Inner<E>>) -> Result<Self, StoreError> {
        match inner.grows.replace(true) {
            true => Err(refused("another device is being added to the disk group: try again when that is done".into())),
            false => Ok(Self(inner.clone())),
        }
    }
}

impl<E: Env> Drop for Turn<E> {
    fn drop(&mut self) {
        self.0.grows.set(false);
    }
}

fn refused(text: String) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, text)
}

impl<E: Env> DiskGroup<E> {
    /// What the group would be with a device of so many bytes; `instead_of`: which one is given up.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] says why it cannot be added.
    pub fn would_grow(&self, name: &str, bytes: u64, instead_of: Option<DeviceId>) -> Result<Grown, StoreError> {
        let inner = self.inner();
        let (_, regions, given_up) = inner.plan_growth(name, bytes, instead_of)?;
        let state = inner.state.borrow();
        let raw = |segments: &Segments| segments.count() * u64::from(segments.segment_pages) * u64::from(BLOCK_BYTES);
        let stay = state.tier.devices().iter().filter(|s| !s.failed && Some(s.device) != given_up);
        let all = stay.map(raw).sum::<u64>() + u64::from(regions.segment_count) * u64::from(regions.segment_bytes);
        let device = Segments::new(0, &regions);
        Ok(Grown {
            usable_bytes: device.limit() * u64::from(BLOCK_BYTES),
            metadata_bytes: inner.meta.room().bytes().0,
            metadata_wanted_bytes: metadata_bytes_of(all),
        })
    }

    /// Takes a capacity device into use; components are placed on it at once. `instead_of` is given up for it: what is on that is
    /// lost, as when it fails, and its superblock is wiped where it can be reached. What stands on the new device goes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`]: nothing was changed. [`StoreErrorKind::Media`]: the device failed and the group is without it, or
    /// the cache device did and the group takes no writes until it is reopened.
    pub async fn add_capacity(&self, disk: E::Disk, instead_of: Option<DeviceId>) -> Result<DeviceId, StoreError> {
        let inner = self.inner();
        let turn = Turn::take(inner)?;
        let (index, regions, given_up) = inner.plan_growth(&disk.name(), disk.len_bytes(), instead_of)?;
        let id = DeviceId::from_random(inner.env.random_u64(), inner.env.random_u64());
        let superblock = Superblock {
            device: id,
            device_bytes: disk.len_bytes(),
            generation: 1,
            role: DeviceRole::Capacity { regions, index },
            needs: Needs::NONE,
            ..inner.superblock.borrow().clone()
        };
        write_superblock(&disk, &superblock).await?;
        if let Some(device) = given_up {
            let why = DiskError { cause: "it was replaced".into(), ..gone("use") };
            inner.fail_device(device, &why);
        }
        let (done, named) = oneshot::channel();
        *inner.growth.borrow_mut() = Some(Growth { disk, index, regions, id, instead_of: given_up, done });
        if inner.state.borrow().life.ends() {
            inner.refuse_growth();
        }
        inner.destager.raise();
        let closed = || Err(StoreError::new(StoreErrorKind::Media, "the disk group was closed"));
        let old = named.await.unwrap_or_else(|_| closed())?;
        if let Some(old) = old {
            // One that does not take it is dead, or is refused by name as a device of this group.
            let _ = wipe_superblocks(&old, inner.id).await;
        }
        drop(turn);
        Ok(id)
    }
}

impl<E: Env> Inner<E> {
    /// The number that a new device gets, how it is divided, and the number of the one that is given up.
    fn plan_growth(
        &self,
        name: &str,
        bytes: u64,
        instead_of: Option<DeviceId>,
    ) -> Result<(u8, CapacityRegions, Option<u8>), StoreError> {
        let ids = self.capacity_ids();
        self.state.borrow().life.not_stopped()?;
        if ids.len() >= CAPACITY_DEVICES_MAX {
            let text = format!(
                "the disk group has had {CAPACITY_DEVICES_MAX} capacity devices, which is the most it may have in its life: drain it, \
                 remove it, and make it anew"
            );
            return Err(refused(text));
        }
        let given_up = match instead_of {
            None => None,
            Some(id) => {
                let at = ids.iter().position(|known| *known == id && id != NO_DEVICE);
                Some(at.ok_or_else(|| refused("it is no capacity device of the disk group".into()))? as u8)
            }
        };
        let superblock = self.superblock.borrow();
        let DeviceRole::Cache { regions: cache, .. } = &superblock.role else { unreachable!("a cache device") };
        let state = self.state.borrow();
        // As the others have them: what cleaning keeps free of each has to hold a segment of the log.
        let segment_pages = state.tier.devices().iter().find(|s| s.count() > 0).map(|s| s.segment_pages);
        let segment_bytes = segment_pages.map_or(FormatOptions::default().segment_bytes, |pages| pages * BLOCK_BYTES);
        let options = FormatOptions { segment_bytes, ..FormatOptions::default() };
        Ok((ids.len() as u8, capacity_regions(&options, name, bytes, cache.log_id)?, given_up))
    }

    /// Capacity devices by number; [`NO_DEVICE`] where one was given up.
    pub(crate) fn capacity_ids(&self) -> Vec<DeviceId> {
        let superblock = self.superblock.borrow();
        let DeviceRole::Cache { capacity, .. } = &superblock.role else { unreachable!("a cache device") };
        capacity.clone()
    }

    /// Between two transactions: the device that waits is the group's from now on.
    pub(crate) async fn take_up_device(self: &Rc<Self>) -> Result<(), StoreError> {
        let growth = self.growth.borrow_mut().take();
        let Some(Growth { disk, index, regions, id, instead_of, done }) = growth else { return Ok(()) };
        let is_next = usize::from(index) == self.capacity.borrow().len();
        // One whose caller was cut off may have come between.
        let other = || refused("another device was added meanwhile: try again".into());
        if let Err(error) = self.state.borrow().life.not_stopped().and(is_next.then_some(()).ok_or_else(other)) {
            let _ = done.send(Err(error));
            return Ok(());
        }
        let turn = self.superblock_turn.lock().await;
        let superblock = self.superblock_with(id, instead_of);
        if let Err(error) = write_superblock(&self.cache, &superblock).await {
            let _ = done.send(Err(error.clone()));
            return Err(error);
        }
        *self.superblock.borrow_mut() = superblock;
        drop(turn);
        self.capacity.borrow_mut().push(Some(disk));
        let old = instead_of.and_then(|device| self.capacity.borrow_mut()[device as usize].take());
        {
            let mut state = self.state.borrow_mut();
            state.tier.push(Segments::new(index, &regions));
            let bounds = Bounds::of(state.log.ring.size(), state.tier.blocks(), self.map_waiting);
            self.map_bounds.set((bounds, self.map_bounds.get().1));
            if let Some(pages) = state.map.pages_mut() {
                pages.set_bounds(bounds);
            }
        }
        self.probe_every(index);
        // Nobody listens where the caller was cut off: the device is the group's all the same.
        let _ = done.send(Ok(old));
        Ok(())
    }

    fn superblock_with(&self, id: DeviceId, instead_of: Option<u8>) -> Superblock {
        let known = self.superblock.borrow();
        let DeviceRole::Cache { regions, mut capacity } = known.role.clone() else { unreachable!("a cache device") };
        if let Some(device) = instead_of {
            capacity[device as usize] = NO_DEVICE;
        }
        capacity.push(id);
        let role = DeviceRole::Cache { regions, capacity };
        Superblock { role, generation: known.generation + 1, ..known.clone() }
    }

    /// The group ends: whoever waits hears of it.
    pub(crate) fn refuse_growth(&self) {
        if let Some(growth) = self.growth.borrow_mut().take() {
            let _ = growth.done.send(Err(StoreError::new(StoreErrorKind::Media, "the disk group was closed")));
        }
    }
}
