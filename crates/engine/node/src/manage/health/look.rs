//! The picture that checks look at, taken by asking every host that answers.

use std::collections::BTreeSet;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{MutedCheck, names::Name};
use cairn_env::Env;
use cairn_schedule::ScheduleRecord;
use cairn_types::{DiskGroupId, Feature, HostId};
use cairn_wire::{HostAnswer, HostCommand};
use futures::future::{join_all, join4};

use super::{
    CHECKS,
    check::{ClockSeen, DirectorySeen, DiskSeen, HostSeen, Picture, ScheduleSeen, SettingsSeen, UpgradeSeen},
    report,
};
use crate::node::Node;

impl<E: Env> Node<E> {
    /// All checks, now.
    pub(crate) async fn check_health(&self) -> v1::Health {
        match self.why_dismissed() {
            Some(why) => report(&Picture { dismissed: Some(why), ..Picture::default() }),
            None => report(&self.picture_of_health().await),
        }
    }

    async fn picture_of_health(&self) -> Picture {
        let (directory, groups, disks, scrubs) =
            join4(self.directory_seen(), self.disk_group_list(), self.disks_seen(), self.scrub_list()).await;
        // Disk groups that are emptied for a slow device have a check of their own.
        let marks = self.slow_marks();
        let host = |host: v1::Host| {
            let intent = self.intent_for(host.id);
            let maintenance = intent.maintenance();
            // What was wanted of a disk group that was removed since is wanted no more.
            let wanted = |id: &DiskGroupId| host.disk_groups.contains(id) && marks.group(*id).is_none();
            let draining = intent.draining.into_iter().filter(wanted).collect();
            HostSeen { version: self.version_of(host.id), name: host.name, up: host.up, maintenance, draining }
        };
        Picture {
            dismissed: None,
            hosts: self.hosts().into_iter().map(host).collect(),
            muted: self.muted_now(),
            settings: self.settings_seen().await,
            unheard: self.unheard().await,
            upgrade: self.upgrade_seen().await,
            clocks: self.clocks_seen(),
            directory,
            groups: groups.unwrap_or_default(),
            scrubs: scrubs.unwrap_or_default(),
            scrub_period_days: self.scrub_period_days(),
            unix_ms: self.inner.env.unix_ms(),
            promised: self.promised(),
            disks,
            schedules: self.schedules_seen(),
            crowded: self.crowded(None),
            day_unix_ms: self.day_unix_ms(),
        }
    }

    fn schedules_seen(&self) -> Vec<ScheduleSeen> {
        let seen = |(name, record): (Name, ScheduleRecord)| ScheduleSeen {
            name: name.as_str().to_owned(),
            disks: self.disks_of(&record).len(),
            record,
        };
        self.schedules_known().into_iter().map(seen).collect()
    }

    /// Mutes a check, or ends that.
    pub(crate) async fn health_mute(&self, request: v1::HealthMute) -> ApiResult<v1::Health> {
        request.validate()?;
        if !CHECKS.iter().any(|check| check.name == request.check) {
            return Err(ApiError::not_found(format!("there is no check {:?}", request.check))
                .remedy("`cairn health` shows all of them by name"));
        }
        self.can_move()?;
        let until_unix_ms = self.inner.env.unix_ms() + request.for_s * 1000;
        let muted = MutedCheck { check: request.check, reason: request.reason, until_unix_ms };
        self.change_settings(|settings| {
            settings.muted.retain(|known| known.check != muted.check);
            settings.muted.extend((request.for_s > 0).then(|| muted.clone()));
        })
        .await?;
        // The local copy hears of it a moment later.
        let mut picture = self.picture_of_health().await;
        picture.muted.retain(|known| known.check != muted.check);
        picture.muted.extend((request.for_s > 0).then_some(muted));
        Ok(report(&picture))
    }

    fn muted_now(&self) -> Vec<MutedCheck> {
        let mut muted = self.settings().map(|settings| settings.muted).unwrap_or_default();
        muted.retain(|muted| muted.until_unix_ms > self.inner.env.unix_ms());
        muted
    }

    fn version_of(&self, server: HostId) -> Option<String> {
        if server == self.server_of(self.me()) {
            return Some(self.inner.env.build().version);
        }
        self.inner.builds.borrow().get(&server).map(|build| build.version.clone())
    }

    async fn settings_seen(&self) -> SettingsSeen {
        let settings = self.cluster_settings().await.unwrap_or_default();
        SettingsSeen {
            repair_paused_s: settings.repair_paused_s,
            rebuild_reserve_hosts: settings.rebuild_reserve_hosts,
            rebalance_points: settings.rebalance_points,
        }
    }

    async fn upgrade_seen(&self) -> UpgradeSeen {
        let found = self.cluster_upgrade().await;
        found.map_or_else(
            |_| UpgradeSeen::default(),
            |found| UpgradeSeen { waits: found.level_next > found.level, obstacles: found.obstacles },
        )
    }

    /// Pairs of servers that answer this one, of which the first does not hear the second.
    async fn unheard(&self) -> Vec<(String, String)> {
        // Hosts of earlier releases do not know the question.
        if !self.level().has(Feature::Moves) {
            return Vec::new();
        }
        let up = self.peers_up();
        let asked = up.iter().map(|host| async move { (*host, self.on_host(*host, HostCommand::Hears).await) });
        let mut pairs = BTreeSet::new();
        for (host, answer) in join_all(asked).await {
            let Ok(HostAnswer::Hears(heard)) = answer else { continue };
            let misses = up.iter().filter(|other| **other != host && !heard.contains(other));
            pairs.extend(misses.map(|other| (self.server_name(host), self.server_name(*other))));
        }
        pairs.into_iter().filter(|(a, b)| a != b).collect()
    }

    /// Clocks of servers, this one's first.
    fn clocks_seen(&self) -> Vec<ClockSeen> {
        let seen = |(server, ahead_ms)| ClockSeen { host: self.server_name(server), ahead_ms };
        self.clocks_ahead_ms().into_iter().map(seen).collect()
    }

    async fn directory_seen(&self) -> DirectorySeen {
        let inner = &self.inner;
        let health = inner.registry.health().await;
        DirectorySeen {
            up: inner.directory_up.get(),
            age_s: inner.copy.borrow().age_ms(inner.env.unix_ms()).map(|ms| ms / 1000),
            problem: health.problem,
            members: health.members,
        }
    }

    async fn disks_seen(&self) -> Vec<DiskSeen> {
        let owned = self.owned_everywhere().await;
        let seen = |disk: v1::DiskSummary| DiskSeen {
            unreadable_blocks: owned.get(&disk.id).map_or(0, |status| status.unreadable_blocks),
            name: disk.name,
            health: disk.health,
            reasons: disk.reasons,
        };
        self.disks_beside(&owned).await.into_iter().map(seen).collect()
    }
}
