//! The suite of the `Directory` contract.
//!
//! Promises    D1 atomic, D2 linearizable, D3 watch in order and honest about gaps, D4 bounded time, and C1..C3 of the
//!             catalogue, each by at least one check below
//! Method      real threads against the implementation; a check panics with what it saw

mod changes;
mod outage;
mod rooms;
mod watching;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cairn_directory::{Directory, DirectoryError, Key, Kind, Name, Registry, Revision, Scope, Stored, Txn};
use cairn_types::ClusterId;
use futures::executor::block_on;

/// What the suite needs of the world below an implementation.
pub trait Rig: Sync {
    /// The directory of `cluster`: the same one however often it is asked for.
    fn open(&self, cluster: ClusterId) -> Arc<dyn Directory>;
    /// Takes the directory away: until `start`, nothing answers.
    fn stop(&self);
    /// Brings it back with all it knew.
    fn start(&self);
    /// Takes away one server of several (the leader, if there is one); false where there is only one.
    fn lose_one(&self) -> bool;
    /// Brings that one back.
    fn regain_one(&self);
}

/// What one check did.
#[derive(Debug, Clone)]
pub struct Passed {
    /// Its name.
    pub check: &'static str,
    /// How long it took, in ms.
    pub ms: u64,
}

type Check = fn(&dyn Rig, ClusterId);

/// Every check, in an order that takes the directory away last.
const CHECKS: &[(&str, Check)] = &[
    ("one of many creators wins", changes::one_of_many_creators_wins),
    ("no increment is lost", changes::no_increment_is_lost),
    ("a refused transaction leaves no trace", changes::a_refused_transaction_leaves_no_trace),
    ("readers never see half a transaction", changes::readers_never_see_half),
    ("limits are the same everywhere", changes::limits_are_the_same_everywhere),
    ("listings are ordered and of one revision", changes::listings_are_ordered),
    ("clusters do not see each other", changes::clusters_do_not_see_each_other),
    ("a damaged entry hides no other", changes::a_damaged_entry_hides_no_other),
    ("a disk from intent to tombstone", rooms::a_disk_from_intent_to_tombstone),
    ("a creation undone", rooms::a_creation_undone),
    ("a disk is renamed", rooms::a_disk_is_renamed),
    ("hosts have names of their own", rooms::hosts_have_names_of_their_own),
    ("a host that is gone stays gone", rooms::a_host_that_is_gone_stays_gone),
    ("a directory rebuilt from records", rooms::a_directory_rebuilt_from_records),
    ("hostile names are refused in words", rooms::hostile_names_are_refused),
    ("tasks are kept and pruned", rooms::tasks_are_kept_and_pruned),
    ("a watch tells everything in order", watching::everything_in_order),
    ("a reader that slept catches up", watching::a_reader_that_slept_catches_up),
    ("a watch from another life is a gap", watching::another_life_is_a_gap),
    ("one server lost", outage::one_server_lost),
    ("the directory away and back", outage::away_and_back),
];

/// Runs every check on `rig`; panics at the first that fails. `seed` tells clusters of one run from those of another.
pub fn directory_suite(rig: &dyn Rig, seed: u64) -> Vec<Passed> {
    CHECKS
        .iter()
        .enumerate()
        .map(|(number, (name, check))| {
            let begun = Instant::now();
            check(rig, ClusterId::from_random(seed, number as u64 + 1));
            let ms = begun.elapsed().as_millis() as u64;
            eprintln!("  {name}: {ms} ms");
            Passed { check: name, ms }
        })
        .collect()
}

/// A key for checks that are about no particular kind.
fn key(name: &str) -> Key {
    Key::new(Kind::Task, &Name::new(name).expect("checks use valid names"))
}

fn registry(rig: &dyn Rig, cluster: ClusterId) -> Registry {
    Registry::new(rig.open(cluster))
}

fn get(directory: &Arc<dyn Directory>, key: &Key) -> Option<Stored> {
    block_on(directory.get(key)).expect("a read while all is well")
}

fn commit(directory: &Arc<dyn Directory>, txn: Txn) -> Result<Revision, DirectoryError> {
    block_on(directory.commit(txn))
}

fn count(directory: &Arc<dyn Directory>) -> usize {
    let listing = block_on(directory.list(Scope::All)).expect("a listing while all is well");
    listing.entries.len()
}

/// Waits until `ready`, at most `limit`; returns how long it took.
fn wait_until(what: &str, limit: Duration, mut ready: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}
