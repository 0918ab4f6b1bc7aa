//! An upgrade of the cluster: what its hosts run, what it uses, what finishing would switch on.

use cairn_types::HostId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where an upgrade stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upgrade {
    /// The protocol that the cluster uses.
    pub level: u32,
    /// The one that it uses once the upgrade is finished; the same where there is nothing to finish.
    pub level_next: u32,
    /// Every host, by name.
    pub hosts: Vec<UpgradeHost>,
    /// Everything that is, or can be, switched on for all hosts together.
    pub features: Vec<UpgradeFeature>,
    /// Why the upgrade cannot be finished now, a sentence each; none: it can, or there is nothing to finish.
    pub obstacles: Vec<String>,
}

/// What a host runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradeHost {
    /// Its id.
    #[schema(value_type = String)]
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// Whether it answers.
    pub up: bool,
    /// The release that it runs, or ran when it last told; none: it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The oldest protocol that this speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks_least: Option<u32>,
    /// The newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks_highest: Option<u32>,
}

/// What is switched on from a protocol on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradeFeature {
    /// What it is called.
    pub name: String,
    /// The protocol from which it is on.
    pub since: u32,
    /// What it does.
    pub text: String,
    /// Whether it is on.
    pub on: bool,
}

/// How to finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeFinish {
    /// Change nothing: answer as if it were done now, or with the refusal.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for UpgradeFinish {}
