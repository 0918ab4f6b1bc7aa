//! `cairn policy suggest`: which policies this cluster can hold, and what each costs.
//!
//! Promises    what is offered in place of the default survives as much, fits the fault domains that there are, and leaves one to rebuild on
//! Not here    what a policy costs in time: docs/operating/which-policy.md

use std::collections::BTreeSet;

use cairn_api::v1::Host;
use cairn_sizing::{Pool, Protection, SizingError};
use cairn_types::format_bytes;
use serde::Serialize;

use super::Context;
use crate::{fail::Fail, output};

/// The policies that are looked at: mirrors, then rows of the usual widths.
fn usual() -> Result<Vec<Protection>, SizingError> {
    let mirrors = [1, 2, 3].map(Protection::mirror);
    let rows = [(2, 1), (3, 1), (3, 2), (4, 2)].map(|(data, parity)| Protection::parity(data, parity));
    mirrors.into_iter().chain(rows).collect()
}

/// What there is to choose from.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Suggestions {
    /// Fault domains with disk groups.
    fault_domains: usize,
    /// Bytes that are free on all of them.
    free_bytes: u64,
    /// All policies of the usual widths.
    policies: Vec<Suggested>,
    /// Its description: what takes least space of those that survive as much as the default.
    offered: Option<String>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Suggested {
    policy: String,
    failures_to_tolerate: u8,
    fault_domains_needed: u16,
    /// Whether the cluster has these.
    fits: bool,
    /// Whether what a lost fault domain held can be made anew on the others.
    is_rebuilt: bool,
    bytes_for_a_byte: String,
    /// Bytes of guests that the free space holds.
    holds_bytes: u64,
    /// What makes such a policy; none for the default.
    command: Option<String>,
}

impl Suggested {
    fn of(protection: Protection, domains: usize, free_bytes: u64) -> Result<Self, SizingError> {
        let needed = protection.hosts_min();
        Ok(Self {
            policy: protection.describe(),
            failures_to_tolerate: protection.ftt(),
            fault_domains_needed: needed,
            fits: domains >= needed.into(),
            is_rebuilt: domains > needed.into(),
            bytes_for_a_byte: protection.multiplier()?.short(3),
            holds_bytes: Pool::of(protection).usable(free_bytes)?.usable_bytes,
            command: command(protection),
        })
    }
}

fn command(protection: Protection) -> Option<String> {
    match protection {
        Protection::Mirror { ftt: 1 } => None,
        Protection::Mirror { ftt } => Some(format!("cairn policy create mirror-{ftt} --ftt {ftt}")),
        Protection::Parity { data, parity } => Some(format!(
            "cairn policy create raid-{} --ftt {parity} --ftm erasure-coding --data-strips {data}",
            4 + parity
        )),
    }
}

/// What hosts with disk groups come to.
fn suggestions(hosts: &[Host]) -> Result<Suggestions, SizingError> {
    let with_groups = || hosts.iter().filter(|host| !host.disk_groups.is_empty());
    let domains = with_groups().map(|host| host.fault_domain.as_str()).collect::<BTreeSet<_>>().len();
    let free_bytes = with_groups().map(|host| host.capacity.free_bytes).sum();
    let of = |protection| Suggested::of(protection, domains, free_bytes);
    let policies = usual()?.into_iter().map(of).collect::<Result<Vec<_>, _>>()?;
    let as_default = |one: &&Suggested| one.failures_to_tolerate == 1 && one.is_rebuilt;
    let offered = policies.iter().filter(as_default).max_by_key(|one| one.holds_bytes);
    let offered = offered.filter(|one| one.command.is_some()).map(|one| one.policy.clone());
    Ok(Suggestions { fault_domains: domains, free_bytes, policies, offered })
}

/// Tells them.
pub(super) async fn run(context: &Context) -> Result<(), Fail> {
    let hosts = context.client.host_list().await?;
    let told = suggestions(&hosts)?;
    output::show(context.format, &told, show)
}

fn show(told: &Suggestions) -> String {
    let yes_no = |value| if value { "yes" } else { "no" }.to_owned();
    let table = output::table(
        &["policy", "survives", "bytes for a byte", "free space holds", "fits", "rebuilt after a loss", "made by"],
        told.policies.iter().map(|one| {
            vec![
                one.policy.clone(),
                one.failures_to_tolerate.to_string(),
                one.bytes_for_a_byte.clone(),
                format_bytes(one.holds_bytes),
                match one.fits {
                    true => yes_no(true),
                    false => format!("no: needs {}", one.fault_domains_needed),
                },
                yes_no(one.is_rebuilt),
                one.command.clone().unwrap_or_else(|| "is there: default".into()),
            ]
        }),
    );
    let offer = match &told.offered {
        Some(policy) => format!(
            "{policy} survives what the default survives and takes less space. Its price: a small write reads what it replaces, and takes about twice\n\
             as long. It suits what is large and read more than written; the default suits databases and whatever waits for its writes."
        ),
        None => "The default is the one for this cluster: nothing else survives as much, takes less, and leaves a fault domain to rebuild on.".into(),
    };
    let free = format_bytes(told.free_bytes);
    format!("{} fault domains with disk groups, {free} free\n\n{table}\n\n{offer}", told.fault_domains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: usize) -> Vec<Host> {
        let host = |n: usize| {
            serde_json::json!({
                "id": "00000000000000000000000000000001", "name": format!("host-{n}"), "fault_domain": format!("host-{n}"),
                "address": "", "up": true, "incarnation": 1, "maintenance": false,
                "disk_groups": ["00000000000000000000000000000002"],
                "capacity": { "raw_bytes": 4000, "used_bytes": 1000, "free_bytes": 3000 },
            })
        };
        (0..count).map(|n| serde_json::from_value(host(n)).expect("a host")).collect()
    }

    /// Goal: what is offered leaves a fault domain to rebuild on. Method: clusters of 3 to 7 hosts.
    #[test]
    fn the_offer_follows_the_size_of_the_cluster() {
        let offered = |count| suggestions(&hosts(count)).expect("hosts that add up").offered;
        assert_eq!(offered(3), None);
        assert_eq!(offered(4).as_deref(), Some("RAID-5, 2+1 (FTT=1)"));
        assert_eq!(offered(5).as_deref(), Some("RAID-5, 3+1 (FTT=1)"));
        assert_eq!(offered(7).as_deref(), Some("RAID-5, 3+1 (FTT=1)"));
    }

    #[test]
    fn free_space_holds_what_the_calculator_says() {
        let told = suggestions(&hosts(4)).expect("hosts that add up");
        let row = |policy: &str| told.policies.iter().find(|one| one.policy == policy).expect("a policy").clone();
        assert_eq!((told.fault_domains, told.free_bytes), (4, 12_000));
        assert_eq!((row("mirror, FTT=1").holds_bytes, row("RAID-5, 3+1 (FTT=1)").holds_bytes), (6000, 9000));
        assert!(
            row("RAID-5, 3+1 (FTT=1)").fits
                && !row("RAID-5, 3+1 (FTT=1)").is_rebuilt
                && !row("RAID-6, 4+2 (FTT=2)").fits
        );
    }
}
