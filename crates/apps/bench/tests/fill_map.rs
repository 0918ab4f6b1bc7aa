//! `cairn-bench fill-map` on a disk group in files with holes: what it tells, what it leaves, what it refuses.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use cairn_env_linux::{DiskOptions, ExecutorConfig, Host, HostConfig, LinuxDisk, LinuxEnv, run_host};
use cairn_store::{
    DiskGroup, DiskGroupDevices, Expect, FormatOptions, Identity, OpenOptions, StoreError, StoreErrorKind,
};
use cairn_types::{
    BlockRange, Build, Change, ClusterId, ComponentId, DiskGroupId, HostId, Incarnation, Level, ObjectId,
};
use futures::channel::oneshot;
use tempfile::TempDir;

/// Blocks of the component: two shards of the map and a half.
const BLOCKS: u64 = 160_000;

/// A group of one capacity device of 2 GiB with one component.
struct Group {
    _dir: TempDir,
    cache: PathBuf,
    capacity: PathBuf,
}

/// Does `work` on a host, as a daemon would.
fn on_host<T: Send + 'static, F: Future<Output = T> + 'static>(work: impl FnOnce(LinuxEnv) -> F + Send + 'static) -> T {
    let config = HostConfig {
        cluster: ClusterId(1),
        host: HostId(2),
        incarnation: Incarnation(1),
        build: Build::untold(Level::FIRST),
        level: Level::FIRST,
        listen: None,
        fabric: None,
    };
    let host = Host::new(config).unwrap();
    let (result, taken) = oneshot::channel();
    run_host(&host, ExecutorConfig::default(), |env| {
        let work = work(env);
        async move {
            let _ = result.send(work.await);
        }
    })
    .unwrap();
    futures::executor::block_on(taken).unwrap()
}

fn devices(env: &LinuxEnv, cache: &Path, capacity: &Path) -> DiskGroupDevices<LinuxDisk> {
    let open = |path: &Path| LinuxDisk::open(env, path, &DiskOptions::default()).unwrap();
    DiskGroupDevices { cache: open(cache), capacity: vec![open(capacity)] }
}

impl Group {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (cache, capacity) = (dir.path().join("cache"), dir.path().join("capacity"));
        for (path, bytes) in [(&cache, 160 << 20), (&capacity, 2 << 30)] {
            File::create(path).unwrap().set_len(bytes).unwrap();
        }
        let group = Self { _dir: dir, cache, capacity };
        let (cache, capacity) = (group.cache.clone(), group.capacity.clone());
        on_host(|env| async move {
            let identity = Identity { cluster: ClusterId(1), host: HostId(2), disk_group: DiskGroupId(3) };
            let options = FormatOptions { log_bytes: Some(32 << 20), ..FormatOptions::default() };
            let formatted = DiskGroup::format(env.clone(), devices(&env, &cache, &capacity), identity, &options).await;
            assert_eq!(formatted, Ok(()));
        });
        group.open(|group| async move {
            let (component, object) = (ComponentId(7), ObjectId(7));
            let create = Change::CreateComponent { component, object, size_blocks: BLOCKS, reserved_blocks: 0 };
            assert_eq!(group.append(create).await, Ok(()));
        });
        group
    }

    /// Opens the group, does `work` with it, and closes it.
    fn open<T, F>(&self, work: impl FnOnce(DiskGroup<LinuxEnv>) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (cache, capacity) = (self.cache.clone(), self.capacity.clone());
        on_host(|env| async move {
            let expect = Expect { cluster: ClusterId(1), host: HostId(2), disk_group: Some(DiskGroupId(3)) };
            let devices = devices(&env, &cache, &capacity);
            let group = DiskGroup::open(env, devices, expect, &OpenOptions::default()).await;
            let group = group.unwrap_or_else(|error| panic!("{error}"));
            let done = work(group.clone()).await;
            group.close().await;
            done
        })
    }

    /// Exit code, stdout, stderr.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
        let output = command.arg("fill-map").args([&self.cache, &self.capacity]).args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// Goal: a group is told, filled and found sound, and not filled twice. Method: the verbs of the command on one group, and the group opened.
#[test]
fn a_group_is_filled_and_opens() {
    let group = Group::new();
    let (code, out, err) = group.run(&["--dry-run"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("would map 160000 blocks (625 MiB) of 1 components: "), "{out}");
    let (code, out, err) = group.run(&[]);
    assert!(code == 1 && out.is_empty() && err.contains("--destructive"), "{err}");
    let mapped = group.open(|group| async move { group.component(ComponentId(7)).unwrap().allocated_blocks });
    assert_eq!(mapped, 0, "nothing is mapped yet");

    let (code, out, err) = group.run(&["--destructive", "--bytes", "500MiB", "--style", "json"]);
    assert_eq!(code, 0, "{err}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["blocks"], &told["mapped"]), (&128_000.into(), &true.into()), "{out}");
    let each = told["page_bytes_a_block"].as_f64().unwrap();
    assert!((10.0..14.0).contains(&each), "{out}");
    group.open(|group| async move {
        assert_eq!(group.check_bookkeeping().await, Ok(()));
        assert_eq!(group.component(ComponentId(7)).unwrap().allocated_blocks, 128_000);
        let read = group.read(ComponentId(7), BlockRange::new(5, 1)).await;
        let bad = |error: &StoreError| matches!(&error.kind, StoreErrorKind::BadBlock { blocks, .. } if *blocks == [5]);
        assert!(read.as_ref().is_err_and(bad), "what was never written is read");
    });
    let (code, _, err) = group.run(&["--destructive"]);
    assert!(code == 1 && err.contains("128000 are mapped"), "{err}");
}

/// Goal: wrong words and wrong devices are refused in words. Method: one of each.
#[test]
fn what_cannot_be_is_refused() {
    let group = Group::new();
    for (words, expected) in [
        (&["--bytes", "1000"][..], (2, "multiple of 4096")),
        (&["--bytes", "1MiB", "--blocks", "3"], (2, "cannot be used with")),
        (&["--component", "xyz"], (2, "32 hexadecimal digits")),
        (&["--component", "00000000000000000000000000000009"], (1, "is not in this disk group")),
    ] {
        let (code, out, err) = group.run(&[&["--destructive"], words].concat());
        assert_eq!((code, out.as_str()), (expected.0, ""), "{words:?}: {err}");
        assert!(err.contains(expected.1), "{words:?}: {err}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    let swapped = command.arg("fill-map").args([&group.capacity, &group.cache]).arg("--dry-run").output().unwrap();
    assert_eq!(swapped.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&swapped.stderr).contains("swap the devices"), "{swapped:?}");
    // In use, as by a daemon.
    let path = group.cache.clone();
    let held = on_host(move |env| async move {
        let _held = LinuxDisk::open(&env, &path, &DiskOptions::default()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
        command.arg("fill-map").args([&path, &path]).arg("--dry-run").output().unwrap()
    });
    assert_eq!(held.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&held.stderr).contains("in use"), "{held:?}");
}
