//! etcd passes the suite: one member, and three of which the leader is lost in the middle. All members are started and
//! stopped by the same supervisor that the daemon uses, on free ports of the loopback.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
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
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|l| l.local_addr().unwrap().port()).collect()
}

impl Etcd {
    fn new(count: usize, folder: &Path) -> Self {
        let ports = free_ports(count * 2);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let initial_cluster: Vec<_> = (0..count).map(|i| (format!("m{i}"), url(ports[i * 2 + 1]))).collect();
        let configs: Vec<_> = (0..count)
            .map(|i| MemberConfig {
                cluster: ClusterId(5),
                name: format!("m{i}"),
                data_dir: folder.join(format!("m{i}")),
                log_file: folder.join(format!("m{i}.log")),
                client_url: url(ports[i * 2]),
                peer_url: url(ports[i * 2 + 1]),
                initial_cluster: initial_cluster.clone(),
                others: (0..count).filter(|other| *other != i).map(|other| url(ports[other * 2])).collect(),
                joined: false,
                learner: false,
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
        let new = || EtcdDirectory::new(self.runtime.handle().clone(), cluster, &self.urls()).unwrap();
        open.entry(cluster).or_insert_with(new).clone()
    }
    fn pid(&self, index: usize) -> u32 {
        match self.members.lock().unwrap()[index].as_ref().unwrap().state() {
            MemberState::Running { pid } => pid,
            other => panic!("{other:?}"),
        }
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
        let stopped: Vec<_> = self.members.lock().unwrap().iter_mut().map(Option::take).collect();
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
        let leader = health.members.iter().position(|m| m.leader).expect("a leader");
        drop(self.members.lock().unwrap()[leader].take());
        *self.lost.lock().unwrap() = Some(leader);
        true
    }
    fn regain_one(&self) {
        let lost = self.lost.lock().unwrap().take().expect("one was lost");
        self.start_member(lost);
    }
}

/// Sends a signal to a process that this test started.
fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
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
    for i in 1..19 {
        create(i);
    }
    let last = create(19);
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
    signal("KILL", pid);
    let end = Instant::now() + Duration::from_secs(10);
    while !matches!(state(), MemberState::Running { pid: now } if now != pid) {
        assert!(Instant::now() < end, "{:?}", state());
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
    let begun = Instant::now();
    block_on(directory.commit(Txn::new().create(key.clone(), b"1".to_vec()))).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(2000), "{:?}", begun.elapsed());
    let begun = Instant::now();
    block_on(directory.get(&key)).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(500), "the one that answers is remembered");
    let alone = EtcdDirectory::new(handle.clone(), ClusterId(9), &[silent_url]).unwrap();
    let begun = Instant::now();
    let error = block_on(alone.get(&key)).unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(3000), "{:?}", begun.elapsed());
}

/// The leader of three is stopped (not dead: its kernel still accepts connections): writes go on at the others, a watch
/// that hung on it is noticed and goes on elsewhere. Of one member in three nothing is to be had, and it says so in time.
#[test]
fn a_stopped_leader_and_then_a_minority() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Etcd::new(3, folder.path());
    let directory: Arc<dyn Directory> = rig.open(ClusterId(9));
    let key = |i: u32| Key::new(Kind::Task, &Name::new(format!("k{i}")).unwrap());
    let create = |i| Txn::new().create(key(i), b"1".to_vec());
    block_on(directory.commit(create(0))).unwrap();
    let health = block_on(directory.health());
    let leader = health.members.iter().position(|m| m.leader).unwrap();
    // A directory that knows only the leader, so that its watch hangs on it.
    let urls: Vec<_> = (0..3).map(|i| rig.urls()[(leader + i) % 3].clone()).collect();
    let handle = rig.runtime.handle().clone();
    let watched = EtcdDirectory::new(handle, ClusterId(9), &urls).unwrap();
    let mut follower = Follower::new(watched);
    assert!(matches!(block_on(follower.next()), Followed::Snapshot(_)));
    block_on(directory.commit(create(1))).unwrap();
    assert!(matches!(block_on(follower.next()), Followed::Changes(_)));

    signal("STOP", rig.pid(leader));
    let begun = Instant::now();
    while let Err(error) = block_on(directory.commit(create(2))) {
        assert!(error.is_unavailable() || error.is_conflict(), "{error}");
        if error.is_conflict() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{error}");
    }
    eprintln!("    a write {:?} after the leader was stopped", begun.elapsed());
    let begun = Instant::now();
    loop {
        match block_on(follower.next()) {
            Followed::Changes(changes) => {
                assert_eq!(changes.changes[0].key, key(2));
                break;
            }
            Followed::Away(_) | Followed::Confirmed => {}
            Followed::Snapshot(_) => panic!("nothing was compacted"),
        }
        assert!(begun.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("    its watch told of it {:?} later", begun.elapsed());

    signal("STOP", rig.pid((leader + 1) % 3));
    std::thread::sleep(Duration::from_millis(1500));
    for call in 0..3 {
        let begun = Instant::now();
        let error = block_on(directory.get(&key(0))).expect_err("one of three is no majority");
        assert!(error.is_unavailable(), "{call}: {error}");
        assert!(begun.elapsed() < Duration::from_millis(3500), "{:?}", begun.elapsed());
    }
    signal("CONT", rig.pid(leader));
    signal("CONT", rig.pid((leader + 1) % 3));
    let connected = rig.connect(ClusterId(9));
    block_on(connected.wait_serving(Duration::from_secs(10))).unwrap();
    assert!(block_on(directory.get(&key(2))).unwrap().is_some());
}

/// The daemon is killed without a chance to stop anything: its etcd goes with it.
#[test]
fn a_member_never_outlives_its_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let ports = free_ports(2);
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_etcd-holder"))
        .arg(folder.path())
        .args(ports.iter().map(u16::to_string))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    // A zombie that nobody has reaped yet is dead as well.
    let lives = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("etcd") && !status.contains("Z (zombie)")
    };
    assert!(lives());
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let begun = Instant::now();
    while lives() {
        assert!(begun.elapsed() < Duration::from_secs(5), "etcd {pid} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a member works and has what was written.
fn works_again(rig: &Etcd, index: usize, key: &Key) {
    let alone = EtcdDirectory::new(rig.runtime.handle().clone(), ClusterId(9), &rig.urls()[index..=index]).unwrap();
    let begun = Instant::now();
    while !matches!(block_on(alone.get(key)), Ok(Some(_))) {
        let state = rig.members.lock().unwrap()[index].as_ref().map(Member::state);
        assert!(begun.elapsed() < Duration::from_secs(40), "{state:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let health = block_on(rig.connect(ClusterId(9)).health());
    assert!(health.members.iter().all(|member| member.problem.is_none()), "{health:?}");
}

async fn listed(client: &mut etcd_client::Client, peer_url: &String) -> Option<u64> {
    let listed = client.member_list().await.unwrap();
    listed.members().iter().find(|m| m.peer_urls().contains(peer_url)).map(etcd_client::Member::id)
}

/// A member may list what was so a moment ago: it is asked until the removal is done.
async fn remove(client: &mut etcd_client::Client, peer_url: &String) {
    loop {
        if let Some(id) = listed(client, peer_url).await
            && client.member_remove(id).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Just after a removal etcd 3.4 may answer that there is no such member.
async fn add(client: &mut etcd_client::Client, peer_url: &String) {
    while client.member_add([peer_url.clone()], None).await.is_err() && listed(client, peer_url).await.is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Goal: a member whose data is lost comes back by itself, with everything. Method: one of three is stopped and its data removed;
/// then the same where somebody has removed the member already, and where somebody has also added it again.
#[test]
fn a_member_that_lost_its_data_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Etcd::new(3, folder.path());
    let directory = rig.connect(ClusterId(9));
    let key = Key::new(Kind::Task, &Name::new("k").unwrap());
    block_on(directory.commit(Txn::new().create(key.clone(), b"1".to_vec()))).unwrap();
    for removed_and_added in [(false, false), (true, false), (true, true)] {
        drop(rig.members.lock().unwrap()[2].take());
        std::fs::remove_dir_all(&rig.configs[2].data_dir).unwrap();
        let (urls, peer_url) = (rig.urls()[..2].to_vec(), rig.configs[2].peer_url.clone());
        rig.runtime.block_on(async {
            let mut client = etcd_client::Client::connect(urls, None).await.unwrap();
            if removed_and_added.0 {
                remove(&mut client, &peer_url).await;
            }
            if removed_and_added.1 {
                add(&mut client, &peer_url).await;
            }
        });
        rig.start_member(2);
        works_again(&rig, 2, &key);
    }
}
