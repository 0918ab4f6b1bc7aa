//! The local copy: it is the directory as of one revision, survives being stored, and tells its age.

use std::sync::Arc;

use cairn_directory::{
    CreateIntent, DirectoryError, Embedded, Followed, Follower, Gate, HostEntry, HostIntent, LocalCopy, Name, Registry,
    TaskEntry, TaskId,
};
use cairn_types::{ClusterId, HostId, ObjectId, Policy};
use futures::executor::block_on;

const CLUSTER: ClusterId = ClusterId(1);

fn host(name: &str) -> HostEntry {
    HostEntry {
        name: Name::new(name).unwrap(),
        fault_domain: Name::new("rack").unwrap(),
        peer_address: "10.0.0.1:7000".parse().unwrap(),
        api_address: None,
        nbd_addresses: Vec::new(),
        vhost_user_dir: None,
        shard_of: None,
        build: None,
    }
}

#[test]
fn it_follows_is_stored_and_answers_while_the_directory_is_away() {
    let gate = Gate::new(Embedded::in_memory(CLUSTER));
    let registry = Registry::new(gate.clone());
    let mut follower = Follower::new(gate.clone());
    let mut copy = LocalCopy::empty(CLUSTER);
    assert_eq!(copy.age_ms(99), None);
    let mut follow = |copy: &mut LocalCopy, now| copy.apply(&block_on(follower.next()), now);
    assert!(follow(&mut copy, 1000), "even an empty one is news the first time");
    block_on(registry.register_host(HostId(1), &host("a"))).unwrap();
    assert!(follow(&mut copy, 2000));
    let gold = Name::new("gold").unwrap();
    block_on(registry.create(&gold, &Policy::default())).unwrap();
    assert!(follow(&mut copy, 3000));
    let intent =
        CreateIntent { name: gold.clone(), components: Vec::new(), by: HostId(1), created_unix_ms: 0, lasts_ms: 0 };
    block_on(registry.create(&ObjectId(1), &intent)).unwrap();
    assert!(!follow(&mut copy, 4000), "intents are not kept: nothing to store");
    assert!(!String::from_utf8(copy.to_json()).unwrap().contains("intents"));

    let read_back = LocalCopy::from_json(&copy.to_json(), CLUSTER).unwrap();
    assert_eq!(read_back, copy);
    assert_eq!(read_back.get::<HostEntry>(&HostId(1)), Some(host("a")));
    assert_eq!(read_back.list::<Policy>(), [(gold.clone(), Policy::default())]);
    assert_eq!(read_back.revision(), copy.revision());

    let fresh = block_on(copy.list_through::<HostEntry>(&registry, 9000)).unwrap();
    assert_eq!((fresh.value.len(), fresh.age_ms), (1, None));
    gate.set_shut(true);
    let old = block_on(copy.list_through::<HostEntry>(&registry, 9000)).unwrap();
    assert_eq!((old.value, old.age_ms), (vec![(HostId(1), host("a"))], Some(5000)));
    assert!(matches!(block_on(follower.next()), Followed::Away(_)));
    gate.set_shut(false);
    block_on(registry.remove::<Policy>(&gold)).unwrap();
    assert!(copy.apply(&block_on(follower.next()), 9500));
    assert_eq!(copy.get::<Policy>(&gold), None);
    assert_eq!(copy.age_ms(9500), Some(0));
    assert_eq!(copy.age_ms(1), Some(0), "a clock that was set back");
}

#[test]
fn a_copy_that_is_torn_or_foreign_is_refused_in_words() {
    let directory = Embedded::in_memory(CLUSTER);
    let mut follower = Follower::new(directory);
    let mut copy = LocalCopy::empty(CLUSTER);
    copy.apply(&block_on(follower.next()), 1);
    let json = copy.to_json();
    let refused = |json: &[u8], cluster| match LocalCopy::from_json(json, cluster) {
        Err(DirectoryError::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    for cut in 0..json.len() {
        assert!(refused(&json[..cut], CLUSTER).contains("Move it away"));
    }
    assert!(refused(&json, ClusterId(2)).contains("belongs to cluster"));
    let newer = String::from_utf8(json).unwrap().replace("\"format\": 1", "\"format\": 2");
    assert!(refused(newer.as_bytes(), CLUSTER).contains("format 2"));
}

/// What must be true now cannot be asked of a copy, not even by mistake.
#[test]
#[should_panic(expected = "must be read from the directory")]
fn tasks_are_not_read_from_a_copy() {
    let _ = LocalCopy::empty(CLUSTER).get::<TaskEntry>(&TaskId(1));
}

/// More transactions than history holds, while a watcher does not look: it lists again and has all.
#[test]
fn a_watcher_past_the_history_lists_again() {
    let directory = Embedded::in_memory(CLUSTER);
    let registry = Registry::new(directory.clone() as Arc<dyn cairn_directory::Directory>);
    let mut follower = Follower::new(directory);
    assert!(matches!(block_on(follower.next()), Followed::Snapshot(_)));
    for i in 0..cairn_directory::HISTORY_CHANGES_MAX + 10 {
        let entry = host(&format!("h{i}"));
        block_on(registry.update::<HostEntry>(&HostId(1), |_| Ok(Some(entry.clone())))).unwrap();
    }
    match block_on(follower.next()) {
        Followed::Snapshot(listing) => assert_eq!(listing.entries.len(), 1),
        other => panic!("{other:?}"),
    }
}

/// Goal: what administrators set outlives the restart that they set it for. Method: maintenance is set, the host registers
/// itself again as it does at each start.
#[test]
fn a_restart_of_a_host_keeps_what_administrators_set() {
    let registry = Registry::new(Embedded::in_memory(CLUSTER));
    block_on(registry.register_host(HostId(1), &host("a"))).unwrap();
    block_on(registry.create(&HostId(1), &HostIntent { maintenance: true, ..HostIntent::default() })).unwrap();
    block_on(registry.register_host(HostId(1), &host("a"))).unwrap();
    let known = block_on(registry.get::<HostIntent>(&HostId(1))).unwrap().unwrap().entry;
    assert!(known.maintenance, "the restart wiped the intent");
}
