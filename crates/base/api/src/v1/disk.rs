//! Virtual disks and their components.

use cairn_types::{ComponentId, DiskGroupId, HostId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{name::check_name, policy::PolicyRules, session::Session};

/// How a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskHealth {
    /// Every copy that the policy asks for is there and in sync.
    Healthy,
    /// It serves I/O, and tolerates fewer failures than the policy asks for.
    ReducedRedundancy,
    /// It serves no I/O: the reasons say what it waits for.
    Inaccessible,
    /// Its deletion has begun and has not come to its end: its name is not free yet.
    Deleting,
}

/// A virtual disk in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskSummary {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ObjectId,
    /// Its name; also the name of its NBD export.
    pub name: String,
    /// The size that a guest sees.
    pub size_bytes: u64,
    /// The name of the policy that it was made with.
    pub policy: String,
    /// The host that coordinates its I/O; none when nobody does at the moment.
    #[serde(default)]
    pub owner: Option<String>,
    /// How it is.
    pub health: DiskHealth,
    /// Why, where it is not healthy.
    pub reasons: Vec<String>,
    /// Bytes still to be copied to components that are being filled.
    pub resync_bytes_left: u64,
}

/// How a disk with erasure coding lies on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskRows {
    /// Strips of data in a row, 2..=8.
    pub data_strips: u8,
    /// Strips of parity in a row: 1 is RAID-5, 2 are RAID-6.
    pub parity_strips: u8,
    /// Bytes of a strip.
    pub strip_bytes: u64,
}

impl DiskRows {
    /// "RAID-5, 3+1, strips of 64 KiB".
    pub fn describe(&self) -> String {
        let Self { data_strips, parity_strips, strip_bytes } = self;
        format!(
            "RAID-{}, {data_strips}+{parity_strips}, strips of {}",
            4 + parity_strips,
            cairn_types::format_bytes(*strip_bytes)
        )
    }
}

/// A virtual disk with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// What a list shows of it.
    #[serde(flatten)]
    pub summary: DiskSummary,
    /// The rules of its policy.
    pub rules: PolicyRules,
    /// Its rows, with erasure coding; none of a mirror.
    #[serde(default)]
    pub rows: Option<DiskRows>,
    /// Bytes taken on capacity devices, all copies together; none when not all could be asked.
    #[serde(default)]
    pub allocated_bytes: Option<u64>,
    /// The owner's epoch, "number/host/incarnation"; none when nobody owns it.
    #[serde(default)]
    pub epoch: Option<String>,
    /// The configuration sequence number.
    pub csn: u64,
    /// Its components, in order of replica set and copy, witnesses last.
    pub components: Vec<Component>,
    /// Where guests reach it, the owner's host first: "nbd://10.0.0.1:10809/vm-1", "nbd+unix:///vm-1?socket=...".
    pub nbd_uris: Vec<String>,
    /// What whoever made or changed it should know: what force provisioning left out, promises beyond the space there is.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The snapshot that it is going back to, by name; guests wait until it has.
    #[serde(default)]
    pub goes_back_to: Option<String>,
    /// The snapshot that it is a clone of: DISK@NAME. None where it has all that it needs itself.
    #[serde(default)]
    pub clone_of: Option<String>,
    /// What it has of that is being copied.
    #[serde(default)]
    pub flattens: bool,
    /// Who has it open now, at all hosts that answer, the oldest first.
    #[serde(default)]
    pub sessions: Vec<Session>,
}

/// What a component is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum ComponentRole {
    /// One copy of one replica set.
    Data {
        /// Which replica set: chunk x stripe width + stripe.
        set: u32,
        /// Which copy, from 0.
        copy: u32,
    },
    /// No data: it holds the object record and votes.
    Witness,
}

/// What the object knows of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ComponentState {
    /// In sync.
    Active,
    /// Unreachable, may come back.
    Absent {
        /// Seconds since its owner learned of it, as the owner counts; none where nobody owns the disk.
        for_s: Option<u64>,
        /// Seconds until it is replaced; none where nobody owns the disk.
        repair_in_s: Option<u64>,
    },
    /// Being filled.
    Resyncing {
        /// Bytes still to be copied; none when only the owner knows and it could not be asked.
        bytes_left: Option<u64>,
        /// Seconds until it is in sync, at the present rate.
        eta_s: Option<u64>,
    },
    /// Lost for good; a replacement is made at once where there is room.
    Degraded,
}

/// One component of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Component {
    /// Its id.
    #[schema(value_type = String)]
    pub id: ComponentId,
    /// What it is for.
    #[serde(flatten)]
    pub role: ComponentRole,
    /// The host that it lives on.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// That host's fault domain.
    pub fault_domain: String,
    /// The disk group that it lives on.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// Its votes.
    pub votes: u32,
    /// In sync or not.
    #[serde(flatten)]
    pub state: ComponentState,
    /// Why it cannot be used now, whatever its state: its host does not answer, its disk group is closed.
    #[serde(default)]
    pub problem: Option<String>,
}

/// A virtual disk to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskCreate {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its size: a multiple of 512, at most 62 TiB.
    pub size_bytes: u64,
    /// The policy; `default` when left out.
    #[serde(default)]
    pub policy: Option<String>,
    /// The host that will use it, by name or id: one copy is placed there where that is possible.
    #[serde(default)]
    pub host: Option<String>,
    /// Limits of its own, in the place of its policy's.
    #[serde(default)]
    pub limits: DiskLimits,
}

/// How much guests may do with a disk. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskLimits {
    /// Guest I/Os per second at most, of up to 32 KiB each; 0 is no limit.
    #[serde(default)]
    pub iops_limit: Option<u32>,
    /// Bytes per second that guests read and write at most; 0 is no limit.
    #[serde(default)]
    pub bandwidth_limit_bytes_per_s: Option<u64>,
}

/// A new size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskResize {
    /// The new size: a multiple of 512, not below the present one.
    pub size_bytes: u64,
}

/// Another policy for a disk in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskPolicySet {
    /// The policy, by name. Limits that the disk has of its own are replaced by the policy's.
    pub policy: String,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Set it although not all of it can be done now: the rest follows when there is room.
    #[serde(default)]
    pub force: bool,
}

/// A disk's components on a host go elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskMove {
    /// The host that they are on, by name or id.
    pub from: String,
    /// The host that they go to, by name or id; wherever there is room when left out.
    #[serde(default)]
    pub to: Option<String>,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
}

/// A component that a change makes, or lets go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedComponent {
    /// What it is for.
    #[serde(flatten)]
    pub role: ComponentRole,
    /// The host that it is on, or would go to.
    pub host_name: String,
    /// The disk group.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// What it holds; of a new one: what is to be copied. None where no host could say.
    pub bytes: Option<u64>,
}

/// What a change of a disk in use comes to. What is copied is copied afterwards: `resync_list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskChange {
    /// The disk's name.
    pub disk: String,
    /// Whether it was begun; otherwise nothing was done.
    pub begun: bool,
    /// The policy before, by name and rules.
    pub policy_before: String,
    /// The policy after.
    pub policy_after: String,
    /// Components that are to be made, where they would go as the cluster is now.
    pub added: Vec<ChangedComponent>,
    /// Components that are to go.
    pub removed: Vec<ChangedComponent>,
    /// Bytes to be copied; none where no host could say.
    pub bytes_to_copy: Option<u64>,
    /// Bytes that all its copies, or its data and parity, take now; none where not all hosts say.
    #[serde(default)]
    pub bytes_before: Option<u64>,
    /// Bytes that they take then. What another layout takes is told from the share of the disk that is written.
    #[serde(default)]
    pub bytes_after: Option<u64>,
    /// Bytes that they take at most meanwhile: what comes is filled before what goes leaves.
    #[serde(default)]
    pub bytes_peak: Option<u64>,
    /// Seconds that copying takes, at the rate of the last copies; none where nothing was copied yet.
    #[serde(default)]
    pub takes_s: Option<u64>,
    /// Failures of hosts that the disk survives meanwhile, if it is whole now.
    #[serde(default)]
    pub ftt_meanwhile: u8,
    /// Why not all of it can be done now; none where it can.
    #[serde(default)]
    pub obstacle: Option<String>,
}

impl crate::Request for DiskPolicySet {}
impl crate::Request for DiskMove {}

/// How a disk is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskDelete {
    /// Although sessions have it open: their requests fail from then on.
    pub force: bool,
}

impl crate::Request for DiskDelete {}

/// Another name for a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskRename {
    /// The new name, which no disk has.
    pub name: String,
    /// Although sessions have it open: they go on, and cannot come back by its former name.
    #[serde(default)]
    pub force: bool,
}

impl crate::Request for DiskRename {
    fn validate(&self) -> crate::ApiResult<()> {
        check_name("disk", &self.name)
    }
}

/// The refusal of what must not happen to a disk while sessions have it open; it names them.
///
/// # Errors
/// [`crate::ApiErrorKind::Conflict`] when there are any.
pub fn check_not_in_use(disk: &str, sessions: &[Session]) -> crate::ApiResult<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let sessions: Vec<String> = sessions.iter().map(Session::to_string).collect();
    Err(crate::ApiError::conflict(format!("disk {disk} is in use: {}", sessions.join(", ")))
        .remedy("Disconnect its guests first, or use force"))
}

/// Who is to own a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskAttach {
    /// The host, by name or id; the answering host when left out.
    #[serde(default)]
    pub host: Option<String>,
}

impl crate::Request for DiskAttach {}

impl crate::Request for DiskLimits {
    fn validate(&self) -> crate::ApiResult<()> {
        if *self == Self::default() {
            return Err(crate::ApiError::invalid("nothing is to be changed")
                .remedy("Name iops_limit or bandwidth_limit_bytes_per_s; 0 is no limit"));
        }
        Ok(())
    }
}

impl crate::Request for DiskCreate {
    fn validate(&self) -> crate::ApiResult<()> {
        check_name("disk", &self.name)?;
        check_disk_size(self.size_bytes)
    }
}

impl crate::Request for DiskResize {
    fn validate(&self) -> crate::ApiResult<()> {
        check_disk_size(self.size_bytes)
    }
}

fn check_disk_size(size_bytes: u64) -> crate::ApiResult<()> {
    use cairn_types::{OBJECT_BYTES_MAX, SECTOR_BYTES, format_bytes};
    if size_bytes == 0 {
        return Err(crate::ApiError::invalid("a disk of 0 bytes holds nothing").remedy("Give a size such as 20G"));
    }
    if size_bytes > OBJECT_BYTES_MAX {
        return Err(crate::ApiError::invalid(format!(
            "{} is over the limit of {} for one disk",
            format_bytes(size_bytes),
            format_bytes(OBJECT_BYTES_MAX)
        ))
        .remedy("Make several disks, or a smaller one"));
    }
    if !size_bytes.is_multiple_of(u64::from(SECTOR_BYTES)) {
        return Err(crate::ApiError::invalid(format!("a size of {size_bytes} bytes is not a whole number of sectors"))
            .remedy(format!("Give a multiple of {SECTOR_BYTES} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    #[test]
    fn sizes_out_of_bounds_are_refused_in_words() {
        let size = |size_bytes| DiskResize { size_bytes }.validate();
        assert!(size(512).is_ok());
        assert!(size(62 << 40).is_ok());
        assert!(size(0).is_err());
        assert!(size(513).unwrap_err().message.contains("sectors"));
        let over = size((62 << 40) + 512).unwrap_err();
        assert!(over.message.contains("62 TiB"), "{over}");
    }

    #[test]
    fn a_component_reads_as_one_flat_record() {
        let component = Component {
            id: ComponentId(1),
            role: ComponentRole::Data { set: 0, copy: 1 },
            host: HostId(2),
            host_name: "host-2".into(),
            fault_domain: "rack-1".into(),
            disk_group: DiskGroupId(3),
            votes: 1,
            state: ComponentState::Resyncing { bytes_left: Some(4096), eta_s: None },
            problem: None,
        };
        let json = serde_json::to_value(&component).unwrap();
        assert_eq!(json["role"], "data");
        assert_eq!(json["state"], "resyncing");
        assert_eq!(json["bytes_left"], 4096);
        assert_eq!(serde_json::from_value::<Component>(json).unwrap(), component);
    }

    #[test]
    fn a_request_with_a_field_nobody_knows_is_refused() {
        let error = serde_json::from_str::<DiskCreate>(r#"{"name":"a","size_bytes":512,"polcy":"gold"}"#).unwrap_err();
        assert!(error.to_string().contains("polcy"), "{error}");
    }
}
