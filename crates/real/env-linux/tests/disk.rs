//! Devices: real files on a real file system, through the ring and through the threads.

mod common;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Disk, DiskErrorKind, Durability, Env, PageBuf};
use cairn_env_linux::{
    DiskOptions, Fill, IoChoice, IoMode, LinuxDisk, LinuxEnv, Medium, OpenError, Service, create_disk_file,
};
use common::{directory, on_shard};

const MIB: u64 = 1 << 20;

fn disk_file(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("disk");
    create_disk_file(&path, 16 * MIB, Fill::Written).expect("a disk file");
    path
}

fn open(env: &LinuxEnv, path: &Path) -> LinuxDisk {
    LinuxDisk::open(env, path, &DiskOptions::default()).expect("an open disk")
}

fn block(value: u8) -> Bytes {
    PageBuf::copy_of(&[value; 4096]).freeze()
}

async fn reads_what_was_written(env: LinuxEnv, path: PathBuf) {
    let disk = open(&env, &path);
    assert_eq!(disk.len_bytes(), 16 * MIB);
    assert!(disk.is_direct(), "the repository is on a file system with O_DIRECT");
    // Aligned parts: one vectored write.
    let parts = vec![block(1), block(2), block(3)];
    disk.write(8192, parts, Durability::Durable).await.unwrap();
    // Parts at odd addresses and of odd lengths: one copy.
    let odd = Bytes::from(vec![9u8; 5000]);
    let rest = Bytes::from(vec![8u8; 8192 - 5000]);
    disk.write(MIB, vec![odd.slice(..), rest], Durability::Buffered).await.unwrap();
    disk.flush().await.unwrap();
    let back = disk.read(4096, 5 * 4096).await.unwrap();
    for (index, want) in [0u8, 1, 2, 3, 0].into_iter().enumerate() {
        assert!(back[index * 4096..][..4096].iter().all(|&b| b == want));
    }
    assert_eq!(back.as_ptr() as usize % 4096, 0);
    let back = disk.read(MIB, 8192).await.unwrap();
    assert!(back[..5000].iter().all(|&b| b == 9) && back[5000..].iter().all(|&b| b == 8));
    // More parts than one system call takes.
    let many: Vec<_> = (0..1500).map(|i| block(i as u8)).collect();
    disk.write(2 * MIB, many, Durability::Durable).await.unwrap();
    let back = disk.read(2 * MIB, 1500 * 4096).await.unwrap();
    assert!((0..1500).all(|i| back[i * 4096] == i as u8 && back[i * 4096 + 4095] == i as u8));
}

#[test]
fn the_ring_reads_what_was_written() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Auto, move |env| reads_what_was_written(env, path));
}

#[test]
fn the_threads_read_what_was_written() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Threads, move |env| async move {
        assert_eq!(env.io_mode(), IoMode::Threads);
        reads_what_was_written(env, path).await;
    });
}

/// R1. Goal: a dropped future frees nothing under the kernel. Method: start many writes and reads, poll each once,
/// drop them, fill the same memory with something else, and look at what reached the disk.
#[test]
fn dropped_futures_leave_their_buffers_with_the_kernel() {
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let directory = directory();
        let path = disk_file(&directory);
        on_shard(io, move |env| async move {
            let disk = open(&env, &path);
            const ROUND: u64 = 64 * 4096;
            for round in 0..20u8 {
                let mut futures = Vec::new();
                for i in 0..64u64 {
                    let at = u64::from(round) * ROUND + i * 4096;
                    let data = PageBuf::copy_of(&[round ^ i as u8 | 128; 4096]).freeze();
                    let mut write = Box::pin(disk.write(at, vec![data], Durability::Durable));
                    // Begun by this poll; a fast device may even be done with it.
                    let _ = futures::poll!(&mut write);
                    let mut read = Box::pin(disk.read(at, 65536));
                    let _ = futures::poll!(&mut read);
                    futures.push((write, read));
                }
                drop(futures);
                // Takes pages from the pool; if those of the writes were there already, this would reach the disk.
                let other: Vec<_> = (0..128).map(|_| PageBuf::copy_of(&[0xee; 4096])).collect();
                env.sleep(std::time::Duration::from_millis(5)).await;
                drop(other);
            }
            for _ in 0..1000 {
                env.sleep(std::time::Duration::from_millis(5)).await;
                let back = disk.read(0, 20 * ROUND as u32).await.unwrap();
                let right = |(at, block): (usize, &[u8])| {
                    let want = (at / 64) as u8 ^ (at % 64) as u8 | 128;
                    block.iter().all(|&b| b == want)
                };
                if back.chunks(4096).enumerate().all(right) {
                    return;
                }
            }
            panic!("a write whose future was dropped did not reach the disk as it was given");
        });
    }
}

#[test]
fn a_disk_has_one_user() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Auto, move |env| async move {
        let disk = open(&env, &path);
        let options = DiskOptions::default();
        let second = LinuxDisk::open(&env, &path, &options).err().unwrap();
        assert!(matches!(second, OpenError::InUse { .. }), "{second}");
        assert!(second.to_string().contains("in use by another process"));
        // The blocking handle keeps the lock as well.
        let blocking = disk.blocking();
        drop(disk);
        assert!(LinuxDisk::open(&env, &path, &options).is_err());
        drop(blocking);
        open(&env, &path);
    });
}

/// Ten milliseconds for each request, four at once; `MB/s` that a test does not notice.
fn ten_ms() -> Medium {
    let service = Service {
        access: vec![(0.0, 10_000_000), (1.0, 10_000_000)],
        lanes: 4,
        bytes_per_s: 10_000_000_000,
        following_ns: None,
    };
    let (name, source) = ("ten-ms".into(), "a test".into());
    Medium { name, source, reads: service.clone(), writes: service, one_arm: false, dilation: 1.0 }
}

#[test]
fn a_modelled_file_is_never_faster_than_its_medium() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Auto, move |env| async move {
        let medium = |dilation| Some(Medium { dilation, ..ten_ms() });
        let disk =
            LinuxDisk::open(&env, &path, &DiskOptions { medium: medium(2.0), ..DiskOptions::default() }).unwrap();
        assert_eq!(disk.medium().as_deref(), Some("modelled ten-ms, times x2"));
        let begun = env.now();
        disk.write(0, vec![block(7)], Durability::Durable).await.unwrap();
        assert!(env.now().since(begun) >= Duration::from_millis(20));
        // Nine at four lanes are three rounds.
        let begun = env.now();
        let reads = futures::future::join_all((0..9).map(|_| disk.read(0, 4096))).await;
        assert!(reads.into_iter().all(|read| read.unwrap() == block(7)));
        assert!(env.now().since(begun) >= Duration::from_millis(60));
        let blocking = disk.blocking();
        let begun = env.now();
        let synced = env.run_blocking(move || blocking.write_at(8192, &[1; 100]).and_then(|()| blocking.sync())).await;
        synced.unwrap();
        assert!(env.now().since(begun) >= Duration::from_millis(20), "metadata is on the same drive");
        drop(disk);
        let options = DiskOptions { medium: medium(0.0), ..DiskOptions::default() };
        let refused = LinuxDisk::open(&env, &path, &options).err().unwrap().to_string();
        assert!(refused.contains("ten-ms") && refused.contains("dilation"), "{refused}");
    });
}

#[test]
fn devices_that_do_not_fit_are_refused_with_a_reason() {
    let directory = directory();
    let path = disk_file(&directory);
    let folder = directory.path().to_owned();
    on_shard(IoChoice::Auto, move |env| async move {
        let options = DiskOptions { expected_bytes: Some(32 * MIB), ..DiskOptions::default() };
        let refused =
            |path: &PathBuf, options: &DiskOptions| LinuxDisk::open(&env, path, options).err().unwrap().to_string();
        let text = refused(&path, &options);
        assert!(text.contains("16 MiB") && text.contains("32 MiB"), "{text}");
        assert!(refused(&folder, &DiskOptions::default()).contains("neither"));
        let absent = folder.join("absent");
        assert!(refused(&absent, &DiskOptions::default()).contains("No such file"));
        assert!(create_disk_file(&path, 4096, Fill::Written).is_err(), "it exists");
        assert!(create_disk_file(&absent, 5000, Fill::Written).is_err(), "odd size");
        let huge = create_disk_file(&absent, 1 << 50, Fill::Reserved).unwrap_err();
        assert!(huge.to_string().contains("reserve space"), "{huge}");
        assert!(!absent.exists(), "a file that was not completed is removed");
        let disk = open(&env, &path);
        let end = disk.read(16 * MIB - 4096, 8192).await.unwrap_err();
        assert_eq!(end.kind, DiskErrorKind::Read);
        let end = disk.write(16 * MIB, vec![block(1)], Durability::Durable).await;
        assert_eq!(end.unwrap_err().kind, DiskErrorKind::Write);
        assert!(disk.read(u64::MAX - 4095, 4096).await.is_err());
    });
}

/// Goal: a device whose reads end early is gone, and not one with bad blocks: Linux tells the length 0 of one that was pulled out. Method: the file is cut
/// short while it is open.
#[test]
fn a_device_that_became_shorter_is_gone() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Auto, move |env| async move {
        let disk = open(&env, &path);
        disk.write(8 * MIB, vec![block(1)], Durability::Durable).await.unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(MIB).unwrap();
        let gone = disk.read(8 * MIB, 4096).await.unwrap_err();
        assert_eq!(gone.kind, DiskErrorKind::Gone, "{gone}");
        let blocking = disk.blocking();
        let gone = env.run_blocking(move || blocking.read_at(8 * MIB, &mut [0; 8])).await.unwrap_err();
        assert_eq!(gone.kind, DiskErrorKind::Gone, "{gone}");
        disk.read(0, 4096).await.unwrap();
    });
}

#[test]
fn a_blocking_caller_reads_and_writes_anywhere() {
    let directory = directory();
    let path = disk_file(&directory);
    on_shard(IoChoice::Auto, move |env| async move {
        let disk = open(&env, &path);
        let blocking = disk.blocking();
        let job: Arc<dyn cairn_env::BlockingDisk> = blocking.clone();
        let back = env
            .run_blocking(move || {
                job.write_at(12345, b"anywhere").unwrap();
                job.sync().unwrap();
                let mut back = [0; 8];
                job.read_at(12345, &mut back).unwrap();
                assert!(job.write_at(16 * MIB - 1, b"ab").is_err());
                back
            })
            .await;
        assert_eq!(&back, b"anywhere");
    });
}
