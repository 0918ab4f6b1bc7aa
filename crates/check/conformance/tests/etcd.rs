//! etcd passes the suite: one member, and three of which the leader is lost in the middle. All members are started and
//! stopped by the same supervisor that the daemon uses, on free ports of the loopback.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use cairn_conformance::directory::{Rig, directory_suite};
use cairn_directory::{Directory, Followed, Follower, Key, Kind, Name, Txn};
use cairn_directory_etcd::{
    EtcdDirectory,
    supervise::{Member, MemberConfig, MemberState},
};
use cairn_types::ClusterId;
use futures::executor::block_on;
use tokio::runtime::Runtime;

struct Etcd {
    runtime: Runtime,
    configs: Vec<MemberConfig>,
    members: Mutex<Vec<Option<Member>>>,
    open: Mutex<BTreeMap<ClusterId, Arc<EtcdDirectory>>>,
    lost: Mutex<Option<usize>>,
}

/// Ports that were free a moment ago; all are held at once so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    held.iter()
        .map(|l| l.local_addr().unwrap().port())
        .collect()
}

impl Etcd {
    fn new(count: usize, folder: &Path) -> Self {
        let ports = free_ports(count * 2);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let initial_cluster: Vec<_> = (0..count)
            .map(|i| (format!("m{i}"), url(ports[i * 2 + 1])))
            .collect();
        let configs: Vec<_> = (0..count)
            .map(|i| MemberConfig {
                cluster: ClusterId(5),
                name: format!("m{i}"),
                data_dir: folder.join(format!("m{i}")),
                log_file: folder.join(format!("m{i}.log")),
                client_url: url(ports[i * 2]),
                peer_url: url(ports[i * 2 + 1]),
                initial_cluster: initial_cluster.clone(),
                program: None,
            })
            .collect();
        let rig = Self {
            runtime: Runtime::new().unwrap(),
            members: Mutex::new(configs.iter().map(|_| None).collect()),
            configs,
            open: Mutex::default(),
            lost: Mutex::default(),
        };
        rig.start();
        let directory = rig.connect(ClusterId(5));
        block_on(directory.wait_serving(Duration::from_secs(20))).unwrap();
        rig
    }
    fn urls(&self) -> Vec<String> {
        self.configs.iter().map(|c| c.client_url.clone()).collect()
    }
    fn connect(&self, cluster: ClusterId) -> Arc<EtcdDirectory> {
        let mut open = self.open.lock().unwrap();
        let new =
            || EtcdDirectory::new(self.runtime.handle().clone(), cluster, &self.urls()).unwrap();
        open.entry(cluster).or_insert_with(new).clone()
    }
    fn start_member(&self, index: usize) {
        let member = Member::start(self.configs[index].clone()).unwrap();
        self.members.lock().unwrap()[index] = Some(member);
    }
}

impl Rig for Etcd {
    fn open(&self, cluster: ClusterId) -> Arc<dyn Directory> {
        self.connect(cluster)
    }
    fn stop(&self) {
        let stopped: Vec<_> = self
            .members
            .lock()
            .unwrap()
            .iter_mut()
            .map(Option::take)
            .collect();
        drop(stopped);
    }
    fn start(&self) {
        (0..self.configs.len()).for_each(|i| self.start_member(i));
    }
    fn lose_one(&self) -> bool {
        if self.configs.len() == 1 {
            return false;
        }
        let health = block_on(self.connect(ClusterId(5)).health());
        let leader = health
            .members
            .iter()
            .position(|m| m.leader)
            .expect("a leader");
        drop(self.members.lock().unwrap()[leader].take());
        *self.lost.lock().unwrap() = Some(leader);
        true
    }
    fn regain_one(&self) {
        let lost = self.lost.lock().unwrap().take().expect("one was lost");
        self.start_member(lost);
    }
}

#[test]
fn one_member() {
    let folder = tempfile::tempdir().unwrap();
    directory_suite(&Etcd::new(1, folder.path()), 3);
}

#[test]
fn three_members() {
    let folder = tempfile::tempdir().unwrap();
    directory_suite(&Etcd::new(3, folder.path()), 4);
}

/// What was compacted away while a reader was gone is a gap, and the gap is a new listing.
#[test]
fn compacted_history_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Etcd::new(1, folder.path());
    let directory: Arc<dyn Directory> = rig.open(ClusterId(9));
    let key = |i: u32| Key::new(Kind::Task, &Name::new(format!("k{i}")).unwrap());
    let create = |i| block_on(directory.commit(Txn::new().create(key(i), b"1".to_vec()))).unwrap();
    let first = create(0);
    let last = (1..20).map(create).last().unwrap();
    let url = rig.urls()[0].clone();
    rig.runtime.block_on(async {
        let mut client = etcd_client::Client::connect([url], None).await.unwrap();
        client.compact(last.0 as i64, None).await.unwrap();
    });
    let mut follower = Follower::resume(directory.clone(), first);
    match block_on(follower.next()) {
        Followed::Snapshot(listing) => assert_eq!(listing.entries.len(), 20),
        other => panic!("{other:?}"),
    }
}

/// A member that is killed comes back by itself with what it knew.
#[test]
fn a_killed_member_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Etcd::new(1, folder.path());
    let directory = rig.connect(ClusterId(9));
    let key = Key::new(Kind::Task, &Name::new("k").unwrap());
    block_on(directory.commit(Txn::new().create(key.clone(), b"1".to_vec()))).unwrap();
    let state = || rig.members.lock().unwrap()[0].as_ref().unwrap().state();
    let MemberState::Running { pid } = state() else {
        panic!("{:?}", state());
    };
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while !matches!(state(), MemberState::Running { pid: now } if now != pid) {
        assert!(std::time::Instant::now() < end, "{:?}", state());
        std::thread::sleep(Duration::from_millis(20));
    }
    block_on(directory.wait_serving(Duration::from_secs(10))).unwrap();
    assert!(block_on(directory.get(&key)).unwrap().is_some());
}

/// A member that accepts connections and says nothing (stopped, or behind a cut link) is left for another; alone, it is
/// reported in bounded time.
#[test]
fn a_silent_member_does_not_hold_up_calls() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Etcd::new(1, folder.path());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let handle = rig.runtime.handle();
    let key = Key::new(Kind::Task, &Name::new("k").unwrap());
    let both = [silent_url.clone(), rig.urls()[0].clone()];
    let directory = EtcdDirectory::new(handle.clone(), ClusterId(9), &both).unwrap();
    let begun = std::time::Instant::now();
    block_on(directory.commit(Txn::new().create(key.clone(), b"1".to_vec()))).unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(2000),
        "{:?}",
        begun.elapsed()
    );
    let begun = std::time::Instant::now();
    block_on(directory.get(&key)).unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(500),
        "the one that answers is remembered"
    );
    let alone = EtcdDirectory::new(handle.clone(), ClusterId(9), &[silent_url]).unwrap();
    let begun = std::time::Instant::now();
    let error = block_on(alone.get(&key)).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(
        begun.elapsed() < Duration::from_millis(3000),
        "{:?}",
        begun.elapsed()
    );
}
