//! Clients that mean harm or are broken: the server closes on them or answers, stays small, and serves everybody else.

mod support;

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use cairn_nbd::{Limits, Options};
use support::{
    Served,
    client::{Client, GO, READ, export_query, meta_query, request},
    ramdisk::Faults,
    serve,
};

const MIB: u64 = 1 << 20;

/// A small generator: the same bytes in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    fn bytes(&mut self, max: u64) -> Vec<u8> {
        (0..self.below(max)).map(|_| self.next() as u8).collect()
    }
}

fn assert_serves(served: &Served) {
    let mut c = Client::unix(&served.socket()).go("disk", true);
    assert_eq!(c.write(4096, &[0x5a; 4096]).error, 0);
    assert_eq!(c.read(4096, 4096), [0x5a; 4096]);
}

/// Sends all of it, reads whatever comes until the server closes or `patience` is over.
fn shout(served: &Served, bytes: &[u8], patience: Duration) {
    let mut socket = UnixStream::connect(served.socket()).expect("connect");
    socket.set_read_timeout(Some(patience)).expect("a limit");
    socket.set_write_timeout(Some(patience)).expect("a limit");
    // The server may close before it has taken all.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut rest = [0; 65536];
    while matches!(socket.read(&mut rest), Ok(n) if n > 0) {}
}

/// A negotiation with one thing changed, then a few requests with one thing changed.
fn mutated_session(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    let mut option = |code: u32, data: &[u8]| {
        bytes.extend_from_slice(b"IHAVEOPT");
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
    };
    option(8, &[]);
    option(10, &meta_query("disk", &[b"base:allocation"]));
    option(3, &[]);
    option(GO, &export_query("disk", &[1, 2, 3]));
    for cookie in 0..chance.below(20) {
        let command = chance.below(9) as u16;
        let len = 512 * chance.below(16) as u32;
        let flags = if chance.below(4) == 0 { chance.next() as u16 & 31 } else { 0 };
        bytes.extend_from_slice(&request(command, flags, cookie, 512 * chance.below(1 << 14), len));
        if command == 1 {
            bytes.extend_from_slice(&vec![cookie as u8; len as usize]);
        }
    }
    for _ in 0..chance.below(4) {
        let at = chance.below(bytes.len() as u64) as usize;
        match chance.below(4) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = 0xff,
            2 => bytes.truncate(at),
            _ => {
                let noise = chance.bytes(64);
                bytes.splice(at..at, noise);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn noise_and_mutated_sessions_harm_nobody() {
    let served = serve(&[("disk", 8 * MIB)], Options::default());
    let mut chance = Chance(0x5eed_cafe);
    let patience = Duration::from_millis(2000);
    for round in 0..1500 {
        let bytes = if round % 3 == 0 { chance.bytes(2000) } else { mutated_session(&mut chance) };
        shout(&served, &bytes, patience);
        if round % 100 == 0 {
            assert_serves(&served);
        }
    }
    assert_serves(&served);
    served.stop();
}

#[test]
fn broken_magic_and_huge_lengths_close_the_connection() {
    let served = serve(&[("disk", 8 * MIB)], Options::default());
    assert!(Client::unix(&served.socket()).greet(0xffff_ffff).is_closed(), "unknown client flags");
    let mut c = Client::unix(&served.socket()).greet(3);
    c.socket.write_all(b"IHAVEOPX\0\0\0\x03\0\0\0\0").expect("send");
    assert!(c.is_closed(), "option magic");
    for code in [1_u32, 3, 7, 99] {
        let mut c = Client::unix(&served.socket()).greet(3);
        let head = [&b"IHAVEOPT"[..], &code.to_be_bytes(), &[0xff; 4]].concat();
        c.socket.write_all(&head).expect("send");
        assert!(c.is_closed(), "an option of 4 GiB");
    }
    let mut c = Client::unix(&served.socket()).go("disk", true);
    let cookie = c.send(READ, 0, 0, 4096);
    c.socket.write_all(&[0x77; 28]).expect("send");
    assert_eq!(c.answer(0).cookie, cookie, "what came before is answered");
    assert!(c.is_closed(), "request magic");
    assert_serves(&served);
    served.stop();
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find(|l| l.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// Writes until the socket takes no more for a while; returns how many bytes went in.
fn flood(socket: &mut UnixStream, unit: &[u8], bytes_max: usize) -> usize {
    socket.set_write_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let mut sent = 0;
    while sent < bytes_max {
        match socket.write(unit) {
            Ok(count) => sent += count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(e) => panic!("the server closed on a flood: {e}"),
        }
    }
    sent
}

fn negotiated(served: &Served) -> UnixStream {
    let mut socket = UnixStream::connect(served.socket()).expect("connect");
    let mut hello = 3_u32.to_be_bytes().to_vec();
    let query = export_query("disk", &[]);
    hello.extend_from_slice(b"IHAVEOPT\0\0\0\x07");
    hello.extend_from_slice(&(query.len() as u32).to_be_bytes());
    hello.extend_from_slice(&query);
    socket.write_all(&hello).expect("send");
    // Greeting, two INFO answers, ACK.
    let mut rest = [0; 18 + 20 + 12 + 20 + 14 + 20];
    socket.read_exact(&mut rest).expect("the negotiation");
    socket
}

#[test]
fn floods_stall_themselves_and_memory_stays_bounded() {
    let served = serve(&[("disk", 64 * MIB)], Options::default());
    served.disk("disk", |d| d.fill());
    let before = resident_kib();
    // Reads whose answers nobody takes: 1 MiB each, small ones, refused ones, and status requests without end.
    let many = |bytes: Vec<u8>| bytes.repeat(100);
    let floods = [
        many(request(READ, 0, 7, 0, 1 << 20)),
        many(request(READ, 0, 7, 0, 512)),
        many(request(READ, 0, 7, 1, 512)),
        many(request(3, 0, 7, 0, 0)),
        many(request(0x4242, 0, 7, 0, 0)),
    ];
    let mut sockets = Vec::new();
    for unit in &floods {
        let mut socket = negotiated(&served);
        let sent = flood(&mut socket, unit, 64 << 20);
        assert!(sent < 16 << 20, "the server took {sent} bytes of requests that it did not answer");
        sockets.push(socket);
        assert_serves(&served);
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more for five clients that do not listen");
    let in_flight = served.disk("disk", |d| d.counts().1);
    assert_eq!(in_flight, 0);
    // Who starts to listen is served on.
    let mut first = sockets.remove(0);
    first.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    let mut head = [0; 16];
    let mut data = vec![0; 1 << 20];
    for _ in 0..100 {
        first.read_exact(&mut head).expect("a head");
        assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        first.read_exact(&mut data).expect("data");
    }
    drop(first);
    drop(sockets);
    let start = Instant::now();
    while !served.sessions().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "sessions stay after their clients left");
        std::thread::sleep(Duration::from_millis(10));
    }
    served.stop();
}

#[test]
fn in_flight_limits_hold_while_the_disk_is_slow() {
    let limits = Limits { requests_in_flight_max: 10, ..Limits::default() };
    let served = serve(&[("disk", 64 * MIB)], Options { limits, ..Options::default() });
    let slow = |served: &Served, wait| served.disk("disk", move |d| d.set_faults(Faults { wait, ..Faults::default() }));
    let counts = |served: &Served| served.disk("disk", |d| d.counts());
    let settle = |served: &Served, running| {
        let start = Instant::now();
        while counts(served).1 < running {
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", counts(served));
            std::thread::sleep(Duration::from_millis(5));
        }
        // Time for one more, if the limit does not hold.
        std::thread::sleep(Duration::from_millis(100));
    };
    let second = Some(Duration::from_millis(1000));
    slow(&served, second);
    let mut c = Client::unix(&served.socket()).go("disk", false);
    for _ in 0..25 {
        c.send(READ, 0, 0, 512);
    }
    settle(&served, 10);
    assert_eq!(counts(&served), (0, 10));
    slow(&served, None);
    for _ in 0..25 {
        assert_eq!(c.answer(512).error, 0);
    }
    // Bytes: 64 MiB are two reads of 32 MiB less their own bookkeeping, so the second waits.
    slow(&served, second);
    for _ in 0..4 {
        c.send(READ, 0, 0, 32 << 20);
    }
    settle(&served, 1);
    assert_eq!(counts(&served), (25, 1));
    slow(&served, None);
    for _ in 0..4 {
        assert_eq!(c.answer(32 << 20).error, 0);
    }
    served.stop();
}

#[test]
fn clients_that_vanish_in_the_middle_leave_nothing_behind() {
    let served = serve(&[("disk", 8 * MIB)], Options::default());
    let mut chance = Chance(77);
    for _ in 0..200 {
        let mut socket = negotiated(&served);
        let mut bytes = Vec::new();
        for cookie in 0..chance.below(50) {
            bytes.extend_from_slice(&request(1, 0, cookie, 4096 * chance.below(64), 8192));
            bytes.extend_from_slice(&[cookie as u8; 8192]);
            bytes.extend_from_slice(&request(0, 0, cookie, 0, 65536));
        }
        let cut = chance.below(bytes.len() as u64 + 1) as usize;
        socket.set_write_timeout(Some(Duration::from_millis(50))).expect("a limit");
        let _ = socket.write_all(&bytes[..cut]);
    }
    let start = Instant::now();
    while !served.sessions().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "sessions stay");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_serves(&served);
    served.stop();
}

#[test]
fn a_client_that_does_not_listen_cannot_hold_up_the_stop() {
    let stop_grace = Duration::from_millis(300);
    let served = serve(&[("disk", 64 * MIB)], Options { stop_grace, ..Options::default() });
    served.disk("disk", |d| d.fill());
    let mut deaf = negotiated(&served);
    flood(&mut deaf, &request(READ, 0, 7, 0, 1 << 20).repeat(10), 2800);
    let start = Instant::now();
    served.stop();
    let took = start.elapsed();
    assert!((stop_grace..Duration::from_secs(5)).contains(&took), "{took:?}");
}

#[test]
fn one_busy_client_does_not_starve_another() {
    let served = serve(&[("disk", 64 * MIB)], Options::default());
    served.disk("disk", |d| d.fill());
    let busy = negotiated(&served);
    let mut requests = busy.try_clone().expect("clone");
    let sender = std::thread::spawn(move || {
        let unit = request(READ, 0, 7, 0, 4096).repeat(100);
        while requests.write_all(&unit).is_ok() {}
    });
    let mut answers = busy.try_clone().expect("clone");
    let reader = std::thread::spawn(move || {
        let mut rest = vec![0; 1 << 20];
        while matches!(answers.read(&mut rest), Ok(n) if n > 0) {}
    });
    let mut polite = Client::unix(&served.socket()).go("disk", true);
    let start = Instant::now();
    for _ in 0..200 {
        polite.read(0, 4096);
    }
    let took = start.elapsed();
    busy.shutdown(Shutdown::Both).expect("end the flood");
    sender.join().expect("the sender");
    reader.join().expect("the reader");
    assert!(took < Duration::from_secs(5), "200 reads took {took:?}");
    served.stop();
}
