//! What a supervised etcd member is told.
//!
//! Not here    how it is kept running (`supervise`), how it begins without data (`rejoin`)

use std::path::PathBuf;

use cairn_directory::{DirectoryMember, DirectoryMembers};
use cairn_types::ClusterId;

/// One etcd member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConfig {
    /// The cluster; members of different clusters refuse each other.
    pub cluster: ClusterId,
    /// The member's name, unique among the members.
    pub name: String,
    /// Where it keeps its data; made if need be.
    pub data_dir: PathBuf,
    /// Where it writes its log; made if need be.
    pub log_file: PathBuf,
    /// Where clients reach it: `http://10.0.0.1:2379`.
    pub client_url: String,
    /// Where the other members reach it: `http://10.0.0.1:2380`.
    pub peer_url: String,
    /// All members with their peer URLs, this one included.
    pub initial_cluster: Vec<(String, String)>,
    /// Where clients reach the other members: who is asked how a member without data begins.
    pub others: Vec<String>,
    /// This host was in the cluster before: where its data is lost, it makes no new cluster out of nothing.
    pub joined: bool,
    /// The hosts give it a vote once it has caught up (`keeper`): until then it is a learner.
    pub learner: bool,
    /// The etcd program; looked for when none is given.
    pub program: Option<PathBuf>,
}

/// What is the same for whatever member a host runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPlace {
    /// See [`MemberConfig::cluster`].
    pub cluster: ClusterId,
    /// See [`MemberConfig::data_dir`].
    pub data_dir: PathBuf,
    /// See [`MemberConfig::log_file`].
    pub log_file: PathBuf,
    /// See [`MemberConfig::program`].
    pub program: Option<PathBuf>,
}

impl MemberPlace {
    /// What the member `own` of the directory's list is told here.
    pub fn member(&self, own: &DirectoryMember, wanted: &DirectoryMembers) -> MemberConfig {
        let others = wanted.members.iter().filter(|member| member.peer_url != own.peer_url);
        MemberConfig {
            cluster: self.cluster,
            name: own.name.to_string(),
            data_dir: self.data_dir.clone(),
            log_file: self.log_file.clone(),
            client_url: own.client_url.clone(),
            peer_url: own.peer_url.clone(),
            initial_cluster: wanted.members.iter().map(|m| (m.name.to_string(), m.peer_url.clone())).collect(),
            others: others.map(|member| member.client_url.clone()).collect(),
            // The directory has a list: its cluster exists.
            joined: true,
            learner: true,
            program: self.program.clone(),
        }
    }
}
