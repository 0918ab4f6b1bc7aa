//! Other rules for a policy, and what they come to for all disks that have it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{disk::DiskChange, policy::PolicyRules};

/// Other rules for a policy, and for all disks that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyEdit {
    /// What it asks for from now on: all of it. What is left out has its default.
    pub rules: PolicyRules,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
    /// Also where not all of it can be met now.
    #[serde(default)]
    pub force: bool,
}

impl crate::Request for PolicyEdit {
    fn validate(&self) -> crate::ApiResult<()> {
        self.rules.validate()
    }
}

/// What other rules of a policy come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChange {
    /// The policy's name.
    pub policy: String,
    /// Whether it was changed; otherwise nothing was done.
    pub begun: bool,
    /// What it asked for.
    pub rules_before: PolicyRules,
    /// What it asks for then.
    pub rules_after: PolicyRules,
    /// The disks that change with it, each with what that comes to.
    pub disks: Vec<DiskChange>,
    /// Disks of the policy that are as it asks already.
    pub unchanged: u32,
    /// Disks of the policy whose record no host that answers has, or whose owner did not take it, each with why: they stay as they are
    /// until the policy is given to them.
    pub left_out: Vec<String>,
    /// Bytes to be copied, of all disks; none where no host could say.
    pub bytes_to_copy: Option<u64>,
    /// Bytes that these disks take now, copies and parity included; none where not all hosts say.
    pub bytes_before: Option<u64>,
    /// Bytes that they take then.
    pub bytes_after: Option<u64>,
    /// Bytes that they take at most, if all of them are changed at once.
    pub bytes_peak: Option<u64>,
    /// Seconds that copying takes, at the rate of the last copies, one disk after the other; none where nothing was copied yet.
    pub takes_s: Option<u64>,
}
