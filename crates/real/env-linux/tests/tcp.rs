//! Hosts joined by sockets: order, payloads, loss and return of a peer, refusals, hostile bytes.

mod common;

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cairn_env::{Env, NetEvent, PageBuf};
use cairn_env_linux::{Executor, Fabric, Host, HostConfig, IoChoice, PeerState};
use cairn_types::{Build, ClusterId, HostId, Incarnation, Level};
use common::*;

fn address(host: &Host) -> SocketAddr {
    host.address().expect("it listens")
}

/// Makes two hosts know each other.
fn introduce(a: &Host, b: &Host) {
    a.set_peer(b.id(), address(b));
    b.set_peer(a.id(), address(a));
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends `count` messages of many sizes to an echo and checks that they come back as they went, in order.
async fn exchange(env: &cairn_env_linux::LinuxEnv, to: HostId, count: u32) {
    let shape = |number: u32| {
        let body = vec![number as u8; [0, 1, 100, 3000, 300_000][number as usize % 5]];
        let blocks = [0, 1, 2, 33, 300][number as usize / 5 % 5];
        (body, blocks)
    };
    for number in 0..count {
        let (body, blocks) = shape(number);
        let payload = (0..blocks).map(|block| PageBuf::copy_of(&[number as u8 ^ block as u8; 4096]).freeze()).collect();
        env.send(to, message(body, payload));
    }
    let mut events = Vec::new();
    let mut number = 0;
    while number < count {
        env.receive(&mut events).await;
        for got in events.drain(..).filter_map(as_message) {
            let (body, blocks) = shape(number);
            assert_eq!(got.body, body, "body of message {number}");
            assert_eq!(got.payload.len(), blocks * 4096, "payload of message {number}");
            for (block, bytes) in got.payload.chunks(4096).enumerate() {
                assert!(bytes.iter().all(|&b| b == number as u8 ^ block as u8));
            }
            assert!(blocks == 0 || (got.payload.as_ptr() as usize).is_multiple_of(4096));
            number += 1;
        }
    }
}

#[test]
fn messages_of_all_sizes_come_back_in_order() {
    let echo = start_echo(on_tcp(2, 1));
    let at = address(&echo.host);
    let (sender, done) = mpsc::channel();
    let asker = start(on_tcp(1, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        let up = (HostId(2), Incarnation(1));
        assert_eq!(events.pop().and_then(as_up), Some(up));
        for _ in 0..10 {
            exchange(&env, HostId(2), 50).await;
        }
        sender.send(()).unwrap();
    });
    echo.host.set_peer(HostId(1), address(&asker.host));
    done.recv_timeout(Duration::from_secs(60)).expect("all came back");
}

/// Goal: hosts of one process share an address, and each gets what is for it. Method: two hosts of a fabric of which one listens, and a
/// third that knows both by that address; and a fourth that nobody knows there.
#[test]
fn hosts_of_one_process_share_an_address() {
    let fabric = Fabric::new();
    let first = start_echo(HostConfig { fabric: Some(fabric.clone()), ..on_tcp(2, 1) });
    let second = start_echo(in_fabric(3, 1, &fabric));
    let at = address(&first.host);
    let (sender, done) = mpsc::channel();
    let asker = start(on_tcp(1, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        env.set_peer(HostId(3), at);
        env.set_peer(HostId(4), at);
        let (mut events, mut up) = (Vec::new(), Vec::new());
        while up.len() < 2 {
            env.receive(&mut events).await;
            up.extend(events.drain(..).filter_map(as_up));
        }
        up.sort_unstable();
        assert_eq!(up, [(HostId(2), Incarnation(1)), (HostId(3), Incarnation(1))]);
        for to in [2, 3] {
            exchange(&env, HostId(to), 50).await;
        }
        sender.send(()).unwrap();
    });
    for host in [&first.host, &second.host] {
        host.set_peer(HostId(1), address(&asker.host));
    }
    done.recv_timeout(Duration::from_secs(60)).expect("all came back");
    let refused = || first.host.refused().iter().any(|refused| refused.reason.contains("wrong host"));
    wait_until("the fourth is refused", refused);
}

/// Goal: who hears of a peer can ask it something and be answered: an answer with no link to leave over is lost, and nobody would tell.
/// Method: the peer learns where we are half a second after we have connected to it.
#[test]
fn a_peer_is_up_once_it_can_answer() {
    let echo = start_echo(on_tcp(2, 1));
    let at = address(&echo.host);
    let (sender, done) = mpsc::channel();
    let asker = start(on_tcp(1, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        assert_eq!(events.pop().and_then(as_up), Some((HostId(2), Incarnation(1))));
        exchange(&env, HostId(2), 5).await;
        sender.send(()).unwrap();
    });
    wait_until("it is connected", || asker.host.peers().first().is_some_and(|p| p.state == PeerState::Up));
    std::thread::sleep(Duration::from_millis(500));
    echo.host.set_peer(HostId(1), address(&asker.host));
    done.recv_timeout(Duration::from_secs(20)).expect("it is answered");
}

/// Goal: the loss and return of a peer's process are told at once. Method: kill it and start it anew on its port.
#[test]
fn a_killed_peer_is_gone_at_once_and_back_soon() {
    let (watcher, events) = start_listener(on_tcp(1, 1));
    let mut at = SocketAddr::from(([127, 0, 0, 1], 0));
    for incarnation in 1..=5 {
        let echo = start_echo(on_address(2, incarnation, at));
        at = address(&echo.host);
        introduce(&watcher.host, &echo.host);
        let up = wait_for(&events, as_up);
        assert_eq!(up, (HostId(2), Incarnation(incarnation)));
        let peers = watcher.host.peers();
        assert_eq!(peers[0].state, PeerState::Up);
        let killed = Instant::now();
        echo.host.kill_wait();
        assert_eq!(wait_for(&events, as_gone), HostId(2));
        assert!(killed.elapsed() < Duration::from_millis(700), "{:?}", killed.elapsed());
    }
    let peers = watcher.host.peers();
    assert_eq!(peers[0].state, PeerState::Down);
    assert!(peers[0].problem.as_ref().unwrap().contains("refused"), "{peers:?}");
}

/// Goal: a break that costs replies is told to who waits for them, and settles. Method: a proxy between two hosts cuts the
/// connection of one direction; both hear of it, and both are up again.
#[test]
fn a_cut_in_either_direction_is_told_to_both_sides() {
    let (a, a_events) = start_listener(on_tcp(1, 1));
    let (b, b_events) = start_listener(on_tcp(2, 1));
    let proxy = Proxy::start(address(&b.host));
    a.host.set_peer(b.host.id(), proxy.address);
    b.host.set_peer(a.host.id(), address(&a.host));
    wait_for(&a_events, as_up);
    wait_for(&b_events, as_up);
    for _ in 0..5 {
        proxy.cut();
        for events in [&a_events, &b_events] {
            let mut down = false;
            wait_for(events, |event| match event {
                NetEvent::PeerDown { process_gone, .. } => {
                    assert!(!process_gone);
                    down = true;
                    None
                }
                NetEvent::PeerUp { .. } => {
                    assert!(down, "up without a down before it");
                    Some(())
                }
                NetEvent::Message(_) => None,
            });
        }
        std::thread::sleep(Duration::from_millis(1100));
    }
    // It settles: no further events.
    assert!(a_events.try_recv().is_err() && b_events.try_recv().is_err());
}

/// Passes bytes on until told to cut.
struct Proxy {
    address: SocketAddr,
    cut: mpsc::Sender<()>,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, cuts) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let here = stream.unwrap();
                let there = TcpStream::connect(to).unwrap();
                for (mut from, mut to) in [
                    (here.try_clone().unwrap(), there.try_clone().unwrap()),
                    (there.try_clone().unwrap(), here.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                }
                if cuts.recv().is_err() {
                    return;
                }
                let _ = here.shutdown(std::net::Shutdown::Both);
                let _ = there.shutdown(std::net::Shutdown::Both);
            }
        });
        Self { address, cut }
    }
    fn cut(&self) {
        self.cut.send(()).unwrap();
    }
}

fn refusal(host: &Host) -> String {
    let mut problem = None;
    wait_until("the link says why it is refused", || {
        problem = host.peers().first().and_then(|p| p.problem.clone());
        problem.is_some()
    });
    problem.unwrap()
}

#[test]
fn strangers_are_refused_with_a_reason_on_both_sides() {
    let (home, events) = start_listener(HostConfig { level: Level(13), ..on_tcp(1, 1) });
    home.host.name_peer(HostId(3), "h3".into());
    let old = "host h3 runs 0.2.0, which speaks protocol 12; this cluster was upgraded to 13 and no longer does: start 0.3.0 or later";
    let cases: [(HostConfig, HostId, &str); 4] = [
        (HostConfig { cluster: ClusterId(78), ..on_tcp(2, 1) }, HostId(1), "wrong cluster"),
        (HostConfig { build: Build::untold(Level(12)), ..on_tcp(3, 1) }, HostId(1), old),
        (on_tcp(4, 1), HostId(5), "wrong host"),
        (on_tcp(1, 9), HostId(5), "cloned"),
    ];
    for (config, target, words) in cases {
        let (stranger, _stranger_events) = start_listener(config);
        stranger.host.set_peer(target, address(&home.host));
        let problem = refusal(&stranger.host);
        assert!(problem.contains(words), "{problem}");
        wait_until("the refusal is remembered", || home.host.refused().iter().any(|r| r.reason.contains(words)));
        stranger.host.kill_wait();
    }
    assert!(events.try_recv().is_err(), "no stranger got through");
}

/// Goal: when the level rises, who does not speak it is left and refused, and nobody else notices. Method: an older and a newer host are
/// connected with one that is told to raise it.
#[test]
fn a_level_that_rises_ends_the_connections_below_it() {
    let (sender, events) = mpsc::channel();
    let home = start(on_tcp(1, 1), |env| async move {
        let mut events = Vec::new();
        loop {
            env.receive(&mut events).await;
            for event in events.drain(..) {
                if matches!(event, NetEvent::Message(_)) {
                    env.set_level(Level(13));
                }
                let _ = sender.send(event);
            }
        }
    });
    home.host.name_peer(HostId(2), "h2".into());
    let (old, _old_events) = start_listener(HostConfig { build: Build::untold(Level(12)), ..on_tcp(2, 1) });
    let (sender, told) = mpsc::channel();
    let new = start(on_tcp(3, 1), |env| async move {
        let mut events = Vec::new();
        loop {
            env.receive(&mut events).await;
            for event in events.drain(..) {
                if let NetEvent::PeerUp { host, build, level, .. } = event {
                    let _ = sender.send((build, level));
                    env.sleep(Duration::from_millis(500)).await;
                    env.send(host, message(&b"finished"[..], vec![]));
                }
            }
        }
    });
    for (peer, id) in [(&old.host, 2), (&new.host, 3)] {
        home.host.set_peer(HostId(id), address(peer));
        peer.set_peer(HostId(1), address(&home.host));
    }
    let (mut up, mut down) = (BTreeMap::new(), Vec::new());
    while down.is_empty() {
        match next(&events) {
            NetEvent::PeerUp { host, build, .. } => drop(up.insert(host, build)),
            NetEvent::PeerDown { host, .. } => down.push(host),
            NetEvent::Message(message) => assert_eq!(message.from, HostId(3)),
        }
    }
    assert_eq!((down, &up[&HostId(2)]), (vec![HostId(2)], &Build::untold(Level(12))));
    assert_eq!(up[&HostId(3)], on_tcp(3, 1).build);
    assert_eq!(told.recv(), Ok((on_tcp(1, 1).build, Level(12))));
    wait_until("the older one reads why", || {
        old.host.peers()[0].problem.as_ref().is_some_and(|problem| problem.contains("host h2 runs 0.2.0, which speaks"))
    });
    assert!(new.host.peers()[0].state == PeerState::Up, "{:?}", new.host.peers());
}

#[test]
fn an_older_process_of_a_connected_host_is_refused() {
    let (home, events) = start_listener(on_tcp(1, 1));
    let (new, _new_events) = start_listener(on_tcp(2, 8));
    new.host.set_peer(HostId(1), address(&home.host));
    home.host.set_peer(HostId(2), address(&new.host));
    assert_eq!(wait_for(&events, as_up).1, Incarnation(8));
    wait_until("the newer one is connected", || new.host.peers().first().is_some_and(|p| p.state == PeerState::Up));
    for (incarnation, words) in [(7, "newer process"), (8, "another process")] {
        let (old, _old_events) = start_listener(on_tcp(2, incarnation));
        old.host.set_peer(HostId(1), address(&home.host));
        let problem = refusal(&old.host);
        assert!(problem.contains(words), "{problem}");
        old.host.kill_wait();
    }
}

/// N3. Goal: no bytes crash a host or stop it. Method: send it noise, cut and changed frames, floods of connections, and
/// then let a true peer talk to it.
#[test]
fn hostile_bytes_close_their_connection_and_nothing_else() {
    let echo = start_echo(on_tcp(2, 1));
    let at = address(&echo.host);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let hello = captured_greeting();
    for round in 0..400usize {
        let mut bytes = hello.clone();
        match round % 4 {
            0 => bytes = (0..random() % 500).map(|_| random() as u8).collect(),
            1 => {
                let at = random() as usize % bytes.len();
                bytes[at] ^= 1 << (random() % 8);
            }
            2 => bytes.truncate(random() as usize % bytes.len()),
            // Captured from another conversation: meant for another host.
            _ => bytes.extend((0..random() % 300).map(|_| random() as u8)),
        }
        let mut stream = TcpStream::connect(at).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let mut answer = Vec::new();
        // Whatever it answers, it closes; a reset is as good.
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert!(!echo.host.refused().is_empty());
    talks(&echo.host);
}

/// After the handshake: the same for what a known peer may send.
#[test]
fn damaged_frames_of_a_peer_break_its_connection_only() {
    let echo = start_echo(on_tcp(2, 1));
    let at = address(&echo.host);
    let (hello, frame) = captured_talk(HostId(2));
    for bit in (0..frame.len() * 8).step_by(7) {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&hello).unwrap();
        let mut welcome = vec![0; hello.len()];
        stream.read_exact(&mut welcome).unwrap();
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // The whole frame twice: a length that grew must not swallow the stream for ever.
        let _ = stream.write_all(&frame);
        let _ = stream.write_all(&damaged);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    talks(&echo.host);
}

/// A flood of connections that say nothing delays others by less than it is long.
#[test]
fn silent_connections_do_not_lock_peers_out() {
    let echo = start_echo(on_tcp(2, 1));
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(address(&echo.host)).unwrap()).collect();
    drop(silent);
    talks(&echo.host);
}

/// Checks that a true peer can still talk to an echo.
fn talks(echo: &Host) {
    let at = address(echo);
    let (sender, done) = mpsc::channel();
    let asker = start(on_tcp(9, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        exchange(&env, HostId(2), 25).await;
        sender.send(()).unwrap();
    });
    echo.set_peer(HostId(9), address(&asker.host));
    done.recv_timeout(Duration::from_secs(60)).expect("it still talks");
}

/// The first bytes that a host sends when it dials.
fn captured_greeting() -> Vec<u8> {
    captured_talk(HostId(3)).0
}

/// A greeting of host 7 for `to`, and one message that follows it, as a real host sends them.
fn captured_talk(to: HostId) -> (Vec<u8>, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (dialer, _events) = start_listener(on_tcp(7, 1));
    dialer.host.set_peer(to, at);
    let (mut stream, _) = listener.accept().unwrap();
    let mut greeting = vec![0; GREETING];
    stream.read_exact(&mut greeting).unwrap();
    drop(stream);
    dialer.host.kill_wait();
    // The message: recorded between two real hosts through a tap.
    let (target, _target_events) = start_listener(on_tcp(to.0, 1));
    let target_at = address(&target.host);
    let talker = start(on_tcp(7, 1), move |env| async move {
        env.set_peer(to, at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        let payload = vec![Bytes::from(vec![5; 512])];
        env.send(to, message(vec![3; 20], payload));
        std::future::pending::<()>().await;
    });
    let (mut tapped, _) = listener.accept().unwrap();
    target.host.set_peer(HostId(7), address(&talker.host));
    tap(&mut tapped, &mut TcpStream::connect(target_at).unwrap());
    let mut frame = vec![0; 64 + 20 + 512];
    tapped.read_exact(&mut frame).unwrap();
    talker.host.kill_wait();
    (greeting, frame)
}

/// Bytes of a greeting, and of a ping.
const GREETING: usize = 64 + 72;
const PING: usize = 64;

/// Lets a dialler connect to `real` through the test: its greeting and its first ping go there, the answers come back.
fn tap(dialler: &mut TcpStream, real: &mut TcpStream) {
    for bytes in [GREETING, PING] {
        let mut frame = vec![0; bytes];
        dialler.read_exact(&mut frame).unwrap();
        real.write_all(&frame).unwrap();
        real.read_exact(&mut frame).unwrap();
        dialler.write_all(&frame).unwrap();
    }
}

/// Goal: a peer that takes nothing costs a bounded queue, and its sender hears of the break. Method: a fake peer greets and
/// then never reads.
#[test]
fn a_peer_that_takes_nothing_is_dropped_at_the_bound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (real, _real_events) = start_listener(on_tcp(2, 1));
    let real_at = address(&real.host);
    let (sender, events) = mpsc::channel();
    let talker = start(on_tcp(1, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        let block = PageBuf::zeroed(1 << 20).freeze();
        // 600 MiB in one go: far over the bound.
        for _ in 0..600 {
            env.send(HostId(2), message(&b"x"[..], vec![block.clone()]));
        }
        loop {
            for event in events.drain(..) {
                let _ = sender.send(event);
            }
            env.receive(&mut events).await;
        }
    });
    let (mut tapped, _) = listener.accept().unwrap();
    real.host.set_peer(HostId(1), address(&talker.host));
    tap(&mut tapped, &mut TcpStream::connect(real_at).unwrap());
    wait_for(&events, |event| matches!(event, NetEvent::PeerDown { process_gone: false, .. }).then_some(()));
    wait_until("the reason is kept", || {
        let peers = talker.host.peers();
        peers[0].problem.as_ref().is_some_and(|p| p.contains("waited for the peer"))
    });
    drop(tapped);
}

/// Goal: no message is lost while a shard is slow; the window closes instead. Method: a receiver sleeps while the sender
/// sends twice what an inbox holds, and less than inbox and queue together.
#[test]
fn a_slow_shard_closes_the_window() {
    const COUNT: u32 = 125;
    let (sender, done) = mpsc::channel();
    let slow = start(on_tcp(2, 1), move |env| async move {
        let mut events = Vec::new();
        let mut number = 0;
        while number < COUNT {
            env.receive(&mut events).await;
            for got in events.drain(..) {
                match got {
                    NetEvent::Message(m) => {
                        assert_eq!(m.body[..], number.to_le_bytes());
                        number += 1;
                    }
                    NetEvent::PeerDown { .. } => panic!("the link broke"),
                    NetEvent::PeerUp { .. } => {}
                }
            }
            env.sleep(Duration::from_millis(300)).await;
        }
        sender.send(()).unwrap();
    });
    let at = address(&slow.host);
    let fast = start(on_tcp(1, 1), move |env| async move {
        env.set_peer(HostId(2), at);
        let mut events = Vec::new();
        env.receive(&mut events).await;
        let block = PageBuf::zeroed(1 << 20).freeze();
        for number in 0..COUNT {
            let payload = vec![block.clone()];
            env.send(HostId(2), message(number.to_le_bytes().to_vec(), payload));
            env.sleep(Duration::from_millis(1)).await;
        }
        std::future::pending::<()>().await;
    });
    slow.host.set_peer(HostId(1), address(&fast.host));
    done.recv_timeout(Duration::from_secs(30)).expect("all arrived");
}

/// Goal: the shards of two servers, all on threads of their own, reach each other: those of the own server through memory, the others at
/// one address. Method: each of four asks each other one, and is answered.
#[test]
fn shards_of_two_servers_talk_to_each_other() {
    let executors: Vec<Executor> = (0..4).map(|_| executor(IoChoice::Auto)).collect();
    let (sender, done) = mpsc::channel();
    let mut servers = Vec::new();
    for server in 0..2 {
        let fabric = Fabric::new();
        let first = HostConfig { fabric: Some(fabric.clone()), ..on_tcp(10 + server, 1) };
        servers.push([Host::new(first).unwrap(), Host::new(in_fabric(20 + server, 1, &fabric)).unwrap()]);
    }
    let all: Vec<HostId> = servers.iter().flatten().map(Host::id).collect();
    for (host, executor) in servers.iter().flatten().zip(&executors) {
        let (sender, all) = (sender.clone(), all.clone());
        let main = move |env: cairn_env_linux::LinuxEnv| async move {
            let (mut events, mut answers) = (Vec::new(), 0);
            loop {
                env.receive(&mut events).await;
                for event in events.drain(..) {
                    match event {
                        NetEvent::PeerUp { host, .. } => env.send(host, message(&b"?"[..], vec![])),
                        NetEvent::Message(m) if m.body[0] == b'?' => env.send(m.from, message(&b"!"[..], vec![])),
                        NetEvent::Message(_) => answers += 1,
                        NetEvent::PeerDown { .. } => {}
                    }
                    if answers == all.len() - 1 {
                        let _ = sender.send(env.host());
                    }
                }
            }
        };
        host.start(executor, main).unwrap();
    }
    let [a, b] = &servers[..] else { panic!("two servers") };
    for (here, there) in [(a, b), (b, a)] {
        for (one, other) in here.iter().flat_map(|one| there.iter().map(move |other| (one, other))) {
            one.set_peer(other.id(), address(&there[0]));
        }
    }
    let mut told = std::collections::BTreeSet::new();
    while told.len() < all.len() {
        told.insert(done.recv_timeout(Duration::from_secs(20)).expect("three answers each"));
    }
    servers.iter().flatten().for_each(Host::kill_wait);
}
