//! Snapshots in a run: what one holds is what its disk held at one moment, for ever, at every host.
//!
//! Promises    the first read of a snapshot is judged like one long read of the disk that began with the asking: each sector has something that
//!             it may have had, nothing that began after the answer, and all sectors together what they had at one moment
//!             each later read finds the same
//!             of two snapshots, whatever differs is among what is said to have changed between them
//! Not here    when snapshots are taken (`draw`)

use std::{cell::RefCell, rc::Rc, time::Duration};

use cairn_api::{ApiErrorKind, LocalManagement as _, v1};
use cairn_node::{NodeExports, NodeVolume};
use cairn_sim::SimEnv;
use cairn_volume::{Exports as _, Volume as _};

use crate::{
    clones,
    cluster::{Cluster, STUCK_AFTER},
    model::{Found, Model, Reading, SECTOR},
    shape::Shape,
};

/// How often the first read is tried: it must come to its end before the model may forget.
const FIRST_READS_MAX: usize = 60;
/// Sectors of one read.
const AT_ONCE: u64 = 1024;
/// How long a disk may take to go back: faults may last some time, and then all is healed.
const GOES_BACK_WITHIN: Duration = Duration::from_secs(180);
/// What is counted of disks that went back to a snapshot.
pub const WENT_BACK: &str = "disks that went back";
/// What is counted of snapshots that were read whole.
pub const READ: &str = "snapshots read";
/// What is counted of pairs of which it was asked what changed.
pub const CHANGES_TOLD: &str = "changes told";

/// A disk whose snapshot is asked for.
struct Asked {
    disk: usize,
    model: Rc<RefCell<Model>>,
    reading: Reading,
    sectors: u64,
}

impl Cluster {
    fn begin_asking(&self, disk: usize) -> Option<Asked> {
        let model = self.models.borrow().get(&disk)?.clone();
        let bytes = self.sizes.borrow()[disk].bytes;
        let sectors = bytes / SECTOR;
        model.borrow_mut().grow(bytes);
        let reading = model.borrow_mut().begin_read(0, sectors);
        Some(Asked { disk, model, reading, sectors })
    }

    /// Takes a snapshot of a disk, or of all, by way of this host or another that is up. Its name; none where it was not taken.
    ///
    /// # Errors
    /// It holds what the disk cannot have held.
    pub async fn take_snapshot(&self, (disk, all): (usize, bool), host: usize) -> Result<Option<String>, String> {
        let Ok(at) = self.up_from(host) else { return Ok(None) };
        let number = self.snapshots.next.replace(self.snapshots.next.get() + 1);
        let name = format!("s-{number}");
        let disks: Vec<usize> = if all { (0..self.shape.disks.len()).collect() } else { vec![disk] };
        let asked: Vec<Asked> = disks.iter().filter_map(|disk| self.begin_asking(*disk)).collect();
        let names = asked.iter().map(|asked| Shape::disk_name(asked.disk)).collect();
        let request = v1::SnapshotCreate { name: name.clone(), disks: names, locked_for_s: 0 };
        let taken = self.manage(at, async move |node| node.snapshot_create(request).await).await;
        if let Err(error) = &taken {
            self.log.add(format!("h{at} takes no snapshot {name}: {error}"));
        }
        let mut result = Ok(());
        for asked in asked {
            let later = asked.model.borrow().next_version();
            let named = format!("{}@{name}", Shape::disk_name(asked.disk));
            let found = match taken.is_ok() {
                true => self.first_read(at, &named, asked.sectors).await,
                false => None,
            };
            let judged = found.as_ref().map_or(Ok(()), |found| judge(&asked, found, later));
            let ended = asked.model.borrow_mut().end_read_found(&asked.reading, found.as_deref());
            if let Some(found) = found {
                self.count(READ);
                self.snapshots.held.borrow_mut().insert(named.clone(), Rc::new(found));
            }
            result = result.and(judged.and(ended).map_err(|why| format!("snapshot {named}: {why}")));
        }
        result.map(|()| taken.is_ok().then_some(name))
    }

    async fn first_read(&self, at: usize, named: &str, sectors: u64) -> Option<Vec<Found>> {
        for turn in 0..FIRST_READS_MAX {
            let at = (at + turn) % self.members.len();
            match self.read_snapshot(at, named, sectors).await {
                Ok(found) => return Some(found),
                Err(why) => self.log.add(format!("h{at} cannot read {named}: {why}")),
            }
            self.world.sleep(Duration::from_millis(500)).await;
        }
        None
    }

    async fn open_snapshot(&self, at: usize, named: &str) -> Result<NodeVolume<SimEnv>, String> {
        let node = self.node(at).ok_or("it is down")?;
        let name = named.to_owned();
        let open = async move { NodeExports::new(&node).open(&name).await };
        let opened = self.run_on(at, STUCK_AFTER, open).await.map_err(|lost| format!("{lost:?}"))?;
        opened.map_err(|error| error.to_string())?.ok_or_else(|| "there is none".into())
    }

    /// All sectors of a snapshot, as a host gives them.
    async fn read_snapshot(&self, at: usize, named: &str, sectors: u64) -> Result<Vec<Found>, String> {
        let disk: usize = named.split_once('@').and_then(|(disk, _)| Shape::number_of(disk)).ok_or("no disk's")?;
        let id = self.models.borrow()[&disk].borrow().id();
        let volume = self.open_snapshot(at, named).await?;
        let mut found = Vec::with_capacity(sectors as usize);
        while (found.len() as u64) < sectors {
            let first = found.len() as u64;
            let count = (sectors - first).min(AT_ONCE);
            let read = volume.read(first * SECTOR, (count * SECTOR) as u32);
            let read = self.run_on(at, STUCK_AFTER, read).await.map_err(|lost| format!("{lost:?}"))?;
            let bytes = read.map_err(|error| error.to_string())?.concat();
            if bytes.len() as u64 != count * SECTOR {
                return Err(format!("{} bytes in the place of {}", bytes.len(), count * SECTOR));
            }
            found
                .extend(bytes.chunks(SECTOR as usize).zip(first..).map(|(bytes, sector)| Found::of(id, sector, bytes)));
        }
        Ok(found)
    }

    /// Reads a snapshot at a host and compares it with what it held. `must`: it has to be readable.
    ///
    /// # Errors
    /// It holds something else.
    pub async fn check_snapshot(&self, at: usize, named: &str, must: bool) -> Result<(), String> {
        let Some(held) = self.snapshots.held.borrow().get(named).cloned() else { return Ok(()) };
        let found = match self.read_snapshot(at, named, held.len() as u64).await {
            Ok(found) => found,
            Err(why) if must => return Err(format!("snapshot {named} cannot be read at h{at}: {why}")),
            Err(_) => return Ok(()),
        };
        match (0..held.len()).find(|sector| held[*sector] != found[*sector]) {
            None => Ok(()),
            Some(sector) => Err(format!(
                "snapshot {named} at h{at}: sector {sector} (block {}) is {:?}, and was {:?}",
                sector / 8,
                found[sector],
                held[sector]
            )),
        }
    }

    /// Deletes a snapshot. It is forgotten where that was answered, or no answer came.
    pub async fn delete_snapshot(&self, at: usize, named: &str) -> Result<(), String> {
        let Ok(at) = self.up_from(at) else { return Err("all hosts are down".into()) };
        let name = named.to_owned();
        match self.manage(at, async move |node| node.snapshot_delete(name).await).await {
            // What a majority did not accept in time it may accept yet, when the next owner takes it up.
            Err(error) if error.kind == ApiErrorKind::Unavailable || error.message.contains("by a majority") => {
                // It may be gone by now, or go yet.
                self.snapshots.held.borrow_mut().remove(named);
                Err(error.to_string())
            }
            Err(error) if error.kind != ApiErrorKind::NotFound => Err(error.to_string()),
            _ => {
                self.snapshots.held.borrow_mut().remove(named);
                Ok(())
            }
        }
    }

    /// Has a disk go back to a snapshot, and waits until it has.
    ///
    /// # Errors
    /// It does not come to its end.
    pub async fn go_back(&self, disk: usize, named: &str, host: usize) -> Result<(), String> {
        let Some(held) = self.snapshots.held.borrow().get(named).cloned() else { return Ok(()) };
        let (Ok(at), Some(model)) = (self.up_from(host), self.models.borrow().get(&disk).cloned()) else {
            return Ok(());
        };
        let sectors = self.sizes.borrow()[disk].bytes / SECTOR;
        // Where it was taken the disk may have been larger than was known.
        let Some(held) = self.all_of(at, named, held.to_vec(), sectors).await else { return Ok(()) };
        let began = {
            let mut model = model.borrow_mut();
            model.grow(sectors * SECTOR);
            model.begin_going_back(&held)
        };
        let (name, how) = (named.to_owned(), v1::SnapshotRollback { force: true, discard: disk.is_multiple_of(2) });
        let begun = self.manage(at, async move |node| node.snapshot_rollback(name, how).await).await;
        if let Err(error) = &begun {
            self.log.add(format!("h{at} does not have disk {disk} go back to {named}: {error}"));
        }
        let since = self.world.now();
        while self.world.now() - since < GOES_BACK_WITHIN {
            self.world.sleep(Duration::from_millis(200)).await;
            let Ok(at) = self.up_from(host) else { continue };
            let name = Shape::disk_name(disk);
            let shown = self.manage(at, async move |node| node.disk_show(name).await).await;
            // One that nobody owns at the moment is told by its seats, which may be old.
            let Some(shown) = shown.ok().filter(|shown| shown.summary.owner.is_some()) else { continue };
            if shown.goes_back_to.is_none() {
                if begun.is_ok() {
                    model.borrow_mut().went_back(began);
                    self.count(WENT_BACK);
                }
                return Ok(());
            }
        }
        Err(format!("liveness: disk {disk} does not go back to {named} within {GOES_BACK_WITHIN:?}"))
    }

    /// Deletes every other one that is left: what the rest needs stays.
    pub async fn delete_some_snapshots(&self) -> Result<(), String> {
        for (n, name) in self.snapshots.names().iter().enumerate().filter(|(n, _)| n % 2 == 0) {
            self.delete_snapshot(n, name).await?;
        }
        Ok(())
    }

    /// Reads what is left of them at every host. `must`: all of it has to be readable.
    pub async fn check_snapshots(&self, must: bool) -> Result<(), String> {
        for name in self.snapshots.names() {
            for at in 0..self.members.len() {
                self.check_snapshot(at, &name, must).await?;
                self.check_changes(at, &name, must).await?;
            }
        }
        Ok(())
    }

    /// Asks a host what changed between each older snapshot and this one, and compares both. `must`: it has to be told.
    async fn check_changes(&self, at: usize, named: &str, must: bool) -> Result<(), String> {
        let Some((disk, _)) = named.split_once('@') else { return Ok(()) };
        let Some(node) = self.node(at) else { return Ok(()) };
        let asked = named.to_owned();
        let moments = async move { NodeExports::new(&node).earlier_moments(&asked).await };
        for older in self.run_on(at, STUCK_AFTER, moments).await.unwrap_or_default() {
            let held = |name: &str| self.snapshots.held.borrow().get(name).cloned();
            let (Some(now), Some(was)) = (held(named), held(&format!("{disk}@{older}"))) else { continue };
            let told = match self.changed_sectors(at, named, &older, now.len() as u64).await {
                Ok(told) => told,
                Err(why) if must => {
                    return Err(format!("h{at} does not tell what changed from {older} to {named}: {why}"));
                }
                Err(_) => continue,
            };
            self.count(CHANGES_TOLD);
            let (older_named, sectors) = (format!("{disk}@{older}"), now.len() as u64);
            let Some(was) = self.all_of(at, &older_named, was.to_vec(), sectors).await else { continue };
            let differs = |sector: &usize| was.get(*sector).is_some_and(|was| *was != now[*sector]);
            if let Some(sector) = (0..now.len()).filter(differs).find(|sector| !told[*sector]) {
                return Err(format!(
                    "I20: h{at} says that sector {sector} (block {}) did not change from {older} to {named}: it is {:?}, and was {:?}",
                    sector / 8,
                    now[sector],
                    was.get(sector)
                ));
            }
        }
        Ok(())
    }

    /// What an older snapshot held, of the first `sectors`: where it was read the disk may have been larger than was known. Beyond its end are zeroes. None where it
    /// cannot be read now.
    async fn all_of(&self, at: usize, named: &str, held: Vec<Found>, sectors: u64) -> Option<Vec<Found>> {
        if held.len() as u64 >= sectors {
            return Some(held);
        }
        let volume = self.open_snapshot(at, named).await.ok()?;
        let there = (volume.info().size_bytes / SECTOR).min(sectors).max(held.len() as u64);
        let mut all = self.read_snapshot(at, named, there).await.ok()?;
        all[..held.len()].copy_from_slice(&held);
        all.resize(sectors as usize, Found::Zeroes);
        Some(all)
    }

    /// Of each sector, whether a host says that it changed since an older snapshot.
    async fn changed_sectors(&self, at: usize, named: &str, older: &str, sectors: u64) -> Result<Vec<bool>, String> {
        let volume = self.open_snapshot(at, named).await?;
        let mut told = Vec::with_capacity(sectors as usize);
        while (told.len() as u64) < sectors {
            let first = told.len() as u64;
            let asked = volume.changed_since(older, first * SECTOR, (sectors - first) * SECTOR);
            let asked = self.run_on(at, STUCK_AFTER, asked).await.map_err(|lost| format!("{lost:?}"))?;
            for extent in asked.map_err(|error| error.to_string())? {
                told.extend(std::iter::repeat_n(extent.changed, (extent.len_bytes / SECTOR) as usize));
            }
            if told.len() as u64 == first {
                return Err("nothing is told".into());
            }
        }
        Ok(told)
    }
}

fn judge(asked: &Asked, found: &[Found], later: u64) -> Result<(), String> {
    let too_late = |found: &Found| matches!(found, Found::Version(version) if *version >= later);
    if let Some(sector) = found.iter().position(too_late) {
        return Err(format!("sector {sector} has {:?}, which began after it was taken", found[sector]));
    }
    asked.model.borrow().is_of_one_moment(&asked.reading, found)
}

/// What becomes of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The disk goes back to it.
    pub back: bool,
    /// It is not deleted.
    pub stays: bool,
    /// A clone of it is made.
    pub clones: bool,
    /// That one is flattened.
    pub flattens: bool,
}

/// A snapshot is taken, read now and then, and deleted unless it stays.
pub async fn live(cluster: &Cluster, of: (usize, bool), host: usize, (lasts, ends): (Duration, Ends)) {
    let Ends { back, stays, clones, flattens } = ends;
    let looks = 4;
    let name = match cluster.take_snapshot(of, host).await {
        Ok(Some(name)) => name,
        Ok(None) => return,
        Err(why) => return cluster.violated(why),
    };
    let disks = if of.1 { 0..cluster.shape.disks.len() } else { of.0..of.0 + 1 };
    let named: Vec<String> = disks.map(|disk| format!("{}@{name}", Shape::disk_name(disk))).collect();
    for look in 0..looks {
        cluster.world.sleep(lasts / looks).await;
        for one in &named {
            let at = (host + look as usize) % cluster.members.len();
            if let Err(why) = cluster.check_snapshot(at, one, false).await {
                return cluster.violated(why);
            }
        }
    }
    if clones {
        clones::live(cluster, &format!("{}@{name}", Shape::disk_name(of.0)), host, (lasts, flattens)).await;
    }
    if back && let Err(why) = cluster.go_back(of.0, &format!("{}@{name}", Shape::disk_name(of.0)), host).await {
        return cluster.violated(why);
    }
    for one in named.iter().filter(|_| !stays) {
        if let Err(error) = cluster.delete_snapshot(host, one).await {
            cluster.log.add(format!("snapshot {one} is not deleted: {error}"));
        }
    }
}
