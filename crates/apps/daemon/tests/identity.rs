//! A host's identity: counted starts, one process at a time, one cluster, never replaced when damaged.

use std::fs;

use cairn_types::{ClusterId, HostId, Incarnation};
use cairnd::identity::{Identity, IdentityError};

/// Where a host's identity stands below its data directory: a name that must never change.
const FILE: &str = "host.json";

#[test]
fn every_start_counts_and_the_id_stays() {
    let dir = tempfile::tempdir().unwrap();
    let first = Identity::open(dir.path()).unwrap();
    let (host, incarnation) = (first.host(), first.incarnation());
    assert_eq!(incarnation, Incarnation(1));
    drop(first);
    let second = Identity::open(dir.path()).unwrap();
    assert_eq!((second.host(), second.incarnation().0), (host, 2));
}

#[test]
fn a_second_process_is_refused_and_counts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = Identity::open(dir.path()).unwrap();
    let error = Identity::open(dir.path()).unwrap_err();
    assert!(matches!(error, IdentityError::InUse(_)), "{error}");
    drop(first);
    assert_eq!(Identity::open(dir.path()).unwrap().incarnation(), Incarnation(2), "the refused one did not count");
}

#[test]
fn a_host_stays_with_its_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let mut identity = Identity::open(dir.path()).unwrap();
    identity.join(ClusterId(5), None).unwrap();
    drop(identity);
    let mut identity = Identity::open(dir.path()).unwrap();
    assert_eq!(identity.cluster(), Some(ClusterId(5)));
    identity.join(ClusterId(5), None).unwrap();
    let error = identity.join(ClusterId(6), None).unwrap_err();
    assert!(matches!(error, IdentityError::OtherCluster { .. }), "{error}");
}

#[test]
fn a_damaged_identity_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    drop(Identity::open(dir.path()).unwrap());
    fs::write(dir.path().join(FILE), "{\"host\": \"12").unwrap();
    let error = Identity::open(dir.path()).unwrap_err();
    assert!(matches!(error, IdentityError::Damaged { .. }), "{error}");
    assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), b"{\"host\": \"12");
}

#[test]
fn only_a_host_of_no_cluster_takes_an_identity_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut identity = Identity::open(dir.path()).unwrap();
    identity.take_back(HostId(7), ClusterId(5), Incarnation(900)).unwrap();
    drop(identity);
    let mut identity = Identity::open(dir.path()).unwrap();
    assert_eq!((identity.host(), identity.cluster()), (HostId(7), Some(ClusterId(5))));
    assert_eq!(identity.incarnation(), Incarnation(901), "and it counts on");
    let error = identity.take_back(HostId(8), ClusterId(5), Incarnation(1)).unwrap_err();
    assert!(matches!(error, IdentityError::OtherCluster { .. }), "{error}");
}

/// Goal: the lease stays what the cluster was made with, and identities of earlier builds, which have none, are read. Method: such a
/// file, a lease that is kept, another one.
#[test]
fn a_host_keeps_the_lease_of_its_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = format!("{{\"host\": \"{}\", \"incarnation\": 3, \"cluster\": null}}", HostId(7));
    fs::write(dir.path().join(FILE), earlier).unwrap();
    let mut identity = Identity::open(dir.path()).unwrap();
    assert_eq!((identity.incarnation(), identity.lease_ms()), (Incarnation(4), None));
    identity.join(ClusterId(5), None).unwrap();
    identity.join(ClusterId(5), Some(2000)).unwrap();
    identity.join(ClusterId(5), Some(20_000)).unwrap();
    drop(identity);
    assert_eq!(Identity::open(dir.path()).unwrap().lease_ms(), Some(2000));
}
