//! `cairn cluster upgrade`.

use cairn_api::v1::{Upgrade, UpgradeFeature, UpgradeFinish, UpgradeHost};

use super::Context;
use crate::{args::Upgrade as Verb, confirm::confirm, fail::Fail, output};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    match verb {
        Verb::Status => {
            let upgrade = context.client.cluster_upgrade().await?;
            output::show(context.format, &upgrade, status)
        }
        Verb::Finish { dry_run, yes } => {
            // What would be done, or the refusal, comes before the question.
            let preview = context.client.cluster_upgrade_finish(&UpgradeFinish { dry_run: true }).await?;
            if dry_run || preview.level == preview.level_next {
                return output::show(context.format, &preview, status);
            }
            let (level, next) = (preview.level, preview.level_next);
            let question = format!(
                "Finish the upgrade from {level} to {next}? {} Older releases are refused from then on, and nothing goes back.",
                switched_on(&preview)
            );
            confirm(&question, yes)?;
            let done = context.client.cluster_upgrade_finish(&UpgradeFinish { dry_run: false }).await?;
            output::show(context.format, &done, status)
        }
    }
}

fn coming(upgrade: &Upgrade) -> impl Iterator<Item = &UpgradeFeature> {
    upgrade.features.iter().filter(|feature| !feature.on && feature.since <= upgrade.level_next)
}

fn switched_on(upgrade: &Upgrade) -> String {
    let names: Vec<&str> = coming(upgrade).map(|feature| feature.name.as_str()).collect();
    match names.is_empty() {
        true => "It switches nothing on.".to_owned(),
        false => format!("It switches on {}.", names.join(", ")),
    }
}

fn status(upgrade: &Upgrade) -> String {
    let to_finish = upgrade.level != upgrade.level_next;
    let finish = match (to_finish, upgrade.obstacles.is_empty()) {
        (false, _) => "nothing to finish".to_owned(),
        (true, true) => format!("possible, to protocol {}: `cairn cluster upgrade finish`", upgrade.level_next),
        (true, false) => format!("not yet possible, to protocol {}", upgrade.level_next),
    };
    let mut text = output::pairs([("protocol", upgrade.level.to_string()), ("finish", finish)]);
    text += "\n\n";
    text += &output::table(&["host", "state", "release", "speaks"], upgrade.hosts.iter().map(row));
    text += "\n\n";
    text += &output::table(&["feature", "since", "state", "what it does"], upgrade.features.iter().map(feature));
    for obstacle in &upgrade.obstacles {
        text += &format!("\n- {obstacle}");
    }
    text
}

fn row(host: &UpgradeHost) -> Vec<String> {
    let speaks = match (host.speaks_least, host.speaks_highest) {
        (Some(least), Some(highest)) if least == highest => format!("protocol {least}"),
        (Some(least), Some(highest)) => format!("protocols {least} to {highest}"),
        _ => "-".to_owned(),
    };
    vec![
        host.name.clone(),
        if host.up { "up" } else { "away" }.to_owned(),
        host.version.clone().unwrap_or_else(|| "-".to_owned()),
        speaks,
    ]
}

fn feature(feature: &UpgradeFeature) -> Vec<String> {
    let state = if feature.on { "on" } else { "off" };
    vec![feature.name.clone(), format!("protocol {}", feature.since), state.to_owned(), feature.text.clone()]
}
