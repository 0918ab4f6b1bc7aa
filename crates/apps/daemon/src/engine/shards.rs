//! A server's shards: each a thread with disk groups, disks and leases of its own, and to the others a host by itself.
//!
//! Promises    a disk group stays at the shard that it was made at, whatever the configuration says later
//!             a shard that there was stays, on a thread that is left: its copies are not away because there are fewer threads
//! Not here    what people are told of shards (`node`)

use std::path::{Path, PathBuf};

use cairn_nbd::{Doors, Entrance, doors};
use cairn_types::HostId;

use crate::{config::SHARDS_MAX, engine::outside::load_groups, plan::HostPlan};

/// What a shard knows of the others of its server.
pub struct Siblings {
    /// The ids of all, the first shard's first.
    pub(super) ids: Vec<HostId>,
    /// Where clients go that another shard serves.
    pub(super) doors: Doors,
    /// Where they come in here.
    pub(super) entrance: Option<Entrance>,
}

impl Siblings {
    /// The only shard of its server.
    pub fn none(host: HostId) -> Self {
        Self { ids: vec![host], doors: Doors::default(), entrance: None }
    }

    /// Each shard's view of a server with these.
    pub(super) fn of(ids: &[HostId]) -> Vec<Self> {
        if let [only] = ids {
            return vec![Self::none(*only)];
        }
        let (doors, entrances) = doors(ids.len());
        let view = |entrance| Self { ids: ids.to_vec(), doors: doors.clone(), entrance: Some(entrance) };
        entrances.into_iter().map(view).collect()
    }

    /// The first shard, where it is another than `host`.
    pub(super) fn first_beside(&self, host: HostId) -> Option<HostId> {
        self.ids.first().copied().filter(|first| *first != host)
    }
}

fn dir_of(data_dir: &Path, number: u32) -> PathBuf {
    match number {
        1 => data_dir.to_owned(),
        _ => data_dir.join(format!("shard-{number}")),
    }
}

/// The plans of a server's shards, the first one first: those that are configured, and those that there were before. Disk groups
/// that are configured and not made yet go to the configured shards with the fewest.
///
/// # Errors
/// A data directory cannot be read.
pub(super) fn shards_of(plan: &HostPlan) -> Result<Vec<HostPlan>, String> {
    let there_were = (2..=SHARDS_MAX).rev().find(|number| dir_of(&plan.data_dir, *number).exists()).unwrap_or(1);
    let mut shards: Vec<HostPlan> = Vec::new();
    // The groups of each, by all names of their devices: those may be exchanged.
    let mut there: Vec<Vec<Vec<PathBuf>>> = Vec::new();
    for number in 1..=plan.shards.max(there_were) {
        let data_dir = dir_of(&plan.data_dir, number);
        let known = load_groups(&data_dir)?;
        there.push(known.iter().map(|group| group.names().map(PathBuf::from).collect()).collect());
        shards.push(match number {
            1 => HostPlan { disk_groups: Vec::new(), ..plan.clone() },
            _ => HostPlan {
                name: format!("{}.shard-{number}", plan.name),
                data_dir,
                peers: None,
                nbd: None,
                nbd_socket: None,
                vhost_user_dir: None,
                disk_groups: Vec::new(),
                ..plan.clone()
            },
        });
    }
    for group in &plan.disk_groups {
        let made_at = there.iter().position(|groups| groups.iter().flatten().any(|path| *path == group.cache));
        let at = made_at.unwrap_or_else(|| {
            let configured = 0..plan.shards as usize;
            configured.min_by_key(|shard| there[*shard].len()).expect("at least one shard is configured")
        });
        if made_at.is_none() {
            there[at].push(vec![group.cache.clone()]);
        }
        shards[at].disk_groups.push(group.clone());
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use cairn_node::GroupPaths;
    use cairn_types::DiskGroupId;

    use super::*;
    use crate::config::DiskGroupConfig;

    fn group(cache: &str) -> DiskGroupConfig {
        DiskGroupConfig {
            cache: cache.into(),
            capacity: vec![format!("{cache}-capacity").into()],
            cache_size: None,
            capacity_size: None,
            cache_medium: None,
            capacity_medium: None,
            medium_dilation: None,
        }
    }

    fn plan(dir: &Path, shards: u32, groups: &[&str]) -> HostPlan {
        HostPlan {
            name: "host-1".into(),
            fault_domain: "rack-1".into(),
            data_dir: dir.to_owned(),
            machine_root: "/".into(),
            shards,
            peers: Some(([10, 0, 0, 1], 9600).into()),
            advertise: Some(([10, 0, 0, 1], 9600).into()),
            nbd: Some(([10, 0, 0, 1], 10809).into()),
            nbd_socket: None,
            vhost_user_dir: None,
            socket_group: None,
            disk_groups: groups.iter().map(|cache| group(cache)).collect(),
            media: Vec::new(),
        }
    }

    /// The file that a shard keeps its groups in.
    fn save(dir: &Path, number: u32, caches: &[&str]) {
        let dir = dir_of(dir, number);
        std::fs::create_dir_all(&dir).unwrap();
        let made = |cache: &&str| GroupPaths {
            disk_group: DiskGroupId(7),
            cache: (*cache).to_owned(),
            capacity: Vec::new(),
            devices: Vec::new(),
            asked: vec![format!("{cache}-asked")],
        };
        let groups: Vec<GroupPaths> = caches.iter().map(made).collect();
        std::fs::write(dir.join("disk-groups.json"), serde_json::to_vec(&groups).unwrap()).unwrap();
    }

    fn told(plan: &HostPlan) -> Vec<(String, Vec<String>)> {
        let shards = shards_of(plan).unwrap().into_iter();
        let caches = |shard: &HostPlan| shard.disk_groups.iter().map(|g| g.cache.display().to_string()).collect();
        shards.map(|shard| (shard.name.clone(), caches(&shard))).collect()
    }

    fn shard(name: &str, caches: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), caches.iter().map(|cache| (*cache).to_owned()).collect())
    }

    /// Goal: groups are dealt once, and nothing that was there is left out. Method: one server over three configurations.
    #[test]
    fn disk_groups_stay_where_they_were_made() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(told(&plan(dir, 1, &["a", "b"])), [shard("host-1", &["a", "b"])]);
        assert_eq!(told(&plan(dir, 2, &["a", "b"])), [shard("host-1", &["a"]), shard("host-1.shard-2", &["b"])]);
        // Made while there was one shard; then there are two, and one group more.
        save(dir, 1, &["a", "b"]);
        let more = plan(dir, 2, &["a", "b", "c"]);
        assert_eq!(told(&more), [shard("host-1", &["a", "b"]), shard("host-1.shard-2", &["c"])]);
        save(dir, 2, &["c"]);
        // By the name that the configuration gave, where the group remembers a device by another one.
        assert_eq!(told(&plan(dir, 2, &["c-asked"])), [shard("host-1", &[]), shard("host-1.shard-2", &["c-asked"])]);
        // One again: the second shard is there, and takes no new group.
        let fewer = plan(dir, 1, &["a", "b", "c", "d"]);
        assert_eq!(told(&fewer), [shard("host-1", &["a", "b", "d"]), shard("host-1.shard-2", &["c"])]);
    }

    /// Goal: one address for peers and one for guests, at the first shard. Method: what two shards' plans say.
    #[test]
    fn only_the_first_shard_listens() {
        let dir = tempfile::tempdir().unwrap();
        let shards = shards_of(&plan(dir.path(), 2, &[])).unwrap();
        assert!(shards[0].peers.is_some() && shards[0].nbd.is_some());
        assert!(shards[1].peers.is_none() && shards[1].nbd.is_none());
        assert_eq!(shards[0].advertise, shards[1].advertise);
        assert_eq!(shards[1].fault_domain, "rack-1");
        assert_ne!(shards[0].data_dir, shards[1].data_dir);
    }
}
