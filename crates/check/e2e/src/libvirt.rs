//! libvirt's daemon and its machines: in the network namespace of a host, and in a mount namespace of its own.
//!
//! Promises    it neither sees nor touches a libvirt of this machine; its machines end with it
//!             QEMU runs as Debian has it: as user `libvirt-qemu`, which is in group `kvm`
//! Assumes     libvirt-daemon-system with its users; neither a system bus, nor cgroups, nor KVM is needed
//! Not here    what a domain consists of (the tests)

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    Cluster, Outcome,
    process::Process,
    tools::{run, tool},
    vm::{files_guest, wait_console},
    wait_until,
};

/// Where the files of machines are, as libvirt sees it.
pub const FOLDER: &str = "/var/lib/libvirt/guest";
/// libvirt looks at QEMU and at the machine that it is on before it answers.
const UP_LIMIT: Duration = Duration::from_secs(90);

/// Nothing of this machine's libvirt is seen below these folders. The settings are for a place without an init: no confinement, no
/// cgroups, no daemon for logs.
const START: &str = r#"set -e
for folder in /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt; do
    mkdir -p $folder
    mount -t tmpfs -o mode=755 tmpfs $folder
done
mkdir -m 1777 /var/lib/libvirt/guest
cat >/etc/libvirt/qemu.conf <<END
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
remember_owner = 0
END
cat >/etc/libvirt/libvirtd.conf <<END
auth_unix_rw = "none"
log_outputs = "3:stderr"
END
exec libvirtd -f /etc/libvirt/libvirtd.conf
"#;

/// A running libvirtd.
#[derive(Debug)]
pub struct Libvirt {
    daemon: Process,
}

impl Libvirt {
    /// Starts it on host `n`, with kernel and initramfs of the harness's guest in [`FOLDER`].
    ///
    /// # Errors
    /// What it said.
    pub fn start(cluster: &Cluster, n: u8) -> Outcome<Self> {
        for needed in ["libvirtd", "virsh", "nsenter"] {
            let _ = tool(needed);
        }
        let mut command = cluster.network.command(n, tool("unshare").get_program().as_ref());
        command.args(["-m", "--propagation", "private", "sh", "-c", START]);
        let libvirt = Self { daemon: Process::start(&command, &cluster.logs.join("libvirtd.log"))? };
        wait_until("libvirtd answers", UP_LIMIT, || libvirt.virsh(&["version"]).map(drop))?;
        let (kernel, initramfs) = files_guest(&cluster.folder)?;
        for (from, to) in [(kernel, "kernel"), (initramfs, "initramfs")] {
            fs::copy(&from, libvirt.file(to)).map_err(|e| format!("copy {}: {e}", from.display()))?;
        }
        Ok(libvirt)
    }

    /// Runs `virsh`.
    ///
    /// # Errors
    /// What it said.
    pub fn virsh(&self, arguments: &[&str]) -> Outcome<String> {
        let pid = self.daemon.pid().to_string();
        let mut command = tool("nsenter");
        command.args(["-t", &pid, "-m", "timeout", "60", "virsh", "-q", "-c", "qemu:///system"]).args(arguments);
        run(&mut command)
    }

    /// A file in [`FOLDER`], as it is seen from here.
    pub fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{FOLDER}/{name}", self.daemon.pid()))
    }

    /// Starts a machine with the guest of the harness from this disk, after libvirt has checked all against its schema.
    ///
    /// # Errors
    /// What libvirt said.
    pub fn create(&self, name: &str, of_domain: &str, disk: &str) -> Outcome<()> {
        let domain = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>256</memory>{of_domain}<vcpu>1</vcpu>\
             <os><type arch='x86_64' machine='pc'>hvm</type><kernel>{FOLDER}/kernel</kernel><initrd>{FOLDER}/initramfs</initrd>\
             <cmdline>console=ttyS0 quiet panic=-1</cmdline></os><features><acpi/></features><devices>\
             <emulator>/usr/bin/qemu-system-x86_64</emulator>{disk}\
             <serial type='file'><source path='{FOLDER}/{name}.console'/></serial></devices></domain>"
        );
        fs::write(self.file("domain.xml"), domain).map_err(|e| e.to_string())?;
        self.virsh(&["create", &format!("{FOLDER}/domain.xml"), "--validate"]).map(drop)
    }

    /// Waits until the guest of a machine has said `words`.
    ///
    /// # Errors
    /// When it failed, or did not within `limit`: the end of its console.
    pub fn wait_said(&self, name: &str, words: &str, limit: Duration) -> Outcome<()> {
        wait_console(&self.file(&format!("{name}.console")), words, limit, || None)
    }

    /// Waits until a machine is in this state, "shut off" where libvirt knows it no longer.
    ///
    /// # Errors
    /// The state at the end of `limit`.
    pub fn wait_state(&self, name: &str, state: &str, limit: Duration) -> Outcome<()> {
        wait_until(&format!("{name} is {state}"), limit, || {
            let there = self.virsh(&["list", "--all", "--name"])?.lines().any(|line| line.trim() == name);
            let is = if there { self.virsh(&["domstate", name])? } else { "shut off".into() };
            if is.trim() == state { Ok(()) } else { Err(format!("it is {}", is.trim())) }
        })
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        // A machine outlives the daemon that started it.
        for name in self.virsh(&["list", "--name"]).unwrap_or_default().split_whitespace() {
            let _ = self.virsh(&["destroy", name]);
        }
    }
}
