//! Scrub: every block of a disk group is read now and then, and compared with its checksum.

use cairn_types::{ComponentId, DiskGroupId, HostId, ObjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to be done to scrubs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubVerb {
    /// Begin a pass at once, as fast as guests allow; one that is under way goes on so.
    Start,
    /// Rest where it stands, until somebody says otherwise.
    Pause,
    /// Go on from there.
    Resume,
}

/// Starts, pauses or resumes scrubs. Without a host and a disk group: of the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubChange {
    /// What is to be done.
    pub verb: ScrubVerb,
    /// Only to disk groups of this host, by name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only to this disk group.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_group: Option<DiskGroupId>,
}

impl crate::Request for ScrubChange {
    fn validate(&self) -> crate::ApiResult<()> {
        if self.host.is_some() && self.disk_group.is_some() {
            return Err(crate::ApiError::invalid("a host and a disk group are given: name one of them, or none"));
        }
        Ok(())
    }
}

/// Whether a scrub is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubState {
    /// A pass is under way.
    Running,
    /// It rests until somebody says otherwise.
    Paused,
    /// The last pass is over, and the next not due yet.
    Waiting,
    /// Its host does not answer, or the disk group does not work: nothing is known, and nothing goes on.
    Unreachable,
}

/// Blocks that are bad on the medium of one copy, or that copies hold otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubFinding {
    /// The disk.
    #[schema(value_type = String)]
    pub disk: ObjectId,
    /// The disk's name, where it is known.
    #[serde(default)]
    pub disk_name: Option<String>,
    /// The copy.
    #[schema(value_type = String)]
    pub component: ComponentId,
    /// Where they begin on the disk, in bytes.
    pub offset_bytes: u64,
    /// How many bytes, whole blocks of 4 KiB.
    pub len_bytes: u64,
    /// No other copy in sync has them: a guest that reads them gets an error until they are written.
    pub unrepairable: bool,
    /// They are sound, and another copy holds something else there: nothing tells which is right.
    #[serde(default)]
    pub differs: bool,
}

/// How far the scrub of a disk group is, and what it has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// The disk group.
    #[schema(value_type = String)]
    pub disk_group: DiskGroupId,
    /// The host that it is in.
    #[schema(value_type = String)]
    pub host: HostId,
    /// That host's name.
    pub host_name: String,
    /// Whether it is under way.
    pub state: ScrubState,
    /// Why nothing goes on, where that is so.
    #[serde(default)]
    pub reason: Option<String>,
    /// The number of the pass that is under way, or was the last; 0: there was none.
    pub pass: u64,
    /// Somebody asked for it: it goes as fast as guests allow.
    pub at_once: bool,
    /// When it began, in milliseconds since 1970.
    #[serde(default)]
    pub begun_unix_ms: Option<u64>,
    /// When the disk group was last scrubbed: the end of the last whole pass, in milliseconds since 1970; none: never.
    #[serde(default)]
    pub scrubbed_unix_ms: Option<u64>,
    /// Bytes that the pass has compared.
    pub done_bytes: u64,
    /// Bytes that there are to compare.
    pub total_bytes: u64,
    /// The present rate, 0 while it rests.
    pub bytes_per_s: u64,
    /// Seconds left at the present rate; none while it rests.
    #[serde(default)]
    pub eta_s: Option<u64>,
    /// Blocks of 4 KiB that were found bad, of all passes.
    pub found_blocks: u64,
    /// Of these, blocks that are whole again.
    pub repaired_blocks: u64,
    /// Of these, blocks whose component was deleted, or lost as a whole.
    pub gone_blocks: u64,
    /// Of these, blocks that are bad now.
    pub bad_blocks: u64,
    /// Of those, blocks that no other copy in sync has.
    pub unrepairable_blocks: u64,
    /// Blocks that are sound, and that another copy holds otherwise, where nothing tells which is right.
    #[serde(default)]
    pub differing_blocks: u64,
    /// What is bad now, the unrepairable first, and what differs; the first hundred of each.
    pub findings: Vec<ScrubFinding>,
}
