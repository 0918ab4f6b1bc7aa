//! What a check is, what it looks at, and how what it found is told.
//!
//! Not here    the checks themselves (a file for each subject), their list (`mod`)

use cairn_api::v1::{self, Severity};
use cairn_directory::{MemberHealth, MutedCheck};
use cairn_schedule::ScheduleRecord;
use cairn_types::{DiskGroupId, MaintenanceMode};

use crate::picture::Promised;

/// Findings that a check lists, at most: a list of all disks of a large cluster helps nobody. The number is of all.
pub(crate) const FINDINGS_MAX: usize = 100;
/// Causes that a check's sentence repeats.
const CAUSES_IN_TEXT: usize = 3;

/// One check.
pub(crate) struct Check {
    /// Its name, stable: scripts know it.
    pub(crate) name: &'static str,
    /// What it looks at, for the documentation.
    pub(crate) looks_at: &'static str,
    /// What it may find, for the documentation.
    pub(crate) finds: &'static str,
    /// Looks.
    pub(crate) look: fn(&Picture) -> Looked,
}

/// What a check saw.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The sentence where nothing was found.
    pub(crate) well: String,
    /// All that was found.
    pub(crate) findings: Vec<v1::Finding>,
}

/// What checks look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picture {
    /// Why the host that was asked is no part of the cluster any more; none: it is.
    pub(crate) dismissed: Option<String>,
    /// Every server that the directory knows.
    pub(crate) hosts: Vec<HostSeen>,
    /// Clocks of hosts that answer.
    pub(crate) clocks: Vec<ClockSeen>,
    /// The directory.
    pub(crate) directory: DirectorySeen,
    /// Every disk group that the directory or a host knows.
    pub(crate) groups: Vec<v1::DiskGroup>,
    /// Checks that are muted now.
    pub(crate) muted: Vec<MutedCheck>,
    /// Settings that checks go by.
    pub(crate) settings: SettingsSeen,
    /// Pairs of servers that answer this one, of which the first does not reach the second.
    pub(crate) unheard: Vec<(String, String)>,
    /// Levels, and why the upgrade to the next one cannot be finished.
    pub(crate) upgrade: UpgradeSeen,
    /// The scrub of each of them.
    pub(crate) scrubs: Vec<v1::Scrub>,
    /// Days in which each is scrubbed once; 0: when somebody asks.
    pub(crate) scrub_period_days: u64,
    /// The clock of the day of the host that looks, in ms since 1970.
    pub(crate) unix_ms: u64,
    /// What disks may become, and the space that there is.
    pub(crate) promised: Promised,
    /// Every disk of the catalogue, those included that are being deleted.
    pub(crate) disks: Vec<DiskSeen>,
    /// Every schedule of snapshots.
    pub(crate) schedules: Vec<ScheduleSeen>,
    /// Disks for which schedules ask for more snapshots than there may be, in words.
    pub(crate) crowded: Vec<String>,
    /// The time of the day as most hosts have it, in ms since 1970.
    pub(crate) day_unix_ms: u64,
}

/// Settings of the cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SettingsSeen {
    /// Seconds for which repair is paused.
    pub(crate) repair_paused_s: u64,
    /// Hosts' worth of capacity that is kept for rebuilding.
    pub(crate) rebuild_reserve_hosts: u8,
    /// Percentage points that disk groups may differ.
    pub(crate) rebalance_points: u8,
}

/// How far an upgrade is.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpgradeSeen {
    /// Finishing it would switch something on.
    pub(crate) waits: bool,
    /// Why it cannot be finished.
    pub(crate) obstacles: Vec<String>,
}

/// A server.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostSeen {
    /// Its name.
    pub(crate) name: String,
    /// Whether it answers, with all its threads.
    pub(crate) up: bool,
    /// The release that it runs, or ran last.
    pub(crate) version: Option<String>,
    /// The maintenance that it is in, or on its way to.
    pub(crate) maintenance: Option<MaintenanceMode>,
    /// Disk groups of it that are being emptied.
    pub(crate) draining: Vec<DiskGroupId>,
}

/// The clock of the day of a host.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockSeen {
    /// Its name.
    pub(crate) host: String,
    /// How far it is ahead of the clock of the host that looks, in milliseconds; behind it below zero.
    pub(crate) ahead_ms: i64,
}

/// The directory as one host sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectorySeen {
    /// Whether it answers.
    pub(crate) up: bool,
    /// Seconds since it last confirmed what this host knows of it; none while it never did.
    pub(crate) age_s: Option<u64>,
    /// Why it cannot be read or takes no changes.
    pub(crate) problem: Option<String>,
    /// Its members, where it has some.
    pub(crate) members: Vec<MemberHealth>,
}

/// A disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskSeen {
    /// Its name.
    pub(crate) name: String,
    /// How it is.
    pub(crate) health: v1::DiskHealth,
    /// Why it is not healthy.
    pub(crate) reasons: Vec<String>,
    /// Blocks of 4 KiB that its owner found unreadable on every copy and that nobody has written since.
    pub(crate) unreadable_blocks: u64,
}

/// A schedule of snapshots.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleSeen {
    /// Its name.
    pub(crate) name: String,
    /// What is known of it.
    pub(crate) record: ScheduleRecord,
    /// Disks that it matches.
    pub(crate) disks: usize,
}

/// A finding.
pub(crate) fn finding(
    severity: Severity,
    cause: impl Into<String>,
    consequence: impl Into<String>,
    remedy: impl Into<String>,
) -> v1::Finding {
    v1::Finding { severity, cause: cause.into(), consequence: consequence.into(), remedy: remedy.into() }
}

/// How a device is found at the rack, behind a remedy; nothing of a file.
pub(crate) fn lights(device: &str, host: &str) -> String {
    match device.starts_with("/dev/") {
        true => format!("; `cairn host locate {device} --host {host}` lights its LED"),
        false => String::new(),
    }
}

impl Check {
    /// What is told of the picture.
    pub(crate) fn report(&self, picture: &Picture) -> v1::Check {
        let Looked { well, mut findings } = (self.look)(picture);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let total = findings.len();
        let text = match total {
            0 => well,
            1 => findings[0].cause.clone(),
            _ => {
                let causes: Vec<&str> = findings.iter().take(CAUSES_IN_TEXT).map(|f| f.cause.as_str()).collect();
                let more = total.saturating_sub(CAUSES_IN_TEXT);
                let more = if more > 0 { format!("; and {more} more") } else { String::new() };
                format!("{total} findings: {}{more}", causes.join("; "))
            }
        };
        let severity = findings.first().map_or(Severity::Ok, |finding| finding.severity);
        findings.truncate(FINDINGS_MAX);
        v1::Check {
            name: self.name.into(),
            looks_at: self.looks_at.into(),
            finds: self.finds.into(),
            severity,
            text,
            findings_total: total as u32,
            findings,
            muted: picture
                .muted
                .iter()
                .find(|muted| muted.check == self.name)
                .map(|muted| v1::Muted { reason: muted.reason.clone(), until_unix_ms: muted.until_unix_ms }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The causes that a check finds.
    pub(crate) fn causes(check: &Check, picture: &Picture) -> Vec<String> {
        (check.look)(picture).findings.into_iter().map(|finding| finding.cause).collect()
    }
}
