//! The simulated disk: what it keeps, what it loses, and every fault of its vocabulary.

use std::collections::BTreeSet;

use bytes::Bytes;
use cairn_env::{Disk, DiskErrorKind, Durability, Env, PageBuf};
use cairn_sim::{CrashPhase, CrashPoint, Crashed, Fault, Host, World};

const KIB: u64 = 1024;

fn block(value: u8) -> Bytes {
    PageBuf::copy_of(&[value; 4096]).freeze()
}

fn host_with_disk(seed: u64) -> (World, Host) {
    let world = World::new(seed);
    let host = world.add_host("a");
    host.add_disk("d", 1 << 20);
    (world, host)
}

fn write(host: &Host, offset: u64, value: u8, durability: Durability) -> Result<(), DiskErrorKind> {
    let disk = host.disk("d");
    host.run(async move {
        let wrote = disk.write(offset, vec![block(value)], durability).await;
        wrote.map_err(|e| e.kind)
    })
    .unwrap()
}

fn read(host: &Host, offset: u64) -> Result<Bytes, DiskErrorKind> {
    let disk = host.disk("d");
    host.run(async move { disk.read(offset, 4096).await.map_err(|e| e.kind) }).unwrap()
}

fn flush(host: &Host) -> Result<(), DiskErrorKind> {
    let disk = host.disk("d");
    host.run(async move { disk.flush().await.map_err(|e| e.kind) }).unwrap()
}

#[test]
fn a_crash_takes_what_was_buffered_and_nothing_durable() {
    let mut torn = 0;
    for seed in 0..100 {
        let (_world, host) = host_with_disk(seed);
        write(&host, 0, 1, Durability::Durable).unwrap();
        write(&host, 4 * KIB, 2, Durability::Buffered).unwrap();
        flush(&host).unwrap();
        write(&host, 8 * KIB, 3, Durability::Buffered).unwrap();
        host.crash(seed);
        host.restart();
        assert_eq!(read(&host, 0).unwrap(), block(1));
        assert_eq!(read(&host, 4 * KIB).unwrap(), block(2));
        let unsynced = read(&host, 8 * KIB).unwrap();
        assert!(unsynced.iter().all(|b| *b == 0 || *b == 3));
        let sectors: BTreeSet<u8> = unsynced.chunks(512).map(|s| s[0]).collect();
        torn += usize::from(sectors.len() == 2);
    }
    assert!(torn > 20, "{torn} of 100 writes were torn");
}

/// Each operation of a script is a crash point with three phases, blocking calls included.
#[test]
fn power_goes_at_exactly_the_planned_operation() {
    for operation in 1..=5 {
        for phase in [CrashPhase::Before, CrashPhase::During, CrashPhase::After] {
            let (_world, host) = host_with_disk(operation);
            host.crash_at(CrashPoint { operation, phase, loss_seed: operation });
            let (disk, env) = (host.disk("d"), host.env());
            let ran = host.run(async move {
                disk.write(0, vec![block(1)], Durability::Durable).await.unwrap();
                disk.write(4 * KIB, vec![block(2)], Durability::Buffered).await.unwrap();
                disk.flush().await.unwrap();
                let blocking = disk.blocking();
                let done = env.run_blocking(move || {
                    blocking.write_at(8 * KIB, &[3; 4096])?;
                    blocking.sync()
                });
                done.await.unwrap();
            });
            assert_eq!(ran, Err(Crashed), "operation {operation} {phase:?}");
            host.restart();
            // The sector's durable operation is its sync, not its write: the 2nd and 4th promise nothing.
            let durable_by = [1u64, 3, 5];
            for (at, by) in durable_by.into_iter().enumerate() {
                let held = read(&host, at as u64 * 4 * KIB).unwrap();
                let done = operation > by || (operation == by && phase == CrashPhase::After);
                if done {
                    assert_eq!(held, block(at as u8 + 1), "op {operation} {phase:?} block {at}");
                }
                let begun = [1u64, 2, 4][at];
                let untouched = operation < begun || (operation == begun && phase == CrashPhase::Before);
                if untouched {
                    assert_eq!(held, block(0), "op {operation} {phase:?} block {at}");
                }
            }
        }
    }
}

#[test]
fn after_a_kill_everything_is_there_until_power_goes_too() {
    let (_world, host) = host_with_disk(3);
    write(&host, 0, 1, Durability::Buffered).unwrap();
    host.kill();
    host.restart();
    assert_eq!(read(&host, 0).unwrap(), block(1));
    assert!(host.disk("d").unsynced_sectors() > 0);
    flush(&host).unwrap();
    host.crash(1);
    host.restart();
    assert_eq!(read(&host, 0).unwrap(), block(1));
}

#[test]
fn handles_of_a_dead_process_reach_nothing() {
    let (world, host) = host_with_disk(3);
    let (old, blocking) = (host.disk("d"), host.disk("d").blocking());
    host.crash(0);
    host.restart();
    assert_eq!(blocking.write_at(0, b"x").unwrap_err().kind, DiskErrorKind::Gone);
    world.spawn(async move {
        let _ = old.write(0, vec![block(9)], Durability::Durable).await;
        panic!("a write of a dead process returned");
    });
    world.run_for(std::time::Duration::from_secs(1));
    assert_eq!(host.disk("d").peek(0, 4), [0; 4]);
}

#[test]
fn a_dropped_future_does_not_cancel_its_write() {
    let (_world, host) = host_with_disk(3);
    let (disk, env) = (host.disk("d"), host.env());
    host.run(async move {
        {
            let mut write = Box::pin(disk.write(0, vec![block(5)], Durability::Durable));
            assert!(futures::poll!(&mut write).is_pending());
        }
        env.sleep(std::time::Duration::from_millis(10)).await;
    })
    .unwrap();
    host.crash(0);
    host.restart();
    assert_eq!(read(&host, 0).unwrap(), block(5));
}

#[test]
fn every_fault_of_the_vocabulary_happens() {
    let (_world, host) = host_with_disk(11);
    let disk = || host.disk("d");
    let durable = Durability::Durable;

    disk().inject(Fault::ReadErrorNext);
    assert_eq!(read(&host, 0), Err(DiskErrorKind::Read));
    assert_eq!(read(&host, 0), Ok(block(0)));

    disk().inject(Fault::LatentSectorError { offset: 4608, len_bytes: 512 });
    assert_eq!(read(&host, 4096), Err(DiskErrorKind::Read));
    assert_eq!(read(&host, 4096), Err(DiskErrorKind::Read));
    assert_eq!(read(&host, 0), Ok(block(0)));
    write(&host, 4096, 1, durable).unwrap();
    assert_eq!(read(&host, 4096), Ok(block(1)));

    disk().inject(Fault::WriteErrorNext);
    assert_eq!(write(&host, 4096, 2, durable), Err(DiskErrorKind::Write));
    assert!(read(&host, 4096).unwrap().iter().all(|b| *b == 1 || *b == 2));

    write(&host, 8192, 3, Durability::Buffered).unwrap();
    disk().inject(Fault::FlushErrorNext);
    assert_eq!(flush(&host), Err(DiskErrorKind::Write));
    assert_eq!(flush(&host), Ok(()), "a later flush succeeds and brings nothing back");
    assert!(read(&host, 8192).unwrap().contains(&0));

    disk().inject(Fault::LostWriteNext);
    write(&host, 12288, 4, durable).unwrap();
    assert_eq!(read(&host, 12288), Ok(block(0)));

    disk().inject(Fault::MisdirectedWriteNext { by_bytes: 4096 });
    write(&host, 16384, 5, durable).unwrap();
    assert_eq!(read(&host, 16384), Ok(block(0)));
    assert_eq!(read(&host, 20480), Ok(block(5)));

    disk().inject(Fault::BitFlip { offset: 20480, bit: 1 });
    assert_eq!(read(&host, 20480).unwrap()[0], 7);

    disk().inject(Fault::Gone);
    assert_eq!(read(&host, 0), Err(DiskErrorKind::Gone));
    assert_eq!(write(&host, 0, 1, durable), Err(DiskErrorKind::Gone));
    assert_eq!(flush(&host), Err(DiskErrorKind::Gone));
    disk().bring_back();
    assert_eq!(read(&host, 20480).unwrap()[1], 5);
    assert_eq!(disk().counters().writes_durable, 5);
}

#[test]
fn a_slow_disk_is_slow() {
    let (world, host) = host_with_disk(11);
    let took = |times| {
        host.disk("d").inject(Fault::Slow { times });
        let begun = world.now();
        write(&host, 0, 1, Durability::Durable).unwrap();
        world.now() - begun
    };
    assert!(took(1000) > took(1) * 50);
}

#[test]
#[should_panic(expected = "two writes in flight")]
fn racing_writes_are_the_callers_bug() {
    let (_world, host) = host_with_disk(11);
    let disk = host.disk("d");
    let _ = host.run(async move {
        let one = disk.write(0, vec![block(1)], Durability::Durable);
        let two = disk.write(0, vec![block(2)], Durability::Durable);
        futures::future::join(one, two).await
    });
}
