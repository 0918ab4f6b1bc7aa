//! Releases that share a directory: entries as 0.2.0 wrote them, what it reads of ours, and the level that both hang on.

use cairn_directory::*;
use cairn_types::{Build, ClusterId, HostId, Level, Policy, Speaks};
use futures::executor::block_on;
use serde_json::{Value, json};

const CLUSTER: ClusterId = ClusterId(1);
const ID: &str = "00000000000000000000000000000001";

fn host(build: Option<Build>) -> HostEntry {
    HostEntry {
        name: Name::new("h1").unwrap(),
        fault_domain: Name::new("h1").unwrap(),
        peer_address: "10.0.0.1:9620".parse().unwrap(),
        api_address: None,
        nbd_addresses: Vec::new(),
        vhost_user_dir: None,
        shard_of: None,
        build,
    }
}

fn this_build() -> Option<Build> {
    Some(Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) })
}

/// Reads `json`, and is the same again when it is written.
fn same<E: Entry>(json: Value) {
    let entry: E = serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(serde_json::to_value(&entry).unwrap(), json);
}

/// Goal: what 0.2.0 wrote is read, and what this build writes before an upgrade is finished has nothing that 0.2.0 would lose by writing
/// it anew. Method: an entry of every kind, as that release wrote it.
#[test]
fn entries_of_release_0_2_0_are_as_they_were() {
    let place = json!({"component": ID, "host": ID, "disk_group": ID});
    same::<ClusterSettings>(json!({
        "cluster": ID, "name": "c", "version": 1, "repair_delay_ms": 3_600_000, "lease_ms": 2000, "default_policy": "default"
    }));
    same::<HostEntry>(json!({
        "name": "h1", "fault_domain": "h1", "peer_address": "10.0.0.1:9620", "api_address": null,
        "nbd_addresses": ["nbd://10.0.0.1:10809"], "vhost_user_dir": "/run/cairn/vhost", "shard_of": ID
    }));
    same::<HostIntent>(json!({"maintenance": false}));
    same::<HostIntent>(json!({"maintenance": true, "mode": "full-evacuation"}));
    same::<HostIntent>(json!({"maintenance": false, "draining": [ID]}));
    same::<GoneHostEntry>(json!({"name": "h1", "shard_of": ID, "how": "removed", "at_unix_ms": 5}));
    same::<GoneHostEntry>(json!({"name": "h1", "how": "forgotten", "at_unix_ms": 5}));
    let member =
        json!({"host": ID, "name": "h1", "peer_url": "http://10.0.0.1:2380", "client_url": "http://10.0.0.1:2379"});
    same::<DirectoryMembers>(json!({"members": [member]}));
    same::<HostNameEntry>(json!({"host": ID}));
    same::<DiskGroupEntry>(json!({
        "host": ID, "capacity_bytes": 100,
        "devices": [{"device": ID, "role": "cache", "path": "/dev/a", "bytes": 10}]
    }));
    same::<CatalogueEntry>(json!({
        "name": "vm-1", "size_bytes": 100, "policy_name": "default", "hint_hosts": [ID], "preferred_owner": ID, "state": "ready"
    }));
    same::<CatalogueEntry>(json!({
        "name": "vm-1", "size_bytes": 100, "policy_name": "default", "hint_hosts": [], "preferred_owner": null,
        "state": "deleted", "unconfirmed": [place]
    }));
    same::<NameEntry>(json!({"object": ID}));
    same::<CreateIntent>(json!({
        "name": "vm-1", "components": [place], "by": ID, "created_unix_ms": 5, "lasts_ms": 6
    }));
}

/// A host's entry as 0.2.0 has it: it does not know of builds.
#[derive(serde::Deserialize)]
struct HostEntryOf020 {
    name: Name,
    shard_of: Option<HostId>,
}

#[test]
fn release_0_2_0_reads_the_entry_of_a_host_of_this_one() {
    let ours = serde_json::to_value(host(this_build())).unwrap();
    assert_eq!(ours["build"], json!({"version": "0.3.0", "least": 12, "highest": 13}));
    let theirs: HostEntryOf020 = serde_json::from_value(ours).unwrap();
    assert_eq!((theirs.name.as_str(), theirs.shard_of), ("h1", None));
}

#[test]
fn the_level_rises_unless_a_host_came_meanwhile() {
    let registry = Registry::new(Embedded::in_memory(CLUSTER));
    let name = |text: &str| Name::new(text).unwrap();
    let settings = ClusterSettings::new(CLUSTER, name("c"), name("default"));
    // A cluster of 0.2.0 has no entry.
    block_on(registry.init_cluster(&settings, &Policy::default(), Level::FIRST)).unwrap();
    assert_eq!(block_on(registry.level()), Ok(Level::FIRST));
    let seen = |registry: &Registry| {
        let listed = block_on(registry.list::<HostEntry>()).unwrap();
        listed.entries.iter().map(|(host, found)| (*host, found.revision)).collect::<Vec<_>>()
    };
    block_on(registry.register_host(HostId(1), &host(this_build()))).unwrap();
    let before = seen(&registry);
    // It goes back to 0.2.0.
    block_on(registry.register_host(HostId(1), &host(None))).unwrap();
    assert!(matches!(block_on(registry.raise_level(Level(13), &before)), Err(DirectoryError::Conflict { .. })));
    assert_eq!(block_on(registry.level()), Ok(Level::FIRST));
    block_on(registry.raise_level(Level(13), &seen(&registry))).unwrap();
    assert_eq!(block_on(registry.level()), Ok(Level(13)));
    // Once more is no error, and nothing goes back.
    block_on(registry.raise_level(Level(13), &[])).unwrap();
    block_on(registry.raise_level(Level(12), &[])).unwrap();
    assert_eq!(block_on(registry.level()), Ok(Level(13)));
}

#[test]
fn a_host_keeps_the_level_in_its_copy() {
    let directory = Embedded::in_memory(CLUSTER);
    let registry = Registry::new(directory.clone());
    let name = |text: &str| Name::new(text).unwrap();
    let mut copy = LocalCopy::empty(CLUSTER);
    assert_eq!(copy.level(), None, "nothing was ever copied");
    let settings = ClusterSettings::new(CLUSTER, name("c"), name("default"));
    block_on(registry.init_cluster(&settings, &Policy::default(), Level::FIRST)).unwrap();
    let mut follower = Follower::new(directory);
    copy.apply(&block_on(follower.next()), 0);
    assert_eq!(copy.level(), Some(Level::FIRST));
    block_on(registry.raise_level(Level(13), &[])).unwrap();
    copy.apply(&block_on(follower.next()), 0);
    assert_eq!(LocalCopy::from_json(&copy.to_json(), CLUSTER).unwrap().level(), Some(Level(13)));
}

/// A new cluster begins at the highest level of the build that makes it.
#[test]
fn a_new_cluster_has_the_level_of_its_maker() {
    let registry = Registry::new(Embedded::in_memory(CLUSTER));
    let name = |text: &str| Name::new(text).unwrap();
    let settings = ClusterSettings::new(CLUSTER, name("c"), name("default"));
    block_on(registry.init_cluster(&settings, &Policy::default(), Level(13))).unwrap();
    assert_eq!(block_on(registry.level()), Ok(Level(13)));
}
