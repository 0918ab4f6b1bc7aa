//! A real VM on a Cairn disk: a file system made, files written, a host killed meanwhile, a reboot, a check.

use std::{fs, time::Duration};

use cairn_e2e::{
    Cluster, Door, Outcome, Shape, Target,
    process::Process,
    scene::{DISK, play, roles, targets},
    tools::{Turn, run, target, tool},
    vm::{Attached, Guest},
    wait::{check, listens},
    wait_until,
};

/// A guest under TCG on a busy machine boots in ten to sixty seconds.
const SLOW: Duration = Duration::from_secs(150);

/// Goal: the guest of this harness works, so that a failure below is the cluster's. Method: the same guest on qemu-nbd.
#[test]
fn the_guest_itself() {
    let _turn = Turn::take();
    let folder = target().join("tmp").join(format!("e2e-vm-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (image, socket) = (folder.join("disk.img"), folder.join("nbd.sock"));
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    let mut server = tool("qemu-nbd");
    server
        .args(["--persistent", "--format=raw", "--cache=writeback", "--export-name", DISK, "--socket"])
        .arg(&socket)
        .arg(&image);
    let server = Process::start(&server, &folder.join("qemu-nbd.log")).unwrap();
    wait_until("qemu-nbd listens", SLOW, || check(listens(&socket), || "no socket".into())).unwrap();
    let mut guest = Guest::boot(Attached::Nbd { socket: &socket, export: DISK }, &folder, &folder).unwrap();
    guest.wait_said("done", SLOW).unwrap();
    drop((guest, server));
    fs::remove_dir_all(&folder).unwrap();
}

/// Goal: a guest sees a disk, whatever happens to hosts. Method: while it writes, the host of the other copy is killed, then
/// comes back, then the host that serves it is killed and QEMU reconnects through another; the guest reboots and checks.
#[test]
fn a_guest_outlives_two_hosts() {
    play("vm", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, 256, 1)?;
        let (other, _) = roles(cluster, 1)?;
        let door = Door::open(&cluster.host(1).sockets.join("door.sock"), targets(cluster, &[1, other, 2, 3, 4]))?;
        let mut guest =
            Guest::boot(Attached::Nbd { socket: &door.socket, export: DISK }, &cluster.folder, &cluster.logs)?;
        guest.wait_said("wrote file-3", SLOW)?;
        cluster.say("the guest has made a file system and writes");
        cluster.kill(other)?;
        guest.wait_said("wrote file-8", SLOW)?;
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
        guest.wait_said("wrote file-11", SLOW)?;
        cluster.kill(1)?;
        guest.wait_said("reboots", SLOW)?;
        cluster.say("the guest wrote on through another host, and reboots");
        guest.wait_said("fsck clean", SLOW)?;
        guest.wait_said("20 checksums right", SLOW)?;
        cluster.say("fsck clean, all 20 checksums right");
        guest.wait_said("done", SLOW)
    });
}

/// Goal: an image that exists becomes a Cairn disk. Method: a file system with files in a qcow2, `qemu-img convert` onto the disk, a
/// host killed meanwhile, the guest checks it.
#[test]
fn a_disk_written_from_a_qcow2() {
    play("vm_qcow2", &Shape::default(), |cluster| {
        cluster.create_disk(DISK, 256, 1)?;
        let qcow2 = image(cluster)?;
        let (other, _) = roles(cluster, 1)?;
        cluster.kill(other)?;
        let uri = Target::Unix(cluster.host(1).nbd_socket()).uri(DISK);
        run(tool("qemu-img").args(["convert", "-n", "-f", "qcow2", "-O", "raw"]).args([&qcow2, &uri]))?;
        cluster.say("qemu-img convert wrote the qcow2 onto the disk, while a copy was away");
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, Duration::from_secs(60))?;
        run(tool("qemu-img").args(["compare", "-f", "qcow2", "-F", "raw"]).args([&qcow2, &uri]))?;
        cluster.say("qemu-img compare: identical");
        let disk = Attached::Nbd { socket: &cluster.host(1).nbd_socket(), export: DISK };
        let mut guest = Guest::boot(disk, &cluster.folder, &cluster.logs)?;
        guest.wait_said("done", SLOW)?;
        cluster.say("the guest: fsck clean, all checksums right");
        Ok(())
    });
}

/// A qcow2 of 256 MiB with a file system, files and their checksums.
fn image(cluster: &Cluster) -> Outcome<String> {
    let tree = cluster.folder.join("tree");
    fs::create_dir_all(&tree).map_err(|e| e.to_string())?;
    let script = format!(
        "cd {} && for n in $(seq 1 12); do dd if=/dev/urandom of=file-$n bs=64k count=24 2>/dev/null; done && sha256sum file-* >sums",
        tree.display()
    );
    run(tool("busybox").args(["sh", "-c", &script]))?;
    let raw = cluster.folder.join("disk.raw").display().to_string();
    fs::File::create(&raw).and_then(|file| file.set_len(256 << 20)).map_err(|e| e.to_string())?;
    run(tool("mkfs.ext4").args(["-q", "-F", "-d"]).arg(&tree).arg(&raw))?;
    let qcow2 = cluster.folder.join("disk.qcow2").display().to_string();
    run(tool("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2", &raw, &qcow2]))?;
    Ok(qcow2)
}
