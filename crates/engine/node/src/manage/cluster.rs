//! The cluster in one view: status, settings, health, resyncs.

use std::time::Duration;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{ClusterSettings, REBALANCE_POINTS, RepairPause, TheCluster};
use cairn_env::Env;
use cairn_types::{Feature, SlowDevices};
use cairn_wire::{HostAnswer, HostCommand, ResyncStatus};

use crate::{
    manage::{directory_error, hosts::capacity_of},
    node::Node,
};

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
        let counts = |c: &&v1::Check| c.severity != v1::Severity::Ok && c.muted.is_none();
        let bad = health.checks.iter().filter(counts);
        Ok(v1::ClusterStatus {
            id: inner.options.cluster,
            name: self.settings().map(|s| s.name.as_str().to_owned()).unwrap_or_default(),
            version: inner.env.build().version,
            answered_by: self.server_name(self.me()),
            hosts_up: hosts.iter().filter(|h| h.up).count() as u32,
            hosts_total: hosts.len() as u32,
            disk_groups: inner.copy.borrow().disk_groups().len() as u32,
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
        let inner = &self.inner;
        let now = inner.env.now();
        let paused = inner.objects.options().repair_paused_until.map_or(Duration::ZERO, |until| until.since(now));
        Ok(v1::ClusterSettings {
            repair_delay_s: known.repair_delay_ms / 1000,
            // The lease that this host counts with.
            lease_ms: inner.options.leases.lease.as_millis() as u64,
            rebuild_reserve_hosts: known.rebuild_reserve_hosts,
            rebalance_points: known.rebalance_points.unwrap_or(REBALANCE_POINTS),
            scrub_period_days: known.scrub_period_days,
            slow_devices: known.slow_devices,
            repair_paused_s: paused.as_millis().div_ceil(1000) as u64,
        })
    }

    pub(crate) async fn cluster_settings_set(&self, patch: v1::ClusterSettingsPatch) -> ApiResult<v1::ClusterSettings> {
        let now = self.cluster_settings().await?;
        let next = patch.apply(&now)?;
        // Hosts of earlier releases would not keep them.
        let of = |s: &v1::ClusterSettings| {
            (s.rebuild_reserve_hosts, s.rebalance_points, s.scrub_period_days, s.slow_devices)
        };
        let begins_again = patch.slow_devices == Some(SlowDevices::Evacuate);
        let is_new = of(&next) != of(&now);
        if is_new {
            self.can_move()?;
        }
        let change = |settings: &mut ClusterSettings| {
            settings.repair_delay_ms = next.repair_delay_s * 1000;
            if is_new {
                settings.scrub_period_days = next.scrub_period_days;
                settings.slow_devices = next.slow_devices;
                settings.rebuild_reserve_hosts = next.rebuild_reserve_hosts;
                settings.rebalance_points = Some(next.rebalance_points);
            }
        };
        self.change_settings(change).await?;
        if begins_again {
            self.forget_called_off(None).await?;
        }
        Ok(next)
    }

    pub(crate) async fn cluster_pause_repair(&self, request: v1::RepairPause) -> ApiResult<v1::ClusterSettings> {
        request.validate()?;
        self.can_move()?;
        let for_ms = request.for_s * 1000;
        let until_unix_ms = self.inner.env.unix_ms() + for_ms;
        let pause = (for_ms > 0).then_some(RepairPause { for_ms, until_unix_ms });
        self.change_settings(|settings| settings.repair_paused = pause).await?;
        let now = self.cluster_settings().await?;
        Ok(v1::ClusterSettings { repair_paused_s: request.for_s, ..now })
    }

    pub(crate) async fn change_settings(&self, mut change: impl FnMut(&mut ClusterSettings) + Send) -> ApiResult<()> {
        let update = self.inner.registry.update::<ClusterSettings>(&TheCluster, |known| {
            Ok(known.map(|known| {
                let mut next = ClusterSettings { version: known.version + 1, ..known.clone() };
                change(&mut next);
                next
            }))
        });
        update.await.map(drop).map_err(directory_error)
    }

    pub(crate) async fn health(&self) -> ApiResult<v1::Health> {
        Ok(self.check_health().await)
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
            host_name: self.server_name(r.host),
            kind: if r.full { v1::ResyncKind::Full } else { v1::ResyncKind::Delta },
            bytes_total: r.bytes_total,
            bytes_left: r.bytes_left,
            bytes_per_s: (r.bytes_total - r.bytes_left) * 1000 / r.elapsed_ms.max(1),
            eta_s: eta_s(&r),
        };
        Ok(all.map(one).collect())
    }

    pub(crate) async fn resync_settings(&self) -> ApiResult<v1::ResyncSettings> {
        let shards = self.inner.options.shards.len().max(1) as u64;
        let here = self.inner.objects.options().resync_bytes_per_s_max * shards;
        let kept = self.settings().filter(|_| self.level().has(Feature::Moves));
        Ok(v1::ResyncSettings { bytes_per_s_max: kept.map_or(here, |settings| settings.resync_bytes_per_s_max) })
    }

    pub(crate) async fn resync_settings_set(&self, request: v1::ResyncSettings) -> ApiResult<v1::ResyncSettings> {
        if self.level().has(Feature::Moves) {
            // Hosts that are away, or join later, find it there.
            let bytes_per_s_max = request.bytes_per_s_max;
            self.change_settings(|settings| settings.resync_bytes_per_s_max = bytes_per_s_max).await?;
            return Ok(request);
        }
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
