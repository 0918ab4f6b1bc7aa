//! The rebuild reserve: capacity that new and growing disks leave free, so that what lost hosts held can be rebuilt.
//!
//! Promises    no disk is made, grows or gets more copies where free space would fall below the reserve
//! Assumes     thin disks fill by writes, which are never refused for the reserve: the health check tells of that
//! Source      vSAN's host rebuild reserve: one host's worth of capacity

use cairn_api::{ApiError, ApiResult};
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_types::{Member, ObjectConfig, Policy, format_bytes};

use crate::node::Node;

/// Space of a host's disk groups that work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostSpace {
    /// All of it.
    pub(crate) raw_bytes: u64,
    /// Neither used nor reserved.
    pub(crate) free_bytes: u64,
}

/// Bytes that are to stay free: all capacity of so many of the largest hosts.
pub(crate) fn reserve_bytes(hosts: &[HostSpace], reserve_hosts: u8) -> u64 {
    let mut raw: Vec<u64> = hosts.iter().map(|host| host.raw_bytes).collect();
    raw.sort_unstable_by(|a, b| b.cmp(a));
    raw.into_iter().take(reserve_hosts.into()).sum()
}

impl<E: Env> Node<E> {
    /// Refuses what would leave less than the reserve.
    pub(crate) fn leave_reserve(&self, what: &str, wanted_bytes: u64) -> ApiResult<()> {
        let reserve_hosts = self.settings().map_or(0, |settings| settings.rebuild_reserve_hosts);
        if reserve_hosts == 0 || wanted_bytes == 0 {
            return Ok(());
        }
        let picture = self.picture();
        let space = |server: crate::servers::Server| {
            let of = picture.hosts.iter().filter(|host| server.shards.contains(&host.host));
            let groups = of.filter(|host| host.eligible()).flat_map(|host| &host.disk_groups);
            let in_use = groups.filter(|group| group.up && !group.draining);
            in_use.fold(HostSpace::default(), |sum, group| HostSpace {
                raw_bytes: sum.raw_bytes + group.devices.iter().map(|device| device.total_bytes).sum::<u64>(),
                free_bytes: sum.free_bytes + group.free_bytes,
            })
        };
        let hosts: Vec<HostSpace> = self.servers().into_iter().map(space).collect();
        let (reserve, free) = (reserve_bytes(&hosts, reserve_hosts), hosts.iter().map(|host| host.free_bytes).sum());
        let left: u64 = u64::saturating_sub(free, wanted_bytes);
        if left >= reserve {
            return Ok(());
        }
        let [wanted, free, kept] = [wanted_bytes, free, reserve].map(format_bytes);
        let text = format!("{what} takes {wanted} of {free} that are free, and {kept} are kept for rebuilding");
        Err(ApiError::refused(text).remedy(
            "Add capacity, delete or trim disks, or keep less: `cairn cluster settings --rebuild-reserve-hosts`",
        ))
    }
}

/// Bytes that these members take at once: what their policy sets aside, or a thin start.
pub(crate) fn demand_of<'a>(
    config: &ObjectConfig,
    policy: &Policy,
    size_bytes: u64,
    members: impl Iterator<Item = &'a Member>,
) -> u64 {
    let addresses = cairn_geometry::grown(&config.addresses, config.size_bytes, size_bytes);
    let bytes = |set| Some(Area::of_set_at(&addresses, size_bytes, set)?.component_bytes(set));
    let serving = members.filter_map(Member::set).filter(|set| config.addresses.serves(*set));
    serving.filter_map(bytes).map(|bytes| cairn_placement::demand_bytes(policy, bytes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_hosts_are_reserved_for() {
        let hosts: Vec<HostSpace> = [3, 9, 5].map(|raw_bytes| HostSpace { raw_bytes, free_bytes: 1 }).into();
        assert_eq!([0, 1, 2, 9].map(|n| reserve_bytes(&hosts, n)), [0, 9, 14, 17]);
    }
}
