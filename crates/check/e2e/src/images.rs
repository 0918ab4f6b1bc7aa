//! Images in files, and whether an export holds one.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::{
    Cluster, Outcome,
    pattern::{self, SECTOR},
    scene::targets,
    tools::{run, tool},
    wait::check,
};

const MIB: u64 = 1 << 20;

/// A file of so many MiB, each with data of a version, or a hole.
///
/// # Errors
/// What the file system said.
pub fn image(cluster: &Cluster, name: &str, mib: u64, version_of: impl Fn(u64) -> Option<u32>) -> Outcome<PathBuf> {
    let path = cluster.folder.join(format!("{name}.img"));
    let file = fs::File::create(&path).map_err(|e| e.to_string())?;
    file.set_len(mib * MIB).map_err(|e| e.to_string())?;
    for mib in 0..mib {
        let Some(version) = version_of(mib) else { continue };
        let mut data = vec![0; MIB as usize];
        for (n, sector) in data.chunks_mut(SECTOR).enumerate() {
            pattern::fill(sector, 7, mib * 2048 + n as u64, version);
        }
        file.write_all_at(&data, mib * MIB).map_err(|e| e.to_string())?;
    }
    Ok(path)
}

/// Where an export is at a host.
pub fn uri(cluster: &Cluster, export: &str, host: u8) -> String {
    targets(cluster, &[host])[0].uri(export)
}

/// Writes an image by way of a host.
///
/// # Errors
/// What nbdcopy said.
pub fn write(cluster: &Cluster, image: &Path, export: &str, host: u8) -> Outcome<()> {
    run(tool("nbdcopy").args(["--allocated", &image.display().to_string(), &uri(cluster, export, host)])).map(drop)
}

/// An export holds an image, as a host gives it.
///
/// # Errors
/// It does not, or what nbdcopy said.
pub fn same(cluster: &Cluster, export: &str, host: u8, image: &Path) -> Outcome<()> {
    let out = cluster.folder.join("out.img");
    let _ = fs::remove_file(&out);
    run(tool("nbdcopy").args([&uri(cluster, export, host), &out.display().to_string()]))?;
    let equal = fs::read(image).map_err(|e| e.to_string())? == fs::read(&out).map_err(|e| e.to_string())?;
    check(equal, || format!("{export} at h{host} is not {}", image.display()))
}
