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

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Its name, stable: "hosts-up", "disks-accessible", "disk-group-space".
    pub name: String,
    /// How bad the finding is.
    pub severity: Severity,
    /// What was found.
    pub text: String,
    /// What to do about it.
    #[serde(default)]
    pub advice: Option<String>,
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
    /// The report of `checks`, sorted.
    pub fn of(mut checks: Vec<Check>) -> Self {
        checks.sort_by(|a, b| (b.severity, &a.name).cmp(&(a.severity, &b.name)));
        let severity = checks.first().map_or(Severity::Ok, |c| c.severity);
        Self { severity, checks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_names_the_whole() {
        let check = |name: &str, severity| Check { name: name.into(), severity, text: String::new(), advice: None };
        let health = Health::of(vec![check("b", Severity::Ok), check("c", Severity::Error), check("a", Severity::Ok)]);
        let names: Vec<&str> = health.checks.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((health.severity, names), (Severity::Error, vec!["c", "a", "b"]));
        assert_eq!(Health::of(vec![]).severity, Severity::Ok);
    }
}
