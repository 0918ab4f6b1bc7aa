//! Why a placement is refused, in words that name cause and remedy.

use std::{collections::BTreeMap, fmt};

use cairn_types::{Addresses, Canary, Redundancy, format_bytes};

use crate::picture::{ClusterPicture, FaultDomain, HostPicture};

/// What a caller may act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The policy is refused by itself.
    Policy,
    /// The size is refused by itself.
    Size,
    /// Too few fault domains are up.
    FaultDomains,
    /// Enough fault domains are up, too few have room.
    Space,
    /// The component to replace is not one of the object.
    NotFound,
}

/// A refusal: a kind to act on, a text to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What a caller may act on.
    pub kind: RefusalKind,
    /// Cause and remedy, for a person.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

/// Names told one by one before the rest is counted.
const NAMES_MAX: usize = 8;

/// What is asked for: how the members of a set make up for lost ones, and for how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) redundancy: Redundancy,
    pub(crate) ftt: u8,
}

impl Asked {
    /// What the part of a disk asks for that wants most fault domains.
    pub(crate) fn most(addresses: &Addresses, ftt: u8) -> Self {
        let all = addresses.spans().iter().map(|span| Self { redundancy: span.layout.redundancy, ftt });
        all.max_by_key(|asked| asked.domains()).expect("a disk has a span")
    }

    /// Members of each set.
    pub(crate) fn members(self) -> usize {
        (self.redundancy.needed() + u32::from(self.ftt)) as usize
    }

    /// Fault domains: one for each member of a set, and enough for a majority after as many failures.
    pub(crate) fn domains(self) -> usize {
        self.members().max(cairn_sizing::mirror_hosts_min(self.ftt).into())
    }

    /// "mirror with FTT=1", "RAID-5 3+1 (FTT=1)".
    pub(crate) fn words(self) -> String {
        let Self { redundancy, ftt } = self;
        match redundancy {
            Redundancy::Mirror { .. } if ftt == 0 => "one copy (FTT=0)".into(),
            Redundancy::Mirror { .. } => format!("mirror with FTT={ftt}"),
            Redundancy::Parity { data, .. } if ftt == 0 => format!("{data} strips without parity (FTT=0)"),
            Redundancy::Parity { data, parity, .. } => format!("RAID-{} {data}+{parity} (FTT={ftt})", 4 + parity),
        }
    }

    /// What does with this many fault domains, if anything less is asked for.
    fn less(self, usable: usize) -> Option<String> {
        let mirror = |ftt: usize| format!("choose FTT={ftt}");
        match self.redundancy {
            _ if usable == 0 || self.ftt == 0 => None,
            Redundancy::Mirror { .. } => Some(mirror((usable - 1) / 2)),
            Redundancy::Parity { data, parity, strip_blocks } => {
                let narrower = (2..data).rev().find(|data| {
                    let redundancy = Redundancy::Parity { data: *data, parity, strip_blocks };
                    Self { redundancy, ftt: self.ftt }.domains() <= usable
                });
                let narrower = narrower.map_or_else(String::new, |data| format!("choose {data}+{parity}, or "));
                Some(format!("{narrower}choose a mirror with FTT={}", (usable - 1) / 2).replace(", or choose", ", or"))
            }
        }
    }
}

/// The refusal for want of fault domains: `usable` of them count, `needed` must.
pub(crate) fn too_few_domains(picture: &ClusterPicture, asked: Asked, needed: usize, usable: usize) -> Refusal {
    let away = domains_away(picture);
    let mut text = format!(
        "{} needs {}, {}",
        asked.words(),
        count(needed, "fault domain"),
        match usable {
            0 => "none is up".into(),
            1 => "1 is up".into(),
            n => format!("{n} are up"),
        }
    );
    if !away.is_empty() {
        text += ": ";
        text += &list(&away);
    }
    let missing = needed - usable.min(needed);
    let back = missing.min(away.len());
    let add = missing - back;
    text += ". ";
    if back > 0 {
        text += &format!("Bring {} back", number(back));
    }
    if add > 0 {
        text += if back > 0 { " and add " } else { "Add " };
        text += &format!("{} with a disk group", count(add, "host"));
        if picture.hosts.iter().any(|h| h.fault_domain.is_some()) {
            text += " in another fault domain";
        }
    }
    if let Some(less) = asked.less(usable) {
        text += &format!(", or {less}");
    }
    text.push('.');
    Refusal { kind: RefusalKind::FaultDomains, text }
}

/// The refusal for want of room: a component demands `demand_bytes` in each of `needed` fault domains.
pub(crate) fn too_little_room(
    asked: Asked,
    needed: usize,
    demand_bytes: u64,
    reservation_percent: u8,
    with_room: usize,
    free: &[(String, u64)],
) -> Refusal {
    let what = if reservation_percent > 0 {
        format!("room for {} ({reservation_percent} % of a component reserved)", format_bytes(demand_bytes))
    } else {
        format!("{} free for a thin component to start with", format_bytes(demand_bytes))
    };
    let short: Vec<String> =
        free.iter().map(|(name, bytes)| format!("{name} has {} free on one device", format_bytes(*bytes))).collect();
    let mut text = format!(
        "{} needs {} with {what}, {}",
        asked.words(),
        count(needed, "fault domain"),
        match with_room {
            0 => "none has it".into(),
            1 => "1 has it".into(),
            n => format!("{n} have it"),
        }
    );
    if !short.is_empty() {
        text += ": ";
        text += &list(&short);
    }
    text += ". Free space or add capacity devices";
    text += if reservation_percent > 0 { ", or reserve less." } else { "." };
    Refusal { kind: RefusalKind::Space, text }
}

/// The refusal where single components fit, and all of them together do not.
pub(crate) fn too_little_in_all(asked: Asked, components: usize, demand_bytes: u64, placed: usize) -> Refusal {
    Refusal {
        kind: RefusalKind::Space,
        text: format!(
            "{} needs {} of up to {}, copies in distinct fault domains, and there is room for {placed} of them. \
             Free space or add capacity devices, make the disk smaller, or reserve less.",
            asked.words(),
            count(components, "component"),
            format_bytes(demand_bytes),
        ),
    }
}

/// Why each fault domain that takes nothing new does not, in order of name.
fn domains_away(picture: &ClusterPicture) -> Vec<String> {
    if Canary::RefusalUnexplained.sings() {
        return Vec::new();
    }
    let mut domains: BTreeMap<FaultDomain, Vec<&HostPicture>> = BTreeMap::new();
    for host in &picture.hosts {
        domains.entry(host.domain()).or_default().push(host);
    }
    let mut away: Vec<(String, String)> = domains
        .into_iter()
        .filter(|(_, hosts)| !hosts.iter().any(|h| h.eligible()))
        .map(|(domain, mut hosts)| {
            hosts.sort_by(|a, b| a.name.cmp(&b.name));
            let reasons: Vec<String> = hosts.iter().map(|h| host_away(h)).collect();
            match domain {
                FaultDomain::Named(name) => {
                    let text = format!("{name} ({})", list(&reasons));
                    (name, text)
                }
                FaultDomain::Host(_) => (hosts[0].name.clone(), list(&reasons)),
            }
        })
        .collect();
    away.sort();
    away.into_iter().map(|(_, text)| text).collect()
}

/// Why a host takes nothing new.
fn host_away(host: &HostPicture) -> String {
    let name = &host.name;
    if !host.up {
        format!("{name} is down")
    } else if host.maintenance.is_some() {
        format!("{name} is in maintenance")
    } else if host.disk_groups.is_empty() {
        format!("{name} has no disk group")
    } else if host.disk_groups.iter().any(|g| g.up && g.draining) {
        format!("{name} has disk groups that are being emptied, and no other one")
    } else {
        format!("no disk group of {name} is up")
    }
}

/// "1 host", "3 hosts".
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Small numbers in words.
fn number(n: usize) -> String {
    match n {
        1 => "one".into(),
        2 => "two".into(),
        n => n.to_string(),
    }
}

/// "a, b, c" or "a, b, ... and 12 more".
fn list(items: &[String]) -> String {
    if items.len() <= NAMES_MAX {
        return items.join(", ");
    }
    format!("{} and {} more", items[..NAMES_MAX].join(", "), items.len() - NAMES_MAX)
}
