//! What must hold when a cluster has come to rest: copies are equal, each store is in order.

use std::{collections::BTreeMap, time::Duration};

use cairn_api::LocalManagement;
use cairn_store::ReadPiece;
use cairn_types::{BlockRange, Member, ObjectConfig, OpId};

use crate::cluster::Cluster;

/// I5 and I7 of a quiet cluster.
pub async fn check_at_rest(cluster: &Cluster, disk: &str) -> Result<(), String> {
    let name = disk.to_owned();
    let record = cluster.manage(0, async move |node| node.disk_record(name).await).await;
    let config = record.map_err(|e| e.to_string())?.config.ok_or("the disk has no record")?;
    let mut sets: BTreeMap<u32, Vec<Member>> = BTreeMap::new();
    for member in &config.members {
        if let Some(set) = member.set() {
            sets.entry(set).or_default().push(*member);
        }
    }
    for copies in sets.values() {
        let mut seen: Option<(String, Vec<u8>)> = None;
        for copy in copies {
            let bytes = contents(cluster, copy).await?;
            let what = format!("{:?}", copy.component);
            if let Some((other, expected)) = &seen
                && let Some(at) = expected.iter().zip(&bytes).position(|(a, b)| a != b)
            {
                return Err(format!("copies {other} and {what} differ at block {}", at / 4096));
            }
            seen = Some((what, bytes));
        }
    }
    no_orphans(cluster, Some(&config)).await?;
    for n in 0..cluster.members.len() {
        let Some(node) = cluster.node(n) else {
            continue;
        };
        for store in node.stores() {
            let checked =
                cluster.run_on(n, Duration::from_secs(60), async move { store.group().check_invariants().await }).await;
            checked.map_err(|lost| format!("{lost:?}"))?.map_err(|why| format!("the store of h{n}: {why}"))?;
        }
    }
    Ok(())
}

/// What was replaced or deleted is removed, a little later. Without `config` nothing may be left.
pub async fn no_orphans(cluster: &Cluster, config: Option<&ObjectConfig>) -> Result<(), String> {
    let mut left = String::new();
    for _ in 0..30 {
        left.clear();
        for n in 0..cluster.members.len() {
            for store in cluster.node(n).ok_or("a host is down")?.stores() {
                for component in store.group().components() {
                    if config.is_none_or(|c| c.member(component.id).is_none()) {
                        left = format!("h{n} still has {:?}", component.id);
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
                    Ok(Ok(pieces)) => match pieces.first() {
                        Some(ReadPiece::Data { data, .. }) => {
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

async fn contents(cluster: &Cluster, member: &Member) -> Result<Vec<u8>, String> {
    let at = cluster.members.iter().position(|m| m.host.id() == member.host).ok_or("a host of no cluster")?;
    let node = cluster.node(at).ok_or("a host is down")?;
    let store = node.stores().into_iter().find(|s| s.group().id() == member.disk_group);
    let store = store.ok_or("a disk group is not open")?;
    let info =
        store.group().component(member.component).ok_or_else(|| format!("h{at} has no {:?}", member.component))?;
    let mut bytes = vec![0; info.size_blocks as usize * 4096];
    let mut first = 0;
    while first < info.size_blocks {
        let count = (info.size_blocks - first).min(64) as u32;
        let read = store.group().read(member.component, BlockRange::new(first, count));
        let pieces = cluster.run_on(at, Duration::from_secs(60), read).await.map_err(|l| format!("{l:?}"))?;
        for piece in pieces.map_err(|e| e.to_string())? {
            if let ReadPiece::Data { first_block, data, .. } = piece {
                let from = first_block as usize * 4096;
                bytes[from..from + data.len()].copy_from_slice(&data);
            }
        }
        first += u64::from(count);
    }
    Ok(bytes)
}
