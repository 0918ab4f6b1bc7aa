//! Arguments of `cairn disk export` and `cairn disk import`.

use std::path::PathBuf;

use super::Limits;
use crate::units::size;

/// Forms of image files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ImageFormat {
    /// The bytes as they are, holes left out; .raw and .img
    Raw,
    /// QEMU's
    Qcow2,
    /// VMware's, as one sparse file
    Vmdk,
    /// VirtualBox's
    Vdi,
    /// Hyper-V's
    Vhdx,
    /// A machine with this disk and nothing else, for VMware and VirtualBox
    Ova,
}

/// From a disk to an image file.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// The snapshot, DISK@NAME; or a disk, of which a snapshot is taken for it and deleted afterwards
    #[arg(value_name = "DISK[@NAME]")]
    pub source: String,
    /// The file; - writes the bytes as they are to standard output
    pub file: PathBuf,
    /// Form of the file [default: what its name ends in]
    #[arg(long, value_enum)]
    pub format: Option<ImageFormat>,
    /// Only what changed since this older snapshot of the disk, by its own name: a qcow2 file over the one of that snapshot
    #[arg(long, value_name = "NAME", requires = "backing")]
    pub since: Option<String>,
    /// With --since: the file that has what that snapshot holds
    #[arg(long, value_name = "FILE", requires = "since")]
    pub backing: Option<PathBuf>,
    /// With --since: take that file although it does not say that it is of that snapshot
    #[arg(long, requires = "since")]
    pub any_backing: bool,
    /// Replace the file where there is one
    #[arg(long)]
    pub force: bool,
    /// Do not compare the file with the disk afterwards
    #[arg(long)]
    pub no_compare: bool,
    /// Read through this host, by name or id [default: the host that answers, else any]
    #[arg(long)]
    pub host: Option<String>,
}

/// From an image file to a new disk.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// The file: raw, qcow2 with its backing files, VMDK, OVA and what else qemu-img reads; - reads raw bytes from standard input
    pub file: PathBuf,
    /// Form of the file, as qemu-img calls it, or ova [default: what is found in it, if its name does not say otherwise]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Of an OVA with several disks: the one that is taken
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// The disk's name [default: the file's, without its ending]
    #[arg(long)]
    pub name: Option<String>,
    /// The disk's size: 20G, 512MiB, 1.5T [default: the image's]
    #[arg(long, short, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Its policy [default: default]
    #[arg(long, short)]
    pub policy: Option<String>,
    /// The host that will use it, by name or id: a copy is placed there where that is possible
    #[arg(long)]
    pub host: Option<String>,
    #[command(flatten)]
    pub limits: Limits,
    /// Do not compare the disk with the file afterwards
    #[arg(long)]
    pub no_compare: bool,
}
