//! A host that lost its data directory, and not its devices: who it was stands on them.
//!
//! Promises    a host takes a name's old identity only with a device of that host in its hands, and only before it has another
//!             a disk group goes to the shard of its server that its superblocks name
//! Assumes     the wall clock is right to some years: the number of this start must be higher than all before
//! Not here    opening the disk groups (`node`)

use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use cairn_directory::{HostEntry, Registry};
use cairn_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, decode_superblock};
use cairn_types::{ClusterId, HostId, Incarnation};

use crate::{
    config::DiskGroupConfig,
    identity::Identity,
    plan::{HostPlan, Plan},
    supervise::StartError,
};

/// No clock of a machine that is set says an earlier time: 2024-01-01, in seconds since 1970.
const CLOCK_MIN_S: u64 = 1_704_067_200;

/// The younger sound superblock of a device, where it can be read.
fn superblock(path: &Path) -> Option<Superblock> {
    let file = File::open(path).ok()?;
    let copy = |offset: &u64| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES as usize];
        file.read_exact_at(&mut bytes, *offset).ok()?;
        decode_superblock(&bytes).ok()
    };
    SUPERBLOCK_OFFSETS.iter().filter_map(copy).max_by_key(|found| found.generation)
}

fn superblocks(group: &DiskGroupConfig) -> impl Iterator<Item = Superblock> + '_ {
    std::iter::once(&group.cache).chain(&group.capacity).filter_map(|path| superblock(path))
}

/// The cluster that the devices of a lone host are of, where all say the same.
pub(super) fn cluster_on_devices(plan: &Plan) -> Option<ClusterId> {
    let [host] = plan.hosts.as_slice() else { return None };
    let found = host.disk_groups.iter().flat_map(superblocks);
    let clusters: BTreeSet<ClusterId> = found.map(|found| found.cluster).collect();
    let mut clusters = clusters.into_iter();
    clusters.next().filter(|_| clusters.next().is_none())
}

/// Gives hosts that belong to no cluster yet the identities that they had, where their devices prove them. `servers` are the
/// shards of each server, `identities` those of all, in the same order.
///
/// # Errors
/// The directory does not answer, or an identity cannot be kept.
pub(super) async fn take_back(
    servers: &[Vec<HostPlan>],
    cluster: ClusterId,
    registry: &Registry,
    identities: &mut [Identity],
) -> Result<(), StartError> {
    let mut identities = identities.iter_mut();
    for shards in servers {
        let of_server: Vec<&mut Identity> = identities.by_ref().take(shards.len()).collect();
        let fresh = of_server.iter().any(|identity| identity.cluster().is_none());
        let groups = shards.iter().flat_map(|shard| &shard.disk_groups);
        let on_devices: BTreeSet<HostId> =
            groups.flat_map(superblocks).filter(|found| found.cluster == cluster).map(|found| found.host).collect();
        if !fresh || on_devices.is_empty() {
            continue;
        }
        let hosts = registry.list::<HostEntry>().await.map_err(StartError::refused)?;
        let hosts: Vec<(HostId, HostEntry)> = hosts.entries.into_iter().map(|(id, found)| (id, found.entry)).collect();
        // A lone host has lost its directory too: its devices are all that there is of it.
        let lone = hosts.is_empty() && servers.len() == 1 && shards.len() == 1 && on_devices.len() == 1;
        for (shard, identity) in shards.iter().zip(of_server) {
            let was = known_as(&shard.name, &hosts, &on_devices);
            let was = was.or_else(|| on_devices.first().copied().filter(|_| lone));
            if let (None, Some(host)) = (identity.cluster(), was) {
                identity.take_back(host, cluster, incarnation()?).map_err(StartError::refused)?;
                tracing::warn!(host = shard.name, id = %host, "the data directory is new, the devices are this host's: it is taken back");
            }
        }
    }
    Ok(())
}

/// The host of that name, where the devices at hand are its own, or another's of its server.
fn known_as(name: &str, hosts: &[(HostId, HostEntry)], on_devices: &BTreeSet<HostId>) -> Option<HostId> {
    let server = |id: HostId| hosts.iter().find(|(host, _)| *host == id).map(|(_, entry)| entry.shard_of.unwrap_or(id));
    let (id, _) = hosts.iter().find(|(_, entry)| entry.name.as_str() == name)?;
    on_devices.iter().any(|device| server(*device) == server(*id)).then_some(*id)
}

/// Higher than any that a host has counted to: one for each second since 1970.
fn incarnation() -> Result<Incarnation, StartError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match now >= CLOCK_MIN_S {
        true => Ok(Incarnation(now)),
        false => Err(StartError::refused(
            "this host takes its identity back from its devices, and needs a clock that is right for that: set the clock",
        )),
    }
}

/// Moves configured disk groups to the shards that their superblocks name.
pub(super) fn deal_by_superblocks(shards: &mut [HostPlan], identities: &[Identity]) {
    for at in 0..shards.len() {
        for group in std::mem::take(&mut shards[at].disk_groups) {
            let on_device = superblocks(&group).next().map(|found| found.host);
            let owner = identities.iter().position(|identity| Some(identity.host()) == on_device);
            shards[owner.unwrap_or(at)].disk_groups.push(group);
        }
    }
}
