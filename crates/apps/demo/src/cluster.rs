//! Four hosts of this process, each of which can be killed and started again by itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cairn_api::{
    Management,
    v1::{ComponentRole, ComponentState, Disk, DiskCreate, DiskHealth, DiskLimits},
};
use cairn_env_linux::{Executor, Fabric};
use cairnd::{
    engine::{ClusterDirectory, HostParts, RunningHost, Siblings, join, open_directory, spawn_executor, start_host},
    flags::Flags,
    identity::Identity,
    plan::Plan,
};
use clap::Parser as _;

use crate::events::Clock;

/// Hosts of the demo: three hold the disk's components, one is there to take over.
const HOSTS: usize = 4;

/// The cluster.
pub struct DemoCluster {
    plan: Plan,
    directory: ClusterDirectory,
    executor: Executor,
    fabric: Fabric,
    hosts: BTreeMap<String, RunningHost>,
}

impl DemoCluster {
    /// Starts all hosts with their files in `dir`, which an earlier demo made, or nobody.
    pub async fn start(dir: &Path, clock: &Clock) -> Result<Self, String> {
        let dir = dir.canonicalize().map_err(|e| e.to_string())?;
        let dir_text = dir.display().to_string();
        let count = HOSTS.to_string();
        let flags = Flags::try_parse_from([
            "cairnd",
            "--embedded-hosts",
            &count,
            "--data-dir",
            &dir_text,
            "--embedded-cache",
            "256MiB",
            "--embedded-capacity",
            "1GiB",
            "--listen-nbd",
            "",
            "--listen-api",
            "",
        ])
        .map_err(|e| e.to_string())?;
        let config = flags.effective_config().map_err(|e| e.to_string())?;
        let plan = Plan::new(&config, &flags).map_err(|e| e.to_string())?;
        let mut identities = Vec::new();
        for host in &plan.hosts {
            std::fs::create_dir_all(&host.data_dir).map_err(|e| e.to_string())?;
            identities.push(Identity::open(&host.data_dir).map_err(|e| e.to_string())?);
        }
        let directory = open_directory(&plan, &identities).await.map_err(|e| e.message)?;
        join(&directory, &mut identities).map_err(|e| e.message)?;
        let executor = spawn_executor(1, Duration::ZERO).map_err(|e| e.message)?;
        let mut cluster = Self { plan, directory, executor, fabric: Fabric::new(), hosts: BTreeMap::new() };
        for (index, identity) in identities.into_iter().enumerate() {
            cluster.start_one(index, identity).await?;
        }
        clock.say(format!(
            "{HOSTS} hosts run in this process, each with a cache of 256 MiB and a capacity of 1 GiB, as files in {}",
            dir.display()
        ));
        Ok(cluster)
    }

    async fn start_one(&mut self, index: usize, identity: Identity) -> Result<(), String> {
        let host = &self.plan.hosts[index];
        let parts = HostParts {
            plan: &self.plan,
            host,
            directory: &self.directory,
            executor: &self.executor,
            fabric: Some(&self.fabric),
        };
        let siblings = Siblings::none(identity.host());
        let running = start_host(parts, Arc::new(identity), siblings).await.map_err(|e| e.message)?;
        self.hosts.insert(host.name.clone(), running);
        Ok(())
    }

    /// The API of whichever host runs.
    fn management(&self) -> Result<Arc<dyn Management>, String> {
        let host = self.hosts.values().next().ok_or("no host runs")?;
        Ok(host.management())
    }

    /// Makes a disk with the default policy, owned by the host of one of its copies.
    pub async fn create_disk(&self, name: &str, mib: u64) -> Result<Disk, String> {
        let request = DiskCreate {
            name: name.into(),
            size_bytes: mib << 20,
            policy: None,
            host: Some("host-1".into()),
            limits: DiskLimits::default(),
        };
        self.management()?.disk_create(request).await.map_err(|e| e.to_string())?;
        let attach = cairn_api::v1::DiskAttach { host: Some("host-1".into()) };
        self.management()?.disk_attach(name.into(), attach).await.map_err(|e| e.to_string())
    }

    /// The disk as it is now.
    pub async fn disk(&self, name: &str) -> Result<Disk, String> {
        self.management()?.disk_show(name.into()).await.map_err(|e| e.to_string())
    }

    /// The owner, and a host with a copy that is not the owner.
    pub fn roles(&self, disk: &Disk) -> Result<(String, String), String> {
        let owner = disk.summary.owner.clone().ok_or("nobody owns the disk")?;
        let copies = disk.components.iter().filter(|c| matches!(c.role, ComponentRole::Data { .. }));
        let victim = copies.map(|c| c.host_name.clone()).find(|host| *host != owner);
        Ok((owner, victim.ok_or("the owner has every copy")?))
    }

    /// Where guests reach the disks at `host`.
    pub fn nbd_socket(&self, host: &str) -> PathBuf {
        let plan = self.plan.hosts.iter().find(|plan| plan.name == host);
        plan.and_then(|plan| plan.nbd_socket.clone()).unwrap_or_default()
    }

    /// Ends a host as a power cut would.
    pub async fn kill(&mut self, host: &str) -> Result<(), String> {
        let running = self.hosts.remove(host).ok_or_else(|| format!("{host} does not run"))?;
        running.kill().await;
        Ok(())
    }

    /// Starts a host that was killed, on what its disks hold.
    pub async fn restart(&mut self, host: &str) -> Result<(), String> {
        let index = self.plan.hosts.iter().position(|plan| plan.name == host);
        let index = index.ok_or_else(|| format!("there is no {host}"))?;
        let identity = Identity::open(&self.plan.hosts[index].data_dir).map_err(|e| e.to_string())?;
        self.start_one(index, identity).await
    }

    /// Waits until every copy is in sync.
    pub async fn wait_healthy(&self, name: &str, limit: Duration) -> Result<Disk, String> {
        let begin = Instant::now();
        loop {
            let disk = self.disk(name).await?;
            if disk.summary.health == DiskHealth::Healthy {
                return Ok(disk);
            }
            if begin.elapsed() > limit {
                return Err(format!("{name} is not whole after {} s: {}", limit.as_secs(), describe(&disk)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops all hosts in order.
    pub async fn stop(self) {
        for host in self.hosts.into_values() {
            host.stop().await;
        }
    }
}

/// The disk's state in one line.
pub fn describe(disk: &Disk) -> String {
    let health = match disk.summary.health {
        DiskHealth::Healthy => "healthy",
        DiskHealth::ReducedRedundancy => "reduced redundancy",
        DiskHealth::Inaccessible => "inaccessible",
        DiskHealth::Deleting => "being deleted",
    };
    let parts = disk.components.iter().map(|component| {
        let role = match component.role {
            ComponentRole::Data { .. } => "copy",
            ComponentRole::Witness => "witness",
        };
        let state = match component.state {
            ComponentState::Active => "active",
            ComponentState::Absent { .. } => "absent",
            ComponentState::Resyncing { .. } => "resyncing",
            ComponentState::Degraded => "degraded",
        };
        format!("{role} on {} {state}", component.host_name)
    });
    format!("{health}; {}", parts.collect::<Vec<_>>().join(", "))
}
