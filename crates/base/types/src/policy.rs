//! The storage policy of one virtual disk, in vSAN's words.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Layout, Redundancy};

/// How a disk survives the loss of fault domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum FaultToleranceMethod {
    /// RAID-1 across fault domains: FTT + 1 full copies.
    #[default]
    Mirror,
    /// RAID-5 (FTT 1) or RAID-6 (FTT 2) across fault domains, in clusters whose level has [`crate::Feature::ErasureCoding`].
    ErasureCoding {
        /// Strips of data in a row, 2..=8; 0: as many as the cluster's fault domains allow, of those that are usual.
        data_strips: u8,
    },
}

impl fmt::Display for FaultToleranceMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror => f.write_str("mirroring"),
            Self::ErasureCoding { data_strips: 0 } => f.write_str("erasure coding"),
            Self::ErasureCoding { data_strips } => write!(f, "erasure coding with {data_strips} strips of data"),
        }
    }
}

/// What a virtual disk asks of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Failures to tolerate, 0..=3: overlapping losses of fault domains that lose nothing.
    pub ftt: u8,
    /// How it survives them.
    pub ftm: FaultToleranceMethod,
    /// Stripe width (disk stripes per object), 1..=12: capacity devices that each copy is spread over.
    pub stripe_width: u8,
    /// Object space reservation, 0..=100 % of the disk's size set aside at creation.
    pub reservation_percent: u8,
    /// CRC-32C of each block from the front end to the medium. Off is not there yet: refused.
    pub checksum: bool,
    /// Create the disk even where the cluster cannot hold all copies now.
    pub force_provisioning: bool,
    /// Guest I/Os per second, at most; 0 is no limit.
    pub iops_limit: u32,
    /// Bytes per second that guests read and write, at most; 0 is no limit.
    pub bandwidth_limit_bytes_per_s: u64,
    /// Ask a majority before each answer: for hosts whose clock may stop (hosts that are VMs). Not there yet: refused.
    pub confirmed_reads: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ftt: 1,
            ftm: FaultToleranceMethod::Mirror,
            stripe_width: 1,
            reservation_percent: 0,
            checksum: true,
            force_provisioning: false,
            iops_limit: 0,
            bandwidth_limit_bytes_per_s: 0,
            confirmed_reads: false,
        }
    }
}

/// Why a policy is refused by itself, before any cluster is looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(pub String);

impl Policy {
    /// Full copies that a mirror with this policy keeps.
    pub fn copies(&self) -> u32 {
        u32::from(self.ftt) + 1
    }

    /// Whether addresses that are laid out so are as the policy asks. Copies of a mirror may be more or fewer: they come and go by themselves.
    pub fn fits(&self, layout: &Layout) -> bool {
        let method = match (self.ftm, layout.redundancy) {
            (FaultToleranceMethod::Mirror, Redundancy::Mirror { .. }) => true,
            (FaultToleranceMethod::ErasureCoding { data_strips }, Redundancy::Parity { data, parity, .. }) => {
                parity == self.ftt && (data_strips == 0 || data_strips == data)
            }
            (FaultToleranceMethod::Mirror | FaultToleranceMethod::ErasureCoding { .. }, _) => false,
        };
        method && layout.stripe_width == u32::from(self.stripe_width)
    }

    /// Whether a disk in use may go over to this policy from `now` in a cluster that cannot lay out addresses anew: what says where they
    /// lie is fixed when it is made.
    ///
    /// # Errors
    /// With the rule, and what to do.
    pub fn check_after(&self, now: &Self) -> Result<(), PolicyError> {
        self.validate()?;
        let fixed = |rule: &str, from: String, to: String| {
            Err(PolicyError(format!(
                "the {rule} of a disk in use is changed once the cluster's upgrade is finished: it is {from} and cannot become {to}. Choose a \
                 policy with {from}, or finish the upgrade"
            )))
        };
        if self.ftm != now.ftm {
            return fixed("fault tolerance method", now.ftm.to_string(), self.ftm.to_string());
        }
        if self.ftm != FaultToleranceMethod::Mirror && self.ftt != now.ftt {
            // As many strips of parity as failures: another number is another place for each block.
            return fixed(
                "number of failures to tolerate with erasure coding",
                now.ftt.to_string(),
                self.ftt.to_string(),
            );
        }
        if self.stripe_width != now.stripe_width {
            return fixed("stripe width", now.stripe_width.to_string(), self.stripe_width.to_string());
        }
        Ok(())
    }

    /// Checks the values against their bounds.
    ///
    /// # Errors
    /// The first one that is out of them.
    pub fn check_bounds(&self) -> Result<(), PolicyError> {
        let refuse = |text: String| Err(PolicyError(text));
        if self.ftt > 3 {
            return refuse(format!("failures to tolerate is {}, the most is 3", self.ftt));
        }
        if !(1..=12).contains(&self.stripe_width) {
            return refuse(format!("stripe width is {}, it goes from 1 to 12", self.stripe_width));
        }
        if self.reservation_percent > 100 {
            return refuse(format!("space reservation is {} %, the most is 100", self.reservation_percent));
        }
        if let FaultToleranceMethod::ErasureCoding { data_strips } = self.ftm {
            if !(1..=2).contains(&self.ftt) {
                return refuse(format!(
                    "erasure coding tolerates 1 failure (RAID-5) or 2 (RAID-6), not {}: choose one of them, or mirroring",
                    self.ftt
                ));
            }
            if data_strips != 0 && !Redundancy::DATA_STRIPS.contains(&data_strips) {
                return refuse(format!(
                    "a row has 2 to 8 strips of data, not {data_strips}; 0 leaves it to the cluster"
                ));
            }
        }
        Ok(())
    }

    /// Checks the values against their bounds and against what this release has.
    ///
    /// # Errors
    /// The first one that is out of them, or that this release lacks.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.check_bounds()?;
        let refuse = |text: &str| Err(PolicyError(text.into()));
        if self.confirmed_reads {
            return refuse("confirmed reads are not in this release: do not run hosts whose clock may stop");
        }
        if !self.checksum {
            return refuse("checksums cannot be turned off in this release: leave checksum on");
        }
        Ok(())
    }
}
