//! What a host knows of slow devices: its own, span by span, and what peers told of theirs. Plain data.
//!
//! Not here    the judgement (`pace`), the looks (`slow`)

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
};

use cairn_pace::{Outlier, SLOW_SPANS, SlowWatch};
use cairn_types::{DeviceId, DeviceTimes, DiskGroupId, HostId, Time};
use cairn_wire::Facts;

/// What a host knows of slow devices.
#[derive(Default)]
pub(crate) struct SlowState {
    /// Its own devices.
    pub(crate) watched: RefCell<BTreeMap<DeviceId, Watched>>,
    /// What peers told last, and when.
    pub(crate) heard: RefCell<BTreeMap<HostId, (Time, Vec<DeviceTimes>)>>,
    /// What this host tells.
    pub(crate) told: RefCell<Vec<DeviceTimes>>,
    /// Whether devices have moving parts, of those that the system was asked about.
    pub(crate) rotates: RefCell<BTreeMap<DeviceId, Option<bool>>>,
    /// Why slow disk groups of this host are not being emptied.
    pub(crate) waits: RefCell<BTreeMap<DiskGroupId, String>>,
}

/// A device of this host.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) disk_group: DiskGroupId,
    spans: VecDeque<DeviceTimes>,
    pub(crate) watch: SlowWatch,
}

impl Watched {
    /// Takes in a span; returns all that are remembered, together.
    pub(crate) fn add(&mut self, span: DeviceTimes) -> DeviceTimes {
        if self.spans.len() == SLOW_SPANS {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
        let first = DeviceTimes { is_cache: span.is_cache, rotates: span.rotates, ..DeviceTimes::default() };
        self.spans.iter().fold(first, |mut sum, span| {
            sum.add(span);
            sum
        })
    }
}

/// A device that is slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowDevice {
    pub(crate) device: DeviceId,
    pub(crate) since: Time,
    pub(crate) outlier: Outlier,
}

impl SlowState {
    /// A peer tells what its devices' requests took.
    pub(crate) fn hear(&self, host: HostId, now: Time, facts: &Facts) {
        let times = facts.device_times();
        if !times.is_empty() {
            self.heard.borrow_mut().insert(host, (now, times));
        }
    }

    /// What heartbeats carry.
    pub(crate) fn add_to(&self, facts: Facts) -> Facts {
        facts.with_device_times(&self.told.borrow())
    }

    /// The slow device of a disk group; of several the one that is furthest off.
    pub(crate) fn slow_in(&self, disk_group: DiskGroupId) -> Option<SlowDevice> {
        let watched = self.watched.borrow();
        let of = watched.iter().filter(|(_, watched)| watched.disk_group == disk_group);
        let slow = of.filter_map(|(id, watched)| {
            let (since, outlier) = watched.watch.slow()?;
            Some(SlowDevice { device: *id, since, outlier })
        });
        slow.max_by_key(|slow| slow.outlier.took_ns / slow.outlier.peers_ns.max(1))
    }

    /// Whether a device was as fast as its peers for long.
    pub(crate) fn is_well(&self, device: DeviceId) -> bool {
        self.watched.borrow().get(&device).is_some_and(|watched| watched.watch.is_well())
    }
}
