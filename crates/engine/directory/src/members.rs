//! Who runs the members of the directory, where the cluster runs them itself.
//!
//! Promises    the list says what is wanted; what etcd has follows it, one change at a time (`directory-etcd::keeper`)
//!             each host keeps it in its local copy, and finds the directory by it at its next start
//! Assumes     builds that do not know the entry pass over it: it is written at a level that they do not speak

use cairn_types::HostId;
use serde::{Deserialize, Serialize};

use crate::{Entry, Kind, LocalCopy, Name, TheCluster};

/// Members, at most: each write waits for a majority of them.
pub const MEMBERS_MAX: usize = 5;

/// A host that is to run a member of the directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryMember {
    /// The host; of a server, its first shard.
    pub host: HostId,
    /// The host's name, and the member's.
    pub name: Name,
    /// Where the other members reach it: `http://10.0.0.1:2380`.
    pub peer_url: String,
    /// Where clients reach it: `http://10.0.0.1:2379`.
    pub client_url: String,
}

/// Who is to run members. Where there is no entry, each host's configuration says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DirectoryMembers {
    /// They, in the order in which they came.
    pub members: Vec<DirectoryMember>,
}

impl Entry for DirectoryMembers {
    const KIND: Kind = Kind::DirectoryMembers;
    type Id = TheCluster;
    fn validate(&self) -> Result<(), String> {
        let count = self.members.len();
        if !(1..=MEMBERS_MAX).contains(&count) {
            return Err(format!("the directory would have {count} members, it has 1 to {MEMBERS_MAX}"));
        }
        for (n, member) in self.members.iter().enumerate() {
            for url in [&member.peer_url, &member.client_url] {
                if !url.strip_prefix("http://").is_some_and(|rest| rest.contains(':')) {
                    return Err(format!("{url:?} is no URL of a member: write http://host:port"));
                }
            }
            let same = |other: &&DirectoryMember| {
                let urls = [&other.peer_url, &other.client_url];
                other.host == member.host || urls.contains(&&member.peer_url) || urls.contains(&&member.client_url)
            };
            if let Some(other) = self.members[..n].iter().find(same) {
                return Err(format!("members {} and {} have the same host or URL", other.name, member.name));
            }
        }
        Ok(())
    }
}

impl DirectoryMembers {
    /// The list in the bytes of its entry; none where they are something else.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The member that a host is to run. One that was installed anew has another id and its old name.
    pub fn of(&self, host: HostId, name: &str) -> Option<&DirectoryMember> {
        let by_id = self.members.iter().find(|member| member.host == host);
        by_id.or_else(|| self.members.iter().find(|member| member.name.as_str() == name))
    }

    /// Where clients reach them.
    pub fn client_urls(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client_url.clone()).collect()
    }
}

impl LocalCopy {
    /// Who runs members, as this host heard last; none: as its configuration says.
    pub fn directory_members(&self) -> Option<DirectoryMembers> {
        self.get::<DirectoryMembers>(&TheCluster)
    }

    /// Whether a stored copy, of whichever cluster, says who runs members.
    pub fn tells_members(json: &[u8]) -> bool {
        serde_json::from_slice::<Self>(json).is_ok_and(|copy| copy.directory_members().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u128) -> DirectoryMember {
        let url = |port: u16| format!("http://10.0.0.{n}:{port}");
        let name = Name::new(format!("h{n}")).unwrap();
        DirectoryMember { host: HostId(n), name, peer_url: url(2380), client_url: url(2379) }
    }

    #[test]
    fn a_list_that_cannot_work_is_refused() {
        let list = |members: &[DirectoryMember]| DirectoryMembers { members: members.to_vec() };
        assert_eq!(list(&[member(1), member(2)]).validate(), Ok(()));
        let six: Vec<_> = (1..=6).map(member).collect();
        for (refused, why) in [
            (list(&[]), "0 members"),
            (list(&six), "6 members"),
            (list(&[member(1), member(1)]), "same host"),
            (list(&[member(1), DirectoryMember { peer_url: member(1).peer_url, ..member(2) }]), "same host or URL"),
            (list(&[DirectoryMember { client_url: "10.0.0.1:2379".into(), ..member(1) }]), "http://host:port"),
        ] {
            let error = refused.validate().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_host_is_found_by_its_id_and_one_installed_anew_by_its_name() {
        let list = DirectoryMembers { members: vec![member(1), member(2)] };
        let found = |host: u128, name: &str| list.of(HostId(host), name).map(|member| member.host.0);
        assert_eq!(found(2, "renamed"), Some(2));
        assert_eq!(found(2, "h1"), Some(2), "its id counts before its name");
        assert_eq!(found(9, "h1"), Some(1));
        assert_eq!(found(9, "h9"), None);
    }
}
