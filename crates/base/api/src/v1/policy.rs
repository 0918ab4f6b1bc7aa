//! Storage policies as the API shows them. The rules mirror `cairn_types::Policy`, so that a stored policy may gain fields
//! without changing a published version of the API.

use cairn_types::{FaultToleranceMethod, Policy as StoredPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of the policy that is always there: mirror, failures to tolerate 1.
pub const DEFAULT_POLICY: &str = "default";

/// How copies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RulesMethod {
    /// Full copies across fault domains.
    #[default]
    Mirror,
    /// RAID-5 or RAID-6 across fault domains.
    ErasureCoding,
}

/// What a policy asks for. What is left out has its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRules {
    /// Failures to tolerate, 0..=3; default 1.
    #[schema(maximum = 3)]
    pub ftt: u8,
    /// How copies are made; default mirror.
    pub ftm: RulesMethod,
    /// With erasure coding, strips of data in a row, 2..=8; 0, the default: as many as the cluster's fault domains allow.
    #[schema(maximum = 8)]
    pub data_strips: u8,
    /// Capacity devices that each copy is spread over, 1..=12; default 1.
    #[schema(minimum = 1, maximum = 12)]
    pub stripe_width: u8,
    /// Per cent of the disk's size set aside at creation, 0..=100; default 0 (thin).
    #[schema(maximum = 100)]
    pub reservation_percent: u8,
    /// CRC-32C of each block from front end to medium; default on.
    pub checksum: bool,
    /// Make the disk even where the cluster cannot hold all copies now; default off.
    pub force_provisioning: bool,
    /// Guest I/Os per second at most, of up to 32 KiB each; 0, the default, is no limit.
    pub iops_limit: u32,
    /// Bytes per second that guests read and write at most; 0, the default, is no limit.
    pub bandwidth_limit_bytes_per_s: u64,
    /// Ask a majority before each answer: for hosts whose clock may stop; default off.
    pub confirmed_reads: bool,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Whether it is always there and cannot be deleted.
    pub builtin: bool,
    /// What it asks for.
    pub rules: PolicyRules,
    /// Disks made with it.
    pub disks: u32,
}

/// A policy to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyCreate {
    /// Its name, unique in the cluster.
    pub name: String,
    /// What it asks for.
    #[serde(default)]
    pub rules: PolicyRules,
}

impl crate::Request for PolicyCreate {
    fn validate(&self) -> crate::ApiResult<()> {
        super::name::check_name("policy", &self.name)?;
        self.rules.validate()
    }
}

impl PolicyRules {
    /// Whether they fit together.
    ///
    /// # Errors
    /// [`crate::ApiErrorKind::Refused`], with what does not.
    pub fn validate(&self) -> crate::ApiResult<()> {
        if self.ftm == RulesMethod::Mirror && self.data_strips > 0 {
            let text =
                "strips of data are of erasure coding, and this is a mirror: leave them out, or choose erasure coding";
            return Err(crate::ApiError::refused(text));
        }
        Ok(StoredPolicy::from(self).validate()?)
    }

    /// The rules in a few words: "mirror, FTT 1".
    pub fn describe(&self) -> String {
        let method = match (self.ftm, self.data_strips) {
            (RulesMethod::Mirror, _) => "mirror".to_owned(),
            (RulesMethod::ErasureCoding, 0) => "erasure coding".to_owned(),
            (RulesMethod::ErasureCoding, strips) => format!("erasure coding {strips}+{}", self.ftt),
        };
        let mut text = format!("{method}, FTT {}", self.ftt);
        if self.stripe_width > 1 {
            text += &format!(", {} stripes", self.stripe_width);
        }
        if self.reservation_percent > 0 {
            text += &format!(", {} % reserved", self.reservation_percent);
        }
        if self.iops_limit > 0 {
            text += &format!(", at most {} IOPS", self.iops_limit);
        }
        if self.bandwidth_limit_bytes_per_s > 0 {
            text += &format!(", at most {}/s", cairn_types::format_bytes(self.bandwidth_limit_bytes_per_s));
        }
        text
    }
}

impl Default for PolicyRules {
    fn default() -> Self {
        Self::from(&StoredPolicy::default())
    }
}

impl From<&StoredPolicy> for PolicyRules {
    fn from(policy: &StoredPolicy) -> Self {
        Self {
            ftt: policy.ftt,
            ftm: match policy.ftm {
                FaultToleranceMethod::Mirror => RulesMethod::Mirror,
                FaultToleranceMethod::ErasureCoding { .. } => RulesMethod::ErasureCoding,
            },
            data_strips: match policy.ftm {
                FaultToleranceMethod::Mirror => 0,
                FaultToleranceMethod::ErasureCoding { data_strips } => data_strips,
            },
            stripe_width: policy.stripe_width,
            reservation_percent: policy.reservation_percent,
            checksum: policy.checksum,
            force_provisioning: policy.force_provisioning,
            iops_limit: policy.iops_limit,
            bandwidth_limit_bytes_per_s: policy.bandwidth_limit_bytes_per_s,
            confirmed_reads: policy.confirmed_reads,
        }
    }
}

impl From<&PolicyRules> for StoredPolicy {
    fn from(rules: &PolicyRules) -> Self {
        Self {
            ftt: rules.ftt,
            ftm: match rules.ftm {
                RulesMethod::Mirror => FaultToleranceMethod::Mirror,
                RulesMethod::ErasureCoding => FaultToleranceMethod::ErasureCoding { data_strips: rules.data_strips },
            },
            stripe_width: rules.stripe_width,
            reservation_percent: rules.reservation_percent,
            checksum: rules.checksum,
            force_provisioning: rules.force_provisioning,
            iops_limit: rules.iops_limit,
            bandwidth_limit_bytes_per_s: rules.bandwidth_limit_bytes_per_s,
            confirmed_reads: rules.confirmed_reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    #[test]
    fn rules_and_stored_policies_say_the_same() {
        let rules: PolicyRules = serde_json::from_str(
            r#"{"ftt":2,"stripe_width":3,"iops_limit":500,"bandwidth_limit_bytes_per_s":1048576}"#,
        )
        .unwrap();
        assert_eq!(PolicyRules::from(&StoredPolicy::from(&rules)), rules);
        assert_eq!(rules.describe(), "mirror, FTT 2, 3 stripes, at most 500 IOPS, at most 1 MiB/s");
        let rows: PolicyRules = serde_json::from_str(r#"{"ftm":"erasure-coding","data_strips":3}"#).unwrap();
        assert_eq!(PolicyRules::from(&StoredPolicy::from(&rows)), rows);
        assert_eq!(rows.describe(), "erasure coding 3+1, FTT 1");
    }

    #[test]
    fn rules_that_this_release_lacks_are_refused() {
        let create =
            PolicyCreate { name: "cold".into(), rules: PolicyRules { checksum: false, ..PolicyRules::default() } };
        let error = create.validate().unwrap_err();
        assert_eq!(error.kind, crate::ApiErrorKind::Refused);
    }
}
