//! What a guest of the tests boots: Debian's cloud kernel, and an initramfs made here, with the script of what the guest is to do.
//!
//! Promises    a program comes with its libraries, a module with the modules that it needs
//! Assumes     linux-image-cloud-amd64 in /boot and /lib/modules: virtio as modules, ext4 built in; a busybox whose shell finds its applets
//!             without a path
//! Not here    what guests do (`vm`, `synced`)

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    Outcome,
    tools::{run, tool},
};

/// What a guest does, and what it needs for that.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Shell; it has `fail WORDS`, which ends the guest, and `wait_for FILE`.
    pub script: &'a str,
    /// Programs beside busybox.
    pub programs: &'a [&'a str],
    /// Modules of the kernel, loaded before the script.
    pub modules: &'a [&'a str],
    /// Files of the folder `/job`: name and text.
    pub files: &'a [(&'a str, &'a str)],
}

/// What each script begins with.
const BEGIN: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
exec </dev/ttyS0 >/dev/ttyS0 2>&1
export PATH=/bin
for module in $(cat /modules/order); do insmod /modules/$module; done
fail() { echo "GUEST: failed: $1"; poweroff -f; sleep 60; }
wait_for() { tries=0; while [ ! -e $1 ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done; }
"#;

/// Kernel and initramfs of a guest; the latter is made in `folder`.
///
/// # Errors
/// When the kernel is missing.
pub fn boot_files(job: &Job<'_>, folder: &Path) -> Outcome<(PathBuf, PathBuf)> {
    let (kernel, version) = kernel()?;
    Ok((kernel, initramfs(job, &version, folder)?))
}

/// The newest cloud kernel with its version.
fn kernel() -> Outcome<(PathBuf, String)> {
    let mut found: Vec<String> = fs::read_dir("/boot")
        .map_err(|e| e.to_string())?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix("vmlinuz-").filter(|v| v.ends_with("-cloud-amd64")).map(str::to_owned))
        .collect();
    found.sort();
    let version = found.pop().ok_or("no /boot/vmlinuz-*-cloud-amd64: apt-get install linux-image-cloud-amd64")?;
    Ok((PathBuf::from(format!("/boot/vmlinuz-{version}")), version))
}

/// busybox, programs with their libraries, modules in their order, the script.
fn initramfs(job: &Job<'_>, version: &str, folder: &Path) -> Outcome<PathBuf> {
    let root = folder.join("initramfs");
    let io = |e: std::io::Error| format!("cannot make the initramfs: {e}");
    for name in ["bin", "dev", "proc", "sys", "mnt", "modules", "job"] {
        fs::create_dir_all(root.join(name)).map_err(io)?;
    }
    let busybox = PathBuf::from(tool("busybox").get_program());
    fs::copy(&busybox, root.join("bin/busybox")).map_err(io)?;
    for name in job.programs {
        let program = PathBuf::from(tool(name).get_program());
        fs::copy(&program, root.join("bin").join(name)).map_err(io)?;
        for library in run(tool("ldd").arg(&program))?.split_whitespace().filter(|word| word.starts_with('/')) {
            let library = library.trim_end_matches(':');
            let to = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().ok_or("a library without a folder")?).map_err(io)?;
            fs::copy(library, to).map_err(io)?;
        }
    }
    for (name, text) in job.files {
        fs::write(root.join("job").join(name), text).map_err(io)?;
    }
    let order = modules(job.modules, version, &root)?;
    fs::write(root.join("modules/order"), order.join("\n")).map_err(io)?;
    fs::write(root.join("init"), format!("{BEGIN}{}", job.script)).map_err(io)?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).map_err(io)?;
    let image = folder.join("initramfs.cpio");
    let script = format!("cd {} && find . | busybox cpio -o -H newc >{} 2>/dev/null", root.display(), image.display());
    run(tool("busybox").args(["sh", "-c", &script]))?;
    Ok(image)
}

/// Copies modules, with those that they need; their names in the order of loading.
fn modules(wanted: &[&str], version: &str, root: &Path) -> Outcome<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for wanted in wanted {
        let shown = run(tool("modprobe").args(["-S", version, "--show-depends", wanted]))?;
        for path in shown.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let path = Path::new(path.split_whitespace().next().unwrap_or_default());
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("a module without a name")?.to_owned();
            if !order.contains(&name) {
                fs::copy(path, root.join("modules").join(&name)).map_err(|e| format!("module {name}: {e}"))?;
                order.push(name);
            }
        }
    }
    Ok(order)
}
