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
        let check = |name: &str, severity| Check {
            name: name.into(),
            looks_at: String::new(),
            finds: String::new(),
            severity,
            text: String::new(),
            findings_total: 0,
            findings: Vec::new(),
        };
        let health = Health::of(vec![check("b", Severity::Ok), check("c", Severity::Error), check("a", Severity::Ok)]);
        let names: Vec<&str> = health.checks.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((health.severity, names), (Severity::Error, vec!["c", "a", "b"]));
        assert_eq!(Health::of(vec![]).severity, Severity::Ok);
    }
}
