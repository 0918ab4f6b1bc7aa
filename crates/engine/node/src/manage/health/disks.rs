//! Whether disks can be used, have all their redundancy, can be read, and are gone when they were deleted.

use cairn_api::v1::{self, DiskHealth, Severity};
use cairn_types::{BLOCK_BYTES, format_bytes};

use super::check::{Check, DiskSeen, Looked, Picture, finding};

/// Every disk has its redundancy.
pub(crate) const DISKS: Check = Check {
    name: "disks",
    looks_at: "every disk: whether enough of its copies and votes can be reached and are in sync",
    finds: "each that is inaccessible: an error; each with reduced redundancy: a warning",
    look: look_at_copies,
};

/// Every disk can be read.
pub(crate) const UNREADABLE: Check = Check {
    name: "unreadable-blocks",
    looks_at: "blocks that a guest or a rebuild asked for and that no copy of their disk could give",
    finds: "each disk that has some: an error",
    look: look_at_blocks,
};

/// Deleted disks are gone.
pub(crate) const DELETIONS: Check = Check {
    name: "deletions",
    looks_at: "disks whose deletion has begun",
    finds: "each whose deletion has not come to its end: a warning",
    look: look_at_deletions,
};

fn look_at_copies(picture: &Picture) -> Looked {
    let found = |disk: &DiskSeen| {
        let why = disk.reasons.join("; ");
        match disk.health {
            DiskHealth::Healthy | DiskHealth::Deleting => None,
            DiskHealth::Inaccessible => Some(finding(
                Severity::Error,
                format!("disk {} is inaccessible: {why}", disk.name),
                "its guests wait, and get errors when their patience ends",
                "bring the hosts and disk groups named back",
            )),
            DiskHealth::ReducedRedundancy => Some(finding(
                Severity::Warning,
                format!("disk {} has reduced redundancy: {why}", disk.name),
                "it works; fewer further failures can be survived",
                "bring what is named back; after the repair delay missing copies are rebuilt elsewhere",
            )),
        }
    };
    Looked {
        well: format!("all {} disks are healthy", picture.disks.len()),
        findings: picture.disks.iter().filter_map(found).collect(),
    }
}

fn look_at_blocks(picture: &Picture) -> Looked {
    let found = |disk: &&DiskSeen| -> v1::Finding {
        let bytes = format_bytes(disk.unreadable_blocks * u64::from(BLOCK_BYTES));
        finding(
            Severity::Error,
            format!("disk {}: {} blocks ({bytes}) cannot be read from any copy", disk.name, disk.unreadable_blocks),
            "a guest that reads them gets an error",
            "restore them from a backup: a block that is written again is whole again",
        )
    };
    let bad = picture.disks.iter().filter(|disk| disk.unreadable_blocks > 0);
    Looked { well: "no block was found unreadable".into(), findings: bad.map(|disk| found(&disk)).collect() }
}

fn look_at_deletions(picture: &Picture) -> Looked {
    let found = |disk: &DiskSeen| {
        finding(
            Severity::Warning,
            format!("disk {} is being deleted", disk.name),
            "its name and space are not free yet",
            "nothing, where this ends soon; otherwise bring back the hosts that hold it, and a directory that takes changes",
        )
    };
    let begun = picture.disks.iter().filter(|disk| disk.health == DiskHealth::Deleting);
    Looked { well: "no deletion is under way".into(), findings: begun.map(found).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::causes;
    use super::*;

    fn disk(name: &str, health: DiskHealth, unreadable_blocks: u64) -> DiskSeen {
        DiskSeen { name: name.into(), health, reasons: vec!["a copy is away".into()], unreadable_blocks }
    }

    /// Goal: all disks that ail are told, not the worst alone. Method: a picture with each kind, two of one.
    #[test]
    fn every_disk_that_ails_is_named_by_the_check_that_it_concerns() {
        use DiskHealth::{Deleting, Healthy, Inaccessible, ReducedRedundancy};
        let disks = vec![
            disk("a", Healthy, 0),
            disk("b", ReducedRedundancy, 0),
            disk("c", Inaccessible, 0),
            disk("d", ReducedRedundancy, 3),
            disk("e", Deleting, 0),
        ];
        let picture = Picture { disks, ..Default::default() };
        let told = causes(&DISKS, &picture);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[1].starts_with("disk c is inaccessible: a copy is away"), "{told:?}");
        let blocks = causes(&UNREADABLE, &picture);
        assert!(blocks.len() == 1 && blocks[0].starts_with("disk d: 3 blocks (12 KiB)"), "{blocks:?}");
        assert_eq!(causes(&DELETIONS, &picture), ["disk e is being deleted"]);
    }
}
