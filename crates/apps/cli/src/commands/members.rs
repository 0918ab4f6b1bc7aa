//! `cairn cluster members`: who runs the members of the directory, and changes of that.

use std::time::Duration;

use cairn_api::v1::{DirectoryMember, DirectoryMemberAdd, DirectoryMembers, DirectoryMembersChange};
use cairn_types::format_bytes;

use super::Context;
use crate::{
    args::{MemberUrls, Members as Verb, MembersHow},
    confirm::confirm,
    fail::Fail,
    output, progress,
};

/// Between two looks at a change that is under way.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Carries out a verb.
pub async fn run(context: &Context, verb: Option<Verb>) -> Result<(), Fail> {
    let add =
        |host: String, MemberUrls { peer_url, client_url }| Some(DirectoryMemberAdd { host, peer_url, client_url });
    match verb {
        None => {
            let members = context.client.cluster_members().await?;
            output::show(context.format, &members, table)
        }
        Some(Verb::Add { host, urls, how }) => {
            change(context, DirectoryMembersChange { add: add(host, urls), ..Default::default() }, how).await
        }
        Some(Verb::Remove { host, how, yes }) => {
            let request = DirectoryMembersChange { remove: Some(host.clone()), ..Default::default() };
            if !how.dry_run && !yes {
                // A refusal comes before the question.
                context
                    .client
                    .cluster_members_change(&DirectoryMembersChange { dry_run: true, ..request.clone() })
                    .await?;
                confirm(&format!("Remove the member of the directory at host {host}?"), yes)?;
            }
            change(context, request, how).await
        }
        Some(Verb::Replace { old, new, urls, how }) => {
            let request =
                DirectoryMembersChange { add: add(new, urls), remove: Some(old), ..DirectoryMembersChange::default() };
            change(context, request, how).await
        }
    }
}

async fn change(context: &Context, request: DirectoryMembersChange, how: MembersHow) -> Result<(), Fail> {
    let request = DirectoryMembersChange { dry_run: how.dry_run, ..request };
    let mut members = context.client.cluster_members_change(&request).await?;
    if how.dry_run {
        output::note(context.format, "nothing was done; it would be possible");
    } else if how.wait {
        members = progress::while_waiting(settled(context)).await?;
    } else {
        output::note(context.format, "the hosts follow by themselves; `cairn cluster members` shows how far they are");
    }
    output::show(context.format, &members, table)
}

async fn settled(context: &Context) -> Result<DirectoryMembers, Fail> {
    // Each look shows nothing of its own: the whole is one wait.
    let client = context.client.patient(LOOK_EVERY * 30);
    loop {
        let members = client.cluster_members().await?;
        if members.settled {
            return Ok(members);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn table(of: &DirectoryMembers) -> String {
    if !of.own {
        return output::pairs([
            ("directory", of.kind.clone()),
            ("members", "the cluster runs none itself".into()),
            ("reached at", of.endpoints.join("\n")),
        ]);
    }
    let row = |member: &DirectoryMember| {
        vec![
            member.host.clone(),
            if member.host_up { "up" } else { "down" }.to_owned(),
            member.state.name().to_owned(),
            member.peer_url.clone(),
            member.client_url.clone(),
            if member.db_bytes > 0 { format_bytes(member.db_bytes) } else { "-".into() },
            member.problem.clone().unwrap_or_else(|| "-".into()),
        ]
    };
    let head = ["host", "state", "member", "peer url", "client url", "size", "problem"];
    let mut text = output::table(&head, of.members.iter().map(row));
    for note in &of.notes {
        text += &format!("\n- {note}");
    }
    text
}
