//! What if hosts are lost: is the data there, is there room to rebuild, how full is it afterwards.
//!
//! Assumes     hosts of one size, components spread evenly over them
//! Not here    how long a rebuild takes (it depends on what the guests do meanwhile); hosts of different sizes and a certain
//!             placement, which only the cluster itself knows (`placement`)
//! Source      the sizing rule of every design guide: N+1, room for one host; TPCx-HCI's question what a lost host costs

use cairn_types::format_bytes;
use serde::Serialize;

use crate::{
    capacity::Protection,
    error::{SizingError, SizingErrorKind},
    exact::Exact,
};

/// A cluster after some of its hosts have gone for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostsLost {
    /// Hosts that went.
    pub lost: u64,
    /// Hosts that are left.
    pub left: u64,
    /// Whether every byte is still there, had they gone at once.
    pub data_available: bool,
    /// Whether enough hosts are left to give every component a host of its own again.
    pub hosts_suffice: bool,
    /// Bytes that were on the lost hosts and are to be made anew; none where data is gone.
    pub rebuild_bytes: Option<u64>,
    /// Raw bytes left.
    pub raw_bytes: u64,
    /// Per cent of raw in use before.
    pub full_before_percent: Exact,
    /// Per cent of what is left in use once all is rebuilt; above 100 where it does not fit, none where data is gone.
    pub full_after_percent: Option<Exact>,
    /// Whether all of it fits on what is left.
    pub room: bool,
    /// The most raw bytes in use, before, for which it would.
    pub used_max_bytes: u64,
    /// Whether redundancy comes back without new hardware.
    pub rebuilds: bool,
}

/// What becomes of `hosts` hosts with `raw_per_host_bytes` each, `used_bytes` of them all in use, when `lost` go.
///
/// - Data is available while no more hosts go at once than the protection tolerates.
/// - Rebuilt is what was on the lost hosts: used x lost / hosts, rounded up.
/// - Full afterwards: used / (raw per host x hosts left). Everything that was in use is in use again, on fewer hosts.
/// - Redundancy comes back where that is at most 100 %, hosts left are at least the protection's minimum, and the data is
///   there.
///
/// # Errors
/// Fewer hosts than the protection needs; more hosts lost than there are; more in use than there is; sizes of 0.
pub fn hosts_lost(
    protection: Protection,
    hosts: u64,
    raw_per_host_bytes: u64,
    used_bytes: u64,
    lost: u64,
) -> Result<HostsLost, SizingError> {
    protection.check_hosts(hosts)?;
    let raw = u128::from(raw_per_host_bytes) * u128::from(hosts);
    if raw == 0 {
        return Err(SizingError::value("a host holds 0 bytes", "give what the capacity devices of one host hold"));
    }
    if u128::from(used_bytes) > raw {
        return Err(SizingError::value(
            format!(
                "{} are in use, and the hosts hold {}",
                format_bytes(used_bytes),
                format_bytes(u64::try_from(raw).unwrap_or(u64::MAX))
            ),
            "give what is in use with all copies, not more than there is",
        ));
    }
    if lost == 0 || lost >= hosts {
        return Err(SizingError {
            kind: SizingErrorKind::Hosts,
            text: format!("{lost} of {hosts} hosts cannot be lost with anything left to ask about"),
            remedy: "lose at least one host, and keep at least one".into(),
        });
    }
    let left = hosts - lost;
    let raw_left = u128::from(raw_per_host_bytes) * u128::from(left);
    let bytes = |number: u128| {
        u64::try_from(number).map_err(|_| SizingError::value("the cluster holds more than 16 EiB", "check the sizes"))
    };
    let raw_left = bytes(raw_left)?;
    let percent = |whole: u128| {
        let whole = i128::try_from(whole).map_err(|_| SizingError::too_large())?;
        Exact::fraction(i128::from(used_bytes), whole)?.times(Exact::HUNDRED)
    };
    let data_available = lost <= u64::from(protection.ftt());
    let hosts_suffice = left >= u64::from(protection.hosts_min());
    let room = used_bytes <= raw_left;
    let rebuild_bytes = bytes((u128::from(used_bytes) * u128::from(lost)).div_ceil(u128::from(hosts)))?;
    let full_after_percent = percent(u128::from(raw_left))?;
    Ok(HostsLost {
        lost,
        left,
        data_available,
        hosts_suffice,
        rebuild_bytes: data_available.then_some(rebuild_bytes),
        raw_bytes: raw_left,
        full_before_percent: percent(raw)?,
        full_after_percent: data_available.then_some(full_after_percent),
        room,
        used_max_bytes: raw_left,
        rebuilds: data_available && hosts_suffice && room,
    })
}
