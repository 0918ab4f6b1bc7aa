//! Machines of a real libvirt on Cairn disks: what `cairn disk xml` prints is put into a domain as it is. The guest makes a file
//! system, writes files, reboots, checks and powers off, and the daemon beneath it is started anew meanwhile.

use std::{thread, time::Duration};

use cairn_e2e::{Cluster, Outcome, Shape, libvirt::Libvirt, scene::DISK, wait::check, wait_until};

/// A guest under TCG on a busy machine boots in ten to sixty seconds.
const SLOW: Duration = Duration::from_secs(150);
const MACHINE: &str = "machine";

/// Goal: the stanza for NBD works, and its machine survives the daemon. Method: by TCP; while the guest writes, the daemon is away, so
/// that the machine pauses; it is there again, and `virsh resume` lets the guest go on.
#[test]
fn a_machine_by_nbd() {
    play("libvirt_nbd", |cluster, libvirt| {
        let disk = xml(cluster, &["--nbd"])?;
        libvirt.create(MACHINE, "", &disk)?;
        libvirt.wait_said(MACHINE, "wrote file-3", SLOW)?;
        cluster.say("the guest has made a file system and writes");
        cluster.host_mut(1).stop()?;
        libvirt.wait_state(MACHINE, "paused", SLOW)?;
        cluster.restart(1)?;
        // QEMU may still be connecting at the first: then the machine pauses again.
        wait_until("the machine stays resumed", SLOW, || {
            if libvirt.virsh(&["domstate", MACHINE])?.trim() == "paused" {
                libvirt.virsh(&["resume", MACHINE])?;
            }
            thread::sleep(Duration::from_secs(2));
            libvirt.wait_state(MACHINE, "running", Duration::ZERO)
        })?;
        cluster.say("the machine was paused while the daemon was away, and goes on");
        ends_well(cluster, libvirt)
    });
}

/// Goal: QEMU as libvirt runs it may connect to the NBD socket, which belongs to its group. Method: the other door of the same stanza.
#[test]
fn a_machine_by_nbd_over_a_unix_socket() {
    play("libvirt_nbd_unix", |cluster, libvirt| {
        let disk = xml(cluster, &[])?;
        let (tcp, unix) = (element(&disk, "<host name=", "/>")?, element(&disk, "<host transport=", "/>")?);
        // The one in use stands behind the one in the comment.
        let at = disk.rfind(tcp).ok_or("no door")?;
        libvirt.create(MACHINE, "", &format!("{}{unix}{}", &disk[..at], &disk[at + tcp.len()..]))?;
        libvirt.wait_said(MACHINE, "wrote file-3", SLOW)?;
        let shown = cluster.disk(1, DISK)?["sessions"][0].clone();
        check(shown["front_end"] == "nbd" && shown["peer"] == "unix", || format!("the session is {shown}"))?;
        ends_well(cluster, libvirt)
    });
}

/// Goal: the stanza for vhost-user works, and its guest does not notice that the daemon is started anew. Method: with the
/// `<memoryBacking>` that is printed with it.
#[test]
fn a_machine_by_vhost_user() {
    play("libvirt_vhost", |cluster, libvirt| {
        let socket = cluster.host(1).vhost_user_socket(DISK);
        wait_until("the disk's socket is there", Duration::from_secs(10), || {
            check(socket.exists(), || format!("{} is missing", socket.display()))
        })?;
        let disk = xml(cluster, &["--vhost-user"])?;
        let memory = element(&disk, "<memoryBacking>", "</memoryBacking>")?;
        libvirt.create(MACHINE, memory, &disk)?;
        libvirt.wait_said(MACHINE, "wrote file-3", SLOW)?;
        cluster.say("the guest has made a file system and writes");
        cluster.host_mut(1).stop()?;
        cluster.restart(1)?;
        ends_well(cluster, libvirt)
    });
}

/// A cluster whose first host runs libvirt, and lets QEMU's group have its sockets; a disk on it.
fn play(name: &str, scenario: impl FnOnce(&mut Cluster, &Libvirt) -> Outcome<()>) {
    let shape = Shape::default();
    let start = || -> Outcome<Cluster> {
        let mut cluster = Cluster::prepare(name, &shape)?;
        cluster.host(1).reconfigure("[listen]\n", "[listen]\nsocket_group = \"kvm\"\n")?;
        cluster.start_all()?;
        Ok(cluster)
    };
    start().unwrap_or_else(|words| panic!("{words}")).run(|cluster| {
        cluster.create_disk(DISK, 256, 1)?;
        let libvirt = Libvirt::start(cluster, 1)?;
        scenario(cluster, &libvirt)
    });
}

fn xml(cluster: &Cluster, arguments: &[&str]) -> Outcome<String> {
    let printed = cluster.host(1).api().call(&[&["disk", "xml", DISK], arguments].concat())?;
    printed["xml"].as_str().map(str::to_owned).ok_or_else(|| format!("no XML: {printed}"))
}

/// The first element that begins and ends so.
fn element<'a>(xml: &'a str, begin: &str, end: &str) -> Outcome<&'a str> {
    let from = xml.find(begin).ok_or_else(|| format!("no {begin} in {xml}"))?;
    let len = xml[from..].find(end).ok_or_else(|| format!("no {end} in {xml}"))? + end.len();
    Ok(&xml[from..from + len])
}

/// The guest writes the rest of its files, reboots, finds all as it was, and powers off.
fn ends_well(cluster: &Cluster, libvirt: &Libvirt) -> Outcome<()> {
    libvirt.wait_said(MACHINE, "reboots", SLOW)?;
    libvirt.wait_said(MACHINE, "fsck clean", SLOW)?;
    libvirt.wait_said(MACHINE, "20 checksums right", SLOW)?;
    libvirt.wait_said(MACHINE, "done", SLOW)?;
    cluster.say("fsck clean, all checksums right");
    libvirt.wait_state(MACHINE, "shut off", SLOW)
}
