//! The directory of the cluster in memory: three members, of which one is away.

use cairn_api::{ApiError, ApiResult, v1::*};

fn member(host: &str, n: u8) -> DirectoryMember {
    DirectoryMember {
        host: host.into(),
        host_up: true,
        peer_url: format!("http://10.0.0.{n}:2380"),
        client_url: format!("http://10.0.0.{n}:2379"),
        state: DirectoryMemberState::Follows,
        problem: None,
        db_bytes: 20 << 20,
    }
}

/// The members; host-4's is away.
pub fn members() -> DirectoryMembers {
    let first = DirectoryMember { state: DirectoryMemberState::Leads, ..member("host-1", 1) };
    let last = DirectoryMember {
        host_up: false,
        state: DirectoryMemberState::Away,
        problem: Some("connection refused".into()),
        db_bytes: 0,
        ..member("host-4", 4)
    };
    let members = vec![first, member("host-2", 2), last];
    let endpoints = members.iter().map(|member| member.client_url.clone()).collect();
    DirectoryMembers { kind: "etcd".into(), own: true, members, endpoints, settled: true, notes: Vec::new() }
}

/// What a change makes of them.
///
/// # Errors
/// Who goes is no member, who comes does not answer.
pub fn members_changed(request: &DirectoryMembersChange, added: Option<&Host>) -> ApiResult<DirectoryMembers> {
    let mut all = members();
    if let Some(name) = &request.remove {
        let found = all.members.iter_mut().find(|member| member.host == *name);
        let found = found.ok_or_else(|| {
            ApiError::not_found(format!("host {name:?} runs no member of the directory"))
                .remedy("These do: host-1, host-2, host-4")
        })?;
        found.state = DirectoryMemberState::Leaves;
    }
    if let Some(host) = added {
        if !host.up {
            return Err(ApiError::refused(format!("host {} does not answer", host.name))
                .remedy("Start its daemon first, or name another host"));
        }
        all.members.push(DirectoryMember { db_bytes: 0, state: DirectoryMemberState::Joins, ..member(&host.name, 3) });
    }
    Ok(all)
}
