//! Disk groups with a slow device are emptied, one at a time in the cluster.
//!
//! Promises    a mark in the directory says which one: hosts take turns by it, and it outlives all of them
//!             what an administrator called off is not begun again; what is empty stays out of use until one says so
//! Assumes     the host of the group decides: it has judged the device
//! Not here    the moves: a marked group is one that is being emptied, as `disk-group drain` has it (`placement`, `object`)

use std::time::Duration;

use cairn_api::{
    ApiResult,
    v1::{self, SlowGroupState},
};
use cairn_directory::{CalledOff, DeviceRole, DiskGroupEntry, SlowGroup, SlowGroupsEntry, TheCluster};
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_placement::{Leaving, MaintenancePreview, lacks_a_copy, slow_group_cannot_go, slow_group_waits};
use cairn_types::{DiskGroupId, Feature, HostId, SlowDevices};

use crate::{manage::directory_error, node::Node, slow_state::SlowDevice};

/// How often a host looks whether something is to be done.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it asks all disks whether a group may be begun with: that costs messages.
const ASK_EVERY: Duration = Duration::from_secs(10);

impl<E: Env> Node<E> {
    /// Empties slow disk groups of this host for as long as the node lives.
    pub(crate) async fn empty_slow_groups(&self) {
        let env = &self.inner.env;
        let mut asks = env.now();
        while !self.inner.stopping.get() {
            env.sleep(LOOK_EVERY).await;
            self.tend_marks().await;
            if env.now() < asks {
                continue;
            }
            for store in self.inner.seats.stores() {
                let slow = self.inner.slow.slow_in(store.disk_group());
                let slow = slow.filter(|slow| self.may_mark(store.disk_group(), slow));
                let Some(slow) = slow else {
                    self.inner.slow.waits.borrow_mut().remove(&store.disk_group());
                    continue;
                };
                asks = env.now() + ASK_EVERY;
                let waits = match self.why_not_emptied(store.disk_group()).await {
                    None => self.mark(store.disk_group(), store.group().components_count().0, slow).await,
                    why => why,
                };
                let mut all = self.inner.slow.waits.borrow_mut();
                all.remove(&store.disk_group());
                all.extend(waits.map(|why| (store.disk_group(), why)));
            }
        }
    }

    /// What is done about slow disk groups, as this host knows it.
    pub(crate) fn slow_marks(&self) -> SlowGroupsEntry {
        self.inner.copy.borrow().get::<SlowGroupsEntry>(&TheCluster).unwrap_or_default()
    }

    /// Whether a slow group is one that nothing was decided about.
    fn may_mark(&self, disk_group: DiskGroupId, slow: &SlowDevice) -> bool {
        let marks = self.slow_marks();
        self.slow_devices() == SlowDevices::Evacuate
            && self.level().has(Feature::Moves)
            && marks.group(disk_group).is_none()
            && !marks.is_called_off(disk_group, slow.device)
    }

    /// Why a slow disk group of this host is not emptied now.
    async fn why_not_emptied(&self, disk_group: DiskGroupId) -> Option<String> {
        let mut picture = self.picture();
        if let Some(why) = slow_group_waits(&picture, disk_group) {
            return Some(why);
        }
        let groups = picture.hosts.iter_mut().flat_map(|host| &mut host.disk_groups);
        let group = groups.filter(|group| group.disk_group == disk_group).map(|group| {
            group.draining = true;
            group.devices.iter().map(|device| device.total_bytes).sum::<u64>()
        });
        let total_bytes = group.sum();
        // All of its room goes: what is on it takes that elsewhere, and what is free on it is no room any more.
        if let Err(refusal) = self.leave_reserve(&format!("emptying disk group {disk_group}"), total_bytes) {
            return Some(refusal.message);
        }
        let mut preview = MaintenancePreview::new(picture, Leaving::DiskGroup(disk_group));
        let mut lacking = None;
        let unknown = self
            .each_known(|config| {
                if lacks_a_copy(&config) {
                    lacking = Some(config.name.clone());
                }
                preview.add(&config);
            })
            .await;
        let unknown = unknown.first().map(|name| format!("nobody tells of disk {name}"));
        unknown.or_else(|| slow_group_cannot_go(&preview, lacking.as_deref()))
    }

    /// Begins to empty a group of this host, where no other one is being emptied: why not, if so.
    async fn mark(&self, disk_group: DiskGroupId, components: u32, slow: SlowDevice) -> Option<String> {
        let inner = &self.inner;
        let known = inner.copy.borrow().list::<DiskGroupEntry>();
        let entry = known.iter().find(|(id, _)| *id == disk_group).map(|(_, entry)| entry);
        let role = entry.and_then(|entry| entry.devices.iter().find(|device| device.device == slow.device));
        let new = SlowGroup {
            disk_group,
            host: self.me(),
            device: slow.device,
            role: role.map_or(DeviceRole::Capacity, |device| device.role),
            took_us: slow.outlier.took_ns / 1000,
            peers_us: slow.outlier.peers_ns / 1000,
            since_unix_ms: self.unix_ms_of(slow.since),
            components,
            emptied: false,
        };
        let mut other = None;
        let update = inner.registry.update::<SlowGroupsEntry>(&TheCluster, |marks| {
            let is_gone = |group: &SlowGroup| !known.iter().any(|(id, _)| *id == group.disk_group);
            let marks = marks.cloned().unwrap_or_default().without(is_gone);
            other = marks.groups.iter().find(|group| !group.emptied).map(|group| (group.host, group.disk_group));
            Ok(marks.begun(new.clone()))
        });
        match update.await {
            Err(error) => return Some(error.to_string()),
            Ok(Some(marks)) if marks.group(disk_group).is_some() => {}
            Ok(_) => {
                let (host, first) = other?;
                return Some(format!("disk group {first} of host {} is being emptied", self.server_name(host)));
            }
        }
        let text = format!("disk group {disk_group} is being emptied: {}", self.words_of(&new));
        inner.outside.warn(text);
        None
    }

    /// Ends marks of this host's groups that have come to their end.
    async fn tend_marks(&self) {
        let here = |group: &SlowGroup| group.host == self.me() && !group.emptied;
        for mark in self.slow_marks().groups.into_iter().filter(here) {
            let Some(store) = self.inner.seats.store(mark.disk_group) else { continue };
            let left = store.group().components_count().0;
            // What has moved is not moved back, so a group that is fast again goes on being emptied once something went.
            let is_well = self.inner.slow.is_well(mark.device) && left >= mark.components;
            let change: fn(&SlowGroupsEntry, DiskGroupId) -> SlowGroupsEntry = match left {
                0 => |marks, id| marks.emptied(id),
                _ if is_well || self.slow_devices() != SlowDevices::Evacuate => {
                    |marks, id| marks.without(|group| group.disk_group == id)
                }
                _ => continue,
            };
            // Without the directory it is tried again with the next look.
            let _ = self.change_marks(|marks| change(marks, mark.disk_group)).await;
        }
    }

    async fn change_marks(&self, mut change: impl FnMut(&SlowGroupsEntry) -> SlowGroupsEntry + Send) -> ApiResult<()> {
        let update = self.inner.registry.update::<SlowGroupsEntry>(&TheCluster, |known| {
            Ok(known.map(|known| (known, change(known))).filter(|(known, next)| *known != next).map(|(_, next)| next))
        });
        update.await.map(drop).map_err(directory_error)
    }

    /// An administrator takes a disk group into use again: it is not emptied again by itself.
    pub(crate) async fn call_off_slow(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        if self.slow_marks().group(disk_group).is_none() {
            return Ok(());
        }
        let entry = self.inner.copy.borrow().get::<DiskGroupEntry>(&disk_group);
        let devices: Vec<_> = entry.iter().flat_map(|entry| &entry.devices).map(|device| device.device).collect();
        let off = CalledOff { disk_group, devices };
        self.change_marks(|marks| marks.with_called_off(off.clone())).await
    }

    /// What was called off counts no more; of one disk group, where it is named.
    pub(crate) async fn forget_called_off(&self, only: Option<DiskGroupId>) -> ApiResult<()> {
        if self.slow_marks().called_off.is_empty() {
            return Ok(());
        }
        self.change_marks(|marks| {
            let mut next = marks.clone();
            next.called_off.retain(|off| only.is_some_and(|only| only != off.disk_group));
            next
        })
        .await
    }

    /// A disk group is gone: so is what was decided about it.
    pub(crate) async fn forget_slow(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        if self.slow_marks() == SlowGroupsEntry::default() {
            return Ok(());
        }
        self.change_marks(|marks| {
            let mut next = marks.without(|group| group.disk_group == disk_group);
            next.called_off.retain(|off| off.disk_group != disk_group);
            next
        })
        .await
    }

    /// What is done about a disk group that is slow, or was.
    pub(crate) fn about_slow(&self, host: HostId, disk_group: DiskGroupId) -> Option<v1::SlowGroup> {
        let told = |state, text: String| Some(v1::SlowGroup { state, text });
        let marks = self.slow_marks();
        if let Some(mark) = marks.group(disk_group) {
            let (state, how) = match mark.emptied {
                true => (SlowGroupState::Emptied, "it was emptied, and stays out of use"),
                false => (SlowGroupState::Emptying, "it is being emptied"),
            };
            return told(state, format!("{how}: {}", self.words_of(mark)));
        }
        let slow = self.inner.slow.slow_in(disk_group).filter(|_| host == self.me())?;
        if marks.is_called_off(disk_group, slow.device) {
            let text = "it is left alone, as an administrator took it into use again";
            return told(SlowGroupState::LeftAlone, text.into());
        }
        if self.slow_devices() != SlowDevices::Evacuate || !self.level().has(Feature::Moves) {
            let text = match self.level().has(Feature::Moves) {
                true => "it is left alone: slow_devices is not \"evacuate\"",
                false => "it is left alone until the upgrade is finished",
            };
            return told(SlowGroupState::LeftAlone, text.into());
        }
        let waits = self.inner.slow.waits.borrow().get(&disk_group).cloned();
        let text =
            waits.map_or_else(|| "it is about to be emptied".into(), |why| format!("it is not emptied now: {why}"));
        told(SlowGroupState::Waiting, text)
    }

    fn words_of(&self, mark: &SlowGroup) -> String {
        let role = match mark.role {
            DeviceRole::Cache => "cache",
            DeviceRole::Capacity => "capacity",
        };
        let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
        let (took, peers) = (ms(mark.took_us), ms(mark.peers_us));
        format!("requests of {role} device {} took {took}, those of its peers {peers}", mark.device)
    }
}
