//! One host: a `cairnd` process in its namespace, with its files, sockets and log.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    Outcome,
    cli::Api,
    cluster::Shape,
    network::{Network, PEER_PORT},
    process::{Process, signal, tail},
    tools::program,
    wait::{check, wait_until},
};

/// One host of the cluster.
#[derive(Debug)]
pub struct Host {
    /// Its number, from 1; its name is `h` and the number.
    pub number: u8,
    /// Its files.
    pub folder: PathBuf,
    /// Its sockets: short paths, since a socket's path has at most 107 bytes.
    pub sockets: PathBuf,
    /// Its log.
    pub log: PathBuf,
    /// The folder of its programs; none: this build's.
    pub programs: Option<PathBuf>,
    address: std::net::Ipv4Addr,
    process: Option<Process>,
}

impl Host {
    /// A host with its configuration file; not started.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn new(number: u8, shape: &Shape, network: &Network, folder: &Path, logs: &Path) -> Outcome<Self> {
        let folder = folder.join(format!("h{number}"));
        let sockets = PathBuf::from(format!("/run/cairn-e2e-{}/h{number}", network.id()));
        for path in [&folder, &sockets] {
            std::fs::create_dir_all(path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        }
        let host = Self {
            number,
            folder,
            sockets,
            log: logs.join(format!("h{number}.log")),
            programs: shape.programs.clone(),
            address: network.address(number),
            process: None,
        };
        std::fs::write(host.config(), host.config_text(shape, network)).map_err(|e| e.to_string())?;
        Ok(host)
    }

    fn config_text(&self, shape: &Shape, network: &Network) -> String {
        let (n, folder, sockets) = (self.number, self.folder.display(), self.sockets.display());
        let mut members = String::new();
        for m in 1..=shape.etcd_members {
            let a = network.address(m);
            let _ = write!(
                members,
                "{{ host = \"h{m}\", peer_url = \"http://{a}:2380\", client_url = \"http://{a}:2379\" }}, "
            );
        }
        let mut text = format!(
            "[cluster]\nname = \"e2e-{}\"\nlease_ms = {}\nrepair_delay_s = {}\n\
             [host]\nname = \"h{n}\"\ndata_dir = \"{folder}/data\"\nshards = {shards}\n\
             [listen]\npeers = \"{a}:{PEER_PORT}\"\napi = \"\"\napi_socket = \"{sockets}/api.sock\"\nnbd = \"{a}:10809\"\nnbd_socket = \"{sockets}/nbd.sock\"\n\
             vhost_user_dir = \"{sockets}/vhost\"\n\
             [directory]\nkind = \"etcd\"\nmembers = [{members}]\n\
             [tuning]\nread_cache = \"64MiB\"\n\
             [log]\nlevel = \"{level}\"\n",
            network.id(),
            shape.lease_ms,
            shape.repair_delay_s,
            shards = shape.shards,
            a = self.address,
            level = std::env::var("CAIRN_E2E_LOG").unwrap_or_else(|_| "info".into()),
        );
        let groups = if n <= shape.hosts_with_disks { shape.shards } else { 0 };
        for group in 1..=groups {
            let suffix = if group == 1 { String::new() } else { format!("-{group}") };
            let _ = write!(
                text,
                "[[disk_group]]\ncache = \"{folder}/cache{suffix}.img\"\ncapacity = [\"{folder}/capacity{suffix}-1.img\"]\n\
                 cache_size = \"{}MiB\"\ncapacity_size = \"{}MiB\"\n",
                shape.cache_mib, shape.capacity_mib
            );
            if let Some((_, us)) = shape.slow_cache.filter(|(slow, _)| *slow == n && group == 1) {
                let times = format!("{{ access_us = [[0.0, {us}.0], [1.0, {us}.0]], lanes = 16, mb_per_s = 1000 }}");
                let _ = write!(text, "cache_medium = \"slow\"\n[medium.slow]\nreads = {times}\nwrites = {times}\n");
            }
            if shape.access_us.is_some() {
                text.push_str("cache_medium = \"even\"\ncapacity_medium = \"even\"\nmedium_dilation = 1.0\n");
            }
        }
        if let Some(us) = shape.access_us.filter(|_| groups > 0) {
            let times = format!("{{ access_us = [[0.0, {us}.0], [1.0, {us}.0]], lanes = 16, mb_per_s = 1000 }}");
            let _ = write!(text, "[medium.even]\nreads = {times}\nwrites = {times}\n");
        }
        text
    }

    /// Its configuration with other words in the place of some; it takes effect when it is started anew.
    ///
    /// # Errors
    /// When the file is not there, or does not have those words.
    pub fn reconfigure(&self, from: &str, to: &str) -> Outcome<()> {
        let text = std::fs::read_to_string(self.config()).map_err(|e| e.to_string())?;
        check(text.contains(from), || format!("{} does not say {from:?}", self.config().display()))?;
        std::fs::write(self.config(), text.replace(from, to)).map_err(|e| e.to_string())
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("h{}", self.number)
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder.join("cairnd.toml")
    }

    /// The folder of programs that its daemon finds before the system's.
    pub fn own_programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// The unix socket of its NBD server.
    pub fn nbd_socket(&self) -> PathBuf {
        self.sockets.join("nbd.sock")
    }

    /// The unix socket of its vhost-user-blk back end for a disk.
    pub fn vhost_user_socket(&self, disk: &str) -> PathBuf {
        self.sockets.join("vhost").join(format!("{disk}.sock"))
    }

    /// The address of its NBD server.
    pub fn nbd_address(&self) -> std::net::SocketAddr {
        (self.address, 10809).into()
    }

    /// Its management API.
    pub fn api(&self) -> Api {
        Api::new(self.sockets.join("api.sock"))
    }

    /// Starts its daemon without waiting for it.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(&mut self, network: &Network) -> Outcome<()> {
        let program = self.programs.as_ref().map_or_else(|| program("cairnd"), |folder| folder.join("cairnd"));
        let mut command = network.command(self.number, &program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg("--config").arg(self.config()).env("NO_COLOR", "1");
        command.env("PATH", format!("{}:{path}", self.own_programs().display()));
        self.process = Some(Process::start(&command, &self.log)?);
        Ok(())
    }

    /// Waits until its API answers.
    ///
    /// # Errors
    /// When the daemon ends or does not answer within `limit`.
    pub fn wait_serving(&mut self, limit: Duration) -> Outcome<()> {
        let begin = Instant::now();
        let name = self.name();
        loop {
            let process = self.process.as_mut().ok_or_else(|| format!("{name} is not started"))?;
            if let Some(how) = process.ended() {
                return Err(format!("{name} ended: {how}\n{}", tail(&self.log, 15)));
            }
            match self.api().call(&["cluster", "status"]) {
                Ok(_) => return Ok(()),
                Err(words) if begin.elapsed() > limit => {
                    return Err(format!("{name} does not serve: {words}\n{}", tail(&self.log, 15)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Whether its daemon was started and not killed.
    pub fn running(&self) -> bool {
        self.process.is_some()
    }

    /// The number of the daemon's process.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// kill -9 of everything that runs in its namespace, its etcd member included, as if its power were cut.
    ///
    /// # Errors
    /// When some process does not go away.
    pub fn kill(&mut self, network: &Network) -> Outcome<()> {
        // The daemon first: it would start its etcd member anew.
        if let Some(pid) = self.pid() {
            signal(pid, Signal::KILL);
        }
        self.signal(network, Signal::KILL)?;
        drop(self.process.take());
        wait_until("the host's processes are gone", Duration::from_secs(10), || {
            let left = network.processes(self.number, None)?;
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are still there")) }
        })
    }

    /// Forgets a daemon that did not come up, and ends it where it still runs.
    pub fn kill_quietly(&mut self) {
        drop(self.process.take());
    }

    /// Asks the daemon to end (SIGTERM) and waits for it.
    ///
    /// # Errors
    /// When it does not end in 20 s, or ends with another code than 0.
    pub fn stop(&mut self) -> Outcome<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        signal(process.pid(), Signal::TERM);
        wait_until("the daemon has ended", Duration::from_secs(20), || {
            process.ended().map(drop).ok_or_else(|| "it still runs".into())
        })?;
        process.finish()
    }

    /// Sends a signal to all that runs in its namespace.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn signal(&self, network: &Network, what: Signal) -> Outcome<()> {
        network.processes(self.number, None)?.into_iter().for_each(|pid| signal(pid, what));
        Ok(())
    }

    /// Bytes that its files take in the file system.
    pub fn bytes_on_disk(&self) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
    }
}
