//! The embedded directory passes the suite, in memory and in a file; and survives the end of its process.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use cairn_conformance::directory::{Rig, directory_suite};
use cairn_directory::{Directory, Embedded, Gate, Key, Kind, Name, Revision, Scope, Txn};
use cairn_directory_etcd::open_embedded_file;
use cairn_types::ClusterId;
use futures::executor::block_on;

/// One embedded directory per cluster, each behind a gate that takes it away.
struct Local {
    folder: Option<PathBuf>,
    open: Mutex<BTreeMap<ClusterId, Arc<Gate>>>,
}

impl Rig for Local {
    fn open(&self, cluster: ClusterId) -> Arc<dyn Directory> {
        let mut open = self.open.lock().unwrap();
        let gate = open.entry(cluster).or_insert_with(|| {
            Gate::new(match &self.folder {
                Some(folder) => open_embedded_file(&folder.join(cluster.to_string()), cluster).unwrap(),
                None => Embedded::in_memory(cluster),
            })
        });
        gate.clone()
    }
    fn stop(&self) {
        self.open.lock().unwrap().values().for_each(|g| g.set_shut(true));
    }
    fn start(&self) {
        self.open.lock().unwrap().values().for_each(|g| g.set_shut(false));
    }
    fn lose_one(&self) -> bool {
        false
    }
    fn regain_one(&self) {}
}

#[test]
fn in_memory() {
    let rig = Local { folder: None, open: Mutex::default() };
    directory_suite(&rig, 1);
}

#[test]
fn in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Local { folder: Some(folder.path().to_owned()), open: Mutex::default() };
    directory_suite(&rig, 2);
}

/// What was acknowledged is in the file after the process ended without closing it; revisions go on from there.
#[test]
fn a_file_outlives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.redb");
    let (one, other) = (ClusterId(1), ClusterId(2));
    let key = |name: &str| Key::new(Kind::Task, &Name::new(name).unwrap());
    let directory = open_embedded_file(&path, one).unwrap();
    let in_use = open_embedded_file(&path, one).unwrap_err().to_string();
    assert!(in_use.contains("already open"), "{in_use}");
    for i in 0..20 {
        let txn = Txn::new().create(key(&format!("k{i}")), b"1".to_vec());
        block_on(directory.commit(txn)).unwrap();
    }
    // The bytes as a crash leaves them: a copy taken while the file is open.
    let crashed = folder.path().join("crashed.redb");
    std::fs::copy(&path, &crashed).unwrap();
    for path in [&crashed, &path] {
        if path == &crashed {
            let foreign = open_embedded_file(path, other).unwrap_err().to_string();
            assert!(foreign.contains("belongs to cluster"), "{foreign}");
            let again = open_embedded_file(path, one).unwrap();
            let listing = block_on(again.list(Scope::All)).unwrap();
            assert_eq!((listing.entries.len(), listing.revision), (20, Revision(20)));
            let next = block_on(again.commit(Txn::new().create(key("next"), b"1".to_vec())));
            assert_eq!(next, Ok(Revision(21)));
        }
    }
    drop(directory);
    assert!(open_embedded_file(&path, one).is_ok(), "the lock goes with its holder");
    std::fs::write(&crashed, vec![0xa5; 8192]).unwrap();
    let damaged = open_embedded_file(&crashed, one).unwrap_err().to_string();
    assert!(damaged.contains("rebuilt from the disks' records"), "{damaged}");
}
