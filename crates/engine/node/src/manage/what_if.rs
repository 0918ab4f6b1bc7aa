//! What would become of the disks if a host, a disk group or a device were lost, or came: asked before it is.
//!
//! Promises    nothing is changed; the answer is of the cluster as it is now
//! Not here    the decisions (`placement`); maintenance and policies have previews of their own

use std::collections::BTreeSet;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::REBALANCE_POINTS;
use cairn_env::Env;
use cairn_placement::{Addition, GrowthPreview, LossPreview, Lost};
use cairn_types::{ComponentId, DeviceId, DiskGroupId, Feature, HostId, format_bytes};
use cairn_wire::{HostAnswer, HostCommand};
use futures::future::join_all;

use crate::node::Node;

/// What is lost, for whom it is told.
struct Loss {
    lost: Lost,
    words: String,
    /// The hosts that hold it.
    held_by: Vec<HostId>,
    /// A device that fails says so; a host may only be away.
    begins_after_s: Option<u64>,
}

impl<E: Env> Node<E> {
    pub(crate) async fn what_if_lost(&self, request: v1::WhatIfLost) -> ApiResult<v1::WhatIf> {
        request.validate()?;
        let loss = self.loss_of(&request).await?;
        let mut preview = LossPreview::new(self.picture(), loss.lost);
        let unknown = self.each_known(|config| preview.add(&config)).await;
        let (held, all_said) = self.usage_of(&loss.held_by, None).await;
        let bytes: u64 = preview.rebuilt.iter().filter_map(|id| held.get(id)).sum();
        let rate = self.copy_rate().await;
        Ok(v1::WhatIf {
            lost_is: loss.words,
            disks: preview.disks,
            components: preview.components,
            rebuilt_components: preview.rebuilt.len() as u32,
            rebuilt_bytes: all_said.then_some(bytes),
            free_bytes: preview.free_bytes(),
            rebuild_s: rate.filter(|_| all_said).map(|rate| bytes.div_ceil(rate)),
            begins_after_s: loss.begins_after_s,
            reduced: preview.reduced,
            not_rebuilt: preview.not_rebuilt,
            inaccessible: preview.inaccessible,
            lost: preview.lost,
            unknown,
        })
    }

    pub(crate) async fn what_if_growth(&self, request: v1::WhatIfGrowth) -> ApiResult<v1::Growth> {
        request.validate()?;
        let (addition, added_is) = self.addition_of(&request)?;
        let all: Vec<HostId> = self.peers_up().into_iter().chain([self.me()]).collect();
        let (held, all_said) = self.usage_of(&all, None).await;
        let mut preview = GrowthPreview::new(self.picture(), &addition);
        let bytes_of = |component| held.get(&component).copied();
        let unknown = self.each_known(|config| preview.add(config, &bytes_of)).await;
        let points = self.settings().and_then(|settings| settings.rebalance_points).unwrap_or(REBALANCE_POINTS);
        while preview.rebalance_round(points) {
            self.inner.env.give_way().await;
        }
        let moved = preview.moved();
        let copied: u64 = preview.copied_from.iter().filter_map(|id| held.get(id)).sum();
        let rate = self.copy_rate().await.filter(|_| all_said);
        let ([raw_bytes_before, raw_bytes_after], [free_bytes_before, free_bytes_after]) =
            (preview.raw_bytes(), preview.free_bytes());
        Ok(v1::Growth {
            added_is,
            raw_bytes_before,
            raw_bytes_after,
            free_bytes_before,
            free_bytes_after,
            completed_bytes: all_said.then_some(copied),
            unknown,
            moved_components: moved.components,
            moved_bytes: all_said.then_some(moved.bytes),
            more_moves: moved.more,
            takes_s: rate.map(|rate| (copied + moved.bytes_of_one_host_max).div_ceil(rate)),
            hosts_after: preview.hosts() as u32,
            completed: preview.completed,
            still_lacking: preview.still_lacking,
        })
    }

    /// What comes, and in words.
    fn addition_of(&self, request: &v1::WhatIfGrowth) -> ApiResult<(Addition, String)> {
        let bytes = request.device_bytes;
        let size = format_bytes(bytes);
        if let Some(disk_group) = request.disk_group {
            let holder = self.server_of(self.holder_of(disk_group)?);
            let words =
                format!("a capacity device of {size} in disk group {disk_group} of host {}", self.host_name(holder));
            return Ok((Addition::Device { disk_group, bytes }, words));
        }
        let (hosts, devices) = (request.hosts.unwrap_or(1), request.devices.unwrap_or(1));
        let words = format!("{hosts} hosts, each with {devices} capacity devices of {size}");
        Ok((Addition::Hosts { hosts, devices: vec![bytes; devices.into()] }, words))
    }

    async fn loss_of(&self, request: &v1::WhatIfLost) -> ApiResult<Loss> {
        let delay_s = self.inner.objects.options().repair_delay.as_secs();
        if let Some(host) = &request.host {
            let server = self.find_host(host)?;
            let held_by = self.shards_of(server);
            let words = format!("host {}", self.host_name(server));
            return Ok(Loss { lost: Lost::Hosts(held_by.clone()), words, held_by, begins_after_s: Some(delay_s) });
        }
        let disk_group = request.disk_group.expect("validated");
        let group = self.disk_group_show(disk_group).await?;
        let words = format!("disk group {disk_group} of host {}", group.host_name);
        let host = self.holder_of(disk_group)?;
        let Some(path) = &request.device else {
            return Ok(Loss { lost: Lost::DiskGroup(disk_group), words, held_by: vec![host], begins_after_s: None });
        };
        let device = group.devices.iter().find(|device| device.path == *path).ok_or_else(|| {
            ApiError::not_found(format!("{words} has no capacity device {path:?}"))
                .remedy(format!("See `cairn disk-group show {disk_group}`"))
        })?;
        self.can_move()?;
        let question = HostCommand::OnDevice { disk_group, device: device.id };
        let HostAnswer::OnDevice { components, room } = self.on_host(host, question).await? else {
            return Err(ApiError::internal("the host answered something else"));
        };
        let components: BTreeSet<ComponentId> = components.into_iter().collect();
        let words = format!("capacity device {path} of {words}");
        let lost = Lost::Device { disk_group, room: room.map(|room| room as usize), components };
        Ok(Loss { lost, words, held_by: vec![host], begins_after_s: None })
    }

    /// Bytes per second at which hosts have copied lately, of the fastest: what one source can give.
    pub(crate) async fn copy_rate(&self) -> Option<u64> {
        if !self.level().has(Feature::Moves) {
            return None;
        }
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        let asked = hosts.into_iter().map(|host| self.on_host(host, HostCommand::CopyRate));
        let told = join_all(asked).await.into_iter().filter_map(|answer| match answer {
            Ok(HostAnswer::CopyRate(rate)) => rate,
            _ => None,
        });
        told.filter(|rate| *rate > 0).max()
    }

    /// What lies on a capacity device of a disk group here, and which of the group's rooms is its.
    pub(crate) fn on_device_here(
        &self,
        disk_group: DiskGroupId,
        device: DeviceId,
    ) -> ApiResult<(Vec<ComponentId>, Option<u32>)> {
        let store = self.inner.seats.store(disk_group);
        let store = store.ok_or_else(|| ApiError::unavailable(format!("disk group {disk_group} is not open")))?;
        let group = store.group();
        // The first is the cache device.
        let number = group.device_ids().iter().skip(1).position(|known| *known == device);
        let number =
            number.ok_or_else(|| ApiError::not_found(format!("disk group {disk_group} has no such device")))?;
        let on_it = group.components().into_iter().filter(|c| c.size_blocks > 0 && usize::from(c.device) == number);
        // Others are told of the rooms of devices that work.
        let rooms = group.rooms();
        let works = |at: usize| rooms.get(at).is_some_and(|room| room.total_bytes > 0);
        let room = works(number).then(|| (0..number).filter(|at| works(*at)).count() as u32);
        Ok((on_it.map(|c| c.id).collect(), room))
    }
}
