//! Serves one disk in memory by NBD until it is killed: to measure the front end by itself, beside `nbdkit memory`.
//!
//! Use         `ramdisk SOCKET SIZE_MIB [fill]`; the disk is called "disk"; `fill` gives every block its own bytes

#[path = "../tests/support/ramdisk.rs"]
mod ramdisk;

use std::{error::Error, future::pending};

use cairn_nbd::{Options, serve_unix};
use tokio::{runtime, task::LocalSet};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: ramdisk SOCKET SIZE_MIB [fill]";
    let path = args.next().ok_or(usage)?;
    let size_mib: u64 = args.next().ok_or(usage)?.parse()?;
    let fill = args.next().is_some_and(|arg| arg == "fill");
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let disks = ramdisk::RamDisks::default();
        let disk = disks.add("disk", size_mib << 20);
        if fill {
            disk.fill();
        }
        let _server = serve_unix(&path, disks, Options::default()).await?;
        pending().await
    })
}
