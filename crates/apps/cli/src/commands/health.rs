//! `cairn health`.

use cairn_api::v1::{Check, HealthMute, Severity};

use super::{Context, cluster::severity};
use crate::{args::Health as Verb, fail::Fail, output};

/// Prints the checks; an error among them is exit code 1, so that a script can ask "is it well?".
pub async fn run(context: &Context, verb: Option<Verb>) -> Result<(), Fail> {
    let health = match verb {
        None => context.client.health().await?,
        Some(Verb::Mute { check, for_s, reason }) => {
            context.client.health_mute(&HealthMute { check, for_s, reason }).await?
        }
        Some(Verb::Unmute { check }) => {
            context.client.health_mute(&HealthMute { check, for_s: 0, reason: String::new() }).await?
        }
    };
    output::show(context.format, &health, |health| {
        let rows = health.checks.iter().flat_map(rows_of);
        output::table(&["severity", "check", "finding", "what it leads to", "what to do"], rows)
    })?;
    match health.severity {
        Severity::Ok | Severity::Warning => Ok(()),
        Severity::Error => Err(Fail::found_bad()),
    }
}

/// One row a finding; one for a check without any, and one for those that are not listed.
fn rows_of(check: &Check) -> Vec<Vec<String>> {
    let row = |s: Severity, text: &str, consequence: &str, remedy: &str| {
        let told = match &check.muted {
            None => severity(s).to_owned(),
            Some(muted) => format!("{} (muted: {})", severity(s), muted.reason),
        };
        vec![told, check.name.clone(), text.to_owned(), consequence.to_owned(), remedy.to_owned()]
    };
    if check.findings.is_empty() {
        return vec![row(check.severity, &check.text, "", "")];
    }
    let mut rows: Vec<_> =
        check.findings.iter().map(|f| row(f.severity, &f.cause, &f.consequence, &f.remedy)).collect();
    let more = check.findings_total as usize - check.findings.len();
    if more > 0 {
        rows.push(row(check.severity, &format!("and {more} more"), "", ""));
    }
    rows
}
