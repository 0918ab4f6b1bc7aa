//! Clearing caches: write buffers are destaged, what memory holds of blocks is dropped. For measuring from a known state.

use cairn_types::{DiskGroupId, HostId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which caches are to be cleared, and how long that may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheClear {
    /// Only those of this host, by name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only those of this disk group.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_group: Option<DiskGroupId>,
    /// Seconds after which it is given up, 1 to 86400.
    #[serde(default = "wait_default_s")]
    pub wait_s: u64,
}

/// Seconds that clearing may take unless told otherwise.
///
/// Napkin: at 200 MB/s to the capacity devices of a group 120 GB are destaged in that time.
pub const CACHE_CLEAR_WAIT_DEFAULT_S: u64 = 600;

fn wait_default_s() -> u64 {
    CACHE_CLEAR_WAIT_DEFAULT_S
}

impl Default for CacheClear {
    fn default() -> Self {
        Self { host: None, disk_group: None, wait_s: CACHE_CLEAR_WAIT_DEFAULT_S }
    }
}

impl crate::Request for CacheClear {
    fn validate(&self) -> crate::ApiResult<()> {
        if self.host.is_some() && self.disk_group.is_some() {
            return Err(crate::ApiError::invalid("a host and a disk group are given: name one of them, or none"));
        }
        if !(1..=86_400).contains(&self.wait_s) {
            return Err(crate::ApiError::invalid(format!("wait_s is {}, it goes from 1 to 86400", self.wait_s)));
        }
        Ok(())
    }
}

/// What became of one disk group's caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Less than 1 % of the write buffer is in use, and the read cache is empty.
    Clear,
    /// The time was over before; destage goes on, and the read cache is as it was.
    NotDrained,
    /// The disk group does not work: nothing can be destaged.
    Failed,
    /// Its host did not answer: nothing is known of it.
    Unreachable,
}

/// The caches of one disk group afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskGroupCache {
    /// Its id.
    #[schema(value_type = String)]
    pub id: DiskGroupId,
    /// The host that it is in.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// What became of it.
    pub state: CacheState,
    /// Why it is not clear, when it is not.
    #[serde(default)]
    pub reason: Option<String>,
    /// Bytes of its log, which is the write buffer.
    pub log_bytes: u64,
    /// Of which in use afterwards.
    pub dirty_bytes: u64,
    /// Bytes of blocks that were destaged meanwhile.
    pub destaged_bytes: u64,
    /// Bytes of cached blocks that were dropped from memory.
    pub read_cache_bytes: u64,
}

/// What clearing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachesCleared {
    /// Whether a measurement may begin: every disk group is clear, but for failed ones among many, which hold nothing for
    /// anybody. False: the groups say why.
    pub clear: bool,
    /// Milliseconds that it took.
    pub elapsed_ms: u64,
    /// Every disk group that was meant, by host and id.
    pub disk_groups: Vec<DiskGroupCache>,
}

impl CachesCleared {
    /// Judges the groups. `named`: a certain disk group was asked for, so that its failure is no side matter.
    pub fn judge(disk_groups: Vec<DiskGroupCache>, named: bool, elapsed_ms: u64) -> Self {
        let good = |group: &DiskGroupCache| match group.state {
            CacheState::Clear => true,
            CacheState::Failed => !named,
            CacheState::NotDrained | CacheState::Unreachable => false,
        };
        let some = disk_groups.iter().any(|group| group.state == CacheState::Clear);
        Self { clear: some && disk_groups.iter().all(good), elapsed_ms, disk_groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    #[test]
    fn a_failed_group_is_a_side_matter_unless_it_was_named_or_all_failed() {
        let group = |state| DiskGroupCache {
            id: DiskGroupId(1),
            host: HostId(1),
            host_name: "host-1".into(),
            state,
            reason: None,
            log_bytes: 0,
            dirty_bytes: 0,
            destaged_bytes: 0,
            read_cache_bytes: 0,
        };
        use CacheState::{Clear, Failed, NotDrained, Unreachable};
        let cases: [(&[CacheState], bool, bool); 8] = [
            (&[Clear, Clear], false, true),
            (&[Clear, Failed], false, true),
            (&[Clear, NotDrained], false, false),
            (&[Clear, Unreachable], false, false),
            (&[Failed], false, false),
            (&[], false, false),
            (&[Clear], true, true),
            (&[Failed], true, false),
        ];
        for (states, named, clear) in cases {
            let groups = states.iter().map(|state| group(*state)).collect();
            assert_eq!(CachesCleared::judge(groups, named, 0).clear, clear, "{states:?} {named}");
        }
    }

    #[test]
    fn one_place_or_all_and_a_time_that_ends() {
        let named = CacheClear { host: Some("a".into()), disk_group: Some(DiskGroupId(1)), ..CacheClear::default() };
        assert!(named.validate().is_err());
        for (wait_s, good) in [(0, false), (1, true), (86_400, true), (86_401, false)] {
            assert_eq!(CacheClear { wait_s, ..CacheClear::default() }.validate().is_ok(), good, "{wait_s}");
        }
        assert_eq!(serde_json::from_str::<CacheClear>("{}").unwrap(), CacheClear::default());
    }
}
