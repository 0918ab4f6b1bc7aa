//! The scrubs of the cluster in memory.

use cairn_api::v1::*;
use cairn_types::{ComponentId, ObjectId};

/// That of host-2 has found something that no other copy has.
pub fn scrub_of(group: &DiskGroup) -> Scrub {
    let up = group.state == DiskGroupState::Mounted;
    let bad = if group.host_name == "host-2" { 1 } else { 0 };
    let finding = ScrubFinding {
        disk: ObjectId(7 << 96),
        disk_name: Some("vm-1".into()),
        component: ComponentId(9 << 96),
        offset_bytes: 1 << 20,
        len_bytes: 4096,
        unrepairable: true,
        differs: false,
    };
    Scrub {
        disk_group: group.id,
        host: group.host,
        host_name: group.host_name.clone(),
        state: if up { ScrubState::Waiting } else { ScrubState::Unreachable },
        reason: group.reason.clone(),
        pass: u64::from(up),
        at_once: false,
        begun_unix_ms: None,
        scrubbed_unix_ms: None,
        done_bytes: u64::from(up) << 30,
        total_bytes: u64::from(up) << 32,
        bytes_per_s: 0,
        eta_s: None,
        found_blocks: 3 * bad,
        repaired_blocks: 2 * bad,
        gone_blocks: 0,
        bad_blocks: bad,
        unrepairable_blocks: bad,
        differing_blocks: 0,
        findings: (0..bad).map(|_| finding.clone()).collect(),
    }
}
