//! Devices of this host that are slow beside their peers, here and at other hosts.
//!
//! Promises    each host tells what its devices' requests took, and judges its own: a host that hears nobody names nobody
//! Assumes     facts of heartbeats reach every host; a device keeps its id for as long as it is watched
//! Not here    when a device is slow (`pace`); what is done about it (`slow_groups`)

use std::{collections::BTreeSet, time::Duration};

use cairn_api::v1;
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_pace::{SLOW_SPAN, SlowWatch, judge};
use cairn_types::{DeviceId, DeviceTimes, DiskGroupId, Feature, SlowDevices, Time};
use cairn_wire::Facts;

use crate::{groups::is_called, node::Node};

/// What a peer told is passed over when it is older: the peer is down, or has told nothing new for two spans.
const HEARD_MAX: Duration = Duration::from_secs(10);

impl<E: Env> Node<E> {
    /// Looks at this host's devices for as long as the node lives.
    pub(crate) async fn watch_devices(&self) {
        let env = &self.inner.env;
        let mut began = env.now();
        while !self.inner.stopping.get() {
            env.sleep(SLOW_SPAN).await;
            self.learn_rotations().await;
            self.look_at_devices(began);
            began = env.now();
        }
    }

    /// What becomes of slow devices, as the cluster's settings say.
    pub(crate) fn slow_devices(&self) -> SlowDevices {
        self.settings().map(|settings| settings.slow_devices).unwrap_or_default()
    }

    /// A span has ended: what was counted is told, and judged by what peers told.
    fn look_at_devices(&self, began: Time) {
        let (inner, slow) = (&self.inner, &self.inner.slow);
        let now = inner.env.now();
        let mut sums: Vec<(DeviceId, DeviceTimes, DeviceTimes)> = Vec::new();
        {
            let (mut watched, rotates) = (slow.watched.borrow_mut(), slow.rotates.borrow());
            let mut here = BTreeSet::new();
            for store in inner.seats.stores() {
                for (device, span) in store.group().take_device_times() {
                    let span = DeviceTimes { rotates: rotates.get(&device).copied().flatten(), ..span };
                    let known = watched.entry(device).or_default();
                    known.disk_group = store.disk_group();
                    sums.push((device, span, known.add(span)));
                    here.insert(device);
                }
            }
            watched.retain(|device, _| here.contains(device));
        }
        let told = sums.iter().map(|(_, _, sum)| *sum).filter(|sum| !sum.is_idle());
        *slow.told.borrow_mut() = told.collect();
        self.tell_facts();
        if self.slow_devices() == SlowDevices::Off {
            slow.watched.borrow_mut().values_mut().for_each(|watched| watched.watch = SlowWatch::default());
            return;
        }
        let heard: Vec<DeviceTimes> = {
            let mut heard = slow.heard.borrow_mut();
            heard.retain(|_, (at, _)| now.since(*at) <= HEARD_MAX);
            heard.values().flat_map(|(_, times)| times).copied().collect()
        };
        for (device, span, _) in &sums {
            let others = sums.iter().filter(|(other, ..)| other != device).map(|(_, _, sum)| *sum);
            let peers: Vec<DeviceTimes> = others.chain(heard.iter().copied()).collect();
            let pace = judge(span, now.since(began), &peers);
            if let Some(watched) = slow.watched.borrow_mut().get_mut(device) {
                watched.watch.see(began, pace);
            }
        }
    }

    /// Heartbeats carry what this host takes the level for, and what its devices took.
    pub(crate) fn tell_facts(&self) {
        let level = self.level();
        if level.has(Feature::HeartbeatFacts) {
            self.inner.leases.set_facts(self.inner.slow.add_to(Facts::of_level(level)));
        }
    }

    /// Asks the system about devices that are new.
    async fn learn_rotations(&self) {
        let inner = &self.inner;
        let known: Vec<(String, DeviceId)> = {
            let groups = inner.groups.borrow();
            let all = groups.values().flat_map(|paths| paths.all().cloned().zip(paths.devices.iter().copied()));
            all.collect()
        };
        if known.iter().all(|(_, device)| inner.slow.rotates.borrow().contains_key(device)) {
            return;
        }
        let found = inner.outside.block_devices().await.unwrap_or_default();
        let rotates =
            |path: &str| found.iter().find(|device| is_called(device, path)).and_then(|device| device.rotates);
        let all = known.iter().map(|(path, device)| (*device, rotates(path)));
        *inner.slow.rotates.borrow_mut() = all.collect();
    }

    /// The path of a device of a disk group of this host that is known to rotate.
    pub(crate) async fn rotating_device(&self, disk_group: DiskGroupId) -> Option<String> {
        self.learn_rotations().await;
        let (groups, rotates) = (self.inner.groups.borrow(), self.inner.slow.rotates.borrow());
        let paths = groups.get(&disk_group)?;
        let mut all = paths.all().zip(&paths.devices);
        all.find(|(_, device)| rotates.get(device).copied().flatten() == Some(true)).map(|(path, _)| path.clone())
    }

    /// A device of this host, for people, where it is slow.
    pub(crate) fn slow_device(&self, device: DeviceId) -> Option<v1::SlowDevice> {
        let watched = self.inner.slow.watched.borrow();
        let (since, outlier) = watched.get(&device)?.watch.slow()?;
        Some(v1::SlowDevice {
            requests: outlier.kind.name().into(),
            took_us: outlier.took_ns / 1000,
            peers_us: outlier.peers_ns / 1000,
            peers: outlier.peers as u32,
            since_unix_ms: self.unix_ms_of(since),
        })
    }

    /// By the clock of the day.
    pub(crate) fn unix_ms_of(&self, at: Time) -> u64 {
        let env = &self.inner.env;
        env.unix_ms().saturating_sub(env.now().since(at).as_millis() as u64)
    }
}
