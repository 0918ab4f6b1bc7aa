//! The protocol by the letter: each option and command, each refusal, with a client that sends exact bytes.

mod support;

use std::time::{Duration, Instant};

use cairn_nbd::{Limits, Options};
use cairn_volume::VolumeError;
use support::{
    Served,
    client::{
        BLOCK_STATUS, CACHE, Client, DISC, EINVAL, ENOSPC, EPERM, FLUSH, GO, READ, TRIM, WRITE, WRITE_ZEROES,
        export_query, meta_query,
    },
    ramdisk::Faults,
    serve,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

const ACK: u32 = 1;
const ERR_UNSUP: u32 = 0x8000_0001;
const ERR_POLICY: u32 = 0x8000_0002;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_UNKNOWN: u32 = 0x8000_0006;
const ERR_SHUTDOWN: u32 = 0x8000_0007;
const ERR_TOO_BIG: u32 = 0x8000_0009;

fn one_disk() -> Served {
    serve(&[("disk", 8 * MIB)], Options::default())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn options_are_answered_one_by_one() {
    let served = serve(&[("alpha", MIB), ("beta", 2 * MIB)], Options::default());
    let mut c = Client::unix(&served.socket()).greet(3);
    let kinds = |replies: Vec<(u32, Vec<u8>)>| replies.into_iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(c.option(3, &[]), [(2, b"\0\0\0\x05alpha".to_vec()), (2, b"\0\0\0\x04beta".to_vec()), (ACK, vec![]),]);
    assert_eq!(kinds(c.option(3, b"x")), [ERR_INVALID]);
    assert_eq!(kinds(c.option(5, &[])), [ERR_POLICY]);
    assert_eq!(kinds(c.option(4, &[])), [ERR_UNSUP], "PEEK_EXPORT was withdrawn");
    assert_eq!(kinds(c.option(11, &[])), [ERR_UNSUP], "extended headers");
    assert_eq!(kinds(c.option(0xdead_beef, &[0; 5000])), [ERR_UNSUP]);
    assert_eq!(kinds(c.option(6, &export_query("gamma", &[]))), [ERR_UNKNOWN]);
    assert_eq!(kinds(c.option(6, &export_query("broken", &[]))), [ERR_POLICY]);
    assert_eq!(kinds(c.option(GO, &export_query("leaving", &[]))), [ERR_SHUTDOWN]);
    let empty = c.option(GO, &export_query("", &[]));
    assert_eq!(empty[0].0, ERR_UNKNOWN);
    assert_eq!(empty[0].1, b"there are 2 disks: say which by its name");
    assert_eq!(kinds(c.option(6, &export_query("alpha\0", &[]))), [ERR_INVALID]);
    assert_eq!(kinds(c.option(6, &export_query(&"x".repeat(4097), &[]))), [ERR_INVALID]);
    assert_eq!(kinds(c.option(6, b"\xff\xff\xff\xffalpha\0\0")), [ERR_INVALID]);
    assert_eq!(kinds(c.option(6, b"\0\0\0\x05alpha\0\x09\0\x01")), [ERR_INVALID]);
    assert_eq!(kinds(c.option(8, b"?")), [ERR_INVALID]);
    assert_eq!(kinds(c.option(6, &vec![0; 100_000])), [ERR_TOO_BIG]);
    let info = c.option(6, &export_query("beta", &[1, 2, 77]));
    let infos: Vec<_> = info.iter().map(|(kind, data)| (*kind, data.clone())).collect();
    let size = [&[0, 0][..], &(2 * MIB).to_be_bytes(), &[0x0d, 0x6d]].concat();
    let blocks = b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0".to_vec();
    assert_eq!(
        infos,
        [(3, size), (3, blocks), (3, b"\0\x01beta".to_vec()), (3, b"\0\x02beta in memory".to_vec()), (ACK, vec![]),]
    );
    assert_eq!(c.option(2, b"bye"), [(ACK, vec![])]);
    assert!(c.is_closed());
    served.stop();
}

#[test]
fn metadata_contexts_are_listed_and_selected() {
    let served = one_disk();
    let mut c = Client::unix(&served.socket()).greet(3);
    let listed = || (4, b"\0\0\0\x01base:allocation".to_vec());
    let ack = || (ACK, vec![]);
    assert_eq!(c.option(9, &meta_query("disk", &[])), [listed(), ack()]);
    assert_eq!(c.option(9, &meta_query("disk", &[b"base:"])), [listed(), ack()]);
    assert_eq!(c.option(9, &meta_query("disk", &[b"qemu:"])), [ack()]);
    let early = c.option(10, &meta_query("disk", &[b"base:allocation"]));
    assert_eq!(early[0].0, ERR_INVALID, "before structured replies");
    assert_eq!(c.option(8, &[]), [ack()]);
    assert_eq!(c.option(10, &meta_query("disk", &[])), [ack()]);
    assert_eq!(c.option(10, &meta_query("disk", &[b"base:"])), [ack()], "no wildcards in SET");
    assert_eq!(c.option(10, &meta_query("disk", &[b"x:y", b"base:allocation"])), [listed(), ack()]);
    let mut lies = meta_query("disk", &[b"base:allocation"]);
    lies[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(c.option(10, &lies)[0].0, ERR_INVALID, "a huge count");
    // The failed SET unselected the context, as the protocol says.
    assert_eq!(c.option(GO, &export_query("disk", &[])).last().map(|r| r.0), Some(ACK));
    c.structured = true;
    assert_eq!(c.ask(BLOCK_STATUS, 0, 0, 4096).error, EINVAL);
    let mut other = Client::unix(&served.socket()).greet(3);
    other.option(8, &[]);
    other.option(10, &meta_query("other", &[b"base:allocation"]));
    other.option(GO, &export_query("disk", &[]));
    other.structured = true;
    assert_eq!(other.ask(BLOCK_STATUS, 0, 0, 4096).error, EINVAL, "selected for another disk");
    served.stop();
}

#[test]
fn export_name_starts_at_once_or_closes() {
    let served = one_disk();
    for (flags, zeroes) in [(0, 124), (1, 124), (3, 0)] {
        for name in ["disk", ""] {
            let mut c = Client::tcp(served.tcp()).greet(flags);
            c.send_option(1, name.as_bytes());
            assert_eq!(c.u64(), 8 * MIB);
            assert_eq!(c.u16(), 0x0d6d, "no DF without structured replies");
            assert_eq!(c.take_vec(zeroes), vec![0; zeroes]);
            assert_eq!(c.write(0, &[9; 512]).error, 0);
            assert_eq!(c.read(0, 512), [9; 512]);
        }
    }
    for name in [&b"nothing"[..], b"broken", b"\xff", &[b'x'; 5000]] {
        let mut c = Client::unix(&served.socket()).greet(3);
        c.send_option(1, name);
        assert!(c.is_closed());
    }
    served.stop();
}

#[test]
fn ranges_and_flags_are_judged_as_the_protocol_says() {
    let served = one_disk();
    let end = 8 * MIB;
    for structured in [false, true] {
        let mut c = Client::unix(&served.socket()).go("disk", structured);
        assert_eq!((c.size, c.flags), (end, if structured { 0x0ded } else { 0x0d6d }));
        // command, flags, offset, length, error
        let table = [
            (READ, 0, 0, 512, 0),
            (READ, FUA, end - 512, 512, 0),
            (READ, 0, 1, 512, EINVAL),
            (READ, 0, 0, 511, EINVAL),
            (READ, 0, 0, 0, EINVAL),
            (READ, 0, end, 512, EINVAL),
            (READ, 0, end - 512, 1024, EINVAL),
            (READ, 0, u64::MAX - 511, 512, EINVAL),
            (READ, 0, 0, (32 << 20) + 512, EINVAL),
            (READ, NO_HOLE, 0, 512, EINVAL),
            (READ, 0x8000, 0, 512, EINVAL),
            (READ, DF, 0, 512, if structured { 0 } else { EINVAL }),
            (WRITE_ZEROES, FUA, 0, 8 << 20, 0),
            (WRITE_ZEROES, NO_HOLE, 512, 512, 0),
            (WRITE_ZEROES, FAST_ZERO, 512, 8192, 0),
            (WRITE_ZEROES, FAST_ZERO | NO_HOLE, 512, 8192, 95),
            (WRITE_ZEROES, 0, end, 512, ENOSPC),
            (WRITE_ZEROES, 0, 0, !511, ENOSPC),
            (WRITE_ZEROES, DF, 0, 512, EINVAL),
            (TRIM, FUA, 0, 8 << 20, 0),
            (TRIM, 0, 0, (8 << 20) + 512, EINVAL),
            (TRIM, 0, 3, 512, EINVAL),
            (FLUSH, 0, 0, 0, 0),
            (FLUSH, FUA, 0, 0, 0),
            (FLUSH, 0, 512, 0, EINVAL),
            (CACHE, 0, 0, 8 << 20, 0),
            (CACHE, 0, end, 512, EINVAL),
            (BLOCK_STATUS, 0, 0, 512, if structured { 0 } else { EINVAL }),
            (BLOCK_STATUS, 0, end, 512, EINVAL),
            (8, 0, 0, 512, EINVAL),
            (0xffff, 0, 0, 0, EINVAL),
        ];
        for (command, flags, offset, len, error) in table {
            let answer = c.ask(command, flags, offset, len);
            assert_eq!(answer.error, error, "{command} {flags:#x} {offset}+{len}");
            assert_eq!(answer.text.is_empty(), error == 0 || !structured);
        }
        // A refused write's payload is read past: what follows is understood.
        for (offset, len, error) in [
            (end, 512, ENOSPC),
            (1, 512, EINVAL),
            (0, 100, EINVAL),
            (end - 512, 1 << 20, ENOSPC),
            (0, (32 << 20) + 512, EINVAL),
        ] {
            assert_eq!(c.write(offset, &vec![7; len]).error, error, "{offset}+{len}");
        }
        assert_eq!(c.ask(WRITE, 0, 0, 0).error, EINVAL);
        let cookie = c.send_write(FUA, 512, &[3; 512]);
        assert_eq!((c.answer(0).cookie, c.read(0, 1024)), (cookie, [[0; 512], [3; 512]].concat()));
        c.send(WRITE, 0, 0, !511);
        assert!(c.is_closed(), "4 GiB are not read past");
    }
    served.stop();
}

/// Goal: a client learns that a disk is read-only, and no request of it changes the disk or reaches it that would. Method: the flags in
/// each way that they are told; each kind of request, and how many the disk has had afterwards.
#[test]
fn a_read_only_disk_is_told_as_such_and_takes_no_change() {
    let served = one_disk();
    served.disk("disk", |d| {
        d.fill();
        d.set_read_only();
    });
    let before = served.disk("disk", |d| d.contents());
    let mut asked = 0;
    for structured in [false, true] {
        let mut c = Client::unix(&served.socket()).go("disk", structured);
        // HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA; CAN_MULTI_CONN, SEND_CACHE; SEND_DF
        assert_eq!((c.size, c.flags), (8 * MIB, if structured { 0x058f } else { 0x050f }));
        let refused = [
            (TRIM, 0, 0, 4096),
            (TRIM, FUA, 8 * MIB, 512),
            (WRITE_ZEROES, 0, 0, 4096),
            (WRITE_ZEROES, NO_HOLE, 512, 512),
            (WRITE_ZEROES, FAST_ZERO | NO_HOLE, 0, 4096),
            (WRITE_ZEROES, DF, 1, 0),
        ];
        for (command, flags, offset, len) in refused {
            assert_eq!(c.ask(command, flags, offset, len).error, EPERM, "{command} {flags:#x} {offset}+{len}");
        }
        // The payload is read past, as that of any refused write.
        for (offset, len) in [(0, 4096), (0, 512), (3, 100), (8 * MIB, 512), (0, (32 << 20) + 512)] {
            let answer = c.write(offset, &vec![7; len]);
            assert_eq!((answer.error, answer.text.is_empty()), (EPERM, !structured), "{offset}+{len}");
        }
        assert_eq!(served.disk("disk", |d| d.counts()), (asked, 0), "the disk is not asked");
        assert_eq!(c.read(0, 8 << 20), before);
        for (command, len) in [(FLUSH, 0), (CACHE, 4096)] {
            assert_eq!(c.ask(command, 0, 0, len).error, 0);
        }
        asked += 3;
        if structured {
            assert_eq!(c.ask(BLOCK_STATUS, 0, 0, 4096).extents, [(4096, 0)]);
            asked += 1;
        }
        assert_eq!(served.disk("disk", |d| d.counts()), (asked, 0));
    }
    assert_eq!(served.disk("disk", |d| d.contents()), before);
    let mut c = Client::tcp(served.tcp()).greet(3);
    let info = c.option(6, &export_query("disk", &[]));
    assert_eq!(info[0].1[10..], [0x05, 0x0f], "told without opening");
    c.send_option(1, b"disk");
    assert_eq!((c.u64(), c.u16()), (8 * MIB, 0x050f));
    assert_eq!(c.write(0, &[7; 512]).error, EPERM);
    served.stop();
}

#[test]
fn structured_reads_show_holes_and_df_does_not_fragment() {
    let served = one_disk();
    let mut c = Client::unix(&served.socket()).go("disk", true);
    let data: Vec<u8> = (0..64 * KIB).map(|i| (i % 251) as u8 | 1).collect();
    c.write(0, &data);
    c.write(192 * KIB, &data);
    let mut expected = vec![0; 256 * 1024];
    expected[..65536].copy_from_slice(&data);
    expected[196_608..].copy_from_slice(&data);
    let cut = c.ask(READ, 0, 0, 256 << 10);
    assert_eq!((cut.bytes(0, 256 << 10), cut.holes, cut.chunks), (expected.clone(), 128 * KIB, 3));
    let whole = c.ask(READ, DF, 0, 256 << 10);
    assert_eq!((whole.bytes(0, 256 << 10), whole.holes, whole.chunks), (expected, 0, 1));
    let hole = c.ask(READ, DF, MIB, 4096);
    assert_eq!((hole.bytes(MIB, 4096), hole.holes, hole.chunks), (vec![0; 4096], 4096, 1));
    c.ask(TRIM, 0, 4096, 4096);
    let small = c.ask(READ, 0, 0, 16384);
    assert_eq!((small.chunks, small.holes), (1, 0), "a small hole is not worth a chunk");
    served.stop();
}

#[test]
fn block_status_merges_and_stays_inside() {
    let served = one_disk();
    let mut c = Client::unix(&served.socket()).go("disk", true);
    c.write(4096, &[1; 8192]);
    c.write(16384, &[1; 512]);
    let status = |c: &mut Client, flags, offset, len| c.ask(BLOCK_STATUS, flags, offset, len).extents;
    assert_eq!(status(&mut c, 0, 0, 8 << 20), [(4096, 3), (8192, 0), (4096, 3), (4096, 0), ((8 << 20) - 20480, 3)]);
    assert_eq!(status(&mut c, REQ_ONE, 4608, 20480), [(7680, 0)]);
    assert_eq!(status(&mut c, 0, 4608, 512), [(512, 0)]);
    assert_eq!(status(&mut c, REQ_ONE, 1 << 20, 1 << 20), [(1 << 20, 3)]);
    served.stop();
}

#[test]
fn the_disks_errors_reach_the_client_with_their_reason() {
    let served = one_disk();
    let mut c = Client::unix(&served.socket()).go("disk", true);
    let reason = "é".repeat(3000);
    for (error, errno) in [
        (VolumeError::NoSpace(reason.clone()), ENOSPC),
        (VolumeError::Io(reason.clone()), 5),
        (VolumeError::Invalid(reason.clone()), EINVAL),
        (VolumeError::Shutdown(reason.clone()), 108),
    ] {
        served.disk("disk", |d| d.set_faults(Faults { at: Some((4096, error)), ..Faults::default() }));
        let answer = c.write(4096, &[1; 4096]);
        assert_eq!((answer.error, answer.text.len()), (errno, 4096));
        assert_eq!(c.ask(READ, 0, 0, 8192).error, errno);
        assert_eq!(c.ask(BLOCK_STATUS, 0, 0, 8192).error, errno);
        assert_eq!(c.ask(READ, 0, 8192, 8192).error, 0);
    }
    let sessions = served.sessions();
    assert_eq!(sessions[0].export.as_ref().map(|(_, name)| name.as_str()), Some("disk"));
    assert_eq!((sessions[0].counters.requests, sessions[0].counters.failed_requests), (16, 12));
    served.stop();
}

/// Goal: nothing that the disk abandons is answered. Method: a write that the disk abandons, a read behind it; the connection closes.
#[test]
fn an_abandoned_request_ends_the_connection_unanswered() {
    let served = one_disk();
    let mut c = Client::unix(&served.socket()).go("disk", true);
    let error = VolumeError::Abandoned("the host stood still".into());
    served.disk("disk", |d| d.set_faults(Faults { at: Some((4096, error)), ..Faults::default() }));
    c.send_write(0, 4096, &[1; 4096]);
    assert!(c.is_closed());
    let mut again = Client::unix(&served.socket()).go("disk", true);
    assert_eq!(again.ask(READ, 0, 8192, 4096).error, 0);
    served.stop();
}

#[test]
fn a_grown_disk_shows_on_the_next_connection() {
    let served = one_disk();
    let mut old = Client::unix(&served.socket()).go("disk", true);
    served.disk("disk", |d| d.grow(16 * MIB));
    assert_eq!(old.ask(READ, 0, 8 * MIB, 512).error, EINVAL);
    let mut new = Client::unix(&served.socket()).go("disk", true);
    assert_eq!(new.size, 16 * MIB);
    assert_eq!(new.ask(READ, 0, 8 * MIB, 512).error, 0);
    served.stop();
}

#[test]
fn requests_finish_when_their_client_leaves() {
    let served = one_disk();
    let wait = Some(Duration::from_millis(200));
    served.disk("disk", move |d| d.set_faults(Faults { wait, ..Faults::default() }));
    for (index, say_goodbye) in [false, true].into_iter().enumerate() {
        let mut c = Client::unix(&served.socket()).go("disk", true);
        for block in 0..20 {
            c.send_write(0, block * 4096, &[index as u8 + 1; 4096]);
        }
        if say_goodbye {
            c.send(DISC, 0, 0, 0);
            for _ in 0..20 {
                assert_eq!(c.answer(0).error, 0);
            }
            assert!(c.is_closed());
        }
        // Let the server read them before the connection goes.
        let expected = 20 * (index as u64 + 1);
        wait_until("all let in", || served.disk("disk", |d| d.counts().0 + d.counts().1) == expected);
        drop(c);
        wait_until("all finished", || served.disk("disk", |d| d.counts()) == (expected, 0));
        let contents = served.disk("disk", |d| d.contents());
        assert!(contents[..20 * 4096].iter().all(|b| *b == index as u8 + 1));
        wait_until("the session is over", || served.sessions().is_empty());
    }
    served.stop();
}

#[test]
fn a_half_closed_client_still_gets_its_answers() {
    let served = one_disk();
    use std::{
        io::Write,
        net::{Shutdown, TcpStream},
    };
    let mut c = Client::tcp(served.tcp()).go("disk", true);
    drop(std::mem::replace(&mut c.socket, Box::new(TcpStream::connect(served.tcp()).expect("connect"))));
    let stream = TcpStream::connect(served.tcp()).expect("connect");
    c.socket = Box::new(stream.try_clone().expect("clone"));
    c.structured = false;
    c = c.greet(3);
    assert_eq!(c.option(GO, &export_query("disk", &[])).last().map(|r| r.0), Some(ACK));
    for _ in 0..50 {
        c.send(READ, 0, 0, 65536);
    }
    c.socket.write_all(&[0x25]).expect("a piece of a request");
    stream.shutdown(Shutdown::Write).expect("half close");
    for _ in 0..50 {
        assert_eq!(c.answer(65536).bytes(0, 65536).len(), 65536);
    }
    assert!(c.is_closed());
    served.stop();
}

#[test]
fn a_stopping_server_finishes_what_runs() {
    let served = one_disk();
    let wait = Some(Duration::from_millis(1000));
    served.disk("disk", move |d| d.set_faults(Faults { wait, ..Faults::default() }));
    let mut c = Client::unix(&served.socket()).go("disk", true);
    let idle = Client::tcp(served.tcp()).greet(3);
    for block in 0..10 {
        c.send_write(0, block * 4096, &[1; 4096]);
    }
    wait_until("all let in", || served.disk("disk", |d| d.counts().1) == 10);
    served.stop();
    for _ in 0..10 {
        assert_eq!(c.answer(0).error, 0);
    }
    assert!(c.is_closed());
    drop(idle);
}

#[test]
fn too_many_connections_and_slow_negotiators_are_turned_away() {
    let limits = Limits { connections_max: 3, handshake_timeout: Duration::from_millis(1500), ..Limits::default() };
    let served = serve(&[("disk", MIB)], Options { limits, ..Options::default() });
    let mut kept: Vec<_> = (0..3).map(|_| Client::unix(&served.socket()).go("disk", false)).collect();
    assert!(Client::unix(&served.socket()).is_closed());
    assert_eq!(kept[2].read(0, 512), [0; 512]);
    kept.pop();
    wait_until("a place is free", || served.sessions().len() == 2);
    let start = Instant::now();
    assert!(Client::unix(&served.socket()).greet(3).is_closed());
    assert!(start.elapsed() >= Duration::from_millis(1400));
    served.stop();
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_live_one_is_not() {
    let served = one_disk();
    let path = served.socket();
    let try_serve = |path: &std::path::Path| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let exports = support::ramdisk::RamDisks::default();
        tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), async {
            match cairn_nbd::serve_unix(path, exports, Options::default()).await {
                Ok(server) => {
                    let _: () = server.stop().await;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            }
        })
    };
    let refused = try_serve(&path).expect_err("it is in use");
    assert!(refused.contains("nbd.sock") && refused.contains("in use"), "{refused}");
    let file = std::path::PathBuf::from(served.file("a file"));
    std::fs::write(&file, "precious").expect("write");
    try_serve(&file).expect_err("not a socket");
    assert_eq!(std::fs::read(&file).expect("read"), b"precious");
    let dead = std::path::PathBuf::from(served.file("dead.sock"));
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("bind"));
    assert_eq!(try_serve(&dead), Ok(()));
    assert!(!dead.exists());
    served.stop();
}
