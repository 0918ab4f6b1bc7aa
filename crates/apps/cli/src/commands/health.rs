//! `cairn health`.

use cairn_api::v1::{Check, HealthMute, Severity};

use super::{Context, cluster::severity};
use crate::{
    args::Health as Verb,
    fail::Fail,
    output,
    units::{ago, duration},
};

/// Prints the checks; an error among them is exit code 1, so that a script can ask "is it well?".
pub async fn run(context: &Context, verb: Option<Verb>) -> Result<(), Fail> {
    let health = match verb {
        None => context.client.health().await?,
        Some(Verb::History { check }) => return history(context, check).await,
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

/// Prints what was found so far.
async fn history(context: &Context, check: Option<String>) -> Result<(), Fail> {
    let mut history = context.client.health_history().await?;
    history.events.retain(|event| check.as_ref().is_none_or(|check| event.check == *check));
    output::show(context.format, &history, |history| {
        let rows = history.events.iter().map(|event| {
            let lasted = event.ended_unix_ms.map_or("it is so still".to_owned(), |ended| {
                format!("ended after {}", duration(ended.saturating_sub(event.began_unix_ms) / 1000))
            });
            let began = ago(Some(event.began_unix_ms));
            vec![began, lasted, severity(event.severity).to_owned(), event.check.clone(), event.text.clone()]
        });
        output::table(&["began", "ended", "severity", "check", "what was found"], rows)
    })
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
