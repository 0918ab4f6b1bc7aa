//! Disk groups as earlier builds wrote them: this build opens each, sees in it what its own build saw, goes on with it and opens it again.
//!
//! Promises    no format is left behind: log, map, runs, metadata and superblocks of every build that is kept here
//! Assumes     what fills a block (`script::data`) and the form of `Seen` stay as they are
//!
//! A folder of `tests/formats` is a build, by its day or its release. It has four disk groups: one that was closed, three that lost power within a
//! write. Of each: its devices, byte for byte (`NAME.DEVICE.gz`), and what that build saw of it (`NAME.json.gz`). A folder is never
//! changed. A new one, where a form changes: `CAIRN_FORMATS_OUT=FOLDER cargo test --release -p cairn-sim --test store_crash formats`. Groups whose
//! blocks are packed are written to `FOLDER-packed`, those that store equal ones once to `FOLDER-shared`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use cairn_env::Disk as _;
use cairn_sim::{CrashPhase, Host, World};
use cairn_types::{BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, HostId, ObjectId, OpId};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};

use crate::{
    SCRIPT_STEPS,
    recording::{Recording, record_as},
    recover,
    script::{Stores, data},
    seen::{Seen, SeenComponent, difference, look},
    shape::{Group, devices, open},
    sound,
};

/// Any; the workload of the sweep, another run of it.
const SEED: u64 = 11;
/// Groups that lost power.
const TORN: usize = 3;
const PAGE: usize = 4096;

/// The bytes of each device.
type Devices = BTreeMap<String, Vec<u8>>;

/// What a build saw of a disk group.
#[derive(Serialize, Deserialize)]
struct Told {
    /// Whose disk group it is.
    host: HostId,
    seen: Seen,
}

/// Groups as this build writes them.
fn written(recording: &Recording) -> (HostId, Vec<(String, Devices)>) {
    let mut groups = vec![];
    let closed = recording.at_rest.iter().map(|(name, medium)| {
        let mut bytes = vec![0; medium.len_bytes() as usize];
        medium.read(0, &mut bytes);
        (name.clone(), bytes)
    });
    groups.push(("closed".to_owned(), closed.collect()));
    let within: Vec<_> = recording.images.iter().filter(|image| image.phase == CrashPhase::During).collect();
    for n in 1..=TORN {
        let image = within[within.len() * n / (TORN + 1)];
        let (_world, host, _rng) = recover(image, image.number, recording.host_id);
        let bytes = |name: String| (name.clone(), host.disk(&name).peek(0, host.disk(&name).len_bytes() as usize));
        groups.push((format!("torn-{n}"), host.disk_names().into_iter().map(bytes).collect()));
    }
    (recording.host_id, groups)
}

/// A host with these devices.
fn host_with(id: HostId, group: &Devices) -> (World, Host) {
    let world = World::new(1);
    let host = world.add_host_with_id("a", id);
    for (name, bytes) in group {
        let disk = host.add_disk(name, bytes.len() as u64);
        for (n, page) in bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0)) {
            disk.poke((n * PAGE) as u64, page);
        }
    }
    (world, host)
}

/// What this build sees of a group.
fn seen_of(id: HostId, group: &Devices) -> Seen {
    let (_world, host) = host_with(id, group);
    let (env, parts) = (host.env(), devices(&host));
    let ran = host.run(async move {
        let group = open(env, parts).await.expect("it opens");
        let seen = look(&group).await.expect("it reads");
        group.close().await;
        seen
    });
    ran.expect("no crash was planned")
}

/// What comes later: everything is settled, a block of each component is written over, a record is kept.
fn later(seen: &Seen) -> (Vec<Change>, Seen) {
    let (mut changes, mut then) = (vec![], seen.clone());
    for (n, (id, component)) in then.components.iter_mut().enumerate() {
        let upto = component.window.last().map_or(component.settled, |(op, _)| *op);
        changes.push(ComponentOp::Settle { upto }.on(*id));
        // Beyond all that was undone before it came.
        let op = OpId { seq: upto.seq + 1000, ..upto };
        changes.push(write(*id, op, upto, component, 1_000_000 + n as u64));
    }
    changes.push(Change::Record { object: ObjectId(9), bytes: Bytes::from_static(b"later") });
    then.records.insert(ObjectId(9), b"later".to_vec());
    (changes, then)
}

fn write(id: ComponentId, op: OpId, settled: OpId, component: &mut SeenComponent, tag: u64) -> Change {
    let range = BlockRange::new(7, 1);
    let (crcs, data) = data(tag, id, range);
    (component.settled, component.window) = (settled, vec![(op, range)]);
    for region in range.regions() {
        component.regions.retain(|(known, _)| *known != region);
        component.regions.push((region, op));
        component.regions.sort_unstable();
    }
    component.blocks[range.first as usize] = Some(tag);
    component.allocated[range.first as usize] = true;
    let blocks = BlockOp::Write { first_block: range.first, crcs };
    let op = ComponentOp::Apply { op, settled, client: ClientTag::default(), blocks };
    Change::Component { component: id, op, data }
}

async fn compare(group: &Group, expected: &Seen, at: &str) {
    let seen = look(group).await.unwrap_or_else(|error| panic!("{at}: {error}"));
    assert!(seen == *expected, "{at}: {}", difference(std::slice::from_ref(expected), &seen));
}

/// Opens a group, compares it with what was seen of it, goes on, and opens it again.
fn check(name: &str, told: &Told, group: &Devices) {
    let (_world, host) = host_with(told.host, group);
    let (env, parts, at, seen) = (host.env(), devices(&host), name.to_owned(), told.seen.clone());
    let ran = host.run(async move {
        let group = open(env.clone(), parts.clone()).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        // Before anything is read: what is told behind a start.
        let told: BTreeSet<(ComponentId, u64)> = group
            .bad_blocks()
            .iter()
            .flat_map(|bad| (bad.range.first..bad.range.end()).map(|block| (bad.component, block)))
            .collect();
        assert!(seen.marks().is_subset(&told), "{at}: of the marks {:?} {told:?} are told", seen.marks());
        sound(&group, &env, &at).await;
        compare(&group, &seen, &at).await;
        let (changes, then) = later(&seen);
        for change in changes {
            group.append(change).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        group.drain().await.unwrap_or_else(|error| panic!("{at}: {error}"));
        sound(&group, &env, &at).await;
        compare(&group, &then, &at).await;
        group.close().await;
        drop(group);
        let group = open(env.clone(), parts).await.unwrap_or_else(|error| panic!("{at}, again: {error}"));
        sound(&group, &env, &at).await;
        compare(&group, &then, &at).await;
        for &component in then.components.keys() {
            group.append(Change::DeleteComponent { component }).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        group.drain().await.unwrap_or_else(|error| panic!("{at}: {error}"));
        sound(&group, &env, &at).await;
        group.close().await;
    });
    ran.expect("no crash was planned");
}

fn save(path: &Path, bytes: &[u8]) {
    let mut gz = GzEncoder::new(vec![], Compression::best());
    gz.write_all(bytes).expect("memory");
    fs::write(path, gz.finish().expect("memory")).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn load(path: &Path) -> Vec<u8> {
    let kept = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = vec![];
    GzDecoder::new(&kept[..]).read_to_end(&mut bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Checks all groups of a folder; returns how many there are.
fn check_build(folder: &Path) -> usize {
    let files = sorted(folder);
    let name_of = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let files: BTreeMap<String, &PathBuf> = files.iter().map(|path| (name_of(path), path)).collect();
    let groups: Vec<&str> = files.keys().filter_map(|name| name.strip_suffix(".json.gz")).collect();
    for group in &groups {
        let told: Told = serde_json::from_slice(&load(files[&format!("{group}.json.gz")])).expect("what was seen");
        let device = |name: &str| name.strip_prefix(&format!("{group}."))?.strip_suffix(".gz").map(str::to_owned);
        let devices = files.iter().filter_map(|(name, path)| Some((device(name)?, path)));
        let devices = devices.filter(|(name, _)| name != "json").map(|(name, path)| (name, load(path)));
        check(&format!("{}, {group}", folder.display()), &told, &devices.collect());
    }
    groups.len()
}

#[test]
fn formats_of_this_build_are_read_back() {
    read_back(&record_as(SEED, SCRIPT_STEPS, Stores::AsTheyAre), "");
    read_back(&record_as(SEED, SCRIPT_STEPS, Stores::Packed), "-packed");
    let shared = record_as(SEED, SCRIPT_STEPS, Stores::Once);
    let stats = &shared.stats;
    assert!(stats.shared_items > 10 && stats.counters.dedupe_moved_items > 0, "{stats:?}");
    read_back(&shared, "-shared");
}

fn read_back(recording: &Recording, suffix: &str) {
    let out = std::env::var_os("CAIRN_FORMATS_OUT").map(|mut out| {
        out.push(suffix);
        PathBuf::from(out)
    });
    let (host, groups) = written(recording);
    for (name, devices) in groups {
        let told = Told { host, seen: seen_of(host, &devices) };
        assert!(told.seen.components.len() > 1 && !told.seen.records.is_empty(), "{name} is too tame");
        check(&name, &told, &devices);
        if let Some(out) = &out {
            fs::create_dir_all(out).expect("a folder");
            save(&out.join(format!("{name}.json.gz")), &serde_json::to_vec(&told).expect("JSON"));
            devices.iter().for_each(|(device, bytes)| save(&out.join(format!("{name}.{device}.gz")), bytes));
        }
    }
}

#[test]
fn formats_of_earlier_builds_are_opened_and_gone_on_with() {
    let builds = sorted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats"));
    let counts: Vec<usize> = builds.iter().map(|folder| check_build(folder)).collect();
    println!("{} builds, {} disk groups", builds.len(), counts.iter().sum::<usize>());
    assert!(!builds.is_empty() && counts.iter().all(|count| *count > TORN), "{counts:?}");
}
