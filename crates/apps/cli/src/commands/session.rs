//! `cairn session`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cairn_api::v1::{Session, Sessions};
use cairn_types::format_bytes;

use super::Context;
use crate::{args::Session as Verb, fail::Fail, output, units::duration};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let Verb::List { disk } = verb;
    let mut all = context.client.session_list().await?;
    all.sessions.retain(|session| disk.as_ref().is_none_or(|only| *only == session.disk));
    if !all.hosts_silent.is_empty() {
        let silent = all.hosts_silent.join(", ");
        output::note(context.format, &format!("not answering, and who is connected there is unknown: {silent}"));
    }
    output::show(context.format, &all, list)
}

fn list(all: &Sessions) -> String {
    let head = ["disk", "host", "front end", "peer", "for", "requests", "failed", "read", "written"];
    output::table(&head, all.sessions.iter().map(row))
}

fn row(session: &Session) -> Vec<String> {
    let since = UNIX_EPOCH + Duration::from_millis(session.since_unix_ms);
    // A host whose clock is ahead has a guest from the future: for 0 s.
    let seconds = SystemTime::now().duration_since(since).unwrap_or_default().as_secs();
    vec![
        session.disk.clone(),
        session.host_name.clone(),
        session.front_end.clone(),
        session.peer.clone(),
        duration(seconds),
        session.requests.to_string(),
        session.failed_requests.to_string(),
        format_bytes(session.read_bytes),
        format_bytes(session.write_bytes),
    ]
}
