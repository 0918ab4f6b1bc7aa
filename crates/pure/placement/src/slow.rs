//! When a disk group with a slow device may be emptied: as one that failed is, but never so that anything else gets worse.
//!
//! Promises    P1  one disk group of the cluster is emptied at a time, whoever wants it: what is copied away loads the others
//!             P2  what is lost comes first, and what is down: nothing is begun beside it
//!             P3  everything finds its place: what is begun can be ended, and no disk survives fewer failures for it
//! Not here    which device is slow (`pace`); the moves, which lower nothing at any moment (moves.rs)

use cairn_types::{Canary, DiskGroupId, Member, ObjectConfig};

use crate::{maintenance::MaintenancePreview, picture::ClusterPicture};

/// Why a slow disk group is not emptied now, as far as hosts and disk groups say.
pub fn slow_group_waits(picture: &ClusterPicture, group: DiskGroupId) -> Option<String> {
    for host in &picture.hosts {
        if !host.up {
            return Some(format!("host {} is down", host.name));
        }
        if host.maintenance.is_some() {
            return Some(format!("host {} is in maintenance", host.name));
        }
        for other in &host.disk_groups {
            if !other.up {
                return Some(format!("disk group {} of host {} takes no writes", other.disk_group, host.name));
            }
            let is_left = other.components + other.witnesses > 0;
            if other.disk_group != group && other.draining && is_left && !Canary::SlowAllAtOnce.sings() {
                return Some(format!("disk group {} of host {} is being emptied", other.disk_group, host.name));
            }
        }
    }
    None
}

/// The same, as far as the disks say: `lacking` is one that lacks a copy now.
pub fn slow_group_cannot_go(preview: &MaintenancePreview, lacking: Option<&str>) -> Option<String> {
    if let Some(disk) = lacking {
        return Some(format!("disk {disk} lacks a copy, which is replaced first"));
    }
    if let Some(obstacle) = preview.obstacles.first() {
        return Some(format!("not everything on it finds another place: {obstacle}"));
    }
    let lowered = preview.inaccessible.len() as u32 + preview.reduced;
    (lowered > 0).then(|| format!("{lowered} disks would survive fewer failures"))
}

/// Whether a disk lacks a copy now: one that is not in sync, and is no twin of one that is.
pub fn lacks_a_copy(config: &ObjectConfig) -> bool {
    let stands_in = |m: &Member| config.twin_of(m.component).is_some_and(|twin| twin.state.in_sync());
    config.members.iter().any(|m| m.set().is_some() && !m.state.in_sync() && !stands_in(m))
}
