//! Clones in a run: each has what its snapshot held, and over that what its own guest wrote.
//!
//! Promises    a read finds in each sector what was written there last, or what the snapshot had; where a write was not answered, before or
//!             after it, either
//!             a snapshot is not deleted while it has clones
//! Assumes     one guest: nobody else writes the clone
//! Not here    when clones are made (`draw`), what a snapshot holds (`snapshots`)

use std::{cell::RefCell, rc::Rc, time::Duration};

use bytes::Bytes;
use cairn_api::{LocalManagement as _, v1};
use cairn_node::{NodeExports, NodeVolume};
use cairn_sim::SimEnv;
use cairn_volume::{Exports as _, Volume as _};

use crate::{
    cluster::{Cluster, STUCK_AFTER},
    copied::{Copied, Held},
    model::{SECTOR, bytes},
    shape::Shape,
};

/// What is counted of clones that were made.
pub const MADE: &str = "clones";
/// What is counted of clones that were flattened.
pub const FLATTENED: &str = "clones flattened";
/// How long a clone may take to be flattened: faults may last some time, and then all is healed.
const FLAT_WITHIN: Duration = Duration::from_secs(180);
/// When nobody owns a clone for so long that is being flattened, it is flat.
const AT_REST_AFTER: Duration = Duration::from_secs(60);
/// Sectors of one read.
const AT_ONCE: u64 = 1024;
/// Whose the bytes are that a clone's guest writes; above the numbers of all disks.
const WRITER: u64 = 1 << 32;

/// What a clone's guest does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Write,
    Zero,
    Trim,
}

impl Cluster {
    /// Makes a clone of a snapshot that was read. Its name; none where it was not made.
    pub async fn make_clone(&self, snapshot: &str, host: usize, number: u64) -> Option<String> {
        let held = self.snapshots.held.borrow().get(snapshot).cloned()?;
        let disk: usize = snapshot.split_once('@').and_then(|(disk, _)| Shape::number_of(disk))?;
        let parent = self.models.borrow().get(&disk)?.borrow().id();
        let at = self.up_from(host).ok()?;
        let name = format!("clone-{number}");
        self.extra_disks.borrow_mut().insert(name.clone());
        let request =
            v1::DiskClone { name: name.clone(), policy: Some(CLONES_POLICY.into()), ..v1::DiskClone::default() };
        let of = snapshot.to_owned();
        let made = self.manage(at, async move |node| node.disk_clone(of, request).await).await;
        if let Err(error) = made {
            self.log.add(format!("h{at} makes no clone of {snapshot}: {error}"));
            return None;
        }
        let copied = Copied::of(&held, parent, WRITER + number);
        self.clones.borrow_mut().insert(name.clone(), Rc::new(RefCell::new(copied)));
        self.count(MADE);
        Some(name)
    }

    /// Makes a clone of a snapshot of a clone, which nobody changes meanwhile. Its name; none where it was not made.
    pub async fn make_clone_of_clone(&self, name: &str, host: usize, number: u64) -> Option<String> {
        let copied = self.clones.borrow().get(name)?.borrow().clone();
        let at = self.up_from(host).ok()?;
        let (snapshot, made) = (format!("c-{number}"), format!("clone-x{number}"));
        let take = v1::SnapshotCreate { name: snapshot.clone(), disks: vec![name.to_owned()], locked_for_s: 0 };
        let taken = self.manage(at, async move |node| node.snapshot_create(take).await).await;
        self.extra_disks.borrow_mut().insert(made.clone());
        let request = v1::DiskClone { name: made.clone(), ..v1::DiskClone::default() };
        let of = format!("{name}@{snapshot}");
        let done = match taken {
            Ok(_) => self.manage(at, async move |node| node.disk_clone(of, request).await).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            self.log.add(format!("h{at} makes no clone of clone {name}: {error}"));
            return None;
        }
        self.clones.borrow_mut().insert(made.clone(), Rc::new(RefCell::new(copied)));
        self.count(MADE);
        Some(made)
    }

    async fn open_clone(&self, at: usize, name: &str) -> Result<NodeVolume<SimEnv>, String> {
        let node = self.node(at).ok_or("it is down")?;
        let name = name.to_owned();
        let open = async move { NodeExports::new(&node).open(&name).await };
        let opened = self.run_on(at, STUCK_AFTER, open).await.map_err(|lost| format!("{lost:?}"))?;
        opened.map_err(|error| error.to_string())?.ok_or_else(|| "there is none".into())
    }

    /// Changes some of a clone by way of a host, and keeps account of it.
    pub(crate) async fn change_clone(&self, at: usize, name: &str, copied: &Rc<RefCell<Copied>>) {
        let Ok(volume) = self.open_clone(at, name).await else { return };
        let sectors = copied.borrow().sectors();
        let first = self.world.random_below(sectors);
        let count = (1 + self.world.random_below(96)).min(sectors - first);
        let act = [Act::Write, Act::Write, Act::Write, Act::Zero, Act::Trim][self.world.random_below(5) as usize];
        let (held, data) = {
            let mut copied = copied.borrow_mut();
            let version = copied.next_version();
            match act {
                Act::Write => (Held::Own(version), bytes(copied.writer(), first, count, version)),
                Act::Zero | Act::Trim => (Held::Zeroes, Vec::new()),
            }
        };
        copied.borrow_mut().begin(first, count, held);
        let (offset, len) = (first * SECTOR, count * SECTOR);
        let change = async move {
            match act {
                Act::Write => volume.write(offset, Bytes::from(data)).await,
                Act::Zero => volume.write_zeroes(offset, len, true).await,
                Act::Trim => volume.trim(offset, len).await,
            }
        };
        let done = self.run_on(at, STUCK_AFTER, change).await;
        copied.borrow_mut().end(first, count, held, matches!(done, Ok(Ok(()))));
    }

    /// Reads a clone at a host, and compares. `must`: it has to be readable.
    ///
    /// # Errors
    /// It holds what it cannot.
    pub async fn check_clone(&self, at: usize, name: &str, must: bool) -> Result<(), String> {
        let Some(copied) = self.clones.borrow().get(name).cloned() else { return Ok(()) };
        let sectors = copied.borrow().sectors();
        let volume = match self.open_clone(at, name).await {
            Ok(volume) => volume,
            Err(why) if must => return Err(format!("clone {name} cannot be opened at h{at}: {why}")),
            Err(_) => return Ok(()),
        };
        let mut first = 0;
        while first < sectors {
            let count = (sectors - first).min(AT_ONCE);
            let read = self.run_on(at, STUCK_AFTER, volume.read(first * SECTOR, (count * SECTOR) as u32)).await;
            match read {
                Ok(Ok(parts)) => copied
                    .borrow()
                    .check(first, &parts.concat())
                    .map_err(|why| format!("clone {name} at h{at}: {why}"))?,
                failed if must => return Err(format!("clone {name} cannot be read at h{at}: {failed:?}")),
                _ => return Ok(()),
            }
            first += count;
        }
        Ok(())
    }

    /// Flattens a clone, and waits until it needs nobody.
    ///
    /// # Errors
    /// It does not come to its end.
    pub async fn flatten_clone(&self, name: &str, host: usize) -> Result<(), String> {
        let Ok(at) = self.up_from(host) else { return Ok(()) };
        let disk = name.to_owned();
        let begun = self.manage(at, async move |node| node.disk_flatten(disk).await).await;
        if let Err(error) = &begun {
            self.log.add(format!("h{at} does not flatten {name}: {error}"));
            return Ok(());
        }
        let since = self.world.now();
        while self.world.now() - since < FLAT_WITHIN {
            self.world.sleep(Duration::from_millis(200)).await;
            let Ok(at) = self.up_from(host) else { continue };
            let disk = name.to_owned();
            let shown = self.manage(at, async move |node| node.disk_show(disk).await).await;
            // Of one that nobody owns its seats tell, which may be old: but nobody owns one for long that is not flat yet.
            let rests = self.world.now() - since > AT_REST_AFTER;
            let Some(shown) = shown.ok().filter(|shown| rests || shown.summary.owner.is_some()) else { continue };
            if shown.clone_of.is_none() {
                self.count(FLATTENED);
                return Ok(());
            }
        }
        Err(format!("liveness: clone {name} is not flat within {FLAT_WITHIN:?}"))
    }

    /// Whether a clone is known to need nobody any more.
    pub async fn is_flat(&self, name: &str) -> bool {
        let Ok(at) = self.up_from(0) else { return false };
        let disk = name.to_owned();
        let shown = self.manage(at, async move |node| node.disk_show(disk).await).await;
        shown.is_ok_and(|shown| shown.summary.owner.is_some() && shown.clone_of.is_none())
    }

    /// Reads all clones at every host. `must`: all of each has to be readable.
    ///
    /// # Errors
    /// One holds what it cannot.
    pub async fn check_clones(&self, must: bool) -> Result<(), String> {
        let names: Vec<String> = self.clones.borrow().keys().cloned().collect();
        for name in names {
            for at in 0..self.members.len() {
                self.check_clone(at, &name, must).await?;
            }
        }
        Ok(())
    }

    /// Deletes all snapshots of a disk, and before that their clones, as far as hosts do it.
    pub async fn let_past_go(&self, disk: usize, host: usize) {
        let Ok(at) = self.up_from(host) else { return };
        let Some(id) = self.models.borrow().get(&disk).map(|model| model.borrow().id()) else { return };
        let is_of = |copied: &Rc<RefCell<Copied>>| copied.borrow().parent() == id;
        let clones: Vec<String> =
            self.clones.borrow().iter().filter(|(_, copied)| is_of(copied)).map(|(name, _)| name.clone()).collect();
        for name in clones {
            if self.delete_disk(at, &name).await.is_ok() {
                self.clones.borrow_mut().remove(&name);
            }
        }
        let name = Shape::disk_name(disk);
        let Ok(listed) = self.manage(at, async move |node| node.snapshot_list(name).await).await else { return };
        for snapshot in listed {
            let _ = self.delete_snapshot(at, &format!("{}@{}", snapshot.disk, snapshot.name)).await;
        }
    }

    /// Tries to delete a snapshot that has a clone.
    ///
    /// # Errors
    /// It goes.
    pub async fn keeps_parent(&self, snapshot: &str, at: usize) -> Result<(), String> {
        let Ok(at) = self.up_from(at) else { return Ok(()) };
        let name = snapshot.to_owned();
        match self.manage(at, async move |node| node.snapshot_delete(name).await).await {
            Ok(()) => Err(format!("snapshot {snapshot} is deleted, and has a clone")),
            Err(_) => Ok(()),
        }
    }
}

/// The policy of clones: copies at two hosts.
pub const CLONES_POLICY: &str = v1::DEFAULT_POLICY;

/// A clone is made of a snapshot, written and read for a while, and flattened or not. It stays until the run ends.
pub async fn live(cluster: &Cluster, snapshot: &str, host: usize, (lasts, flattens): (Duration, bool)) {
    let number = cluster.clones.borrow().len() as u64;
    let Some(name) = cluster.make_clone(snapshot, host, number).await else { return };
    let Some(copied) = cluster.clones.borrow().get(&name).cloned() else { return };
    let rounds = 6;
    for round in 0..rounds {
        let at = (host + round as usize) % cluster.members.len();
        for _ in 0..3 {
            cluster.change_clone(at, &name, &copied).await;
        }
        if let Err(why) = cluster.check_clone(at, &name, false).await {
            return cluster.violated(why);
        }
        if round == 2
            && let Err(why) = cluster.keeps_parent(snapshot, at).await
        {
            return cluster.violated(why);
        }
        if round == 3
            && flattens
            && let Err(why) = cluster.flatten_clone(&name, at).await
        {
            return cluster.violated(why);
        }
        cluster.world.sleep(lasts / rounds).await;
    }
}
