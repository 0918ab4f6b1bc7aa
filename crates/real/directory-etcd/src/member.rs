//! What a supervised etcd member is told.
//!
//! Not here    how it is kept running (`supervise`), how it begins without data (`rejoin`)

use std::path::PathBuf;

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
    /// The etcd program; looked for when none is given.
    pub program: Option<PathBuf>,
}
