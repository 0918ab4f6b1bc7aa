//! Health: named checks, each with what it found and what to do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How bad a finding is; the order is that of badness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should be.
    #[default]
    Ok,
    /// It works, and somebody should look.
    Warning,
    /// Something does not work, or is about to be lost.
    Error,
}

/// Something that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is so, with the name of the host, disk or device.
    pub cause: String,
    /// What it leads to.
    pub consequence: String,
    /// What to do about it.
    pub remedy: String,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Its name, stable; `docs/operating/health.md` has them all.
    pub name: String,
    /// What it looks at.
    pub looks_at: String,
    /// What it may find, and how bad that is.
    pub finds: String,
    /// How bad the worst finding is.
    pub severity: Severity,
    /// In a sentence: that all is well, or what was found.
    pub text: String,
    /// How many findings there are.
    pub findings_total: u32,
    /// The findings, worst first; of very many the first ones.
    pub findings: Vec<Finding>,
    /// An administrator has muted it: what it finds is told, and counts for nothing until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted: Option<Muted>,
}

/// Why a check is muted, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Muted {
    /// Why, in the administrator's words.
    pub reason: String,
    /// When it ends, in ms since 1970.
    pub until_unix_ms: u64,
}

/// Mutes a check for a time, or ends that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthMute {
    /// The check, by name.
    pub check: String,
    /// Why; needed where it is muted.
    #[serde(default)]
    pub reason: String,
    /// Seconds from now, at most 90 days; 0 ends it.
    #[schema(maximum = 7776000)]
    pub for_s: u64,
}

/// A check is muted for 90 days at most: what is muted for longer is forgotten.
const MUTED_MAX_S: u64 = 90 * 86_400;
/// Bytes of a reason, at most.
const REASON_BYTES_MAX: usize = 200;

impl crate::Request for HealthMute {
    fn validate(&self) -> crate::ApiResult<()> {
        let refuse = |text: String| Err(crate::ApiError::invalid(text));
        if self.for_s > MUTED_MAX_S {
            return refuse(format!("a check is muted for 90 days at most, not for {} s", self.for_s));
        }
        if self.for_s > 0 && self.reason.trim().is_empty() {
            return refuse("say why it is muted: others will wonder".into());
        }
        if self.reason.len() > REASON_BYTES_MAX {
            return refuse(format!("a reason has {REASON_BYTES_MAX} bytes at most"));
        }
        Ok(())
    }
}

/// All checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The worst of them.
    pub severity: Severity,
    /// The checks, worst first.
    pub checks: Vec<Check>,
}

impl Health {
    /// The report of `checks`, sorted: those that are muted come behind the others.
    pub fn of(mut checks: Vec<Check>) -> Self {
        let counts = |check: &Check| if check.muted.is_some() { Severity::Ok } else { check.severity };
        checks.sort_by(|a, b| {
            (counts(b), a.muted.is_some(), b.severity, &a.name).cmp(&(
                counts(a),
                b.muted.is_some(),
                a.severity,
                &b.name,
            ))
        });
        let severity = checks.iter().map(counts).max().unwrap_or_default();
        Self { severity, checks }
    }
}

/// A time during which a check found something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthEvent {
    /// The check, by name.
    pub check: String,
    /// How bad it was at worst.
    pub severity: Severity,
    /// What was found when it was worst.
    pub text: String,
    /// When a look saw it first, in ms since 1970; hosts look once a minute.
    pub began_unix_ms: u64,
    /// When a look saw it no more; none: it is so still. What comes again within 10 minutes has not ended.
    pub ended_unix_ms: Option<u64>,
}

/// What checks found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HealthHistory {
    /// The newest first; of each check the last 32.
    pub events: Vec<HealthEvent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_names_the_whole() {
        let check = |name: &str, severity| Check {
            name: name.into(),
            looks_at: String::new(),
            finds: String::new(),
            severity,
            text: String::new(),
            findings_total: 0,
            findings: Vec::new(),
            muted: None,
        };
        let quiet =
            Check { muted: Some(Muted { reason: "we know".into(), until_unix_ms: 1 }), ..check("d", Severity::Error) };
        let health = Health::of(vec![quiet, check("b", Severity::Ok), check("a", Severity::Warning)]);
        let names: Vec<&str> = health.checks.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            (health.severity, names),
            (Severity::Warning, vec!["a", "b", "d"]),
            "what is muted counts for nothing"
        );
        let health = Health::of(vec![check("b", Severity::Ok), check("c", Severity::Error), check("a", Severity::Ok)]);
        let names: Vec<&str> = health.checks.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((health.severity, names), (Severity::Error, vec!["c", "a", "b"]));
        assert_eq!(Health::of(vec![]).severity, Severity::Ok);
    }
}
