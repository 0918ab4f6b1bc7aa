//! What a cluster costs as it grows: messages, heartbeats, directory calls and latency of clusters of several sizes, with the same
//! load on every host and no faults.
//!
//! Promises    one seed is one curve; messages are counted by what they are, not by subtracting what was there at rest
//! Assumes     nothing fails: a request that does ends the run with what it was told
//! Not here    processor time, which costs nothing in these worlds (`scripts/bench/objects.py` measures it of real daemons)

use std::{cell::Cell, fmt, rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_api::{LocalManagement, v1};
use cairn_types::{BLOCK_BYTES, HostId, Member};
use cairn_volume::Volume;
use cairn_wire::Message;
use futures::future::join_all;

use crate::{
    cluster::{Client, Cluster, PATIENCE},
    run::{End, Failure, caught},
    shape::Shape,
};

/// Bytes of each disk; all of it is written before anything counts.
const DISK_BYTES: u64 = 1 << 20;
/// Until a new cluster is at rest: what it has just made is looked at once more in the first seconds.
const SETTLES: Duration = Duration::from_secs(10);
/// How long a cluster at rest is listened to: a host reconciles every two to three seconds.
const RESTS: Duration = Duration::from_secs(20);
/// How long each load lasts.
const LOADED: Duration = Duration::from_secs(4);
/// The longest pause of a guest between two requests: some 200 requests a second and disk.
const PAUSE_MAX_US: u64 = 8000;

/// How large the clusters are, and what they are drawn from.
#[derive(Debug, Clone)]
pub struct Order {
    /// Hosts of each cluster.
    pub hosts: Vec<usize>,
    /// Disks for each host, with one guest each that keeps one request outstanding.
    pub disks_per_host: usize,
    /// Of every delay and every address.
    pub seed: u64,
}

/// What was said while something was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Said {
    /// Heartbeats and their answers.
    pub heartbeats: u64,
    /// Their bytes.
    pub heartbeat_bytes: u64,
    /// All other messages.
    pub others: u64,
    /// Calls of the directory.
    pub directory: u64,
}

/// One kind of request, from guests at one kind of host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// What was said meanwhile.
    pub said: Said,
    /// Requests that ended.
    pub requests: u64,
    /// The sum of how long they took.
    pub took: Duration,
}

impl Load {
    /// Messages for each request.
    pub fn messages(&self) -> f64 {
        self.said.others as f64 / self.requests as f64
    }

    /// Mean latency in microseconds of the simulated world.
    pub fn mean_us(&self) -> f64 {
        self.took.as_secs_f64() * 1e6 / self.requests as f64
    }
}

/// One cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its hosts.
    pub hosts: usize,
    /// Its disks.
    pub disks: usize,
    /// What was said at rest.
    pub rest: Said,
    /// Guests at the host for which their disk was made, where one copy is: writes, then reads.
    pub near: [Load; 2],
    /// Guests at a host without a copy.
    pub far: [Load; 2],
}

impl Point {
    /// Of `count` at rest: for each host and second.
    pub fn rest_rate(&self, count: u64) -> f64 {
        count as f64 / self.hosts as f64 / RESTS.as_secs_f64()
    }

    /// What was said under all four loads.
    fn loaded(&self) -> impl Iterator<Item = &Load> {
        self.near.iter().chain(&self.far)
    }

    /// Of what `count` takes from each load: for each host and second.
    pub fn load_rate(&self, count: impl Fn(&Said) -> u64) -> f64 {
        let sum: u64 = self.loaded().map(|load| count(&load.said)).sum();
        sum as f64 / self.hosts as f64 / (4.0 * LOADED.as_secs_f64())
    }
}

/// The heading of [`Point`]'s lines: a table in Markdown.
pub const HEADING: &str = "\
| hosts | disks | messages a write: copy here | copy elsewhere | a read: copy here | copy elsewhere \
| mean write, us: copy here | copy elsewhere | mean read, us: copy here | copy elsewhere \
| heartbeat messages a host and second: at rest | loaded | their bytes: at rest | loaded | other messages at rest, all hosts, a second \
| directory calls a host and second: at rest | loaded | all hosts: at rest |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([near_write, near_read], [far_write, far_read]) = (&self.near, &self.far);
        write!(f, "| {} | {} ", self.hosts, self.disks)?;
        for load in [near_write, far_write, near_read, far_read] {
            write!(f, "| {:.2} ", load.messages())?;
        }
        for load in [near_write, far_write, near_read, far_read] {
            write!(f, "| {:.0} ", load.mean_us())?;
        }
        let heartbeats = (self.rest_rate(self.rest.heartbeats), self.load_rate(|said| said.heartbeats));
        let bytes = (self.rest_rate(self.rest.heartbeat_bytes), self.load_rate(|said| said.heartbeat_bytes));
        write!(f, "| {:.0} | {:.0} | {:.0} | {:.0} ", heartbeats.0, heartbeats.1, bytes.0, bytes.1)?;
        let all = RESTS.as_secs_f64();
        let directory = (self.rest_rate(self.rest.directory), self.load_rate(|said| said.directory));
        write!(f, "| {:.2} | {:.2} | {:.2} ", self.rest.others as f64 / all, directory.0, directory.1)?;
        write!(f, "| {:.2} |", self.rest.directory as f64 / all)
    }
}

/// Measures a cluster of so many hosts.
///
/// # Errors
/// What failed, with what happened last.
pub fn point(hosts: usize, order: &Order) -> Result<Point, Failure> {
    caught(|log| {
        let shape = Shape { disks: Vec::new(), ..Shape::plain(hosts) };
        let cluster = Cluster::new(order.seed, &shape, false);
        log.replace(Some(cluster.log.clone()));
        let _end = End(cluster.clone());
        let meter = Meter::new(&cluster);
        let disks = hosts * order.disks_per_host;
        cluster.world.block_on(async move { meter.point(disks).await })
    })
}

#[derive(Clone)]
struct Meter {
    cluster: Cluster,
    said: Rc<Cell<Said>>,
}

/// A guest: its disk, and the hosts where it is used.
struct Place {
    disk: String,
    near: usize,
    far: usize,
}

impl Meter {
    fn new(cluster: &Cluster) -> Self {
        let said: Rc<Cell<Said>> = Rc::default();
        let heard = said.clone();
        cluster.world.on_message(move |body, payload| {
            let mut said = heard.get();
            match cairn_wire::decode(body).expect("hosts send messages") {
                Message::Heartbeat(_) | Message::HeartbeatWith(..) | Message::HeartbeatAnswer(_) => {
                    said.heartbeats += 1;
                    said.heartbeat_bytes += (body.len() + payload) as u64;
                }
                _ => said.others += 1,
            }
            heard.set(said);
        });
        Self { cluster: cluster.clone(), said }
    }

    fn now(&self) -> Said {
        let directory = self.cluster.members.iter().map(|member| member.way.calls()).sum();
        Said { directory, ..self.said.get() }
    }

    /// What is said while `during` runs.
    async fn said<T>(&self, during: impl Future<Output = T>) -> (T, Said) {
        let before = self.now();
        let value = during.await;
        let now = self.now();
        let said = Said {
            heartbeats: now.heartbeats - before.heartbeats,
            heartbeat_bytes: now.heartbeat_bytes - before.heartbeat_bytes,
            others: now.others - before.others,
            directory: now.directory - before.directory,
        };
        (value, said)
    }

    async fn point(&self, disks: usize) -> Result<Point, String> {
        let hosts = self.cluster.members.len();
        let mut places = Vec::new();
        for n in 0..disks {
            places.push(self.make(n, n % hosts).await?);
        }
        self.cluster.world.sleep(SETTLES).await;
        let ((), rest) = self.said(self.cluster.world.sleep(RESTS)).await;
        let near = self.loads(&places, |place| place.near).await?;
        for place in &places {
            self.cluster.forget_client(place.near, &place.disk);
        }
        let far = self.loads(&places, |place| place.far).await?;
        Ok(Point { hosts, disks, rest, near, far })
    }

    /// Makes a disk for a host, as one does for a machine that is to run there.
    async fn make(&self, number: usize, near: usize) -> Result<Place, String> {
        let (cluster, disk) = (&self.cluster, Shape::disk_name(number));
        let request = v1::DiskCreate {
            name: disk.clone(),
            size_bytes: DISK_BYTES,
            policy: None,
            host: Some(format!("h{near}")),
            limits: v1::DiskLimits::default(),
        };
        let made = cluster.manage(near, async move |node| node.disk_create(request).await).await;
        made.map_err(|error| format!("{disk}: {error}"))?;
        let name = disk.clone();
        let record = cluster.manage(near, async move |node| node.disk_record(name).await).await;
        let config = record.map_err(|error| error.to_string())?.config.ok_or("no record")?;
        let with_copy = |n: usize| {
            let id: HostId = cluster.members[n].host.spoken_id();
            config.members.iter().any(|m: &Member| m.set().is_some() && m.host == id)
        };
        if !with_copy(near) {
            return Err(format!("{disk} has no copy at h{near}, for which it was made"));
        }
        let hosts = cluster.members.len();
        // The next hosts in turn, so that every host has as many guests as any other.
        let far = (1..hosts).map(|n| (near + n) % hosts).find(|n| !with_copy(*n));
        Ok(Place { disk, near, far: far.ok_or("every host has a copy")? })
    }

    /// Guests write, then they read.
    async fn loads(&self, places: &[Place], at: impl Fn(&Place) -> usize) -> Result<[Load; 2], String> {
        let mut guests = Vec::new();
        for place in places {
            let host = at(place);
            let client = self.cluster.client(host, &place.disk).await;
            let client = client.ok_or_else(|| format!("h{host} does not open {}", place.disk))?;
            guests.push((host, client));
        }
        for (host, client) in &guests {
            // All of it once: what is read is somewhere then.
            self.request(*host, client.write(0, Bytes::from(vec![0x5A; DISK_BYTES as usize]))).await?;
        }
        // The owners have settled what they wrote.
        self.cluster.world.sleep(Duration::from_secs(3)).await;
        Ok([self.load(&guests, true).await?, self.load(&guests, false).await?])
    }

    async fn load(&self, guests: &[(usize, Client)], write: bool) -> Result<Load, String> {
        let until = self.cluster.world.now() + LOADED;
        let all = join_all(guests.iter().map(|(host, client)| self.guest(*host, client, write, until)));
        let (done, said) = self.said(all).await;
        let mut load = Load { said, ..Load::default() };
        for done in done {
            let (requests, took) = done?;
            load.requests += requests;
            load.took += took;
        }
        Ok(load)
    }

    /// One request after the other, with pauses; gives how many there were, and how long they took together.
    async fn guest(
        &self,
        host: usize,
        client: &Client,
        write: bool,
        until: Duration,
    ) -> Result<(u64, Duration), String> {
        let (world, mut requests, mut took) = (&self.cluster.world, 0, Duration::ZERO);
        let data = Bytes::from(vec![0xA5; BLOCK_BYTES as usize]);
        loop {
            world.sleep(Duration::from_micros(world.random_below(PAUSE_MAX_US))).await;
            let began = world.now();
            if began >= until {
                return Ok((requests, took));
            }
            let offset = world.random_below(DISK_BYTES / u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES);
            match write {
                true => self.request(host, client.write(offset, data.clone())).await?,
                false => drop(self.request(host, client.read(offset, BLOCK_BYTES)).await?),
            }
            requests += 1;
            took += world.now() - began;
        }
    }

    async fn request<T: 'static>(
        &self,
        host: usize,
        request: impl Future<Output = Result<T, cairn_volume::VolumeError>> + 'static,
    ) -> Result<T, String> {
        let ran = self.cluster.run_on(host, PATIENCE, request).await;
        ran.map_err(|lost| format!("h{host}: {lost:?}"))?.map_err(|error| format!("h{host}: {error}"))
    }
}
