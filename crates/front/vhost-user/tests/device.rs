//! A machine drives the server over its real socket, rings and event counters; the disk is in memory.

mod support;

use std::{
    sync::{atomic::Ordering, mpsc},
    thread,
    time::Duration,
};

use support::{
    DISK, DISK_BYTES, Ram, Served,
    driver::{DISCARD, FLUSH, GET_ID, IN, Machine, OUT, SLOTS, WRITE_ZEROES},
};
use vhost::{VhostBackend as _, vhost_user::Frontend};
use virtio_bindings::virtio_blk::{VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_WRITE_ZEROES};

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

/// Goal: every kind of request does what virtio says. Method: each once, then writes and reads until the ring has gone round often.
#[test]
fn requests_of_every_kind() {
    let (folder, ram, mut machine) = (tempfile::tempdir().unwrap(), Ram::default(), Machine::new());
    let served = Served::start(folder.path(), &ram);
    let mut driver = machine.connect(&folder.path().join(format!("{DISK}.sock")));
    // An earlier process may have answered, and died before it woke the machine.
    wait(|| driver.call.read().is_ok());
    assert_eq!(driver.config(8), (DISK_BYTES / 512).to_le_bytes());
    let data: Vec<u8> = (0..8192u32).map(|i| (i / 3) as u8).collect();
    assert_eq!(driver.ask(OUT, 8, &data, 0), (0, vec![]));
    assert_eq!(ram.bytes.lock().unwrap()[4096..12288], data[..]);
    assert_eq!(driver.ask(IN, 9, &[], 7680), (0, data[512..].to_vec()));
    assert_eq!(driver.ask(FLUSH, 0, &[], 0), (0, vec![]));
    let (status, name) = driver.ask(GET_ID, 0, &[], 20);
    assert_eq!((status, &name[..DISK.len()], &name[DISK.len()..]), (0, DISK.as_bytes(), &[0; 14][..]));
    assert_eq!(driver.ask(DISCARD, 0, &range(8, 8, 0), 0), (0, vec![]));
    assert_eq!(driver.ask(WRITE_ZEROES, 0, &range(16, 4, 1), 0), (0, vec![]));
    assert_eq!(ram.bytes.lock().unwrap()[4096..12288], [&[0; 6144][..], &data[6144..]].concat()[..]);
    assert_eq!(driver.ask(IN, DISK_BYTES / 512, &[], 512), (1, vec![]), "beyond the end");
    assert_eq!(driver.ask(IN, 0, &[], 100), (1, vec![]), "no whole sector");
    assert_eq!(driver.ask(99, 0, &[], 0), (2, vec![]), "an unknown request");
    for _ in 0..3 {
        driver.submit_circle(2);
        let (number, _, len) = driver.answer();
        assert_eq!((number, len), (2, 0), "what makes no sense is given back, and the ring goes on");
    }
    for round in 0..100u64 {
        for number in 0..SLOTS {
            driver.submit(number, OUT, round * 8 + u64::from(number), &[(round + u64::from(number)) as u8; 512], 0);
        }
        let mut answered: Vec<u16> = (0..SLOTS)
            .map(|_| driver.answer())
            .map(|(number, status, _)| {
                assert_eq!(status, 0);
                number
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..SLOTS).collect::<Vec<_>>());
    }
    assert!(driver.call.read().unwrap() > 0, "the machine is woken");
    assert_eq!(driver.frontend.get_vring_base(0).unwrap(), 9 + 3 + 500, "a ring that is stopped tells where it stands");
    drop(driver);
    served.stop();
    assert!(!folder.path().join(format!("{DISK}.sock")).exists());
}

/// Goal: a process that dies loses no request of its machine and carries out none twice that was answered. Method: it dies with some
/// answered and some under way; the machine comes back to the next one with the same memory.
#[test]
fn what_was_under_way_is_carried_out_again() {
    let (folder, ram, mut machine) = (tempfile::tempdir().unwrap(), Ram::default(), Machine::new());
    let socket = folder.path().join(format!("{DISK}.sock"));
    let served = Served::start(folder.path(), &ram);
    let mut driver = machine.connect(&socket);
    assert_eq!(driver.ask(OUT, 0, &[1; 512], 0).0, 0);
    ram.held.store(true, Ordering::Release);
    for (number, sector) in [(3, 30), (1, 10), (2, 20)] {
        driver.submit(number, OUT, sector, &[number as u8; 512], 0);
    }
    wait(|| ram.begun.lock().unwrap().len() == 4);
    driver.submit(4, FLUSH, 0, &[], 0);
    assert_eq!(driver.answer().0, 4, "one overtakes the others");
    drop(driver);
    served.kill();
    assert_eq!(ram.bytes.lock().unwrap()[30 * 512], 0);
    ram.begun.lock().unwrap().clear();
    ram.held.store(false, Ordering::Release);
    let served = Served::start(folder.path(), &ram);
    let mut driver = machine.connect(&socket);
    let mut answered: Vec<_> = (0..3).map(|_| driver.answer()).map(|(number, status, _)| (number, status)).collect();
    answered.sort_unstable();
    assert_eq!(answered, [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(*ram.begun.lock().unwrap(), [30 * 512, 10 * 512, 20 * 512], "each once, in their order");
    assert_eq!(driver.ask(IN, 30, &[], 512), (0, vec![3; 512]), "the ring goes on");
    drop(driver);
    served.stop();
}

/// Goal: a disk takes one machine at a time. Method: a second one comes while the first is there, and again after it has left.
#[test]
fn a_second_machine_is_refused_until_the_first_has_left() {
    let (folder, ram) = (tempfile::tempdir().unwrap(), Ram::default());
    let socket = folder.path().join(format!("{DISK}.sock"));
    let served = Served::start(folder.path(), &ram);
    let (mut first, mut second) = (Machine::new(), Machine::new());
    let mut driver = first.connect(&socket);
    assert_eq!(driver.ask(FLUSH, 0, &[], 0).0, 0);
    let refused = Frontend::connect(&socket, 1).unwrap();
    assert!(refused.get_features().is_err(), "it is closed at once");
    ram.held.store(true, Ordering::Release);
    driver.submit(1, OUT, 0, &[7; 512], 0);
    wait(|| ram.begun.lock().unwrap().len() == 1);
    drop(driver);
    let release = ram.clone();
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        release.held.store(false, Ordering::Release);
    });
    let mut driver = second.connect(&socket);
    assert_eq!(driver.ask(IN, 0, &[], 512), (0, vec![7; 512]), "it comes after all that the first had asked");
    later.join().unwrap();
    drop(driver);
    served.stop();
}

/// Goal: a machine keeps its disk when that gets another name, and the disk takes no second one by it. Method: the disk is renamed with a
/// request under way; a second machine comes by the new name, and again after the first has left.
#[test]
fn a_disk_that_is_renamed_keeps_its_machine() {
    let (folder, ram) = (tempfile::tempdir().unwrap(), Ram::default());
    let socket = |name: &str| folder.path().join(format!("{name}.sock"));
    let served = Served::start(folder.path(), &ram);
    let (mut first, mut second) = (Machine::new(), Machine::new());
    let mut driver = first.connect(&socket(DISK));
    ram.held.store(true, Ordering::Release);
    driver.submit(1, OUT, 0, &[7; 512], 0);
    wait(|| ram.begun.lock().unwrap().len() == 1);
    *ram.name.lock().unwrap() = "disk-2".into();
    wait(|| socket("disk-2").exists() && !socket(DISK).exists());
    let refused = Frontend::connect(socket("disk-2"), 1).unwrap();
    // Features are told before it is known who has the disk.
    wait(|| refused.get_features().is_err());
    ram.held.store(false, Ordering::Release);
    assert_eq!(driver.answer().1, 0);
    assert_eq!(driver.ask(IN, 0, &[], 512), (0, vec![7; 512]), "the first one goes on");
    drop(driver);
    let mut driver = second.connect(&socket("disk-2"));
    assert_eq!(driver.ask(IN, 0, &[], 512), (0, vec![7; 512]));
    drop(driver);
    served.stop();
}

/// Features that say what may change a disk: whether each is among `features`.
fn read_only_discard_zeroes(features: u64) -> [bool; 3] {
    [VIRTIO_BLK_F_RO, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_WRITE_ZEROES].map(|bit| features & (1 << bit) != 0)
}

/// Goal: a machine learns that a disk is read-only, and no request of it changes the disk or reaches it that would. Method: the features
/// beside those of another disk; each kind of request; a front end that takes a feature which is not offered.
#[test]
fn a_read_only_disk_is_told_as_such_and_takes_no_change() {
    let (folder, writable) = (tempfile::tempdir().unwrap(), Ram::default());
    let socket = folder.path().join(format!("{DISK}.sock"));
    let served = Served::start(folder.path(), &writable);
    let mut machine = Machine::new();
    let driver = machine.connect(&socket);
    assert_eq!(read_only_discard_zeroes(driver.frontend.get_features().unwrap()), [false, true, true]);
    drop(driver);
    served.stop();

    let ram = Ram { read_only: true, ..Ram::default() };
    ram.bytes.lock().unwrap().fill(5);
    let served = Served::start(folder.path(), &ram);
    let mut machine = Machine::new();
    let mut driver = machine.connect(&socket);
    assert_eq!(read_only_discard_zeroes(driver.frontend.get_features().unwrap()), [true, false, false]);
    assert_eq!(driver.config(60)[36..], [0; 24], "no bounds of what is not offered");
    assert_eq!(driver.ask(OUT, 8, &[7; 4096], 0), (1, vec![]));
    assert_eq!(driver.ask(DISCARD, 0, &range(8, 8, 0), 0), (1, vec![]));
    assert_eq!(driver.ask(WRITE_ZEROES, 0, &range(8, 8, 0), 0), (1, vec![]));
    assert_eq!(driver.ask(IN, 8, &[], 4096), (0, vec![5; 4096]));
    assert_eq!(driver.ask(FLUSH, 0, &[], 0), (0, vec![]));
    assert_eq!(driver.ask(GET_ID, 0, &[], 20).0, 0);
    assert!(ram.begun.lock().unwrap().is_empty(), "the disk is not asked");
    assert!(ram.bytes.lock().unwrap().iter().all(|byte| *byte == 5));
    drop(driver);
    let greedy = Frontend::connect(&socket, 1).unwrap();
    let features = greedy.get_features().unwrap();
    greedy.set_features(features | 1 << VIRTIO_BLK_F_DISCARD).unwrap();
    assert!(greedy.get_features().is_err(), "it is left");
    served.stop();
}

/// Goal: a machine that comes back does not stand still while its disk opens, which can take a lease; what is offered of a read-only disk is
/// the same then. Method: a disk that does not open until the features are told.
#[test]
fn features_are_told_while_the_disk_opens() {
    for read_only in [false, true] {
        let (folder, ram) = (tempfile::tempdir().unwrap(), Ram { read_only, ..Ram::default() });
        let socket = folder.path().join(format!("{DISK}.sock"));
        ram.shut.store(true, Ordering::Release);
        let served = Served::start(folder.path(), &ram);
        wait(|| socket.exists());
        let (tell, told) = mpsc::channel();
        let path = socket.clone();
        // On a thread of its own: it would wait for ever.
        let asking = thread::spawn(move || {
            let frontend = Frontend::connect(&path, 1).unwrap();
            tell.send(frontend.get_features().unwrap()).unwrap();
        });
        let features = told.recv_timeout(Duration::from_secs(20)).expect("told before the disk is open");
        asking.join().unwrap();
        ram.shut.store(false, Ordering::Release);
        let mut machine = Machine::new();
        let mut driver = machine.connect(&socket);
        assert_eq!(driver.config(8), (DISK_BYTES / 512).to_le_bytes());
        assert_eq!(driver.frontend.get_features().unwrap(), features);
        assert_eq!(read_only_discard_zeroes(features), [read_only, !read_only, !read_only]);
        drop(driver);
        served.stop();
    }
}

/// Goal: only what a dead server left is replaced. Method: a file and a socket that somebody serves, beside one that nobody does.
#[test]
fn files_and_sockets_of_others_stay() {
    let (folder, ram) = (tempfile::tempdir().unwrap(), Ram::default());
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("letter.sock"), "dear").unwrap();
    let _theirs = std::os::unix::net::UnixListener::bind(path("theirs.sock")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(path("left.sock")).unwrap());
    let served = Served::start(folder.path(), &ram);
    wait(|| path(&format!("{DISK}.sock")).exists());
    served.stop();
    let there = |name: &str| path(name).exists();
    assert_eq!((there("letter.sock"), there("theirs.sock"), there("left.sock")), (true, true, false));
}

fn wait(until: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if until() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not happen");
}
