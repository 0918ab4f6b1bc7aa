//! `cairn health`.

use cairn_api::v1::Severity;

use super::{Context, cluster::severity};
use crate::{fail::Fail, output};

/// Prints the checks; an error among them is exit code 1, so that a script can ask "is it well?".
pub async fn run(context: &Context) -> Result<(), Fail> {
    let health = context.client.health().await?;
    output::show(context.format, &health, |health| {
        output::table(
            &["severity", "check", "finding", "advice"],
            health.checks.iter().map(|check| {
                vec![
                    severity(check.severity).to_owned(),
                    check.name.clone(),
                    check.text.clone(),
                    check.advice.clone().unwrap_or_default(),
                ]
            }),
        )
    })?;
    match health.severity {
        Severity::Ok | Severity::Warning => Ok(()),
        Severity::Error => Err(Fail::found_bad()),
    }
}
