//! Clients that one shard takes and another serves, on two threads.

mod support;

use std::{
    path::{Path, PathBuf},
    sync::mpsc,
    thread::JoinHandle,
};

use cairn_nbd::{Doors, Entrance, Options, doors, serve_moved, serve_unix};
use cairn_volume::{Exports, VolumeError};
use support::{
    client::{BLOCK_STATUS, Client, DISC, GO, export_query, meta_query},
    ramdisk::{RamDisk, RamDisks},
};
use tokio::{runtime, sync::oneshot, task::LocalSet};

const MIB: u64 = 1 << 20;
const EXPORT_NAME: u32 = 1;
const INFO: u32 = 6;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const ACK: u32 = 1;
const META_CONTEXT: u32 = 4;
const ERR_UNKNOWN: u32 = 0x8000_0006;

/// A shard's disks; those whose names begin with "far" are the other's.
#[derive(Clone)]
struct Shard(RamDisks);

impl Exports for Shard {
    type Volume = RamDisk;
    fn list(&self) -> impl Future<Output = Vec<String>> + 'static {
        self.0.list()
    }
    fn shard_to_serve(&self, name: &str) -> impl Future<Output = Option<usize>> + 'static {
        std::future::ready(name.starts_with("far").then_some(1))
    }
    fn is_read_only(&self, name: &str) -> bool {
        self.0.is_read_only(name)
    }
    fn open(&self, name: &str) -> impl Future<Output = Result<Option<RamDisk>, VolumeError>> + 'static {
        self.0.open(name)
    }
}

/// A thread that serves until it is told to stop.
struct Thread(Option<oneshot::Sender<()>>, Option<JoinHandle<()>>);

impl Thread {
    fn start(name: &'static str, at: Option<PathBuf>, entrance: Option<Entrance>, doors: Doors) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let body = move || async move {
            let disks = RamDisks::default();
            disks.add(name, 8 * MIB);
            let options = Options { doors, ..Options::default() };
            let mut servers = Vec::new();
            if let Some(path) = at {
                servers.push(serve_unix(path, Shard(disks.clone()), options.clone()).await.expect("a server"));
            }
            servers.extend(entrance.map(|entrance| serve_moved(entrance, Shard(disks), options)));
            ready.send(()).expect("the test waits");
            let _ = stopped.await;
            for server in servers {
                server.stop().await;
            }
        };
        let thread = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, body());
        });
        is_ready.recv().expect("it serves");
        Self(Some(stop), Some(thread))
    }

    fn stop(mut self) {
        drop(self.0.take());
        self.1.take().expect("it runs").join().expect("the thread lived");
    }
}

fn two_shards(path: &Path) -> (Thread, Thread) {
    let (doors, entrances) = doors(2);
    let mut entrances = entrances.into_iter();
    let near = Thread::start("near", Some(path.to_owned()), entrances.next(), doors.clone());
    let far = Thread::start("far", None, entrances.next(), doors);
    (near, far)
}

/// Goal: a client does not notice that it is moved, whatever was agreed on before. Method: both ways to choose a disk, with
/// structured replies and a metadata context that were agreed on with the first shard.
#[test]
fn a_moved_client_notices_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    let (near, far) = two_shards(&path);
    let mut stays = Client::unix(&path).go("near", false);
    let mut moved = Client::unix(&path).go("far", true);
    for (client, byte) in [(&mut stays, 1u8), (&mut moved, 2)] {
        assert_eq!(client.size, 8 * MIB);
        assert_eq!(client.write(MIB, &[byte; 8192]).error, 0);
        assert_eq!(client.read(MIB, 8192), [byte; 8192]);
    }
    let status = moved.ask(BLOCK_STATUS, 0, 0, 8 * MIB as u32);
    assert!(!status.extents.is_empty(), "the context that was selected before the move holds: {status:?}");

    let mut old = Client::unix(&path).greet(3);
    old.send_option(EXPORT_NAME, b"far");
    assert_eq!(old.u64(), 8 * MIB);
    let _flags = old.u16();
    assert_eq!(old.read(MIB, 4096), [2; 4096], "both are served by the same shard");
    old.send(DISC, 0, 0, 0);
    assert!(old.is_closed());
    near.stop();
    assert_eq!(moved.read(MIB, 4096), [2; 4096], "a moved client is nothing to the shard that took it");
    far.stop();
    assert!(moved.is_closed());
}

/// Goal: a refusal at the other shard is an answer like any other, and the negotiation goes on there. Method: a disk that the other
/// shard has not; then one that it has, under what was agreed on before.
#[test]
fn what_the_other_shard_refuses_leaves_the_client_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    let (near, far) = two_shards(&path);
    let mut client = Client::unix(&path).greet(3);
    let kinds = |replies: Vec<(u32, Vec<u8>)>| replies.into_iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(kinds(client.option(STRUCTURED_REPLY, &[])), [ACK]);
    let selected = client.option(SET_META_CONTEXT, &meta_query("far", &[b"base:allocation"]));
    assert_eq!(kinds(selected), [META_CONTEXT, ACK]);
    assert_eq!(kinds(client.option(INFO, &export_query("far-away", &[]))), [ERR_UNKNOWN]);
    assert_eq!(kinds(client.option(GO, &export_query("near", &[]))), [ERR_UNKNOWN], "it is asked at the other shard");
    let chosen = client.option(GO, &export_query("far", &[]));
    assert_eq!(chosen.last().map(|last| last.0), Some(ACK));
    client.structured = true;
    assert_eq!(client.ask(BLOCK_STATUS, 0, 0, MIB as u32).error, 0);
    far.stop();
    near.stop();
}

/// Goal: a client whose shard has ended is not left waiting. Method: the second shard's door leads nowhere.
#[test]
fn a_client_for_a_shard_that_has_ended_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    let (near, far) = two_shards(&path);
    far.stop();
    let mut client = Client::unix(&path).greet(3);
    client.send_option(GO, &export_query("far", &[]));
    assert!(client.is_closed());
    assert_eq!(Client::unix(&path).go("near", false).read(0, 4096), [0; 4096]);
    near.stop();
}
