//! Rebalancing: which component goes from a disk group that is too full, and to which host.
//!
//! Promises    each move leaves the two groups nearer to each other, and neither passes the other: moves end
//!             a component goes only where its disk may have it, as with any other move (moves.rs)
//! Assumes     what a component holds is told by its store; guests write meanwhile, so the next move looks anew
//! Not here    who looks and when (engine/node), the move itself (engine/object)
//! Source      vSAN's automatic rebalance: from 80 % in use, or where devices differ by a threshold, 30 % by default

use std::cmp::Reverse;

use cairn_types::{ComponentId, HostId, ObjectConfig, Seat};

use crate::{
    moves::relocate,
    picture::{ClusterPicture, DiskGroupPicture},
};

/// Percent in use from which on a group gives components away to any that is emptier.
const FULL_PERCENT: u64 = 80;
/// Percentage points by which that one is emptier, at least: else both would pass components to and fro.
const POINTS_MIN: u64 = 5;
/// Of what would make two groups equal, the smallest part that is worth a move.
const PARTS_MIN: u64 = 64;
/// Components that are tried for one group, at most: each is a search through the cluster, some 100 microseconds.
const TRIED_MAX: usize = 8;

/// A component on the group that is too full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Which.
    pub component: ComponentId,
    /// What it holds.
    pub bytes: u64,
}

/// A group that may take something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    host: HostId,
    /// In use, in 1/10,000.
    fill: u64,
    /// Moved, they would leave both groups equally full.
    equal_bytes: u64,
}

/// What goes next from the group at `from`, and to which host; none where it is not too full, or nothing may go.
///
/// `points`: percentage points by which groups may differ; 0 is never. `config_of` tells the disk of a component; it is asked for few.
pub fn rebalance(
    picture: &ClusterPicture,
    from: Seat,
    points: u8,
    mut residents: Vec<Resident>,
    config_of: &dyn Fn(ComponentId) -> Option<ObjectConfig>,
) -> Option<(ComponentId, HostId)> {
    let targets = targets(picture, from, points);
    if targets.is_empty() {
        return None;
    }
    residents.sort_by_key(|resident| (Reverse(resident.bytes), resident.component));
    targets.iter().find_map(|target| {
        let least = (target.equal_bytes / PARTS_MIN).max(1);
        let fits = residents.iter().filter(|resident| (least..=target.equal_bytes).contains(&resident.bytes));
        let may_go = |resident: &&Resident| {
            let Some(config) = config_of(resident.component) else { return false };
            let whole = config.twins().is_empty() && config.members.iter().all(|m| m.state.in_sync());
            let mut ids = || ComponentId(1);
            whole && relocate(picture, &config, resident.component, &[target.host], &mut ids).is_ok()
        };
        let found = fits.take(TRIED_MAX).find(may_go);
        found.map(|resident| (resident.component, target.host))
    })
}

/// Groups that are enough emptier than the one at `from`, the emptiest first.
fn targets(picture: &ClusterPicture, from: Seat, points: u8) -> Vec<Target> {
    let Some(full) = group_at(picture, from).filter(|_| points > 0 && picture.leaves(from).is_none()) else {
        return Vec::new();
    };
    let is_full = fill(full) >= FULL_PERCENT * 100;
    let differ = u64::from(points) * 100;
    let least = if is_full { differ.min(POINTS_MIN * 100) } else { differ };
    let others = picture.hosts.iter().filter(|host| host.up && host.maintenance.is_none());
    let groups = others.flat_map(|host| host.disk_groups.iter().map(move |group| (host.host, group)));
    let emptier = groups.filter(|(host, group)| {
        let other = Seat { host: *host, disk_group: group.disk_group } != from;
        other && group.up && !group.draining && total(group) > 0 && fill(group) + least <= fill(full)
    });
    let mut targets: Vec<Target> = emptier
        .map(|(host, group)| Target { host, fill: fill(group), equal_bytes: equal_bytes(full, group) })
        .collect();
    targets.sort_by_key(|target| (target.fill, target.host));
    targets
}

/// Bytes that, moved from the fuller group to the other one, leave both equally full.
fn equal_bytes(fuller: &DiskGroupPicture, other: &DiskGroupPicture) -> u64 {
    let [a, b] = [total(fuller), total(other)].map(u128::from);
    let [used, others] = [fuller, other].map(|group| u128::from(total(group) - group.free_bytes.min(total(group))));
    // used - x is to a what others + x is to b.
    ((used * b).saturating_sub(others * a) / (a + b)) as u64
}

fn group_at(picture: &ClusterPicture, seat: Seat) -> Option<&DiskGroupPicture> {
    let groups = &picture.host(seat.host)?.disk_groups;
    groups.iter().find(|group| group.disk_group == seat.disk_group && group.up && total(group) > 0)
}

fn total(group: &DiskGroupPicture) -> u64 {
    group.devices.iter().map(|device| device.total_bytes).sum()
}

/// In use, in 1/10,000.
fn fill(group: &DiskGroupPicture) -> u64 {
    let total = total(group);
    (u128::from(total.saturating_sub(group.free_bytes)) * 10_000 / u128::from(total)) as u64
}
