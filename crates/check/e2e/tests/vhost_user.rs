//! A real VM whose disk comes over vhost-user-blk, which shares the guest's memory with the daemon: the story of `vm` (a file
//! system made, files written, a reboot, a check) while hosts and the daemon beneath the guest die.

use std::{
    fs,
    io::Read as _,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use cairn_e2e::{
    Cluster, NbdClient, Outcome, Shape, Target,
    process::{Process, signal},
    scene::{DISK, play, roles, targets},
    tools::{Turn, run, target, tool},
    vm::{Attached, Guest},
    wait::{check, listens},
    wait_until,
};
use rustix::process::Signal;

/// A guest under TCG on a busy machine boots in ten to sixty seconds.
const SLOW: Duration = Duration::from_secs(150);
/// Until a host listens for a disk that was made, or no longer for one that was deleted.
const SOCKET_LIMIT: Duration = Duration::from_secs(5);
/// What a guest writes.
const FILES: usize = 20;

/// Goal: the guest of this harness works, so that a failure below is the cluster's. Method: the same guest on qemu-storage-daemon.
#[test]
fn the_guest_itself() {
    let _turn = Turn::take();
    let folder = target().join("tmp").join(format!("e2e-vhost-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (image, socket) = (folder.join("disk.img"), folder.join("vhost.sock"));
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    let mut server = tool("qemu-storage-daemon");
    server.arg("--blockdev").arg(format!("driver=file,node-name=disk,filename={}", image.display()));
    server.arg("--export").arg(format!(
        "type=vhost-user-blk,id=export,node-name=disk,writable=on,num-queues=2,addr.type=unix,addr.path={}",
        socket.display()
    ));
    let server = Process::start(&server, &folder.join("qemu-storage-daemon.log")).unwrap();
    wait_until("qemu-storage-daemon listens", SLOW, || check(listens(&socket), || "no socket".into())).unwrap();
    let mut guest = Guest::boot(Attached::VhostUser { socket: &socket }, &folder, &folder).unwrap();
    guest.wait_said("done", SLOW).unwrap();
    guest.wait_off(SLOW).unwrap();
    drop(server);
    fs::remove_dir_all(&folder).unwrap();
}

/// Goal: what a guest wrote over vhost-user is there after failures, and the same over NBD. Method: while it writes, the host of the
/// other copy is killed, then comes back; the guest reboots and checks; a host without a copy reads the disk over NBD, and the
/// files in it are checked here. The disk's socket comes and goes with the disk, and turns a second front end away.
#[test]
fn a_guest_outlives_the_other_copy() {
    play("vhost_user", &Shape::default(), |cluster| {
        let socket = disk_with_socket(cluster)?;
        let (other, spare) = roles(cluster, 1)?;
        let mut guest = Guest::boot(Attached::VhostUser { socket: &socket }, &cluster.folder, &cluster.logs)?;
        guest.wait_said("wrote file-3", SLOW)?;
        cluster.say("the guest has made a file system and writes");
        second_is_turned_away(&socket)?;
        cluster.kill(other)?;
        guest.wait_said("wrote file-8", SLOW)?;
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
        ends_well(cluster, guest)?;
        read_over_nbd(cluster, spare)?;
        cluster.host(1).api().call(&["disk", "delete", DISK, "--yes"])?;
        wait_until("the deleted disk's socket is gone", SOCKET_LIMIT, || {
            check(!socket.exists(), || format!("{} is there", socket.display()))
        })
    });
}

/// Goal: a daemon may die or be replaced beneath a running guest, which notices a pause only. Method: three times while it writes.
/// First kill -9 with requests surely under way, since the other copy stands still and nothing is answered: the next daemon has
/// to carry them out again. Then kill -9, and the disk is served by another host until the daemon is back. Then SIGTERM, as an
/// upgrade does. QEMU connects anew each time; the guest reboots and checks.
#[test]
fn a_guest_outlives_its_daemon() {
    play("vhost_user_daemon", &Shape::default(), |cluster| {
        let socket = disk_with_socket(cluster)?;
        let (other, spare) = roles(cluster, 1)?;
        let mut guest = Guest::boot(Attached::VhostUser { socket: &socket }, &cluster.folder, &cluster.logs)?;
        guest.wait_said("wrote file-3", SLOW)?;
        cluster.say("the guest has made a file system and writes");
        kill_with_requests_under_way(cluster, &guest, other)?;
        cluster.restart(1)?;
        guest.wait_said("wrote file-6", SLOW)?;
        cluster.say("the guest writes on");

        cluster.kill(1)?;
        wait_until("another host serves the disk", Duration::from_secs(20), || read(cluster, other))?;
        cluster.say(format!("the disk was read through h{other}; its owner is h{}", cluster.owner(other, DISK)?));
        cluster.restart(1)?;
        guest.wait_said("wrote file-12", SLOW)?;
        cluster.say("the guest writes on");

        cluster.host_mut(1).stop()?;
        cluster.say("the daemon of h1 ended on SIGTERM");
        cluster.restart(1)?;
        ends_well(cluster, guest)?;
        read_over_nbd(cluster, spare)
    });
}

/// Makes the disk on host 1, whose socket for it appears.
fn disk_with_socket(cluster: &Cluster) -> Outcome<PathBuf> {
    cluster.create_disk(DISK, 256, 1)?;
    let socket = cluster.host(1).vhost_user_socket(DISK);
    wait_until("the disk's socket is there", SOCKET_LIMIT, || {
        check(socket.exists(), || format!("{} is missing", socket.display()))
    })?;
    Ok(socket)
}

/// A second front end is closed at once.
fn second_is_turned_away(socket: &Path) -> Outcome<()> {
    let io = |e: std::io::Error| format!("a second front end: {e}");
    let mut second = UnixStream::connect(socket).map_err(io)?;
    second.set_read_timeout(Some(Duration::from_secs(5))).map_err(io)?;
    let read = second.read(&mut [0; 16]).map_err(io)?;
    check(read == 0, || "a second front end is spoken to".into())
}

/// Kills host 1 while it has taken requests of the guest that it cannot answer, since the other copy stands still.
fn kill_with_requests_under_way(cluster: &mut Cluster, guest: &Guest, other: u8) -> Outcome<()> {
    let daemon = cluster.host(other).pid().ok_or("the other copy's host does not run")?;
    signal(daemon, Signal::STOP);
    // Far less than the owner needs to go on without that copy.
    thread::sleep(Duration::from_millis(700));
    let killed = cluster.kill(1);
    signal(daemon, Signal::CONT);
    killed?;
    let under_way = guest.under_way()?;
    cluster.say(format!("{under_way} requests of the guest were under way"));
    check(under_way > 0, || "nothing was under way: this shows nothing".into())
}

/// Reads a little of the disk through host `n`.
fn read(cluster: &Cluster, n: u8) -> Outcome<()> {
    let target = Target::Unix(cluster.host(n).nbd_socket());
    let mut client = NbdClient::connect(&target, DISK, Duration::from_secs(5)).map_err(|e| e.to_string())?;
    client.read(0, &mut [0; 4096]).map_err(|e| e.to_string())
}

/// The guest writes the rest of its files, reboots, finds all as it was, and powers off.
fn ends_well(cluster: &Cluster, mut guest: Guest) -> Outcome<()> {
    guest.wait_said("reboots", SLOW)?;
    cluster.say("the guest has written its files, and reboots");
    guest.wait_said("fsck clean", SLOW)?;
    guest.wait_said(&format!("{FILES} checksums right"), SLOW)?;
    cluster.say(format!("fsck clean, all {FILES} checksums right"));
    guest.wait_said("done", SLOW)?;
    guest.wait_off(SLOW)
}

/// Copies the disk through the NBD server of host `n` and checks the file system and the files' checksums here.
fn read_over_nbd(cluster: &Cluster, n: u8) -> Outcome<()> {
    let (image, files) = (cluster.folder.join("copy.img"), cluster.folder.join("files"));
    run(tool("nbdcopy").arg(targets(cluster, &[n])[0].uri(DISK)).arg(&image))?;
    run(tool("e2fsck").arg("-fn").arg(&image))?;
    fs::create_dir_all(&files).map_err(|e| e.to_string())?;
    run(tool("debugfs").arg("-R").arg(format!("rdump / {}", files.display())).arg(&image))?;
    let sums = fs::read_to_string(files.join("sums")).map_err(|e| format!("sums: {e}"))?;
    check(sums.lines().count() == FILES, || format!("not {FILES} checksums: {sums}"))?;
    let script = format!("cd {} && sha256sum -c -s sums", files.display());
    run(tool("busybox").args(["sh", "-c", &script]))?;
    cluster.say(format!("over NBD through h{n}: fsck clean, all {FILES} checksums right"));
    Ok(())
}
