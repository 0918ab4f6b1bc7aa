//! Spoils single blocks of a disk where no other copy in sync has them, or where one has.
//!
//! Promises    what is spoiled is known to the disk's model at the same moment: those blocks may be refused to guests, no others
//! Assumes     guests' bytes tell whose they are (`model`): a block is found on a device by what it holds
//! Not here    random plans on disks in rows: what is lost with a block there is another column's, too (`spoil_beside`)
//!
//! Another copy may be in sync by the time that a block is spoiled, or the page may hold what was overwritten since. Then the model
//! allows an error that does not come.

use std::{collections::BTreeMap, time::Duration};

use cairn_api::LocalManagement as _;
use cairn_geometry::{Area, RowRole};
use cairn_sim::{Fault, Rng, SimDisk};
use cairn_types::{BLOCK_BYTES, BlockRange, Member, ObjectConfig};

use crate::{cluster::Cluster, model, shape::Shape};

/// What is left alone at a device's beginning.
const SUPERBLOCK_BYTES: u64 = 1 << 20;
/// How soon it is looked again for a copy that is alone.
const LOOK_AGAIN: Duration = Duration::from_millis(80);
/// How long a host is waited for that is asked where the copies are.
const ASKED_FOR: Duration = Duration::from_secs(1);

/// What is to be spoiled.
#[derive(Debug, Clone, Copy)]
pub struct Spoil {
    /// Of this disk.
    pub disk: usize,
    /// So many blocks.
    pub blocks: u32,
    /// Which.
    pub pick: u64,
}

/// Where a block stands, by the newest version that was found of it.
struct Page {
    version: u64,
    device: SimDisk,
    offset: u64,
}

/// Waits until a copy is alone, and spoils blocks of it. Returns how many; none where no copy was alone `within` that time, and of
/// disks without copies.
pub async fn spoil_only_source(cluster: &Cluster, spoil: Spoil, within: Duration) -> usize {
    if cluster.shape.disks[spoil.disk].in_rows() {
        return 0;
    }
    let until = cluster.world.now() + within;
    loop {
        if let Some(config) = config_of(cluster, spoil.disk).await {
            let count = spoil_now(cluster, spoil, &config);
            if count > 0 {
                return count;
            }
        }
        if cluster.world.now() >= until {
            return 0;
        }
        cluster.world.sleep(LOOK_AGAIN).await;
    }
}

/// What any host that is up says of the disk.
async fn config_of(cluster: &Cluster, disk: usize) -> Option<ObjectConfig> {
    for n in 0..cluster.members.len() {
        let (Some(node), name) = (cluster.node(n), Shape::disk_name(disk)) else { continue };
        let asked = cluster.run_on(n, ASKED_FOR, async move { node.disk_record(name).await }).await;
        if let Ok(Ok(record)) = asked
            && record.config.is_some()
        {
            return record.config;
        }
    }
    None
}

/// The host of the copy of a block that is alone in sync, by its number.
fn only_source(cluster: &Cluster, config: &ObjectConfig, block: u64) -> Option<usize> {
    if block >= config.size_bytes.div_ceil(u64::from(BLOCK_BYTES)) {
        return None;
    }
    let piece = Area::at(config, block).split(BlockRange::new(block, 1)).next()?;
    let mut in_sync = config.members.iter().filter(|m| m.set() == Some(piece.set) && m.state.in_sync());
    let source = in_sync.next().filter(|_| in_sync.next().is_none())?;
    cluster.members.iter().position(|member| member.host.spoken_id() == source.host)
}

/// Pages of a host's capacity devices that hold blocks of the disk that `id` stamps, by block: the newest of each.
fn pages(cluster: &Cluster, n: usize, id: u64) -> BTreeMap<u64, Page> {
    let host = &cluster.members[n].host;
    let mut pages: BTreeMap<u64, Page> = BTreeMap::new();
    for device in host.disk_names().into_iter().filter(|name| name.contains("capacity")).map(|name| host.disk(&name)) {
        for offset in device.all_written(SUPERBLOCK_BYTES) {
            let Some((block, version)) = model::block_of(id, &device.peek(offset, BLOCK_BYTES as usize)) else {
                continue;
            };
            if pages.get(&block).is_none_or(|page| page.version < version) {
                pages.insert(block, Page { version, device: device.clone(), offset });
            }
        }
    }
    pages
}

/// How a block goes bad at rest, silently.
#[derive(Debug, Clone, Copy)]
enum Rot {
    /// A bit turns over.
    Flipped,
    /// The write that should have brought it was lost: the device holds what was there before.
    Lost,
    /// A write that was meant for another place landed here.
    Overwritten,
    /// It cannot be read.
    Latent,
}

impl Rot {
    const ALL: [Self; 4] = [Self::Flipped, Self::Lost, Self::Overwritten, Self::Latent];
}

impl Page {
    fn rot(&self, how: Rot) {
        let bytes = self.device.peek(self.offset, BLOCK_BYTES as usize);
        match how {
            Rot::Flipped => self.device.inject(Fault::BitFlip { offset: self.offset + 1234, bit: 5 }),
            Rot::Lost => self.device.poke(self.offset, &[0; BLOCK_BYTES as usize]),
            Rot::Overwritten => {
                let (front, back) = bytes.split_at(512);
                self.device.poke(self.offset, &[back, front].concat());
            }
            Rot::Latent => self.spoil(),
        }
    }

    fn spoil(&self) {
        self.device.inject(Fault::LatentSectorError { offset: self.offset, len_bytes: u64::from(BLOCK_BYTES) });
    }
}

fn spoil_now(cluster: &Cluster, spoil: Spoil, config: &ObjectConfig) -> usize {
    let Some(model) = cluster.models.borrow().get(&spoil.disk).cloned() else { return 0 };
    let (id, mut left) = (model.borrow().id(), Vec::new());
    for n in 0..cluster.members.len() {
        let found = pages(cluster, n, id).into_iter();
        left.extend(found.filter(|(block, _)| only_source(cluster, config, *block) == Some(n)));
    }
    let mut rng = Rng::new(spoil.pick);
    let count = left.len().min(spoil.blocks as usize);
    for _ in 0..count {
        let (block, page) = left.swap_remove(rng.below(left.len() as u64) as usize);
        page.spoil();
        model.borrow_mut().spoil(block);
        let name = Shape::disk_name(spoil.disk);
        cluster.log.add(format!("--- block {block} of {name} (version {}) cannot be read", page.version));
    }
    count
}

/// Spoils blocks of the first disk, which is in rows, at members that are left while the one at `gone` is away for good: what that one had in the
/// same places is lost with them. Of the first third of a disk that was filled in order: the rest may be in members' memory. How many were spoiled.
pub fn spoil_beside(cluster: &Cluster, gone: usize, config: &ObjectConfig, count: usize) -> usize {
    let Some(model) = cluster.models.borrow().get(&0).cloned() else { return 0 };
    let area = Area::at(config, 0);
    let rows = area.rows().expect("a disk in rows");
    let at = |member: &Member| cluster.members.iter().position(|m| m.host.spoken_id() == member.host);
    let lost = config.members.iter().find(|m| m.set() == Some(0) && at(m) == Some(gone)).and_then(Member::copy);
    let lost = lost.expect("a member at that host");
    let mut left: Vec<(u64, Page)> = Vec::new();
    for n in (0..cluster.members.len()).filter(|n| *n != gone) {
        left.extend(pages(cluster, n, model.borrow().id()));
    }
    left.retain(|(block, _)| *block < config.size_blocks() / 3);
    let count = count.min(left.len());
    for _ in 0..count {
        let (block, page) = left.swap_remove(cluster.world.random_below(left.len() as u64) as usize);
        page.spoil();
        model.borrow_mut().spoil(block);
        let piece = area.split(BlockRange::new(block, 1)).next().expect("a block of the disk");
        let part = rows.parts(piece.range).next().expect("a part of a row");
        if let RowRole::Column(column) = rows.role(part.row, lost) {
            let other = rows.in_set(part.row, column, part.range).first;
            model.borrow_mut().spoil(other);
            cluster.log.add(format!("--- block {block} cannot be read, nor block {other} be made"));
        }
    }
    count
}

/// Spoils blocks of the first disk at one host, whatever other copies have of them by now: the newest version that its devices have. How many.
pub fn spoil_at(cluster: &Cluster, host: usize, count: usize) -> usize {
    let Some(model) = cluster.models.borrow().get(&0).cloned() else { return 0 };
    let mut found: Vec<(u64, Page)> = pages(cluster, host, model.borrow().id()).into_iter().collect();
    let count = count.min(found.len());
    for _ in 0..count {
        let (block, page) = found.swap_remove(cluster.world.random_below(found.len() as u64) as usize);
        page.spoil();
        cluster.log.add(format!("--- block {block} (version {}) cannot be read at h{host}", page.version));
    }
    count
}

/// Has blocks of a host go bad at rest that are equal to others, one after the other in each way that there is: none of another host. How many.
pub fn rot_common(cluster: &Cluster, n: usize, count: usize) -> usize {
    let host = &cluster.members[n].host;
    let mut pages: Vec<Page> = Vec::new();
    for device in host.disk_names().into_iter().filter(|name| name.contains("capacity")).map(|name| host.disk(&name)) {
        let all = device.all_written(SUPERBLOCK_BYTES).into_iter();
        let common = all.filter(|offset| model::is_common_block(&device.peek(*offset, BLOCK_BYTES as usize)));
        pages.extend(common.map(|offset| Page { version: 0, device: device.clone(), offset }));
    }
    let count = count.min(pages.len());
    for turn in 0..count {
        let page = pages.swap_remove(cluster.world.random_below(pages.len() as u64) as usize);
        page.rot(Rot::ALL[turn % Rot::ALL.len()]);
    }
    count
}

/// Where blocks of two copies are spoiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Each at both.
    Both,
    /// Each at one of them, in turn.
    InTurn,
    /// Each at the first.
    First,
}

/// Spoils blocks of the first disk at two hosts that hold the same versions of them. Returns them.
pub fn spoil_copies(cluster: &Cluster, hosts: [usize; 2], of: (usize, Where)) -> Vec<u64> {
    on_copies(cluster, hosts, (of, &[]), |_, page| page.spoil())
}

/// Has blocks go bad at rest, other ones than these, one after the other in each way that there is. Returns them.
pub fn rot_copies(cluster: &Cluster, hosts: [usize; 2], of: (usize, Where), but: &[u64]) -> Vec<u64> {
    on_copies(cluster, hosts, (of, but), |n, page| page.rot(Rot::ALL[n / 2 % Rot::ALL.len()]))
}

fn on_copies(
    cluster: &Cluster,
    hosts: [usize; 2],
    ((count, at), but): ((usize, Where), &[u64]),
    act: impl Fn(usize, &Page),
) -> Vec<u64> {
    let Some(model) = cluster.models.borrow().get(&0).cloned() else { return Vec::new() };
    let [one, other] = hosts.map(|n| pages(cluster, n, model.borrow().id()));
    let mut both: Vec<u64> =
        one.iter().filter(|(b, p)| other.get(b).is_some_and(|o| o.version == p.version)).map(|(b, _)| *b).collect();
    both.retain(|block| !but.contains(block));
    let mut spoiled = Vec::new();
    while spoiled.len() < count && !both.is_empty() {
        let block = both.swap_remove(cluster.world.random_below(both.len() as u64) as usize);
        let n = spoiled.len();
        let pages: &[_] = match at {
            Where::Both => &[&one, &other],
            Where::InTurn => &[[&one, &other][n % 2]],
            Where::First => &[&one],
        };
        pages.iter().for_each(|pages| act(n, &pages[&block]));
        if at == Where::Both {
            model.borrow_mut().spoil(block);
        }
        spoiled.push(block);
    }
    spoiled
}
