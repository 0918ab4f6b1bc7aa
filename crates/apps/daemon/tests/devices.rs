//! Devices and files that a daemon is given: what is not its own is not touched, what is its own is found again.

mod daemon;

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::daemon::{Daemon, Place};

const CACHE_BYTES: u64 = 64 << 20;
const CAPACITY_BYTES: u64 = 96 << 20;

/// A blank file as a device.
fn blank(path: &Path, bytes: u64) -> PathBuf {
    let file = fs::File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    path.to_owned()
}

fn patch(path: &Path, at: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let output = Command::new(program).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What others put on devices: by their own tools where each machine has them, otherwise by the bytes that make it known.
fn occupy(path: &Path, what: &str) {
    match what {
        "ext4" => run("mkfs.ext4", &["-q", "-F"], path),
        "swap" => run("mkswap", &["-q"], path),
        "crypto_LUKS" => patch(path, 0, b"LUKS\xba\xbe\0\x01"),
        "dos" => {
            let mut block = vec![0_u8; 512];
            // One partition of type 0x83, from sector 2048 on.
            block[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0]);
            block[510..].copy_from_slice(&[0x55, 0xaa]);
            patch(path, 0, &block);
        }
        "data" => patch(path, 700_000, b"somebody's"),
        // Behind the first MiB: a RAID member of old metadata has its signature at the end.
        "linux_raid_member" => {
            let mut block = vec![0_u8; 4096];
            let words: [u32; 6] = [0xa92b_4efc, 0, 90, 0, 0, 7];
            words.iter().enumerate().for_each(|(n, w)| block[n * 4..][..4].copy_from_slice(&w.to_le_bytes()));
            patch(path, (CAPACITY_BYTES / 65536 - 1) * 65536, &block);
        }
        other => panic!("{other}"),
    }
}

const OCCUPANTS: [&str; 6] = ["ext4", "swap", "crypto_LUKS", "dos", "data", "linux_raid_member"];

fn bytes_of(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

fn groups(place: &Place) -> Vec<Value> {
    place.get("/api/v1/disk-groups").as_array().unwrap().clone()
}

/// Goal: nothing of others is formatted unless that is asked for, and it is named. Method: devices that others have used, given
/// over the API, in both places.
#[test]
fn a_device_that_holds_something_is_refused_by_name() {
    let place = Place::new("");
    let _daemon = place.start();
    for what in OCCUPANTS {
        let cache = blank(&place.path("cache"), CACHE_BYTES);
        let capacity = blank(&place.path("capacity"), CAPACITY_BYTES);
        occupy(&capacity, what);
        let before = bytes_of(&capacity);
        let (code, answer) = place.post("/api/v1/disk-groups", &json!({ "cache": cache, "capacity": [capacity] }));
        assert!(code >= 400, "{what}: {answer}");
        let words = answer.to_string();
        assert!(words.contains("capacity") && words.contains(what), "{what}: {words}");
        assert!(words.contains("overwrite"), "{what}: {words}");
        assert!(bytes_of(&capacity) == before, "{what} was written to");
        assert!(bytes_of(&cache).iter().all(|byte| *byte == 0), "{what}: nothing is begun that is refused");
    }
    assert_eq!(groups(&place).len(), 0);
    // Asked for, it is done.
    let (cache, capacity) = (place.path("cache"), place.path("capacity"));
    let request = json!({ "cache": cache, "capacity": [capacity], "overwrite": true });
    assert_eq!(place.post("/api/v1/disk-groups", &request).0, 200);
}

/// Goal: a call removes no file that it has not made. Method: a creation with files, of paths that there are.
#[test]
fn files_that_are_there_are_not_removed() {
    let place = Place::new("");
    let _daemon = place.start();
    let (mine, other) = (place.path("letters"), place.path("not-there"));
    fs::write(&mine, "dear").unwrap();
    let files = json!({ "cache_bytes": CACHE_BYTES, "capacity_bytes": CAPACITY_BYTES });
    for (cache, capacity) in [(&mine, &other), (&other, &mine)] {
        let request = json!({ "cache": cache, "capacity": [capacity], "files": files });
        let (code, answer) = place.post("/api/v1/disk-groups", &request);
        assert!(code >= 400 && answer.to_string().contains("letters"), "{answer}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "dear");
        assert!(!other.exists(), "what the call made goes with it");
    }
}

fn configured(sizes: bool, groups: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (cache, capacity) in groups {
        let capacity: Vec<String> = capacity.iter().map(|path| format!("\"DIR/{path}\"")).collect();
        text += &format!("[[disk_group]]\ncache = \"DIR/{cache}\"\ncapacity = [{}]\n", capacity.join(", "));
        if sizes {
            text += &format!("cache_size = \"{CACHE_BYTES}\"\ncapacity_size = \"{CAPACITY_BYTES}\"\n");
        }
    }
    text
}

/// Goal: a host that has lost its list of disk groups takes them back, and destroys nothing. Method: the list goes, between two
/// starts of a configuration that makes files.
#[test]
fn a_host_without_its_list_finds_its_disk_groups() {
    let place = Place::new(&configured(true, &[("cache", &["a", "b"])]));
    let daemon = place.start();
    let before = groups(&place);
    assert_eq!((before.len(), &before[0]["state"]), (1, &json!("mounted")));
    daemon.stop();
    fs::remove_file(place.path("data/disk-groups.json")).unwrap();
    let _daemon = place.start();
    let after = groups(&place);
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!((&after[0]["id"], &after[0]["state"]), (&before[0]["id"], &json!("mounted")), "{after:?}");
}

/// Goal: the same refusals at a start, and one bad disk group keeps nobody down. Method: two configured groups, one on a device
/// with a file system; then the device is blank.
#[test]
fn a_configured_device_that_holds_something_keeps_no_host_down() {
    let place = Place::new(&configured(false, &[("cache", &["a"]), ("cache-2", &["b"])]));
    for (name, bytes) in
        [("cache", CACHE_BYTES), ("a", CAPACITY_BYTES), ("cache-2", CACHE_BYTES), ("b", CAPACITY_BYTES)]
    {
        blank(&place.path(name), bytes);
    }
    occupy(&place.path("a"), "ext4");
    let before = bytes_of(&place.path("a"));
    let _daemon = place.start();
    let all = groups(&place);
    let state = |state: &str| all.iter().filter(|group| group["state"] == state).count();
    assert_eq!((all.len(), state("mounted"), state("failed")), (2, 1, 1), "{all:?}");
    let reason = all.iter().find_map(|group| group["reason"].as_str()).unwrap();
    assert!(reason.contains("ext4"), "{reason}");
    assert!(bytes_of(&place.path("a")) == before, "it was written to");
    // As soon as there is nothing in the way it is made.
    blank(&place.path("a"), CAPACITY_BYTES);
    place.wait("the disk group is made", |place| groups(place).iter().all(|group| group["state"] == "mounted"));
}

/// A host with a disk group of blank files, made over the API.
fn with_group(capacity: &[&str]) -> (Place, Daemon, String) {
    let place = Place::new("");
    let daemon = place.start();
    blank(&place.path("cache"), CACHE_BYTES);
    capacity.iter().for_each(|name| drop(blank(&place.path(name), CAPACITY_BYTES)));
    let id = create(&place, capacity)["id"].as_str().unwrap().to_owned();
    (place, daemon, id)
}

fn create(place: &Place, capacity: &[&str]) -> Value {
    let paths: Vec<PathBuf> = capacity.iter().map(|name| place.path(name)).collect();
    let (code, made) = place.post("/api/v1/disk-groups", &json!({ "cache": place.path("cache"), "capacity": paths }));
    assert_eq!(code, 200, "{made}");
    made
}

fn only_group(place: &Place) -> Value {
    let mut all = groups(place);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn is_mounted(place: &Place) -> bool {
    only_group(place)["state"] == "mounted"
}

/// What each device is: its path without folders, and whether it works.
fn devices(place: &Place) -> Vec<(String, bool)> {
    let group = only_group(place);
    assert_eq!(group["state"], "mounted", "{group}");
    let all = std::iter::once(&group["cache"]).chain(group["devices"].as_array().unwrap());
    let name = |device: &Value| device["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    all.map(|device| (name(device), device["state"] == "ok")).collect()
}

fn exchange(place: &Place, a: &str, b: &str) {
    fs::rename(place.path(a), place.path("aside")).unwrap();
    fs::rename(place.path(b), place.path(a)).unwrap();
    fs::rename(place.path("aside"), place.path(b)).unwrap();
}

/// Goal: devices are free after their disk group is removed, and a configuration that names it keeps nobody down. Method:
/// removed, made again, removed, and a start with it in the configuration.
#[test]
fn devices_of_a_removed_group_are_free() {
    let (place, daemon, id) = with_group(&["a"]);
    assert_eq!(place.delete(&format!("/api/v1/disk-groups/{id}")).0, 200);
    for name in ["cache", "a"] {
        assert!(bytes_of(&place.path(name))[..1 << 20].iter().all(|byte| *byte == 0), "{name} is not blank");
    }
    let again = create(&place, &["a"])["id"].as_str().unwrap().to_owned();
    assert_eq!(place.delete(&format!("/api/v1/disk-groups/{again}")).0, 200);
    daemon.stop();
    // Another's by now: the group of the configuration is not made, and the host is up all the same.
    occupy(&place.path("a"), "ext4");
    place.configure(&configured(false, &[("cache", &["a"])]));
    let _daemon = place.start();
    let group = only_group(&place);
    assert!(group["state"] == "failed" && group["reason"].as_str().unwrap().contains("ext4"), "{group}");
    // It can be removed like any other.
    assert_eq!(place.delete(&format!("/api/v1/disk-groups/{}", group["id"].as_str().unwrap())).0, 200);
    assert_eq!(groups(&place).len(), 0);
}

/// Goal: names say nothing, superblocks do. Method: names exchanged between starts, of two capacity devices, and of cache and
/// capacity.
#[test]
fn devices_are_found_by_what_stands_on_them() {
    let (place, mut daemon, _) = with_group(&["a", "b"]);
    let names = |names: [&str; 3]| names.map(|name| (name.to_owned(), true)).to_vec();
    for (one, other, now) in [("a", "b", ["cache", "b", "a"]), ("cache", "a", ["a", "b", "cache"])] {
        daemon.stop();
        exchange(&place, one, other);
        daemon = place.start();
        assert_eq!(devices(&place), names(now), "{}", place.log());
        assert!(place.log().contains("by their superblocks they are"), "it says so");
    }
    // The new names hold from then on.
    daemon.stop();
    let lines = place.log().matches("by their superblocks").count();
    daemon = place.start();
    assert_eq!(
        (devices(&place), place.log().matches("by their superblocks").count()),
        (names(["a", "b", "cache"]), lines)
    );
    daemon.stop();
}

/// Goal: one device takes its own components only, and its space comes back with it. Method: a start without it, then it is there
/// again; a start with a blank one in its place.
#[test]
fn a_group_is_open_without_one_of_its_devices() {
    let (place, daemon, _) = with_group(&["a", "b"]);
    let state = |b: bool| vec![("cache".to_owned(), true), ("a".to_owned(), true), ("b".to_owned(), b)];
    daemon.stop();
    fs::rename(place.path("b"), place.path("aside")).unwrap();
    let daemon = place.start();
    assert_eq!(devices(&place), state(false));
    assert!(place.log().contains("/b is not there"), "{}", place.log());
    fs::rename(place.path("aside"), place.path("b")).unwrap();
    place.wait("it is taken back", |place| is_mounted(place) && devices(place) == state(true));
    daemon.stop();
    blank(&place.path("b"), CAPACITY_BYTES);
    let daemon = place.start();
    assert_eq!(devices(&place), state(false));
    assert!(place.log().contains("/b is blank"), "{}", place.log());
    daemon.stop();
}

/// Goal: a group that does not open is tried again, and tells why meanwhile. Method: its cache device is away, then locked by
/// another, then free.
#[test]
fn a_closed_group_opens_when_its_devices_are_there() {
    let (place, daemon, id) = with_group(&["a"]);
    daemon.stop();
    fs::rename(place.path("cache"), place.path("aside")).unwrap();
    let _daemon = place.start();
    let reason = |place: &Place| only_group(place)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason(&place).contains("cache is not there"), "{}", reason(&place));
    let locked = fs::File::options().write(true).open(place.path("aside")).unwrap();
    locked.lock().unwrap();
    fs::rename(place.path("aside"), place.path("cache")).unwrap();
    place.wait("it tells the lock", |place| reason(place).contains("in use by another process"));
    drop(locked);
    place.wait("it opens", is_mounted);
    assert_eq!(only_group(&place)["id"], id.as_str());
}

/// Goal: what is lost for good can be forgotten. Method: a group whose cache device is gone is removed; its capacity device is
/// free then.
#[test]
fn a_group_that_does_not_open_can_be_removed() {
    let (place, daemon, id) = with_group(&["a"]);
    daemon.stop();
    blank(&place.path("cache"), CACHE_BYTES);
    let daemon = place.start();
    assert!(!is_mounted(&place));
    assert_eq!(place.delete(&format!("/api/v1/disk-groups/{id}")).0, 200);
    assert_eq!(groups(&place).len(), 0);
    create(&place, &["a"]);
    daemon.stop();
    let _daemon = place.start();
    assert!(is_mounted(&place));
}

/// Goal: a group with a disk's only copy is not removed because it is closed. Method: the same with a disk on it.
#[test]
fn the_only_copy_of_a_disk_is_not_given_up() {
    let (place, daemon, id) = with_group(&["a"]);
    let rules = json!({ "name": "one-copy", "rules": { "ftt": 0 } });
    assert_eq!(place.post("/api/v1/policies", &rules).0, 200);
    let disk = json!({ "name": "vm", "size_bytes": 8 << 20, "policy": "one-copy" });
    place.wait("a disk is made", |place| place.post("/api/v1/disks", &disk).0 == 200);
    daemon.stop();
    fs::rename(place.path("cache"), place.path("aside")).unwrap();
    let _daemon = place.start();
    let (code, answer) = place.delete(&format!("/api/v1/disk-groups/{id}"));
    assert!(code >= 400 && answer.to_string().contains("vm"), "{answer}");
    fs::rename(place.path("aside"), place.path("cache")).unwrap();
    place.wait("it opens", is_mounted);
}

/// Goal: whole devices are enough to get a host back. Method: its data directory is deleted, the disks are there afterwards.
#[test]
fn a_host_that_lost_its_data_directory_takes_its_devices_back() {
    let place = Place::new(&configured(false, &[("cache", &["a"])]));
    for (name, bytes) in [("cache", CACHE_BYTES), ("a", CAPACITY_BYTES)] {
        blank(&place.path(name), bytes);
    }
    let daemon = place.start();
    let id = only_group(&place)["id"].clone();
    let host = place.get("/api/v1/hosts/h1");
    assert_eq!(place.post("/api/v1/policies", &json!({ "name": "one-copy", "rules": { "ftt": 0 } })).0, 200);
    let disk = json!({ "name": "vm", "size_bytes": 8 << 20, "policy": "one-copy" });
    place.wait("a disk is made", |place| place.post("/api/v1/disks", &disk).0 == 200);
    daemon.stop();
    fs::remove_dir_all(place.path("data")).unwrap();
    let _daemon = place.start();
    let group = only_group(&place);
    assert_eq!((&group["id"], &group["state"]), (&id, &json!("mounted")), "{}", place.log());
    let now = place.get("/api/v1/hosts/h1");
    assert_eq!(now["id"], host["id"]);
    assert!(now["incarnation"].as_u64() > host["incarnation"].as_u64(), "{now}");
    place.wait("its disk is known again", |place| {
        place.get("/api/v1/disks").as_array().unwrap().iter().any(|disk| disk["name"] == "vm")
    });
}

/// A machine of files: what is in `machine/dev`, and the kernel's and udev's words about it.
fn describe(place: &Place, name: &str, link: Option<&str>, bytes: u64) {
    let (folder, root) = (place.path(&format!("machine/sys/devices/{name}")), place.path("machine"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("size"), format!("{}\n", bytes / 512)).unwrap();
    fs::create_dir_all(root.join("sys/class/block")).unwrap();
    std::os::unix::fs::symlink(format!("../../devices/{name}"), root.join("sys/class/block").join(name)).unwrap();
    fs::create_dir_all(root.join("dev/disk/by-id")).unwrap();
    if let Some(link) = link {
        std::os::unix::fs::symlink(format!("../../{name}"), root.join("dev/disk/by-id").join(link)).unwrap();
    }
}

/// A machine of files with three blank devices and a link for each.
fn machine() -> Place {
    let place = Place::new("");
    let config = fs::read_to_string(place.path("cairnd.toml")).unwrap();
    let root = format!("machine_root = \"{}\"\ndata_dir", place.path("machine").display());
    fs::write(place.path("cairnd.toml"), config.replace("data_dir", &root)).unwrap();
    for (name, bytes) in [("sda", CACHE_BYTES), ("sdb", CAPACITY_BYTES), ("sdc", CAPACITY_BYTES)] {
        describe(&place, name, Some(&format!("wwn-{name}")), bytes);
        blank(&place.path(&format!("machine/dev/{name}")), bytes);
    }
    place
}

/// One device is not there any more.
fn take_away(place: &Place, name: &str, link: &str) {
    fs::remove_file(place.path(&format!("machine/sys/class/block/{name}"))).unwrap();
    fs::remove_dir_all(place.path(&format!("machine/sys/devices/{name}"))).unwrap();
    fs::remove_file(place.path(&format!("machine/dev/disk/by-id/{link}"))).unwrap();
}

fn listed(place: &Place, name: &str) -> Value {
    let path = place.path(&format!("machine/dev/{name}"));
    let all = place.get("/api/v1/hosts/h1/devices");
    let found = all.as_array().unwrap().iter().find(|device| device["path"] == *path.to_str().unwrap());
    found.unwrap_or_else(|| panic!("{name} is not listed: {all}")).clone()
}

/// Goal: a group knows its devices whatever they are called. Method: a machine of files with links by id; its group is made by names that
/// change, then names are exchanged, then a device comes back under a name of which nobody knew.
#[test]
fn devices_are_remembered_by_names_that_stay() {
    let place = machine();
    let daemon = place.start();
    assert_eq!((&listed(&place, "sdb")["state"], &listed(&place, "sdc")["state"]), (&json!("free"), &json!("free")));
    let dev = |name: &str| place.path(&format!("machine/dev/{name}"));
    let request = json!({ "cache": dev("sda"), "capacity": [dev("sdb")] });
    let (code, made) = place.post("/api/v1/disk-groups", &request);
    assert_eq!(code, 200, "{made}");
    let names = |names: [&str; 2]| names.map(|name| (name.to_owned(), true)).to_vec();
    assert_eq!(devices(&place), names(["wwn-sda", "wwn-sdb"]));
    let claimed = listed(&place, "sdb");
    assert_eq!(
        (&claimed["state"], &claimed["role"], &claimed["disk_group"]),
        (&json!("claimed"), &json!("capacity"), &made["id"])
    );
    assert!(claimed["stable_path"].as_str().unwrap().ends_with("by-id/wwn-sdb"), "{claimed}");
    occupy(&dev("sdc"), "ext4");
    let used = listed(&place, "sdc");
    assert!(used["state"] == "unusable" && used["reason"].as_str().unwrap().contains("ext4"), "{used}");
    // The configuration goes on with the old names, and they lead to other devices.
    daemon.stop();
    exchange(&place, "machine/dev/sdb", "machine/dev/sdc");
    for (name, link) in [("sdb", "wwn-sdc"), ("sdc", "wwn-sdb")] {
        let link = place.path(&format!("machine/dev/disk/by-id/{link}"));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(format!("../../{name}"), link).unwrap();
    }
    let text = fs::read_to_string(place.path("cairnd.toml")).unwrap();
    let group =
        format!("[[disk_group]]\ncache = \"{}\"\ncapacity = [\"{}\"]\n", dev("sda").display(), dev("sdb").display());
    fs::write(place.path("cairnd.toml"), text + &group).unwrap();
    let daemon = place.start();
    assert_eq!(devices(&place), names(["wwn-sda", "wwn-sdb"]), "{}", place.log());
    // Another name, another link: only what stands on it tells.
    daemon.stop();
    take_away(&place, "sdc", "wwn-sdb");
    fs::rename(dev("sdc"), dev("sdx")).unwrap();
    describe(&place, "sdx", Some("wwn-new"), CAPACITY_BYTES);
    let _daemon = place.start();
    assert_eq!(devices(&place), names(["wwn-sda", "wwn-new"]), "{}", place.log());
}

fn change(place: &Place, id: &str, path: &str, request: &Value) -> Value {
    let (code, answer) = place.post(&format!("/api/v1/disk-groups/{id}/{path}"), request);
    assert_eq!(code, 200, "{answer}");
    answer
}

/// Goal: devices come and go while the group is in use, and the next start finds what there is. Method: one is added, the first one is
/// replaced; previews and refusals change nothing; starts between.
#[test]
fn devices_are_added_and_replaced_in_use() {
    let (place, daemon, id) = with_group(&["a"]);
    for name in ["b", "c", "used"] {
        blank(&place.path(name), CAPACITY_BYTES);
    }
    occupy(&place.path("used"), "ext4");
    let names = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), true)).collect::<Vec<_>>();
    let add = |name: &str, dry_run: bool| json!({ "device": place.path(name), "dry_run": dry_run });
    let told = change(&place, &id, "devices", &add("b", true));
    assert!(told["usable_bytes"].as_u64().unwrap() > CAPACITY_BYTES / 2 && told["components_lost"] == 0, "{told}");
    let (code, answer) = place.post(&format!("/api/v1/disk-groups/{id}/devices"), &add("used", false));
    assert!(code >= 400 && answer.to_string().contains("ext4"), "{answer}");
    assert_eq!(devices(&place), names(&["cache", "a"]));
    change(&place, &id, "devices", &add("b", false));
    assert_eq!(devices(&place), names(&["cache", "a", "b"]));
    let (code, answer) = place.post(&format!("/api/v1/disk-groups/{id}/devices"), &add("b", false));
    assert!(code >= 400 && answer.to_string().contains("already"), "{answer}");
    daemon.stop();
    let daemon = place.start();
    assert_eq!(devices(&place), names(&["cache", "a", "b"]), "{}", place.log());
    let replace =
        |old: &str, new: &str, dry_run: bool| json!({ "device": old, "with": place.path(new), "dry_run": dry_run });
    let old = place.path("a").display().to_string();
    let told = change(&place, &id, "devices/replace", &replace(&old, "c", true));
    assert!(told["made_anew"] == false && told["instead_of"] == old.as_str(), "{told}");
    assert_eq!(devices(&place), names(&["cache", "a", "b"]));
    change(&place, &id, "devices/replace", &replace(&old, "c", false));
    assert_eq!(devices(&place), names(&["cache", "b", "c"]));
    assert!(bytes_of(&place.path("a"))[..1 << 20].iter().all(|byte| *byte == 0), "what was given up is blank");
    daemon.stop();
    let _daemon = place.start();
    assert_eq!(devices(&place), names(&["cache", "b", "c"]), "{}", place.log());
    let claims = place.get("/api/v1/hosts/h1/devices");
    let of_group = claims.as_array().unwrap().iter().filter(|device| device["disk_group"] == id.as_str()).count();
    assert_eq!(of_group, 3, "{claims}");
}

/// Goal: a dead cache device takes its group along, and one command makes a new one of what is left; a disk's only copy is not given up by
/// the way. Method: the cache device is gone, with a disk of one copy on it; with force.
#[test]
fn a_dead_cache_device_is_replaced() {
    let (place, daemon, id) = with_group(&["a", "b"]);
    assert_eq!(place.post("/api/v1/policies", &json!({ "name": "one-copy", "rules": { "ftt": 0 } })).0, 200);
    let disk = json!({ "name": "vm", "size_bytes": 8 << 20, "policy": "one-copy" });
    place.wait("a disk is made", |place| place.post("/api/v1/disks", &disk).0 == 200);
    daemon.stop();
    fs::remove_file(place.path("cache")).unwrap();
    blank(&place.path("new"), CACHE_BYTES);
    let _daemon = place.start();
    let request = |force: bool| json!({ "device": place.path("cache"), "with": place.path("new"), "force": force });
    let (code, answer) = place.post(&format!("/api/v1/disk-groups/{id}/devices/replace"), &request(false));
    assert!(code >= 400 && answer.to_string().contains("vm"), "{answer}");
    assert_eq!(only_group(&place)["state"], "failed");
    let made = change(&place, &id, "devices/replace", &request(true));
    assert!(made["made_anew"] == true && made["disk_group"] != id.as_str(), "{made}");
    let names = [("new", true), ("a", true), ("b", true)].map(|(name, ok)| (name.to_owned(), ok));
    assert_eq!(devices(&place), names);
}

/// A program in the place of `ledctl` (ledmon), which lights nothing without an enclosure, and no test machine has one: it notes what it was
/// given, then does `then`. Option, pattern and exit codes are those of its manual and of release 0.95.
fn ledctl(place: &Place, then: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(place.path("bin")).unwrap();
    let (program, draft) = (place.path("bin/ledctl"), place.path("bin/draft"));
    let noted = place.path("ledctl.noted");
    fs::write(&draft, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{}'\n{then}\n", noted.display())).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(draft, program).unwrap();
}

/// What it was given since the last time.
fn noted(place: &Place) -> Vec<String> {
    let noted = fs::read_to_string(place.path("ledctl.noted")).unwrap_or_default();
    let _ = fs::remove_file(place.path("ledctl.noted"));
    noted.lines().map(str::to_owned).collect()
}

fn locate(place: &Place, device: &str, off: bool) -> (u16, Value) {
    place.post("/api/v1/hosts/h1/devices/locate", &json!({ "device": device, "off": off }))
}

/// Goal: the LED of the device that was named is lit and put out, by a real program and no shell; what stands in the way is told; nothing but
/// a listed device reaches the program. Method: a machine of files; a program that notes its arguments, then one that refuses.
#[test]
fn locate_leds_are_lit_by_ledctl() {
    let place = machine();
    let _daemon = place.start();
    let dev = |name: &str| place.path(&format!("machine/dev/{name}")).display().to_string();
    // Where this machine has the real one its own word is told, not this one.
    if !["/usr/sbin/ledctl", "/usr/bin/ledctl", "/sbin/ledctl"].iter().any(|program| Path::new(program).exists()) {
        let (code, answer) = locate(&place, "wwn-sdb", false);
        assert!(code == 422 && answer.to_string().contains("apt install ledmon"), "{code} {answer}");
    }
    ledctl(&place, "exit 0");
    for name in [dev("sdb"), "wwn-sdb".into(), place.path("machine/dev/disk/by-id/wwn-sdb").display().to_string()] {
        let (code, answer) = locate(&place, &name, false);
        assert!(code == 200 && answer["lit"] == true && answer["path"] == dev("sdb").as_str(), "{name}: {answer}");
        assert_eq!(noted(&place), ["--listed-only".to_owned(), format!("locate={}", dev("sdb"))], "{name}");
    }
    let (code, answer) = locate(&place, "wwn-sdb", true);
    assert!(code == 200 && answer["lit"] == false, "{answer}");
    assert_eq!(noted(&place), ["--listed-only".to_owned(), format!("locate_off={}", dev("sdb"))]);
    let two = format!("{},{}", dev("sdb"), dev("sdc"));
    for name in ["/etc/passwd", "sdb", "--help", "", "wwn-sdb;reboot", "/dev/null", two.as_str()] {
        let (code, answer) = locate(&place, name, false);
        assert!(code == 404 && answer.to_string().contains("cairn host devices h1"), "{name}: {answer}");
    }
    assert_eq!(noted(&place), [""; 0], "nothing that is not listed is handed on");
    for (end, words) in [("exit 33", "no enclosure"), ("exit 36", "As root"), ("echo so it is >&2; exit 7", "so it is")]
    {
        ledctl(&place, end);
        let (code, answer) = locate(&place, "wwn-sdb", false);
        assert!(code == 422 && answer.to_string().contains(words), "{end}: {code} {answer}");
    }
}

/// Goal: the host serves while the program runs. Method: it runs until another call was answered.
#[test]
fn a_slow_ledctl_holds_nothing_up() {
    let place = machine();
    let _daemon = place.start();
    let go = place.path("go");
    ledctl(&place, &format!("while [ ! -e '{}' ]; do sleep 0.05; done", go.display()));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| locate(&place, "wwn-sdb", false));
        place.wait("the program runs", |place| place.path("ledctl.noted").exists());
        assert_eq!(place.get("/api/v1/hosts/h1/devices").as_array().map(Vec::len), Some(3));
        assert!(!asked.is_finished(), "it waits for the program");
        fs::write(&go, "").unwrap();
        let (code, answer) = asked.join().unwrap();
        assert!(code == 200 && answer["lit"] == true, "{code} {answer}");
    });
}

/// Goal: of a device of a disk group that is a file, or gone, it is told why it has no LED. Method: a group of files; one goes.
#[test]
fn what_is_no_block_device_has_no_led() {
    let (place, _daemon, _) = with_group(&["a"]);
    ledctl(&place, "exit 0");
    let path = place.path("a").display().to_string();
    let (code, answer) = locate(&place, &path, false);
    assert!(code == 422 && answer.to_string().contains("a file has no LED"), "{code} {answer}");
    fs::rename(place.path("a"), place.path("aside")).unwrap();
    let (code, answer) = locate(&place, &path, false);
    assert!(code == 422 && answer.to_string().contains("is gone"), "{code} {answer}");
    assert_eq!(noted(&place), [""; 0]);
}
