//! What must hold when a cluster has come to rest: copies are equal, each store is in order.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use cairn_api::LocalManagement;
use cairn_geometry::{RowRole, Rows};
use cairn_parity::{Strip, encode, row_check};
use cairn_store::{StoreError, StoreErrorKind};
use cairn_types::{BLOCK_BYTES, BlockRange, Contents, Member, ObjectConfig, OpId, Run, SnapshotId};
use futures::future::Either;

use crate::cluster::Cluster;

/// What media have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoiled {
    /// Nothing.
    Nothing,
    /// Single blocks, which say so themselves.
    Blocks,
    /// Whole devices perhaps, or all that they held since some time.
    Anything,
}

/// I5 and I7 of a quiet cluster, and that nothing is left behind.
pub async fn check_at_rest(cluster: &Cluster, disks: &[String], what: Spoiled) -> Result<(), String> {
    let spoiled = what != Spoiled::Nothing;
    let mut configs = Vec::new();
    for disk in disks {
        let name = disk.to_owned();
        let record = cluster.manage(0, async move |node| node.disk_record(name).await).await;
        let config = record.map_err(|e| e.to_string())?.config.ok_or_else(|| format!("{disk} has no record"))?;
        copies_are_equal(cluster, disk, (&config, None), spoiled).await?;
        for snapshot in config.past.iter().flat_map(|past| &past.snapshots) {
            let at = format!("{disk}@{}", snapshot.name);
            copies_are_equal(cluster, &at, (&config, Some(snapshot.id)), spoiled).await?;
        }
        configs.push(config);
    }
    no_orphans(cluster, &configs, what == Spoiled::Anything).await?;
    nothing_in_flight(cluster).await?;
    stores_in_order(cluster, spoiled).await
}

/// What is counted of disk groups that are open at the end: blocks that they packed, blocks that they found to be equal to others, segments that they
/// wrote anew.
pub const PACKED: &str = "blocks packed";
/// See [`PACKED`].
pub const EQUAL: &str = "equal blocks found";
/// See [`PACKED`].
pub const ANEW: &str = "segments written anew";

/// I7 of every store.
pub async fn stores_in_order(cluster: &Cluster, spoiled: bool) -> Result<(), String> {
    for n in 0..cluster.members.len() {
        let node = cluster.node(n).ok_or_else(|| format!("h{n} is down"))?;
        for store in node.stores() {
            let counters = store.group().stats().counters;
            cluster.count_more(PACKED, counters.packed_blocks);
            cluster.count_more(EQUAL, counters.dedupe_hit_blocks + counters.dedupe_twin_blocks);
            cluster.count_more(ANEW, counters.rewritten_segments);
            let check = async move {
                match spoiled {
                    true => store.group().check_bookkeeping().await,
                    false => store.group().check_invariants().await,
                }
            };
            let checked = cluster.run_on(n, Duration::from_secs(60), check).await;
            checked.map_err(|lost| format!("{lost:?}"))?.map_err(|why| format!("the store of h{n}: {why}"))?;
        }
    }
    Ok(())
}

/// As they are now, or were at a snapshot.
async fn copies_are_equal(
    cluster: &Cluster,
    disk: &str,
    (config, at): (&ObjectConfig, Option<SnapshotId>),
    spoiled: bool,
) -> Result<(), String> {
    let mut sets: BTreeMap<u32, Vec<Member>> = BTreeMap::new();
    for member in &config.members {
        // What is on its way to another layout serves nothing yet.
        let Some(set) = member.set().filter(|set| config.addresses.serves(*set)) else { continue };
        if member.state.in_sync() {
            sets.entry(set).or_default().push(*member);
        } else if config.twin_of(member.component).is_none_or(|twin| !twin.state.in_sync()) {
            // One that is to take another's place may wait for room; the disk lacks nothing meanwhile.
            return Err(format!("{disk}: {:?} is {:?} at rest", member.component, member.state));
        }
    }
    for (set, copies) in &sets {
        if let Some(rows) = Rows::of(config.addresses.redundancy(*set)) {
            rows_agree(cluster, disk, (rows, copies, at), spoiled).await?;
            continue;
        }
        let mut seen: Option<(String, Vec<Block>)> = None;
        for copy in copies {
            let blocks = contents(cluster, copy, at).await?;
            let what = format!("{:?}", copy.component);
            if let Some(at) = blocks.iter().position(|block| matches!(block, Block::Bad))
                && !spoiled
            {
                return Err(format!("I7: {disk}: block {at} of {what} is bad, and no medium was spoiled"));
            }
            if let Some((other, expected)) = &seen
                && let Some(at) = expected.iter().zip(&blocks).position(|(a, b)| a.differs(b))
            {
                tell_block(cluster, Some(at as u64)).await;
                return Err(format!("I5: {disk}: copies {other} and {what} differ at block {at}"));
            }
            seen = Some((what, blocks));
        }
    }
    Ok(())
}

/// I5': the parity of every row is that of its data, and says so.
async fn rows_agree(
    cluster: &Cluster,
    disk: &str,
    (rows, members, at): (Rows, &[Member], Option<SnapshotId>),
    spoiled: bool,
) -> Result<(), String> {
    let mut strips: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    for member in members {
        let blocks = contents(cluster, member, at).await?;
        if let Some(at) = blocks.iter().position(|block| matches!(block, Block::Bad))
            && !spoiled
        {
            return Err(format!("I7: {disk}: block {at} of {:?} is bad, and no medium was spoiled", member.component));
        }
        let index = member.copy().expect("it holds data");
        if let Some(twin) = strips.get(&index)
            && let Some(at) = twin.iter().zip(&blocks).position(|(a, b)| a.differs(b))
        {
            return Err(format!("I5: {disk}: {:?} and its twin differ at block {at}", member.component));
        }
        strips.insert(index, blocks);
    }
    let blocks = strips.values().map(Vec::len).max().unwrap_or(0);
    for at in 0..blocks {
        let row = at as u64 / rows.strip_blocks();
        let of = |role| strips.get(&rows.member(row, role)).and_then(|blocks| blocks.get(at));
        let columns: Option<Vec<&Bytes>> = (0..rows.data()).map(|c| of(RowRole::Column(c))?.bytes()).collect();
        let Some(columns) = columns else { continue };
        let crcs: Vec<u32> = columns.iter().map(|column| cairn_format::crc32c(column)).collect();
        let strips: Vec<Strip<'_>> = columns.iter().map(|column| Strip::Bytes(column)).collect();
        let mut made = vec![vec![0; BLOCK_BYTES as usize]; rows.parity() as usize];
        encode(&strips, &mut made.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        for (number, made) in (0..).zip(&made) {
            let Some(Block::Data(bytes, told)) = of(RowRole::Parity(number)) else { continue };
            if bytes != made || *told != row_check(&crcs) {
                return Err(format!("I5': {disk}: parity {number} of row {row} is not that of its data at block {at}"));
            }
        }
    }
    Ok(())
}

/// Where nobody asks for anything, nothing is under way: no call that is never answered, no byte that stays counted.
async fn nothing_in_flight(cluster: &Cluster) -> Result<(), String> {
    for n in 0..cluster.members.len() {
        let mut left = (0, 0);
        // What hosts do of their own accord, such as asking a peer about a seat, is over soon.
        for _ in 0..1000 {
            left = cluster.node(n).ok_or_else(|| format!("h{n} is down"))?.in_flight();
            if left == (0, 0) {
                break;
            }
            cluster.world.sleep(Duration::from_millis(20)).await;
        }
        if left != (0, 0) {
            return Err(format!(
                "leak: {} calls of h{n} are never answered, {} bytes are in flight for ever",
                left.0, left.1
            ));
        }
    }
    Ok(())
}

/// What was replaced or deleted is removed, a little later: no component is left that `configs` do not name.
///
/// `spoiled`: a device that was rolled back may hold a part of a disk that was deleted, and whose tombstone went with the last
/// confirmation. Nobody knows it any more, and what nobody knows is never removed. So may a host that was forgotten: no deletion waits for
/// it, and what it held is replaced by then.
pub async fn no_orphans(cluster: &Cluster, configs: &[ObjectConfig], spoiled: bool) -> Result<(), String> {
    let mut left = String::new();
    // What a creation left that never came to its end is kept for some minutes: its maker may only be slow.
    for _ in 0..300 {
        left.clear();
        for n in 0..cluster.members.len() {
            for store in cluster.node(n).ok_or("a host is down")?.stores() {
                let spoiled = spoiled || cluster.forgotten.borrow().contains(&n);
                for component in store.group().components() {
                    let unknown = configs.iter().all(|c| c.object != component.object);
                    if configs.iter().all(|c| c.member(component.id).is_none()) && !(spoiled && unknown) {
                        left = format!("leak: h{n} still has {:?} of {}", component.id, component.object);
                    }
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        cluster.world.sleep(Duration::from_secs(1)).await;
    }
    Err(left)
}

/// Logs what every copy holds of a block of the disk (of one that is not striped).
pub async fn tell_block(cluster: &Cluster, block: Option<u64>) {
    let Some(block) = block else { return };
    for n in 0..cluster.members.len() {
        for store in cluster.node(n).map(|node| node.stores()).unwrap_or_default() {
            for component in store.group().components().iter().filter(|c| c.size_blocks > block) {
                let read = store.group().read(component.id, BlockRange::new(block, 1));
                let version = match cluster.run_on(n, Duration::from_secs(10), read).await {
                    Ok(Ok(contents)) => match contents.data.first() {
                        Some(data) => {
                            format!("version {}", u64::from_le_bytes(data[16..24].try_into().expect("eight bytes")))
                        }
                        _ => "a hole".to_owned(),
                    },
                    other => format!("{other:?}"),
                };
                let settled = store.group().settled(component.id);
                let (regions, window) =
                    (store.group().regions_after(component.id, OpId::ZERO), store.group().window(component.id));
                let region =
                    regions.iter().find(|(r, _)| u64::from(*r) == block / u64::from(cairn_types::REGION_BLOCKS));
                let words = |op: &OpId| format!("{}.{}", op.epoch.number, op.seq);
                cluster.log.add(format!(
                    "h{n} {:?}: block {block} holds {version}; settled {}, region {:?}, window {:?}",
                    component.id,
                    words(&settled),
                    region.map(|(_, op)| words(op)),
                    window.iter().map(|u| (words(&u.op), u.range)).collect::<Vec<_>>(),
                ));
            }
        }
    }
}

/// A block of a copy.
enum Block {
    /// A hole's are zeros. The number is parity's row check, 0 of data.
    Data(Bytes, u32),
    /// It says so itself: spoiled on the medium, and nobody has read it since.
    Bad,
}

impl Block {
    fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bad, _) | (_, Self::Bad) => false,
            (Self::Data(a, _), Self::Data(b, _)) => a != b,
        }
    }

    fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Data(bytes, _) => Some(bytes),
            Self::Bad => None,
        }
    }
}

async fn contents(cluster: &Cluster, member: &Member, snapshot: Option<SnapshotId>) -> Result<Vec<Block>, String> {
    let at = cluster.members.iter().position(|m| m.host.spoken_id() == member.host).ok_or("a host of no cluster")?;
    let node = cluster.node(at).ok_or("a host is down")?;
    let store = node.stores().into_iter().find(|s| s.group().id() == member.disk_group);
    let store = store.ok_or("a disk group is not open")?;
    let info =
        store.group().component(member.component).ok_or_else(|| format!("h{at} has no {:?}", member.component))?;
    let read_some = |range: BlockRange| match snapshot {
        None => Either::Left(store.group().read(member.component, range)),
        Some(snapshot) => Either::Right(store.group().read_view(member.component, snapshot, range)),
    };
    let mut blocks = Vec::with_capacity(info.size_blocks as usize);
    while (blocks.len() as u64) < info.size_blocks {
        let first = blocks.len() as u64;
        let count = (info.size_blocks - first).min(64) as u32;
        match read(cluster, at, read_some(BlockRange::new(first, count))).await? {
            Some(more) => blocks.extend(more),
            // One by one, to leave out only what is bad.
            None => {
                for block in first..first + u64::from(count) {
                    let one = read(cluster, at, read_some(BlockRange::new(block, 1))).await?;
                    blocks.push(one.and_then(|mut one| one.pop()).unwrap_or(Block::Bad));
                }
            }
        }
    }
    Ok(blocks)
}

/// Blocks of a read; none when one of them is bad.
async fn read(
    cluster: &Cluster,
    at: usize,
    read: impl Future<Output = Result<Contents, StoreError>> + 'static,
) -> Result<Option<Vec<Block>>, String> {
    let contents = match cluster.run_on(at, Duration::from_secs(60), read).await.map_err(|l| format!("{l:?}"))? {
        Ok(contents) => contents,
        Err(error) if matches!(error.kind, StoreErrorKind::BadBlock { .. }) => return Ok(None),
        Err(error) => return Err(format!("h{at}: {error}")),
    };
    let mut data = contents.data.iter().flat_map(|part| part.chunks(BLOCK_BYTES as usize)).map(Bytes::copy_from_slice);
    let mut blocks = Vec::new();
    for run in &contents.runs {
        let checks: &[u32] = if let Run::Parity { row_checks, .. } = run { row_checks } else { &[] };
        for at in 0..run.blocks() as usize {
            let bytes = match run {
                Run::Hole { .. } => Bytes::from_static(&[0; BLOCK_BYTES as usize]),
                Run::Data { .. } | Run::Parity { .. } => data.next().ok_or("a read has fewer bytes than it tells")?,
                Run::Bad { .. } => return Ok(None),
            };
            blocks.push(Block::Data(bytes, checks.get(at).copied().unwrap_or(0)));
        }
    }
    Ok(Some(blocks))
}
