//! Hosts in one process: messages, kills, restarts, ends.

mod common;

use std::{sync::mpsc, time::Duration};

use cairn_env::{Disk, Durability, Env, PageBuf};
use cairn_env_linux::{DiskOptions, Fabric, Fill, Host, HostEnd, IoChoice, LinuxDisk, StartError, create_disk_file};
use cairn_types::{HostId, Incarnation};
use common::*;

#[test]
fn messages_arrive_in_order_with_their_payload() {
    let fabric = Fabric::new();
    let (listener, events) = start_listener(in_fabric(2, 5, &fabric));
    let sender = start(in_fabric(1, 3, &fabric), |env| async move {
        for number in 0..1000u32 {
            let block = PageBuf::copy_of(&[number as u8; 4096]).freeze();
            let payload = vec![block.slice(..512), block.slice(512..)];
            env.send(HostId(2), message(number.to_le_bytes().to_vec(), payload));
        }
    });
    assert_eq!(wait_for(&events, as_up), (HostId(1), Incarnation(3)));
    for number in 0..1000u32 {
        let got = wait_for(&events, as_message);
        assert_eq!((got.from, got.incarnation), (HostId(1), Incarnation(3)));
        assert_eq!(got.body[..], number.to_le_bytes());
        assert!(got.payload.len() == 4096 && got.payload.iter().all(|&b| b == number as u8));
        assert_eq!(got.payload.as_ptr() as usize % 4096, 0);
    }
    // A main task that returns ends its host: the process is gone for the others.
    assert_eq!(sender.handle.wait(), HostEnd::Returned);
    assert_eq!(wait_for(&events, as_gone), HostId(1));
    listener.host.kill_wait();
}

/// F4. Goal: what a host sends to a newcomer as soon as it hears of it arrives. Method: hosts come, again and again, while the first of
/// many members greets each; the more members there are, the longer a newcomer takes to be told to all.
#[test]
fn a_newcomer_hears_who_greets_it_at_once() {
    let fabric = Fabric::new();
    let greeter = start(in_fabric(1, 1, &fabric), |env| async move {
        let mut events = Vec::new();
        loop {
            env.receive(&mut events).await;
            for (host, _) in events.drain(..).filter_map(as_up) {
                env.send(host, message(&b"hello"[..], vec![]));
            }
        }
    });
    let idle = executor(IoChoice::Auto);
    let others: Vec<Host> = (2..100).map(|id| Host::new(in_fabric(id, 1, &fabric)).unwrap()).collect();
    for other in &others {
        other.start(&idle, |_env| std::future::pending()).unwrap();
    }
    for incarnation in 1..=100 {
        let (newcomer, events) = start_listener(in_fabric(200, incarnation, &fabric));
        let greeting = wait_for(&events, as_message);
        assert_eq!((greeting.from, &greeting.body[..]), (HostId(1), &b"hello"[..]));
        newcomer.host.kill_wait();
    }
    others.iter().for_each(Host::kill_wait);
    greeter.host.kill_wait();
}

/// F2, H1. Goal: a killed host is over at once, its disk can be opened by its successor. Method: kill it in the middle
/// of endless writes and a blocking job, again and again, and restart it with a higher incarnation.
#[test]
fn a_killed_host_comes_back_with_its_disk() {
    let directory = directory();
    let path = directory.path().join("disk");
    create_disk_file(&path, 1 << 20, Fill::Written).unwrap();
    let fabric = Fabric::new();
    let (_watcher, events) = start_listener(in_fabric(1, 1, &fabric));
    for incarnation in 1..=10 {
        let path = path.clone();
        let running = start(in_fabric(2, incarnation, &fabric), move |env| async move {
            let disk = LinuxDisk::open(&env, &path, &DiskOptions::default()).unwrap();
            let blocking = disk.blocking();
            let writer = disk.clone();
            env.spawn(async move {
                loop {
                    let data = PageBuf::zeroed(65536).freeze();
                    let _ = writer.write(0, vec![data], Durability::Durable).await;
                }
            });
            loop {
                let blocking = blocking.clone();
                env.run_blocking(move || {
                    let _ = blocking.write_at(500_000, &[1; 1000]);
                    let _ = blocking.sync();
                })
                .await;
            }
        });
        assert_eq!(wait_for(&events, as_up), (HostId(2), Incarnation(incarnation)));
        std::thread::sleep(Duration::from_millis(20 + incarnation));
        running.host.kill_wait();
        assert_eq!(wait_for(&events, as_gone), HostId(2));
        assert_eq!(running.handle.wait(), HostEnd::Killed);
    }
}

#[test]
fn a_panic_ends_its_host_and_no_other() {
    let fabric = Fabric::new();
    let executor = executor(IoChoice::Auto);
    let (sender, events) = mpsc::channel();
    let watcher = Host::new(in_fabric(1, 1, &fabric)).unwrap();
    let watching = watcher
        .start(&executor, move |env| async move {
            let mut events = Vec::new();
            loop {
                env.receive(&mut events).await;
                for event in events.drain(..) {
                    let _ = sender.send(event);
                }
            }
        })
        .unwrap();
    // Both on one thread: the other must not notice more than a peer that went.
    let broken = Host::new(in_fabric(2, 1, &fabric)).unwrap();
    let end = broken
        .start(&executor, |env| async move {
            let inner = env.clone();
            env.spawn(async move {
                inner.sleep(Duration::from_millis(5)).await;
                panic!("an invariant of ours does not hold");
            });
            std::future::pending::<()>().await;
        })
        .unwrap();
    let words = "an invariant of ours does not hold".to_owned();
    assert_eq!(end.wait(), HostEnd::Panicked(words));
    assert_eq!(wait_for(&events, as_gone), HostId(2));
    drop(executor);
    assert_eq!(watching.wait(), HostEnd::Killed);
}

#[test]
fn an_id_lives_once() {
    let fabric = Fabric::new();
    let (first, _events) = start_listener(in_fabric(1, 1, &fabric));
    let executor = executor(IoChoice::Auto);
    let twin = Host::new(in_fabric(1, 2, &fabric)).unwrap();
    let refused = twin.start(&executor, |_| std::future::pending());
    assert!(matches!(refused.err(), Some(StartError::Twice(HostId(1)))));
    assert_eq!(fabric.hosts(), vec![HostId(1)]);
    first.host.kill_wait();
    assert!(fabric.hosts().is_empty());
}

#[test]
fn a_host_talks_to_itself() {
    let fabric = Fabric::new();
    let host = start(in_fabric(1, 1, &fabric), |env| async move {
        env.send(env.host(), message(&b"me"[..], vec![]));
        let mut events = Vec::new();
        env.receive(&mut events).await;
        let got = events.pop().and_then(as_message).expect("my own message");
        assert_eq!((&got.body[..], got.from), (&b"me"[..], HostId(1)));
    });
    assert_eq!(host.handle.wait(), HostEnd::Returned);
}
