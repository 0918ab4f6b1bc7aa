//! What changes of disks in use come to in the cluster in memory, and what a loss would.

use cairn_api::{ApiError, ApiResult, v1::*};

/// Of its four hosts three answer.
const TOO_FEW: &str = "mirror with FTT=2 needs 5 fault domains, 3 are up";

fn component(component: &Component) -> ChangedComponent {
    ChangedComponent {
        role: component.role,
        host_name: component.host_name.clone(),
        disk_group: component.disk_group,
        bytes: Some(if component.role == ComponentRole::Witness { 0 } else { 3 << 30 }),
    }
}

/// Another policy for a disk.
///
/// # Errors
/// More copies than hosts answer for, unless forced.
pub fn policy_change(disk: &Disk, request: &DiskPolicySet, rules: &PolicyRules) -> ApiResult<DiskChange> {
    let words = |name: &str, rules: &PolicyRules| format!("{name} ({})", rules.describe());
    let fewer = rules.ftt < disk.rules.ftt;
    let removed = disk.components.iter().skip(usize::from(rules.ftt) + 1).map(component).collect();
    let change = DiskChange {
        disk: disk.summary.name.clone(),
        begun: !request.dry_run,
        policy_before: words(&disk.summary.policy, &disk.rules),
        policy_after: words(&request.policy, rules),
        added: Vec::new(),
        removed: if fewer { removed } else { Vec::new() },
        bytes_to_copy: Some(0),
        bytes_before: Some(6 << 30),
        bytes_after: Some(if fewer { 3 << 30 } else { 6 << 30 }),
        bytes_peak: Some(6 << 30),
        takes_s: None,
        ftt_meanwhile: rules.ftt.min(disk.rules.ftt),
        obstacle: (rules.ftt > 1).then(|| TOO_FEW.to_owned()),
    };
    match change.obstacle.as_ref().filter(|_| !request.dry_run && !request.force) {
        None => Ok(change),
        Some(why) => Err(ApiError::refused(format!("policy {:?} cannot be met now: {why}", request.policy))
            .remedy("Add what is missing, choose another policy, or use --force")),
    }
}

/// Other rules for a policy.
///
/// # Errors
/// More copies than hosts answer for, unless forced.
pub fn policy_edited<'a>(
    known: &Policy,
    request: &PolicyEdit,
    disks: impl Iterator<Item = &'a Disk>,
) -> ApiResult<PolicyChange> {
    let asked = DiskPolicySet { policy: known.name.clone(), dry_run: request.dry_run, force: request.force };
    let concerned = disks.filter(|disk| disk.summary.policy == known.name && disk.rules != request.rules);
    let disks = concerned.map(|disk| policy_change(disk, &asked, &request.rules)).collect::<ApiResult<Vec<_>>>()?;
    let sum = |bytes: fn(&DiskChange) -> Option<u64>| disks.iter().map(bytes).sum();
    Ok(PolicyChange {
        policy: known.name.clone(),
        begun: !request.dry_run,
        rules_before: known.rules.clone(),
        rules_after: request.rules.clone(),
        unchanged: known.disks - disks.len() as u32,
        left_out: Vec::new(),
        bytes_to_copy: sum(|disk| disk.bytes_to_copy),
        bytes_before: sum(|disk| disk.bytes_before),
        bytes_after: sum(|disk| disk.bytes_after),
        bytes_peak: sum(|disk| disk.bytes_peak),
        takes_s: sum(|disk| disk.takes_s),
        disks,
    })
}

/// What a disk has on a host goes to another one.
///
/// # Errors
/// It has nothing there.
pub fn moved(disk: &Disk, from: &str, to: &str, dry_run: bool) -> ApiResult<DiskChange> {
    let there: Vec<_> = disk.components.iter().filter(|c| c.host_name == from).map(component).collect();
    if there.is_empty() {
        return Err(ApiError::refused(format!("disk {} has nothing on host {from}", disk.summary.name))
            .remedy(format!("See `cairn disk show {}`", disk.summary.name)));
    }
    let policy = format!("{} ({})", disk.summary.policy, disk.rules.describe());
    Ok(DiskChange {
        disk: disk.summary.name.clone(),
        begun: !dry_run,
        policy_before: policy.clone(),
        policy_after: policy,
        added: there.iter().map(|c| ChangedComponent { host_name: to.to_owned(), ..c.clone() }).collect(),
        bytes_to_copy: there.iter().map(|c| c.bytes).sum(),
        bytes_before: Some(6 << 30),
        bytes_after: Some(6 << 30),
        bytes_peak: Some(9 << 30),
        takes_s: Some(20),
        ftt_meanwhile: disk.rules.ftt,
        removed: there,
        obstacle: None,
    })
}

/// What the loss of a host, or of a device of it, comes to.
pub fn what_if<'a>(host: &str, whole_host: bool, disks: impl Iterator<Item = &'a Disk>, repair_delay_s: u64) -> WhatIf {
    let there = |disk: &&Disk| disk.components.iter().any(|c| c.host_name == host);
    let disks: Vec<String> = disks.filter(there).map(|disk| disk.summary.name.clone()).collect();
    WhatIf {
        lost_is: if whole_host { format!("host {host}") } else { format!("a device of host {host}") },
        disks: disks.len() as u32,
        components: disks.len() as u32,
        rebuilt_components: 0,
        rebuilt_bytes: Some(0),
        free_bytes: 200 << 30,
        rebuild_s: None,
        begins_after_s: whole_host.then_some(repair_delay_s),
        not_rebuilt: disks.iter().map(|disk| format!("disk {disk}: 3 fault domains are needed, 2 are up")).collect(),
        reduced: disks,
        inaccessible: Vec::new(),
        lost: Vec::new(),
        unknown: Vec::new(),
    }
}

/// What comes is empty, and nothing moves there.
pub fn growth(request: &WhatIfGrowth, hosts: usize) -> Growth {
    let (more, devices) = (request.hosts.unwrap_or(0), request.devices.unwrap_or(1));
    let added = u64::from(more.max(1)) * u64::from(devices) * request.device_bytes;
    Growth {
        added_is: if more > 0 { format!("{more} hosts") } else { "a capacity device".into() },
        raw_bytes_before: 800 << 30,
        raw_bytes_after: (800 << 30) + added,
        free_bytes_before: 200 << 30,
        free_bytes_after: (200 << 30) + added,
        completed: vec!["wounded".into()],
        completed_bytes: Some(1 << 30),
        still_lacking: Vec::new(),
        unknown: Vec::new(),
        moved_components: 0,
        moved_bytes: Some(0),
        more_moves: false,
        takes_s: None,
        hosts_after: hosts as u32 + u32::from(more),
    }
}

/// The record of a disk: every seat has accepted the same.
pub fn record_of(disk: &Disk) -> ObjectRecord {
    let seats = disk.components.iter().map(|c| SeatReport {
        host: c.host,
        host_name: c.host_name.clone(),
        disk_group: c.disk_group,
        votes: c.votes,
        promised: disk.epoch.clone(),
        accepted: disk.epoch.clone(),
        csn: Some(disk.csn),
        open: false,
        error: None,
    });
    ObjectRecord { object: disk.summary.id, seats: seats.collect(), config: None }
}
