//! What a study measures: a cluster of its own, or targets that are there already.

use std::process::Command;

use cairn_api::v1;
use cairn_study::{Action, ArmMedia, Counters, Gauges, Plan, TargetFacts};

use super::{cluster::OwnCluster, programs::Cairn};
use crate::address::Address;

/// What is measured.
pub enum System {
    /// A cluster of the study's own.
    Own(OwnCluster, Vec<Address>),
    /// Targets that somebody else keeps.
    Given(Given),
}

/// Targets that are there already.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Where they are.
    pub targets: Vec<Address>,
    /// The management API of the Cairn cluster that serves them, if it is one.
    pub api: Option<String>,
    /// A command that clears the caches of what serves them.
    pub clear: Option<String>,
}

/// How long clearing may take, in seconds.
const CLEAR_S: &str = "3600";

impl System {
    /// The targets, one for each virtual disk.
    pub fn targets(&self) -> &[Address] {
        match self {
            Self::Own(_, targets) => targets,
            Self::Given(given) => &given.targets,
        }
    }

    /// The command line of its cluster; none where it is no Cairn, or its API was not named.
    pub(crate) fn cairn(&self) -> Option<Cairn> {
        match self {
            Self::Own(cluster, _) => Some(cluster.cairn().clone()),
            Self::Given(given) => Cairn::new(given.api.clone()?).ok(),
        }
    }

    /// Its counters; none where it has none that can be read.
    pub fn counters(&self) -> Option<Counters> {
        counters_at(&self.cairn()?)
    }

    /// Drains write buffers and drops read caches. Tells what was buffered before and after; none where nothing could be cleared.
    ///
    /// # Errors
    /// It could not be done, so that what is measured next would be something else.
    pub fn clear(&self) -> Result<Option<(u64, u64)>, String> {
        if let Some(cairn) = self.cairn() {
            return clear_at(&cairn).map(Some);
        }
        let Self::Given(Given { clear: Some(command), .. }) = self else { return Ok(None) };
        let status = Command::new("sh").args(["-c", command]).status();
        match status.map_err(|e| format!("cannot run {command}: {e}"))? {
            status if status.success() => Ok(Some((0, 0))),
            status => Err(format!("clearing caches by {command:?} failed: {status}")),
        }
    }

    /// Where the bytes of its own cluster's capacity devices are; none of what was given.
    ///
    /// # Errors
    /// It does not tell.
    pub fn space(&self) -> Result<Option<Action>, String> {
        let Self::Own(cluster, _) = self else { return Ok(None) };
        let told: v1::ClusterCapacity = cluster.cairn().call(&["cluster", "capacity"])?;
        let (space, all) = (told.space, counters_at(cluster.cairn()).unwrap_or_default());
        Ok(Some(Action::Space {
            guest_bytes: all.guest_written_bytes,
            before_bytes: space.held_bytes(),
            after_bytes: space.stored_bytes,
            beside_bytes: space.headers_bytes + space.dead_bytes + space.metadata_used_bytes,
        }))
    }

    /// Facts for the manifest.
    pub fn facts(&self, plan: &Plan) -> TargetFacts {
        let addresses = self.targets().iter().map(ToString::to_string).collect();
        let all: Option<v1::Counters> = self.cairn().and_then(|cairn| cairn.call(&["counters"]).ok());
        let groups = || all.iter().flat_map(|all| &all.hosts).flat_map(|host| &host.disk_groups);
        let (hosts, own) = (all.as_ref().map_or(0, |all| all.hosts.len() as u32), matches!(self, Self::Own(..)));
        TargetFacts {
            description: match self {
                Self::Own(..) => format!("own cluster of {hosts} hosts in one process, on files"),
                Self::Given(given) => format!("{} targets that were given", given.targets.len()),
            },
            addresses,
            hosts,
            policy: if own { policy_of(plan) } else { String::new() },
            // A small write of rows goes to its strip and to its parity.
            copies: if own { 2 } else { 0 },
            buffer_bytes: groups().filter_map(|group| group.gauges).map(|gauges| gauges.log_bytes).sum(),
            read_cache_bytes: if own { plan.cluster.read_cache_bytes * u64::from(hosts) } else { 0 },
        }
    }
}

/// The counters of a cluster; none where they cannot be read.
pub(super) fn counters_at(cairn: &Cairn) -> Option<Counters> {
    let all: v1::Counters = cairn.call(&["counters"]).ok()?;
    Some(counters_of(&all))
}

/// Drains write buffers and drops read caches of a cluster. What was buffered before, and after.
///
/// # Errors
/// As [`System::clear`].
pub(super) fn clear_at(cairn: &Cairn) -> Result<(u64, u64), String> {
    let before = counters_at(cairn).map_or(0, |counters| counters.log_used_bytes);
    let cleared: v1::CachesCleared = cairn.call(&["--timeout", "3700", "cache", "clear", "--wait", CLEAR_S])?;
    Ok((before, cleared.disk_groups.iter().map(|group| group.dirty_bytes).sum()))
}

/// The policies of a plan's disks, in words.
fn policy_of(plan: &Plan) -> String {
    let of_arm = |arm: &ArmMedia| match arm.data_strips {
        0 => "mirror".to_owned(),
        strips => format!("erasure coding {strips}+1"),
    };
    let mut methods: Vec<String> = plan.arms.iter().map(of_arm).collect();
    methods.dedup();
    format!("{}, FTT 1, stripe width {}", methods.join(" or "), plan.stripe_width)
}

/// The counters of a cluster, added up.
pub(crate) fn counters_of(all: &v1::Counters) -> Counters {
    let (guests, stores) = (all.guests(), all.stores());
    let gauges = gauges_of(all);
    Counters {
        guest_written_bytes: guests.write_bytes,
        guest_read_bytes: guests.read_bytes,
        buffered_bytes: stores.write_bytes + stores.resync_in_bytes,
        log_written_bytes: stores.log_write_bytes,
        destaged_bytes: stores.destaged_bytes,
        capacity_written_by_destage_bytes: stores.capacity_write_destage_bytes,
        capacity_written_by_cleaning_bytes: stores.capacity_write_clean_bytes,
        capacity_written_otherwise_bytes: stores.capacity_write_resync_bytes,
        read_from_buffer_bytes: stores.read_log_bytes,
        read_from_cache_bytes: stores.read_cache_bytes,
        read_from_capacity_bytes: stores.read_capacity_bytes,
        log_used_bytes: gauges.log_used_bytes,
        log_size_bytes: gauges.log_size_bytes,
        congestion: gauges.congestion,
    }
}

/// The gauges of a cluster's write buffers.
pub(crate) fn gauges_of(all: &v1::Counters) -> Gauges {
    let groups = all.hosts.iter().flat_map(|host| &host.disk_groups);
    let mut gauges = Gauges::default();
    for group in groups.filter_map(|group| group.gauges) {
        gauges.log_used_bytes += group.log_used_bytes;
        gauges.log_size_bytes += group.log_bytes;
        gauges.log_fill_max_permille = gauges.log_fill_max_permille.max(group.log_fill_permille as u32);
        gauges.congestion = gauges.congestion.max(group.congestion.min(255) as u8);
    }
    let stores = all.stores();
    gauges.destaged_bytes = stores.destaged_bytes;
    gauges.buffered_bytes = stores.write_bytes + stores.resync_in_bytes;
    gauges
}
