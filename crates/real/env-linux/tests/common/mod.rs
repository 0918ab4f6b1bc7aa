//! What the tests of this room share: hosts with short ids, shards that run one async test, files on a real disk.
#![allow(dead_code)] // each test file uses its own part

use std::{future::Future, net::SocketAddr, path::Path, sync::mpsc, time::Duration};

use bytes::Bytes;
use cairn_env::{Env, InMessage, NetEvent, OutMessage};
use cairn_env_linux::{Executor, ExecutorConfig, Fabric, Host, HostConfig, HostEnd, HostHandle, IoChoice, LinuxEnv};
use cairn_types::{Build, ClusterId, HostId, Incarnation, Level, Speaks};

/// A directory on the repository's file system: tmpfs takes no O_DIRECT, and would prove nothing.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a directory for the test")
}

pub fn config(id: u128, incarnation: u64) -> HostConfig {
    HostConfig {
        cluster: ClusterId(77),
        host: HostId(id),
        incarnation: Incarnation(incarnation),
        build: Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) },
        level: Level::FIRST,
        listen: None,
        fabric: None,
    }
}

pub fn in_fabric(id: u128, incarnation: u64, fabric: &Fabric) -> HostConfig {
    HostConfig { fabric: Some(fabric.clone()), ..config(id, incarnation) }
}

pub fn on_tcp(id: u128, incarnation: u64) -> HostConfig {
    on_address(id, incarnation, SocketAddr::from(([127, 0, 0, 1], 0)))
}

pub fn on_address(id: u128, incarnation: u64, address: SocketAddr) -> HostConfig {
    HostConfig { listen: Some(address), ..config(id, incarnation) }
}

pub fn executor(io: IoChoice) -> Executor {
    Executor::spawn(ExecutorConfig { name: "test-shard".into(), io, ..ExecutorConfig::default() }).expect("a thread")
}

/// Runs `test` on a shard of its own and returns what it returns.
pub fn on_shard<T, F>(io: IoChoice, test: impl FnOnce(LinuxEnv) -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let executor = executor(io);
    let host = Host::new(config(1, 1)).expect("a host");
    let (sender, receiver) = mpsc::channel();
    let handle = host
        .start(&executor, move |env| async move {
            let _ = sender.send(test(env).await);
        })
        .expect("a shard");
    assert_eq!(handle.wait(), HostEnd::Returned);
    receiver.recv().expect("a result")
}

/// A host on a thread of its own that runs `main`.
pub struct Running {
    pub host: Host,
    pub handle: HostHandle,
    pub executor: Executor,
}

pub fn start<F>(config: HostConfig, main: impl FnOnce(LinuxEnv) -> F + Send + 'static) -> Running
where
    F: Future<Output = ()> + 'static,
{
    let executor = executor(IoChoice::Auto);
    let host = Host::new(config).expect("a host");
    let handle = host.start(&executor, main).expect("a shard");
    Running { host, handle, executor }
}

/// A host that passes all its events on.
pub fn start_listener(config: HostConfig) -> (Running, mpsc::Receiver<NetEvent>) {
    let (sender, receiver) = mpsc::channel();
    let running = start(config, |env| async move {
        let mut events = Vec::new();
        loop {
            env.receive(&mut events).await;
            for event in events.drain(..) {
                let _ = sender.send(event);
            }
        }
    });
    (running, receiver)
}

/// A host that answers every message with the same body and payload to its sender.
pub fn start_echo(config: HostConfig) -> Running {
    start(config, |env| async move {
        let mut events = Vec::new();
        loop {
            env.receive(&mut events).await;
            for event in events.drain(..) {
                if let NetEvent::Message(m) = event {
                    env.send(m.from, message(m.body, vec![m.payload]));
                }
            }
        }
    })
}

pub fn message(body: impl Into<Bytes>, payload: Vec<Bytes>) -> OutMessage {
    OutMessage { body: body.into(), payload }
}

/// The next event, or a failed test.
pub fn next(events: &mpsc::Receiver<NetEvent>) -> NetEvent {
    events.recv_timeout(Duration::from_secs(20)).expect("an event within 20 s")
}

/// Waits for the first event that `pick` takes.
pub fn wait_for<T>(events: &mpsc::Receiver<NetEvent>, mut pick: impl FnMut(NetEvent) -> Option<T>) -> T {
    loop {
        if let Some(found) = pick(next(events)) {
            return found;
        }
    }
}

pub fn as_up(event: NetEvent) -> Option<(HostId, Incarnation)> {
    match event {
        NetEvent::PeerUp { host, incarnation, .. } => Some((host, incarnation)),
        _ => None,
    }
}

pub fn as_gone(event: NetEvent) -> Option<HostId> {
    match event {
        NetEvent::PeerDown { host, process_gone: true } => Some(host),
        _ => None,
    }
}

pub fn as_message(event: NetEvent) -> Option<InMessage> {
    match event {
        NetEvent::Message(message) => Some(message),
        _ => None,
    }
}
