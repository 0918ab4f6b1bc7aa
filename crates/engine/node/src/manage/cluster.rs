//! The cluster in one view: status, settings, health, resyncs.

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{ClusterSettings, DiskGroupEntry, HostEntry, TheCluster};
use cairn_env::Env;
use cairn_object::ResyncStatus;
use cairn_types::format_bytes;

use crate::{
    manage::{
        directory_error,
        hosts::capacity_of,
        remote::{HostAnswer, HostCommand},
    },
    node::Node,
};

/// Percent of a disk group's space in use from which health warns: above it cleaning costs more and rebuilds lack room.
const SPACE_WARN_PERCENT: u64 = 80;

/// Seconds until a resync ends at the rate that it had so far.
pub(crate) fn eta_s(resync: &ResyncStatus) -> Option<u64> {
    let done = resync.bytes_total - resync.bytes_left;
    (done > 0).then(|| resync.bytes_left * resync.elapsed_ms / done / 1000)
}

impl<E: Env> Node<E> {
    pub(crate) async fn cluster_status(&self) -> ApiResult<v1::ClusterStatus> {
        let inner = &self.inner;
        let hosts = self.hosts();
        let health = self.check_health().await;
        let shards = self.servers().into_iter().flat_map(|server| server.shards);
        let groups: Vec<_> = shards.flat_map(|shard| self.told_groups(shard)).collect();
        let disks = self.catalogue();
        let bad = health.checks.iter().filter(|c| c.severity != v1::Severity::Ok);
        Ok(v1::ClusterStatus {
            id: inner.options.cluster,
            name: self.settings().map(|s| s.name.as_str().to_owned()).unwrap_or_default(),
            version: inner.options.version.clone(),
            answered_by: self.host_name(self.me()),
            hosts_up: hosts.iter().filter(|h| h.up).count() as u32,
            hosts_total: hosts.len() as u32,
            disk_groups: inner.copy.borrow().list::<DiskGroupEntry>().len() as u32,
            disks: disks.len() as u32,
            capacity: capacity_of(&groups),
            provisioned_bytes: disks.iter().map(|(_, d)| d.size_bytes).sum(),
            directory: v1::DirectoryStatus {
                kind: inner.options.directory_kind.clone(),
                reachable: inner.directory_up.get(),
            },
            health: health.severity,
            problems: bad.map(|c| c.text.clone()).collect(),
        })
    }

    pub(crate) async fn cluster_settings(&self) -> ApiResult<v1::ClusterSettings> {
        let known = self.settings().ok_or_else(|| ApiError::unavailable("the settings are not known yet"))?;
        Ok(v1::ClusterSettings { repair_delay_s: known.repair_delay_ms / 1000, lease_ms: known.lease_ms })
    }

    pub(crate) async fn cluster_settings_set(&self, patch: v1::ClusterSettingsPatch) -> ApiResult<v1::ClusterSettings> {
        let next = patch.apply(&self.cluster_settings().await?)?;
        let update = self.inner.registry.update::<ClusterSettings>(&TheCluster, |known| {
            Ok(known.map(|k| ClusterSettings {
                repair_delay_ms: next.repair_delay_s * 1000,
                lease_ms: next.lease_ms,
                version: k.version + 1,
                ..k.clone()
            }))
        });
        update.await.map_err(directory_error)?;
        Ok(next)
    }

    pub(crate) async fn health(&self) -> ApiResult<v1::Health> {
        Ok(self.check_health().await)
    }

    async fn check_health(&self) -> v1::Health {
        let mut checks = vec![self.check_hosts(), self.check_directory(), self.check_space()];
        let groups = self.disk_group_list().await.unwrap_or_default();
        checks.extend([check_groups(&groups), check_logs(&groups)]);
        checks.push(self.check_disks().await);
        v1::Health::of(checks)
    }

    fn check_hosts(&self) -> v1::Check {
        let hosts = self.hosts();
        let down: Vec<&str> = hosts.iter().filter(|h| !h.up).map(|h| h.name.as_str()).collect();
        let text = match down.is_empty() {
            true => format!("all {} hosts answer", hosts.len()),
            false => format!("{} of {} hosts do not answer: {}", down.len(), hosts.len(), down.join(", ")),
        };
        check(
            "hosts-up",
            down.is_empty(),
            v1::Severity::Warning,
            text,
            "Look at their daemons and at the network between hosts",
        )
    }

    fn check_directory(&self) -> v1::Check {
        let up = self.inner.directory_up.get();
        let age = self.inner.copy.borrow().age_ms(self.inner.env.unix_ms()).map(|ms| ms / 1000);
        let text = match (up, age) {
            (true, _) => "the directory answers".to_owned(),
            (false, Some(age)) => format!("the directory is away; what is shown is {age} s old"),
            (false, None) => "the directory is away".to_owned(),
        };
        let advice = "Disks go on without it. Start its members again to create, delete or change anything";
        check("directory", up, v1::Severity::Warning, text, advice)
    }

    fn check_space(&self) -> v1::Check {
        let hosts = self.inner.copy.borrow().list::<HostEntry>();
        let groups: Vec<_> = hosts.iter().flat_map(|(id, _)| self.told_groups(*id)).collect();
        let full = groups.iter().find(|g| (g.total_bytes - g.free_bytes) * 100 > g.total_bytes * SPACE_WARN_PERCENT);
        let space = capacity_of(&groups);
        let text = match full {
            Some(g) => format!("disk group {} is over {SPACE_WARN_PERCENT} % full", g.disk_group),
            None => format!("{} of {} are free", format_bytes(space.free_bytes), format_bytes(space.raw_bytes)),
        };
        check("disk-group-space", full.is_none(), v1::Severity::Warning, text, "Add capacity, or delete or trim disks")
    }

    async fn check_disks(&self) -> v1::Check {
        let disks = self.all_disks().await;
        let worst = disks.iter().max_by_key(|d| d.health);
        let count = disks.len();
        let (severity, text) = match worst {
            Some(d) if d.health == v1::DiskHealth::Inaccessible => {
                (v1::Severity::Error, format!("disk {} is inaccessible: {}", d.name, d.reasons.join("; ")))
            }
            Some(d) if d.health == v1::DiskHealth::ReducedRedundancy => {
                (v1::Severity::Warning, format!("disk {} has reduced redundancy: {}", d.name, d.reasons.join("; ")))
            }
            _ => (v1::Severity::Ok, format!("all {count} disks are healthy")),
        };
        let advice = "Bring the hosts named back; after the repair delay missing copies are rebuilt elsewhere";
        check("disks", severity == v1::Severity::Ok, severity, text, advice)
    }

    pub(crate) async fn resync_list(&self) -> ApiResult<Vec<v1::Resync>> {
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        let asked = hosts.into_iter().map(|host| self.on_host(host, HostCommand::Resyncs));
        let answers = futures::future::join_all(asked).await;
        let all = answers.into_iter().filter_map(Result::ok).flat_map(|answer| match answer {
            HostAnswer::Resyncs(resyncs) => resyncs,
            _ => Vec::new(),
        });
        let one = |r: ResyncStatus| v1::Resync {
            disk: r.object,
            disk_name: r.name.clone(),
            component: r.component,
            host_name: self.host_name(r.host),
            kind: if r.full { v1::ResyncKind::Full } else { v1::ResyncKind::Delta },
            bytes_total: r.bytes_total,
            bytes_left: r.bytes_left,
            bytes_per_s: (r.bytes_total - r.bytes_left) * 1000 / r.elapsed_ms.max(1),
            eta_s: eta_s(&r),
        };
        Ok(all.map(one).collect())
    }

    pub(crate) async fn resync_settings(&self) -> ApiResult<v1::ResyncSettings> {
        let shards = self.inner.options.shards.len() as u64;
        Ok(v1::ResyncSettings { bytes_per_s_max: self.inner.shard.options().resync_bytes_per_s_max * shards })
    }

    pub(crate) async fn resync_settings_set(&self, request: v1::ResyncSettings) -> ApiResult<v1::ResyncSettings> {
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        for host in hosts {
            // The limit is a server's.
            let shards = self.shards_of(host).len() as u64;
            self.on_host(host, HostCommand::ResyncLimit(request.bytes_per_s_max.div_ceil(shards))).await?;
        }
        Ok(request)
    }
}

fn check_groups(groups: &[v1::DiskGroup]) -> v1::Check {
    let bad = groups.iter().find(|g| {
        g.state == v1::DiskGroupState::Failed || g.devices.iter().any(|d| d.state == v1::DeviceState::Failed)
    });
    let text = match bad {
        Some(g) => {
            let why = g.reason.clone().unwrap_or_else(|| "a device failed".into());
            format!("disk group {} of host {}: {why}", g.id, g.host_name)
        }
        None => format!("all devices of {} disk groups work", groups.len()),
    };
    check(
        "disk-groups",
        bad.is_none(),
        v1::Severity::Error,
        text,
        "Replace the device; its components are rebuilt elsewhere",
    )
}

/// Groups in use whose log lost something that is not made good yet.
fn check_logs(groups: &[v1::DiskGroup]) -> v1::Check {
    let in_use = |g: &&v1::DiskGroup| g.state == v1::DiskGroupState::Mounted;
    let damage =
        |g: &v1::DiskGroup| Some(format!("disk group {} of host {}: {}", g.id, g.host_name, g.reason.as_ref()?));
    let damaged: Vec<String> = groups.iter().filter(in_use).filter_map(damage).collect();
    let text = match damaged.is_empty() {
        true => "all logs are sound".to_owned(),
        false => damaged.join("; "),
    };
    let advice = "It ends by itself when the copies are filled again. If it comes back, replace the cache device";
    check("disk-group-logs", damaged.is_empty(), v1::Severity::Warning, text, advice)
}

fn check(name: &str, good: bool, severity: v1::Severity, text: String, advice: &str) -> v1::Check {
    v1::Check {
        name: name.into(),
        severity: if good { v1::Severity::Ok } else { severity },
        text,
        advice: (!good).then(|| advice.to_owned()),
    }
}
