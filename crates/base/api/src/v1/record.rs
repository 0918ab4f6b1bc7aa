//! The object record as its seats hold it: for debugging. The shape of `config` is the engine's and may change.

use cairn_types::{DiskGroupId, HostId, ObjectConfig, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one seat holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeatReport {
    /// The host.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// The disk group.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// Its votes.
    pub votes: u32,
    /// The epoch that it promised, "number/host/incarnation"; none when it could not be asked.
    #[serde(default)]
    pub promised: Option<String>,
    /// The epoch of the configuration that it accepted last.
    #[serde(default)]
    pub accepted: Option<String>,
    /// The number of that configuration.
    #[serde(default)]
    pub csn: Option<u64>,
    /// Whether that configuration is still an open change.
    #[serde(default)]
    pub open: bool,
    /// Why it could not be asked.
    #[serde(default)]
    pub error: Option<String>,
}

/// The record of one disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectRecord {
    /// The disk.
    #[schema(value_type = String)]
    pub object: ObjectId,
    /// What each seat holds.
    pub seats: Vec<SeatReport>,
    /// The newest configuration among the answers.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub config: Option<ObjectConfig>,
}

#[cfg(test)]
mod tests {
    use cairn_types::{
        Ancestry, ComponentId, ComponentState, Layout, Member, OpId, Parent, Past, Policy, Redundancy, Role, Snapshot,
        SnapshotId,
    };

    use super::*;

    /// Goal: what a host tells of a record is read back, of each form that a record has. Method: with and without snapshots and parents.
    #[test]
    fn a_record_is_read_back() {
        let mirror = Redundancy::Mirror { copies: 2 };
        let layout = Layout { chunk_bytes: 1 << 30, stripe_width: 1, strip_bytes: 1 << 20, redundancy: mirror };
        let member = Member {
            component: ComponentId(u128::MAX),
            host: HostId(1 << 100),
            disk_group: DiskGroupId(7),
            votes: 1,
            role: Role::Data { set: 0, copy: 0 },
            state: ComponentState::Absent { stale_since: OpId::ZERO },
        };
        let snapshot = Snapshot {
            id: SnapshotId(u64::MAX),
            name: "s".into(),
            created_unix_ms: 1,
            size_bytes: 1 << 30,
            cut: OpId::ZERO,
            pinned: true,
            locked_until_unix_ms: 0,
            slot_unix_s: None,
        };
        let parent = Parent { object: ObjectId(3), snapshot: SnapshotId(4), size_bytes: 512 };
        let pasts = [None, Some(Past { snapshots: vec![snapshot], ..Past::default() })];
        let ancestries = [None, Some(Ancestry { parents: vec![parent], flattens: true })];
        for (past, ancestry) in pasts.iter().flat_map(|past| ancestries.iter().map(move |other| (past, other))) {
            let config = ObjectConfig {
                object: ObjectId(2),
                name: "vm-1".into(),
                size_bytes: 1 << 30,
                policy: Policy::default(),
                policy_name: "default".into(),
                addresses: layout.into(),
                members: vec![member],
                decided: OpId::ZERO,
                deleted: false,
                past: past.clone(),
                ancestry: ancestry.clone(),
            };
            let record = ObjectRecord { object: ObjectId(2), seats: Vec::new(), config: Some(config) };
            let text = serde_json::to_string(&record).expect("it is told");
            assert_eq!(serde_json::from_str::<ObjectRecord>(&text).map_err(|e| e.to_string()), Ok(record), "{text}");
        }
    }
}
