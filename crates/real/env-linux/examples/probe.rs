//! Measures this room on this machine: durable appends, group commit, message echo; CPU from getrusage of the process.
//!
//! `cargo run --release -p cairn-env-linux --example probe [DIRECTORY]`; the directory must not be a tmpfs.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    path::{Path, PathBuf},
    rc::Rc,
    sync::mpsc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cairn_env::{Disk, Durability, Env, NetEvent, OutMessage, PageBuf};
use cairn_env_linux::{
    DiskOptions, Executor, ExecutorConfig, Fabric, Fill, Host, HostConfig, IoChoice, LinuxDisk, LinuxEnv,
    create_disk_file,
};
use cairn_types::{Build, ClusterId, HostId, Incarnation, Level, Speaks};
use futures::future::join_all;

/// How long each figure is measured.
const RUN: Duration = Duration::from_millis(1500);
const BLOCK: usize = 4096;
const FILE_BYTES: u64 = 512 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let path = Path::new(&directory).join("cairn-probe.tmp");
    let outcome = measure(&path);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    for (name, fill) in [("written in full", Fill::Written), ("fallocate only", Fill::Reserved)] {
        let since = Instant::now();
        create_disk_file(path, FILE_BYTES, fill)?;
        println!("\nfile of {} MiB, {name}: made in {:.2} s", FILE_BYTES >> 20, since.elapsed().as_secs_f64());
        disk(path, IoChoice::Auto)?;
        if fill == Fill::Written {
            disk(path, IoChoice::Threads)?;
        }
        std::fs::remove_file(path)?;
    }
    println!();
    echo("TCP, a thread per host", Placing::TcpTwoThreads)?;
    echo("TCP, both hosts on one thread", Placing::TcpOneThread)?;
    echo("in process, a thread per host", Placing::FabricTwoThreads)?;
    echo("in process, one thread", Placing::FabricOneThread)?;
    Ok(())
}

/// CPU seconds of this process so far, of user and kernel.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// What one run showed.
struct Figures {
    count: u64,
    seconds: f64,
    cpu_seconds: f64,
    micros: Vec<f64>,
}

impl Figures {
    fn print(mut self, name: &str, unit: &str, per: u64) {
        self.micros.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (self.micros.len() as f64 * share) as usize;
            self.micros.get(index).copied().unwrap_or(0.0)
        };
        let done = (self.count * per) as f64;
        println!(
            "  {name:<34} {:>9.0} {unit}/s   p50 {:>6.1} us   p99 {:>6.1} us   CPU {:>5.2} us per {unit}",
            done / self.seconds,
            at(0.5),
            at(0.99),
            self.cpu_seconds * 1e6 / done
        );
    }
}

/// Runs `depth` loops of `step` for a while.
async fn run<F: Future<Output = ()>>(depth: usize, step: impl Fn(u64) -> F) -> Figures {
    let next = Cell::new(0);
    let micros = RefCell::new(Vec::new());
    let since = Instant::now();
    let cpu_before = cpu();
    join_all((0..depth).map(|_| async {
        while since.elapsed() < RUN {
            let number = next.get();
            next.set(number + 1);
            let start = Instant::now();
            step(number).await;
            micros.borrow_mut().push(start.elapsed().as_secs_f64() * 1e6);
        }
    }))
    .await;
    let micros = micros.into_inner();
    Figures {
        count: micros.len() as u64,
        seconds: since.elapsed().as_secs_f64(),
        cpu_seconds: cpu() - cpu_before,
        micros,
    }
}

fn config(id: u128) -> HostConfig {
    HostConfig {
        cluster: ClusterId(1),
        host: HostId(id),
        incarnation: Incarnation(1),
        build: Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) },
        level: Level::FIRST,
        listen: None,
        fabric: None,
    }
}

fn executor(io: IoChoice) -> Result<Executor, Box<dyn Error>> {
    let name = "probe".to_owned();
    Ok(Executor::spawn(ExecutorConfig { name, io, ..ExecutorConfig::default() })?)
}

fn disk(path: &Path, io: IoChoice) -> Result<(), Box<dyn Error>> {
    let executor = executor(io)?;
    println!(" device I/O by {:?}", executor.io_mode());
    let host = Host::new(config(1))?;
    let path = path.to_owned();
    let shard = host.start(&executor, move |env| disk_runs(env, path))?;
    shard.wait();
    Ok(())
}

async fn disk_runs(env: LinuxEnv, path: PathBuf) {
    let disk = match LinuxDisk::open(&env, &path, &DiskOptions::default()) {
        Ok(disk) => disk,
        Err(error) => {
            println!("{error}");
            return;
        }
    };
    let blocks = FILE_BYTES / BLOCK as u64;
    let data = PageBuf::copy_of(&[7; BLOCK]).freeze();
    for depth in [1, 8, 32] {
        let figures = run(depth, |number| {
            let at = number % blocks * BLOCK as u64;
            let write = disk.write(at, vec![data.clone()], Durability::Durable);
            async move { write.await.expect("a write") }
        });
        let name = format!("4 KiB durable append, QD{depth}");
        figures.await.print(&name, "op", 1);
    }
    for batch in [8u64, 32, 128] {
        let figures = run(1, |number| {
            let at = number % (blocks / batch) * batch * BLOCK as u64;
            let parts = vec![data.clone(); batch as usize];
            let write = disk.write(at, parts, Durability::Durable);
            async move { write.await.expect("a write") }
        });
        let name = format!("group commit of {batch} blocks, QD1");
        figures.await.print(&name, "block", batch);
    }
    for depth in [1, 32] {
        let figures = run(depth, |number| {
            let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * BLOCK as u64;
            let read = disk.read(at, BLOCK as u32);
            async move {
                read.await.expect("a read");
            }
        });
        let name = format!("4 KiB random read, QD{depth}");
        figures.await.print(&name, "op", 1);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Placing {
    TcpTwoThreads,
    TcpOneThread,
    FabricTwoThreads,
    FabricOneThread,
}

fn echo(name: &str, placing: Placing) -> Result<(), Box<dyn Error>> {
    println!("echo of 32 B + 4 KiB, {name}");
    let fabric = Fabric::new();
    let tcp = matches!(placing, Placing::TcpTwoThreads | Placing::TcpOneThread);
    let host = |id| {
        Host::new(HostConfig {
            listen: tcp.then(|| ([127, 0, 0, 1], 0).into()),
            fabric: (!tcp).then(|| fabric.clone()),
            ..config(id)
        })
    };
    let (server, client) = (host(2)?, host(1)?);
    let executors = [executor(IoChoice::Auto)?, executor(IoChoice::Auto)?];
    let one = matches!(placing, Placing::TcpOneThread | Placing::FabricOneThread);
    server.start(&executors[0], serve)?;
    let (sender, done) = mpsc::channel();
    let place = if one { &executors[0] } else { &executors[1] };
    client.start(place, move |env| async move {
        echo_runs(env).await;
        let _ = sender.send(());
    })?;
    if let (Some(here), Some(there)) = (client.address(), server.address()) {
        client.set_peer(server.id(), there);
        server.set_peer(client.id(), here);
    }
    done.recv()?;
    Ok(())
}

/// Answers every message with its own content.
async fn serve(env: LinuxEnv) {
    let mut events = Vec::new();
    loop {
        env.receive(&mut events).await;
        for event in events.drain(..) {
            if let NetEvent::Message(m) = event {
                env.send(m.from, OutMessage { body: m.body, payload: vec![m.payload] });
            }
        }
    }
}

type Waiters = Rc<RefCell<Vec<Option<futures::channel::oneshot::Sender<()>>>>>;

async fn echo_runs(env: LinuxEnv) {
    let mut events = Vec::new();
    env.receive(&mut events).await;
    env.sleep(Duration::from_millis(300)).await;
    let waiters = Waiters::default();
    let answered = waiters.clone();
    let receiver = env.clone();
    env.spawn(async move {
        let mut events = Vec::new();
        loop {
            receiver.receive(&mut events).await;
            for event in events.drain(..) {
                if let NetEvent::Message(m) = event {
                    let number = u32::from_le_bytes(m.body[..4].try_into().expect("four bytes"));
                    if let Some(waiter) = answered.borrow_mut()[number as usize].take() {
                        let _ = waiter.send(());
                    }
                }
            }
        }
    });
    let data = PageBuf::copy_of(&[7; BLOCK]).freeze();
    for depth in [1, 32, 256] {
        waiters.borrow_mut().clear();
        let free = RefCell::new((0..depth).collect::<Vec<usize>>());
        waiters.borrow_mut().resize_with(depth, || None);
        let figures = run(depth, |_| async {
            let slot = free.borrow_mut().pop().expect("a slot per loop");
            let (sender, receiver) = futures::channel::oneshot::channel();
            waiters.borrow_mut()[slot] = Some(sender);
            let mut body = [0; 32];
            body[..4].copy_from_slice(&(slot as u32).to_le_bytes());
            let message = OutMessage { body: Bytes::copy_from_slice(&body), payload: vec![data.clone()] };
            env.send(HostId(2), message);
            let _ = receiver.await;
            free.borrow_mut().push(slot);
        });
        figures.await.print(&format!("QD{depth}"), "msg", 1);
    }
}
