//! What the rooms above need: disks, hosts, tasks and their names. C1 to C3.

use cairn_directory::{
    Adopted, CatalogueEntry, ClusterSettings, ComponentPlace, CreateIntent, DirectoryError, DiskGroupEntry, DiskState,
    Gone, HostEntry, HostIntent, HostNameEntry, Key, Name, NameEntry, NewDisk, Registry, TaskEntry, TaskId,
    TaskOutcome, TheCluster,
};
use cairn_types::{
    ClusterId, ComponentId, ComponentState, DiskGroupId, HostId, Layout, Level, Member, ObjectConfig, ObjectId, OpId,
    Policy, Redundancy, Role,
};
use futures::executor::block_on;

use super::{Rig, registry};

fn name(text: &str) -> Name {
    Name::new(text).expect("checks use valid names")
}

fn place(component: u128, host: u128) -> ComponentPlace {
    ComponentPlace { component: ComponentId(component), host: HostId(host), disk_group: DiskGroupId(host * 10) }
}

fn disk(object: u128, text: &str) -> NewDisk {
    NewDisk {
        object: ObjectId(object),
        name: name(text),
        size_bytes: 10 << 30,
        policy_name: name("default"),
        preferred_owner: Some(HostId(1)),
        clone_of: None,
        over: Vec::new(),
        components: vec![place(object * 10 + 1, 2), place(object * 10 + 2, 1)],
        by: HostId(1),
        now_unix_ms: 1000,
        lasts_ms: 60_000,
    }
}

/// A cluster with settings and a policy.
fn initialised(rig: &dyn Rig, cluster: ClusterId) -> Registry {
    let registry = registry(rig, cluster);
    assert!(refusal(block_on(registry.settings())).contains("cluster init"));
    let settings = ClusterSettings::new(cluster, name("lab"), name("default"));
    block_on(registry.init_cluster(&settings, &Policy::default(), Level::FIRST)).expect("a first time");
    let again = block_on(registry.init_cluster(&settings, &Policy::default(), Level::FIRST));
    assert!(refusal(again).contains("initialised already"));
    assert_eq!(block_on(registry.settings()), Ok(settings));
    registry
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, DirectoryError>) -> String {
    match outcome {
        Err(DirectoryError::Refused(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn state(registry: &Registry, object: u128) -> Option<DiskState> {
    let found = block_on(registry.get::<CatalogueEntry>(&ObjectId(object))).expect("a read");
    found.map(|f| f.entry.state)
}

fn has_intent(registry: &Registry, object: u128) -> bool {
    let found = block_on(registry.get::<CreateIntent>(&ObjectId(object)));
    found.expect("a read").is_some()
}

/// Intent and name together, ready, deleted with its name free at once, gone when the last component confirms.
pub(super) fn a_disk_from_intent_to_tombstone(rig: &dyn Rig, cluster: ClusterId) {
    let registry = initialised(rig, cluster);
    let vm = disk(1, "vm-1");
    let mut unknown = disk(9, "x");
    unknown.policy_name = name("gold");
    assert!(refusal(block_on(registry.begin_create(&unknown))).contains("no policy \"gold\""));
    block_on(registry.begin_create(&vm)).expect("a creation");
    block_on(registry.begin_create(&vm)).expect("the same again is recognised");
    assert_eq!(state(&registry, 1), Some(DiskState::Creating));
    assert!(has_intent(&registry, 1));
    let taken = refusal(block_on(registry.begin_create(&disk(2, "vm-1"))));
    assert!(taken.contains("\"vm-1\" exists already"), "{taken}");
    assert!(!has_intent(&registry, 2), "a refused creation leaves nothing");
    block_on(registry.finish_create(vm.object)).expect("its end");
    block_on(registry.finish_create(vm.object)).expect("its end, again");
    assert_eq!(state(&registry, 1), Some(DiskState::Ready));
    assert!(!has_intent(&registry, 1));
    let (object, entry) = block_on(registry.find_disk(&vm.name)).expect("it has its name");
    assert_eq!((object, entry.hint_hosts), (vm.object, vec![HostId(1), HostId(2)]));
    assert!(refusal(block_on(registry.confirm_removed(object, &vm.components))).contains("not deleted"));

    block_on(registry.mark_deleted(object, &vm.components)).expect("a deletion");
    let later = place(99, 3);
    block_on(registry.mark_deleted(object, &[later])).expect("a component that was not listed");
    assert!(refusal(block_on(registry.find_disk(&vm.name))).contains("no disk"));
    assert!(refusal(block_on(registry.finish_create(object))).contains("deleted"));
    block_on(registry.begin_create(&disk(3, "vm-1"))).expect("the name is free");
    for (component, gone) in [(vm.components[0], false), (later, false), (later, false)] {
        assert_eq!(block_on(registry.confirm_removed(object, &[component])), Ok(gone));
    }
    let left = DiskState::Deleted { unconfirmed: vec![vm.components[1]] };
    assert_eq!(state(&registry, 1), Some(left));
    assert_eq!(block_on(registry.confirm_removed(object, &vm.components)), Ok(true));
    assert_eq!(state(&registry, 1), None);
    assert_eq!(block_on(registry.confirm_removed(object, &vm.components)), Ok(true));
    let found = block_on(registry.find_disk(&vm.name)).expect("the new disk keeps the name");
    assert_eq!(found.0, ObjectId(3));
}

/// A disk gets a name that is free, its former one is free at once, and of several who rename it one does. One that is not ready keeps its name.
pub(super) fn a_disk_is_renamed(rig: &dyn Rig, cluster: ClusterId) {
    let registry = initialised(rig, cluster);
    let (vm, other) = (disk(1, "vm-1"), disk(2, "vm-2"));
    let rename =
        |object: ObjectId, from: &str, to: &str| block_on(registry.rename_disk(object, &name(from), &name(to)));
    block_on(registry.begin_create(&vm)).expect("a creation");
    assert!(refusal(rename(vm.object, "vm-1", "web")).contains("being made"));
    block_on(registry.begin_create(&other)).expect("another");
    for object in [vm.object, other.object] {
        block_on(registry.finish_create(object)).expect("its end");
    }
    assert!(refusal(rename(vm.object, "vm-1", "vm-2")).contains("exists already"));
    assert!(refusal(rename(ObjectId(9), "vm-9", "web")).contains("has no disk"));
    rename(vm.object, "vm-1", "web").expect("a free name");
    rename(vm.object, "vm-1", "web").expect("the same again is recognised");
    assert!(refusal(rename(vm.object, "vm-1", "mail")).contains("\"web\" now"));
    let (object, entry) = block_on(registry.find_disk(&name("web"))).expect("it has its name");
    assert_eq!((object, entry.name, entry.hint_hosts), (vm.object, name("web"), vec![HostId(1), HostId(2)]));
    assert!(refusal(block_on(registry.find_disk(&vm.name))).contains("no disk"));
    rename(other.object, "vm-2", "vm-1").expect("the former name is free");
    block_on(registry.begin_delete(vm.object)).expect("a deletion");
    assert!(refusal(rename(vm.object, "web", "vm-2")).contains("being deleted"));
    block_on(registry.mark_deleted(vm.object, &vm.components)).expect("its tombstone");
    assert_eq!(block_on(registry.get::<NameEntry>(&name("web"))), Ok(None));
    assert_eq!(block_on(registry.find_disk(&vm.name)).expect("that of the other one").0, other.object);
}

/// A creation that is undone leaves nothing; its late end is refused, and a ready disk cannot be undone.
pub(super) fn a_creation_undone(rig: &dyn Rig, cluster: ClusterId) {
    let registry = initialised(rig, cluster);
    let vm = disk(1, "vm-1");
    block_on(registry.begin_create(&vm)).expect("a creation");
    block_on(registry.abandon_create(vm.object)).expect("its undoing");
    block_on(registry.abandon_create(vm.object)).expect("its undoing, again");
    assert_eq!(state(&registry, 1), None);
    assert!(!has_intent(&registry, 1));
    assert_eq!(block_on(registry.get::<NameEntry>(&vm.name)), Ok(None));
    assert!(refusal(block_on(registry.finish_create(vm.object))).contains("undone"));
    let next = disk(2, "vm-1");
    block_on(registry.begin_create(&next)).expect("the name is free");
    block_on(registry.finish_create(next.object)).expect("its end");
    assert!(refusal(block_on(registry.abandon_create(next.object))).contains("delete it"));
    assert_eq!(state(&registry, 2), Some(DiskState::Ready));
}

fn host(text: &str) -> HostEntry {
    HostEntry {
        name: name(text),
        fault_domain: name("rack-1"),
        peer_address: "10.0.0.1:7000".parse().expect("an address"),
        api_address: None,
        nbd_addresses: vec!["nbd://10.0.0.1:10809".into()],
        vhost_user_dir: None,
        shard_of: None,
        build: None,
    }
}

/// A name has one host; a host that changes its name frees the old one.
pub(super) fn hosts_have_names_of_their_own(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let register = |id: u128, text: &str| block_on(registry.register_host(HostId(id), &host(text)));
    register(1, "alpha").expect("a host");
    register(1, "alpha").expect("the same again");
    let taken = refusal(register(2, "alpha"));
    assert!(taken.contains("\"alpha\" is taken"), "{taken}");
    register(2, "beta").expect("another");
    register(1, "gamma").expect("a new name");
    register(2, "alpha").expect("the freed name");
    let hosts = block_on(registry.list::<HostEntry>()).expect("a listing");
    let names: Vec<_> = hosts.entries.iter().map(|(id, h)| (id.0, h.entry.name.as_str().to_owned())).collect();
    assert_eq!(names, [(1, "gamma".into()), (2, "alpha".into())]);
    let by_name = block_on(registry.list::<HostNameEntry>()).expect("a listing");
    assert_eq!(by_name.entries.len(), 2);
}

/// What belongs to a host goes with it, in one step that a start of the host foils; nobody enters it again unless it is readmitted.
pub(super) fn a_host_that_is_gone_stays_gone(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let register = |text: &str| block_on(registry.register_host(HostId(1), &host(text)));
    let seen = || block_on(registry.get::<HostEntry>(&HostId(1))).expect("a look").expect("a host").revision;
    let dismiss = |seen| block_on(registry.dismiss_hosts(&[(HostId(1), seen)], Gone::Forgotten, 7));
    register("alpha").expect("a host");
    let group = DiskGroupEntry { host: HostId(1), devices: Vec::new(), capacity_bytes: 1 };
    block_on(registry.enter_disk_group(DiskGroupId(5), &group)).expect("a disk group");
    block_on(registry.create(&HostId(1), &HostIntent::default())).expect("an intent");
    let before = seen();
    register("alpha").expect("it starts anew");
    let foiled = dismiss(before).expect_err("it has started");
    assert!(foiled.is_conflict(), "{foiled}");
    assert!(block_on(registry.get::<DiskGroupEntry>(&DiskGroupId(5))).expect("a look").is_some());
    dismiss(seen()).expect("it is dead");
    assert_eq!(block_on(registry.get::<HostEntry>(&HostId(1))), Ok(None));
    assert_eq!(block_on(registry.get::<HostNameEntry>(&name("alpha"))), Ok(None));
    assert_eq!(block_on(registry.get::<HostIntent>(&HostId(1))), Ok(None));
    assert_eq!(block_on(registry.get::<DiskGroupEntry>(&DiskGroupId(5))), Ok(None));
    let again = refusal(register("alpha"));
    assert!(again.contains("was forgotten") && again.contains("cairn host readmit"), "{again}");
    assert!(refusal(block_on(registry.enter_disk_group(DiskGroupId(5), &group))).contains("was forgotten"));
    block_on(registry.register_host(HostId(2), &host("alpha"))).expect("the name is free");
    block_on(registry.readmit_hosts(&[HostId(1)])).expect("it is taken in");
    block_on(registry.readmit_hosts(&[HostId(1)])).expect("once more");
    register("beta").expect("a host of the cluster");
}

fn record(object: u128, text: &str, deleted: bool) -> ObjectConfig {
    ObjectConfig {
        object: ObjectId(object),
        name: text.into(),
        size_bytes: 4096,
        policy: Policy::default(),
        policy_name: "default".into(),
        addresses: Layout {
            chunk_bytes: 1 << 30,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 1 },
        }
        .into(),
        members: vec![Member {
            component: ComponentId(object),
            host: HostId(1),
            disk_group: DiskGroupId(1),
            votes: 1,
            role: Role::Data { set: 0, copy: 0 },
            state: ComponentState::Active,
        }],
        decided: OpId::ZERO,
        deleted,
        past: None,
        ancestry: None,
    }
}

/// Records enter disks into an empty directory; two of one name are both kept, a tombstone is one again.
pub(super) fn a_directory_rebuilt_from_records(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let adopt = |record: &ObjectConfig| block_on(registry.adopt(record)).expect("a record");
    assert_eq!(adopt(&record(1, "vm", false)), Adopted::Entered(name("vm")));
    assert_eq!(adopt(&record(1, "vm", false)), Adopted::Known);
    let second = name("vm-00000000");
    assert_eq!(adopt(&record(2, "vm", false)), Adopted::Entered(second.clone()));
    assert_eq!(block_on(registry.find_disk(&second)).expect("both").0, ObjectId(2));
    adopt(&record(3, "gone", true));
    assert!(refusal(block_on(registry.find_disk(&name("gone")))).contains("no disk"));
    assert!(matches!(state(&registry, 3), Some(DiskState::Deleted { .. })));
    // A name that this release would refuse, from a record that an older one wrote.
    adopt(&record(4, "a/b", false));
    assert_eq!(state(&registry, 4), Some(DiskState::Ready));
}

/// No name reaches the directory unchecked: neither as a key nor within an entry.
pub(super) fn hostile_names_are_refused(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    let long = "x".repeat(100_000);
    for hostile in [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "a/b",
        "/",
        "a\0b",
        "a\nb",
        "diskü",
        "磁盘",
        "a b",
        "-o",
        "a\u{202e}b",
        "$(reboot)",
        "a;b",
        "%2e",
        long.as_str(),
    ] {
        let error = Name::new(hostile).expect_err(hostile).to_string();
        assert!(error.contains("is not a name"), "{error}");
        assert!(error.len() < 300, "an error longer than a screen");
        assert!(Key::parse(&format!("disks/{hostile}")).is_err(), "{hostile}");
        assert!(hostile.parse::<ObjectId>().is_err(), "{hostile}");
    }
    // The longest and the oddest that are allowed work everywhere.
    for odd in ["x".repeat(128), "0".into(), "A.b_c-D..".into()] {
        let odd = name(&odd);
        block_on(registry.create(&odd, &NameEntry { object: ObjectId(7) })).expect("a name");
        let found = block_on(registry.get::<NameEntry>(&odd)).expect("a read");
        assert_eq!(found.expect("it").entry.object, ObjectId(7));
    }
    // Bounds of entries are checked before anything is written.
    let mut settings = ClusterSettings::new(cluster, name("lab"), name("default"));
    settings.lease_ms = 1;
    assert!(refusal(block_on(registry.create(&TheCluster, &settings))).contains("lease is 1 ms"));
    let policy = Policy { ftt: 9, ..Policy::default() };
    assert!(refusal(block_on(registry.create(&name("p"), &policy))).contains("failures to tolerate"));
}

/// The newest ended tasks stay, running ones always.
pub(super) fn tasks_are_kept_and_pruned(rig: &dyn Rig, cluster: ClusterId) {
    let registry = registry(rig, cluster);
    for i in 0..10u64 {
        let ended = i % 2 == 0;
        let task = TaskEntry {
            kind: "create-disk".into(),
            subject: format!("vm-{i}"),
            host: HostId(1),
            started_unix_ms: i,
            progress_done: 1,
            progress_total: 1,
            progress_unit: "components".into(),
            ended_unix_ms: ended.then_some(100 + i),
            outcome: ended.then(|| TaskOutcome::Failed("why".into())),
        };
        block_on(registry.create(&TaskId(i), &task)).expect("a task");
    }
    assert_eq!(block_on(registry.prune_tasks(2)), Ok(3));
    let left = block_on(registry.list::<TaskEntry>()).expect("a listing");
    let left: Vec<u64> = left.entries.iter().map(|(id, _)| id.0).collect();
    assert_eq!(left, [1, 3, 5, 6, 7, 8, 9]);
}
