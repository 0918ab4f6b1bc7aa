//! What a story is told on: a cluster with guests at work, and short words for what happens to it.

use std::{cell::RefCell, ops::Range, rc::Rc, time::Duration};

use cairn_api::{LocalManagement, v1};
use cairn_faults::{At, Moment};
use cairn_node::Node;
use cairn_sim::{CrashPhase, CrashPoint, Fault, Host, Medium, SimDisk, SimEnv};
use cairn_types::{ComponentState, HostId, Member, ObjectConfig};
use futures::future::{Either, select};

use super::Told;
use crate::{
    cluster::Cluster,
    guests::Guests,
    inject::flip_end,
    rest::Spoiled,
    run::{HEALTHY_WITHIN, come_to_rest},
    shape::Shape,
};

/// What hosts sent each other.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A cluster with guests.
#[derive(Clone)]
pub struct Stage {
    /// The cluster.
    pub cluster: Cluster,
    /// Those of each disk.
    pub guests: Vec<Guests>,
    /// What was measured.
    pub measured: Rc<RefCell<Told>>,
}

impl Stage {
    /// A cluster of this shape, with its guests and readers at work.
    pub fn new(seed: u64, shape: &Shape, print: bool) -> Self {
        let cluster = Cluster::new(seed, shape, print);
        let guests: Vec<Guests> = (0..shape.disks.len()).map(|n| Guests::new(&cluster, n)).collect();
        for (guests, disk) in guests.iter().zip(&shape.disks) {
            guests.start(disk.guests, shape.pause_max_ms);
            guests.start_readers(disk.readers, shape.pause_max_ms);
        }
        Self { cluster, guests, measured: Rc::default() }
    }

    /// Keeps the longest of what was measured.
    pub fn note(&self, kind: String, took: Duration) {
        self.measured.borrow_mut().lasted(kind, took);
    }

    /// Keeps the most of what was counted.
    pub fn count(&self, kind: impl Into<String>, count: u64) {
        self.measured.borrow_mut().counted(kind.into(), count);
    }

    /// Messages and bytes that hosts send each other from now on until `during` ends.
    pub async fn traffic<T>(&self, during: impl Future<Output = T>) -> (T, Traffic) {
        let before = self.cluster.world.traffic();
        let value = during.await;
        let now = self.cluster.world.traffic();
        let (messages, bytes) = (now.sent - before.sent, now.sent_bytes - before.sent_bytes);
        (value, Traffic { messages, bytes })
    }

    /// Waits.
    pub async fn ms(&self, n: u64) {
        self.cluster.world.sleep(Duration::from_millis(n)).await;
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.cluster.world.random_below(bound)
    }

    /// Any host.
    pub fn any(&self) -> usize {
        self.below(self.cluster.members.len() as u64) as usize
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.cluster.members.len()
    }

    /// The machine of a host.
    pub fn host(&self, n: usize) -> &Host {
        &self.cluster.members[n].host
    }

    /// Says what happens now.
    pub fn say(&self, text: impl Into<String>) {
        self.cluster.log.add(format!("--- {}", text.into()));
    }

    /// Power goes; which unsynced sectors are lost is drawn.
    pub fn crash(&self, n: usize) {
        self.say(format!("h{n} loses power"));
        self.host(n).crash(self.cluster.world.random_u64());
    }

    /// Power goes within one of its next disk operations, the one of this number from now on.
    pub fn crash_at(&self, n: usize, after: u64) {
        self.say(format!("h{n} is to lose power {after} disk operations from now"));
        let operation = self.host(n).disk_operations() + after;
        let loss_seed = self.cluster.world.random_u64();
        self.host(n).crash_at(CrashPoint { operation, phase: CrashPhase::During, loss_seed });
    }

    /// Starts it, unless it runs.
    pub fn start(&self, n: usize) {
        if !self.host(n).is_up() {
            self.say(format!("h{n} starts"));
            self.host(n).restart();
        }
    }

    /// What the devices of a host hold now, with what was in flight or without.
    pub fn image(&self, n: usize) -> Vec<(String, Medium)> {
        self.say(format!("h{n}: an image is taken"));
        self.cluster.image(n, self.cluster.world.random_u64())
    }

    /// Devices of these contents in the place of a host's.
    pub fn put_in_place(&self, n: usize, image: Vec<(String, Medium)>) {
        self.say(format!("h{n}: the image is put in place"));
        for (name, medium) in image {
            self.host(n).add_disk_of(&name, medium);
        }
    }

    /// A bit of the last two batches of a host's log is flipped; which is drawn.
    pub fn flip_end(&self, n: usize) {
        let at = At { host: n, group: 0, capacity: None };
        flip_end(&self.cluster, &at, self.cluster.world.random_u64());
    }

    /// Both capacity devices of a host are gone.
    pub fn lose_capacity(&self, n: usize) {
        self.say(format!("h{n}: capacity devices are gone"));
        self.capacity(n).for_each(|disk| disk.inject(Fault::Gone));
    }

    /// The capacity devices of a host's first disk group.
    pub fn capacity(&self, n: usize) -> impl Iterator<Item = SimDisk> {
        [0, 1].into_iter().map(move |device| self.host(n).disk(&Shape::device_name(0, Some(device))))
    }

    /// Devices of all hosts but one take fifty times as long: what is copied to them takes long enough to be met.
    pub fn slow_devices_but(&self, n: usize) {
        self.say(format!("devices are slow, but at h{n}"));
        (0..self.hosts()).filter(|other| *other != n).for_each(|other| self.slow(other, 50));
    }

    /// No device is slow any more.
    pub fn devices_as_fast_as_ever(&self) {
        self.say("devices are as fast as ever");
        (0..self.hosts()).for_each(|n| self.slow(n, 1));
    }

    /// Devices of a host take so many times as long from now on.
    pub fn slow(&self, n: usize, times: u32) {
        let host = self.host(n);
        host.disk_names().iter().for_each(|name| host.disk(name).inject(Fault::Slow { times }));
    }

    /// Cuts a host off.
    pub fn isolate(&self, n: usize) {
        self.say(format!("h{n} is cut off"));
        self.cluster.world.isolate(self.host(n).id());
    }

    /// Cuts one link.
    pub fn cut(&self, a: usize, b: usize) {
        self.say(format!("h{a} and h{b} are cut from each other"));
        self.cluster.world.cut(self.host(a).id(), self.host(b).id());
    }

    /// Heals all links.
    pub fn heal_links(&self) {
        self.say("links are healed");
        self.cluster.world.heal_all();
    }

    /// A host becomes owner of the first disk. Whoever is at it just then is waited for.
    pub async fn attach(&self, n: usize) -> Result<(), String> {
        self.attach_disk(0, n).await
    }

    /// The same of any disk.
    pub async fn attach_disk(&self, disk: usize, n: usize) -> Result<(), String> {
        self.attach_named(&Shape::disk_name(disk), n).await
    }

    /// The same of a disk with this name.
    pub async fn attach_named(&self, disk: &str, n: usize) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..10 {
            let request = v1::DiskAttach { host: None };
            let name = disk.to_owned();
            let attach = async move |node: Node<SimEnv>| node.disk_attach(name, request).await.map(drop);
            match self.cluster.manage(n, attach).await {
                Ok(()) => return Ok(()),
                Err(error) => last = error.to_string(),
            }
            self.ms(300).await;
        }
        Err(format!("h{n} does not get the disk: {last}"))
    }

    /// Where a disk is.
    pub async fn config(&self, disk: usize) -> Result<ObjectConfig, String> {
        self.config_named(Shape::disk_name(disk)).await
    }

    /// Hosts with a copy of a disk with this name.
    pub async fn copies_of_named(&self, disk: &str) -> Result<Vec<usize>, String> {
        let config = self.config_named(disk.to_owned()).await?;
        Ok(config.members.iter().filter(|m| m.set().is_some()).map(|m| self.number(m.host)).collect())
    }

    async fn config_named(&self, disk: String) -> Result<ObjectConfig, String> {
        self.config_from(0..self.hosts(), disk).await
    }

    async fn config_from(&self, mut hosts: Range<usize>, disk: String) -> Result<ObjectConfig, String> {
        let up = hosts.find(|n| self.cluster.node(*n).is_some()).ok_or("they are all down")?;
        let record = self.cluster.manage(up, async move |node| node.disk_record(disk).await).await;
        record.map_err(|e| e.to_string())?.config.ok_or_else(|| "no record".to_owned())
    }

    /// The first disk as a host shows it.
    pub async fn show(&self, n: usize) -> Result<v1::DiskSummary, String> {
        let shown = self.cluster.manage(n, async move |node| node.disk_show(Shape::disk_name(0)).await).await;
        shown.map(|disk| disk.summary).map_err(|e| e.to_string())
    }

    /// The number of a host.
    pub fn number(&self, id: HostId) -> usize {
        self.cluster.members.iter().position(|m| m.host.spoken_id() == id).expect("a host of this cluster")
    }

    /// Hosts with a component of a disk.
    pub async fn hosts_of(&self, disk: usize) -> Result<Vec<usize>, String> {
        Ok(self.config(disk).await?.members.iter().map(|m| self.number(m.host)).collect())
    }

    /// Hosts with a copy of a disk.
    pub async fn copies_of(&self, disk: usize) -> Result<Vec<usize>, String> {
        self.copies_of_named(&Shape::disk_name(disk)).await
    }

    /// Waits until the copy of a disk at a host is in such a state. When it was seen so.
    pub async fn state_of(
        &self,
        disk: usize,
        n: usize,
        is: impl Fn(ComponentState) -> bool,
    ) -> Result<Duration, String> {
        let of = |config: &ObjectConfig| {
            let mut copies = config.members.iter().filter(|member| member.set().is_some());
            copies.find(|member| self.number(member.host) == n).is_some_and(|member| is(member.state))
        };
        self.comes_to((0..self.hosts(), disk), &format!("its copy at h{n} comes to that state"), of).await
    }

    /// Waits until the record of a disk is such, as the first of these hosts that is up tells it. When it was seen so.
    pub async fn comes_to(
        &self,
        (hosts, disk): (Range<usize>, usize),
        what: &str,
        is: impl Fn(&ObjectConfig) -> bool,
    ) -> Result<Duration, String> {
        for _ in 0..10_000 {
            if is(&self.config_from(hosts.clone(), Shape::disk_name(disk)).await?) {
                return Ok(self.cluster.world.now());
            }
            self.ms(2).await;
        }
        Err(format!("disk {disk}: its record does not say that {what}"))
    }

    /// Hosts with a copy of the first disk, and those with a witness of it.
    pub async fn copies_and_witnesses(&self) -> Result<(Vec<usize>, Vec<usize>), String> {
        let config = self.config(0).await?;
        let (copies, witnesses): (Vec<_>, Vec<_>) = config.members.iter().partition(|m| m.set().is_some());
        let numbers = |members: Vec<&Member>| members.iter().map(|m| self.number(m.host)).collect();
        Ok((numbers(copies), numbers(witnesses)))
    }

    /// The host that tells of `moment` next.
    pub async fn told(&self, moment: Moment, within_ms: u64) -> Result<usize, String> {
        let told = self.cluster.next_to_tell(moment);
        match select(told, Box::pin(self.cluster.world.sleep(Duration::from_millis(within_ms)))).await {
            Either::Left((Ok(n), _)) => Ok(n),
            _ => Err(format!("nobody tells of {moment:?} within {within_ms} ms")),
        }
    }

    /// Changes of the first disk that were acknowledged so far.
    pub fn acked(&self) -> u64 {
        self.guests[0].model.borrow().acked
    }

    /// Guests get at least this many changes done in that time.
    pub async fn goes_on(&self, at_least: u64, within_ms: u64) -> Result<(), String> {
        let before = self.acked();
        self.ms(within_ms).await;
        let done = self.acked() - before;
        match done >= at_least {
            true => Ok(()),
            false => Err(format!("P6: only {done} changes were acknowledged in {within_ms} ms, not {at_least}")),
        }
    }

    /// The disks' names.
    pub fn disks(&self) -> Vec<String> {
        self.guests.iter().map(|g| g.disk().to_owned()).collect()
    }

    /// Waits until one host sees all disks healthy, whatever others are down.
    pub async fn healthy_at(&self, n: usize) -> Result<(), String> {
        self.cluster.wait_healthy_from(n..n + 1, &self.disks(), HEALTHY_WITHIN).await
    }

    /// Waits until all disks are healthy.
    pub async fn healthy(&self) -> Result<(), String> {
        self.cluster.wait_healthy(&self.disks(), HEALTHY_WITHIN).await
    }

    /// Everything ends well: healed, healthy, every byte right, copies equal, nothing left over.
    pub async fn rest(&self, spoiled: bool) -> Result<(), String> {
        self.cluster.heal_everything();
        let what = if spoiled { Spoiled::Anything } else { Spoiled::Nothing };
        come_to_rest(&self.cluster, &self.guests, what).await?;
        if let Some(what) = self.cluster.take_differences().first() {
            return Err(format!("I5: copies in sync differ: {what}"));
        }
        match self.cluster.repairs().first() {
            Some(what) if !spoiled => Err(format!("I7: {what}, and no medium was spoiled")),
            _ => Ok(()),
        }
    }
}
