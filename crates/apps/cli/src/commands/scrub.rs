//! `cairn scrub`.

use cairn_api::v1::{Scrub, ScrubChange, ScrubFinding, ScrubState, ScrubVerb};
use cairn_types::format_bytes;

use super::{Context, disk_group};
use crate::{
    args::{Scrub as Verb, ScrubOf},
    fail::Fail,
    output,
    units::{ago, duration, percent, rate},
};

/// Findings that are shown of a disk group; the others with --output json.
const FINDINGS_SHOWN: usize = 10;

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let (verb, of) = match verb {
        Verb::Status => {
            let scrubs = context.client.scrub_list().await?;
            return output::show(context.format, &scrubs, |scrubs| show(scrubs));
        }
        Verb::Start(of) => (ScrubVerb::Start, of),
        Verb::Pause(of) => (ScrubVerb::Pause, of),
        Verb::Resume(of) => (ScrubVerb::Resume, of),
    };
    let ScrubOf { disk_group, host } = of;
    let disk_group = match disk_group {
        Some(prefix) => Some(disk_group::find(context, &prefix).await?.id),
        None => None,
    };
    let scrubs = context.client.scrub(&ScrubChange { verb, host, disk_group }).await?;
    output::show(context.format, &scrubs, |scrubs| show(scrubs))
}

fn show(scrubs: &[Scrub]) -> String {
    let head = [
        "disk group",
        "host",
        "state",
        "pass",
        "done",
        "rate",
        "time left",
        "last scrubbed",
        "found",
        "repaired",
        "bad",
        "no copy",
    ];
    let mut text = output::table(&head, scrubs.iter().map(row));
    for scrub in scrubs {
        if let Some(reason) = scrub.reason.as_ref().filter(|reason| !reason.is_empty()) {
            text += &format!("\n{}: {reason}", short(scrub));
        }
        for finding in scrub.findings.iter().take(FINDINGS_SHOWN) {
            text += &format!("\n{}: {}", short(scrub), words(finding));
        }
        let more = scrub.findings.len().saturating_sub(FINDINGS_SHOWN);
        if more > 0 {
            text += &format!("\n{}: and {more} more; see --output json", short(scrub));
        }
    }
    text
}

fn short(scrub: &Scrub) -> String {
    scrub.disk_group.to_string()[..8].to_owned()
}

fn row(scrub: &Scrub) -> Vec<String> {
    let state = match scrub.state {
        ScrubState::Running if scrub.at_once => "running at once",
        ScrubState::Running => "running",
        ScrubState::Paused => "paused",
        ScrubState::Waiting => "waiting",
        ScrubState::Unreachable => "unreachable",
    };
    let runs = scrub.state == ScrubState::Running;
    let done = percent(scrub.done_bytes, scrub.total_bytes);
    vec![
        short(scrub),
        scrub.host_name.clone(),
        state.into(),
        scrub.pass.to_string(),
        if scrub.state == ScrubState::Waiting { "-".into() } else { done },
        if runs { rate(scrub.bytes_per_s) } else { "-".into() },
        scrub.eta_s.map_or("-".into(), duration),
        ago(scrub.scrubbed_unix_ms),
        scrub.found_blocks.to_string(),
        scrub.repaired_blocks.to_string(),
        scrub.bad_blocks.to_string(),
        scrub.unrepairable_blocks.to_string(),
    ]
}

fn words(finding: &ScrubFinding) -> String {
    let disk = finding.disk_name.clone().unwrap_or_else(|| finding.disk.to_string());
    let (len, at) = (format_bytes(finding.len_bytes), finding.offset_bytes);
    let what = match (finding.differs, finding.unrepairable) {
        (true, _) => "are sound, and do not fit what other members have: nothing tells which is right",
        (false, true) => "are bad, and no other copy in sync has them",
        (false, false) => "are bad, and being repaired",
    };
    format!("disk {disk}: {len} at byte {at} {what}")
}
