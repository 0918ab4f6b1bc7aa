//! Members of the directory: the hosts whose majority decides every change of the cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryMemberState {
    /// It works, and leads.
    Leads,
    /// It works.
    Follows,
    /// It is wanted, and has no vote yet: it is started, or takes in what the others have.
    Joins,
    /// It is not wanted any more, and about to go.
    Leaves,
    /// It does not work.
    Away,
}

impl DirectoryMemberState {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leads => "leads",
            Self::Follows => "follows",
            Self::Joins => "joins",
            Self::Leaves => "leaves",
            Self::Away => "away",
        }
    }
}

/// A member of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirectoryMember {
    /// The name of its host.
    pub host: String,
    /// Whether that host answers; false also where it is no host of the cluster any more.
    pub host_up: bool,
    /// Where the other members reach it.
    pub peer_url: String,
    /// Where clients reach it.
    pub client_url: String,
    /// How it is.
    pub state: DirectoryMemberState,
    /// What is wrong with it.
    #[serde(default)]
    pub problem: Option<String>,
    /// Bytes of its store.
    pub db_bytes: u64,
}

/// The directory's members, or what a change would make of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct DirectoryMembers {
    /// "embedded" or "etcd".
    pub kind: String,
    /// The cluster runs them itself, and they can be changed.
    pub own: bool,
    /// Those that are wanted, in the order in which they came; then those that leave. None where somebody else runs the directory.
    pub members: Vec<DirectoryMember>,
    /// Where this host reaches the directory.
    pub endpoints: Vec<String>,
    /// Nothing joins or leaves.
    pub settled: bool,
    /// What is to be said of their number.
    pub notes: Vec<String>,
}

/// A host that is to run a member.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryMemberAdd {
    /// The host, by name or id.
    pub host: String,
    /// Where the other members reach it; left out: the host's address, at the port of the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_url: Option<String>,
    /// Where clients reach it; left out: the host's address, at the port of the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_url: Option<String>,
}

/// A change of the members: one comes, one goes, or one takes the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryMembersChange {
    /// Who comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<DirectoryMemberAdd>,
    /// Who goes: the name or id of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// Only tell what would come of it.
    #[serde(default)]
    pub dry_run: bool,
}

impl crate::Request for DirectoryMembersChange {
    fn validate(&self) -> crate::ApiResult<()> {
        if self.add.is_none() && self.remove.is_none() {
            return Err(crate::ApiError::invalid("a change of the directory's members adds one, removes one, or both"));
        }
        let urls = self.add.iter().flat_map(|add| [&add.peer_url, &add.client_url]).flatten();
        for url in urls {
            let rest = url.strip_prefix("http://").unwrap_or_default();
            if !rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
                return Err(crate::ApiError::invalid(format!(
                    "{url:?} is no URL of a member: write http://10.0.0.1:2380"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request as _;

    #[test]
    fn a_change_that_changes_nothing_or_names_no_url_is_invalid() {
        let add = |url: &str| DirectoryMembersChange {
            add: Some(DirectoryMemberAdd { host: "h".into(), peer_url: Some(url.into()), client_url: None }),
            ..DirectoryMembersChange::default()
        };
        assert!(DirectoryMembersChange::default().validate().is_err());
        assert!(add("10.0.0.1:2380").validate().is_err() && add("http://10.0.0.1").validate().is_err());
        assert!(add("http://10.0.0.1:2380").validate().is_ok() && add("http://[fd00::1]:2380").validate().is_ok());
    }
}
