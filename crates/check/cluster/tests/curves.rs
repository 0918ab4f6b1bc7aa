//! Goal: what a request and a host at rest cost does not depend on how many hosts there are.
//! Method: clusters of 3 and of 64 hosts with the same load on every host, and every message counted.

use cairn_cluster::curves::{Order, Point, point};

/// A write of a guest may cost a message more or less in a hundred: owners tell that they have settled when nothing follows.
const TOLERANCE: f64 = 0.02;
/// A host at rest reads the health of its directory, and no entry: at most so many calls a second.
const DIRECTORY_CALLS_MAX: f64 = 1.0;

fn cluster(hosts: usize) -> Point {
    let order = Order { hosts: vec![hosts], disks_per_host: 2, seed: 1 };
    point(hosts, &order).unwrap_or_else(|failure| panic!("{hosts} hosts: {}\n{}", failure.what, failure.log))
}

#[test]
fn a_request_costs_as_many_messages_at_64_hosts_as_at_3() {
    let (small, large) = (cluster(3), cluster(64));
    let loads = |p: &Point| [p.near[0], p.near[1], p.far[0], p.far[1]].map(|load| load.messages());
    let kinds = ["write, a copy here", "read, a copy here", "write, copies elsewhere", "read, copies elsewhere"];
    for ((kind, few), many) in kinds.into_iter().zip(loads(&small)).zip(loads(&large)) {
        assert!((few - many).abs() <= TOLERANCE * few.max(1.0), "{kind}: {few} messages at 3 hosts, {many} at 64");
    }
    for point in [&small, &large] {
        let calls = point.rest_rate(point.rest.directory);
        assert!(
            calls <= DIRECTORY_CALLS_MAX,
            "{} hosts: {calls} directory calls a host and second at rest",
            point.hosts
        );
        assert_eq!(point.rest.others, 0, "{} hosts: at rest, hosts say nothing but heartbeats", point.hosts);
    }
    // Every host asks every other one: the same with each of them.
    let each = |p: &Point| p.rest_rate(p.rest.heartbeats) / (p.hosts - 1) as f64;
    assert!((each(&small) - each(&large)).abs() < 0.1, "heartbeats: {} and {} a peer", each(&small), each(&large));
}

#[test]
fn one_seed_is_one_curve() {
    assert_eq!(cluster(4), cluster(4));
}
