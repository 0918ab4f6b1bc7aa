//! A disk in use gets another policy, or its components go to another host: what that comes to, and its beginning.
//!
//! Promises    nothing is begun that cannot be done as the cluster is now, unless forced; what was begun goes on by itself
//! Not here    which copies come and go (`placement`), making and filling them (`object`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{CatalogueEntry, names::Name};
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_placement::{ClusterPicture, PolicyPreview, PreviewStep};
use cairn_types::{ComponentId, Feature, HostId, Member, ObjectConfig, ObjectId, Policy, Role};
use cairn_wire::OwnerCommand;

use crate::{
    manage::{directory_error, disks::policy_words, reserve::demand_of},
    node::Node,
};

impl<E: Env> Node<E> {
    pub(crate) async fn disk_policy_set(&self, disk: String, request: v1::DiskPolicySet) -> ApiResult<v1::DiskChange> {
        let (object, entry) = self.known_disk(&disk).await?;
        let policy = self.policy(&request.policy).await?;
        let config = self.config_of(object, &entry).await?;
        let measured = Measured { held: self.held_by(&config).await, rate_per_s: self.copy_rate().await };
        let wanted = (request.policy.as_str(), &policy);
        let (after, mut change) = self.policy_change(&mut self.picture(), &config, wanted, &measured)?;
        if request.dry_run {
            return Ok(change);
        }
        self.can_move()?;
        if let Some(why) = change.obstacle.as_ref().filter(|_| !request.force) {
            let text = format!("policy {:?} cannot be met for disk {} now: {why}", request.policy, config.name);
            return Err(ApiError::refused(text)
                .remedy("Add what is missing, choose another policy, or use --force: it is met as soon as it can be"));
        }
        self.leave_reserve(
            &format!("policy {:?} for disk {}", request.policy, config.name),
            demand_more(&config, &after),
        )?;
        let name = Name::new(&request.policy).map_err(|e| ApiError::invalid(e.to_string()))?;
        let command = OwnerCommand::Policy { name: request.policy, policy };
        self.to_owner(object, &entry.hint_hosts, command).await?;
        // The record has it from here on. The catalogue counts disks by policy: the same command mends it where this fails.
        let update = self.inner.registry.update::<CatalogueEntry>(&object, |entry| {
            Ok(entry.map(|e| CatalogueEntry { policy_name: name.clone(), ..e.clone() }))
        });
        update
            .await
            .map_err(|error| directory_error(error).remedy("The disk has the policy: give the command again"))?;
        change.begun = true;
        Ok(change)
    }

    /// What another policy comes to for a disk, and the disk then; the picture is as it is with that.
    pub(crate) fn policy_change(
        &self,
        picture: &mut ClusterPicture,
        config: &ObjectConfig,
        (name, policy): (&str, &Policy),
        measured: &Measured,
    ) -> ApiResult<(ObjectConfig, v1::DiskChange)> {
        let converts = self.level().has(Feature::Conversion);
        let preview = cairn_placement::policy_preview(picture, config, policy, converts);
        let preview = preview.map_err(|refusal| ApiError::refused(refusal.text))?;
        let after = self.once_changed(config, (name, policy), &preview);
        picture.take(&after.addresses, policy, after.size_bytes, &preview.added);
        let change = self.disk_change(config, &after, preview, measured);
        Ok((after, change))
    }

    pub(crate) async fn disk_move(&self, disk: String, request: v1::DiskMove) -> ApiResult<v1::DiskChange> {
        let (object, entry) = self.known_disk(&disk).await?;
        let from = self.shards_of(self.find_host(&request.from)?);
        let to = match &request.to {
            Some(host) => self.shards_of(self.find_host(host)?),
            None => Vec::new(),
        };
        if to == from {
            return Err(ApiError::invalid("a component goes to another host than the one that it is on"));
        }
        let config = self.config_of(object, &entry).await?;
        let moved: Vec<ComponentId> =
            config.members.iter().filter(|m| from.contains(&m.host)).map(|m| m.component).collect();
        if moved.is_empty() {
            let text = format!("disk {} has nothing on host {}", config.name, request.from);
            return Err(ApiError::refused(text).remedy(format!("See `cairn disk show {}`", config.name)));
        }
        let preview = self.preview_move(&config, &moved, &to)?;
        let measured = Measured { held: self.held_by(&config).await, rate_per_s: self.copy_rate().await };
        let mut change = self.disk_change(&config, &config, preview, &measured);
        if request.dry_run {
            return Ok(change);
        }
        self.can_move()?;
        for component in moved {
            let command = OwnerCommand::Move { component, to: to.clone() };
            self.to_owner(object, &entry.hint_hosts, command).await?;
        }
        change.begun = true;
        Ok(change)
    }

    /// The places that components would go to, one after the other.
    fn preview_move(&self, config: &ObjectConfig, moved: &[ComponentId], to: &[HostId]) -> ApiResult<PolicyPreview> {
        let mut picture = self.picture();
        let mut steps = Vec::new();
        let mut last_id = 0;
        let mut ids = cairn_placement::preview_ids(&mut last_id);
        for component in moved {
            let change = cairn_placement::relocate(&picture, config, *component, to, &mut ids);
            let change = change.map_err(|refusal| {
                let text = format!("disk {}: {}", config.name, refusal.text);
                ApiError::refused(text).remedy("Choose another host, or leave --to out: it goes wherever there is room")
            })?;
            let is_new = |m: &&Member| change.added.contains(&m.component);
            let added: Vec<Member> = change.members.iter().filter(is_new).copied().collect();
            picture.take(&config.addresses, &config.policy, config.size_bytes, &added);
            let removed = config.member(*component).copied().into_iter().collect();
            steps.push(PreviewStep { added, removed });
        }
        Ok(PolicyPreview::of(steps, config.addresses.clone(), None))
    }

    /// The record of a disk, as its owner or its seats have it.
    pub(crate) async fn config_of(&self, object: ObjectId, entry: &CatalogueEntry) -> ApiResult<ObjectConfig> {
        let (status, known) = self.status_and_record(object, &entry.hint_hosts).await;
        let config = status.map(|status| status.config).or(known.map(|known| known.config));
        config.ok_or_else(|| {
            ApiError::unavailable("no host that answers has the disk's record").remedy("Start the hosts that hold it")
        })
    }

    /// The disk with another policy, once all that follows has been done.
    fn once_changed(
        &self,
        config: &ObjectConfig,
        (name, policy): (&str, &Policy),
        preview: &PolicyPreview,
    ) -> ObjectConfig {
        let goes = |m: &&Member| !preview.removed.iter().any(|gone| gone.component == m.component);
        ObjectConfig {
            policy: policy.clone(),
            policy_name: name.to_owned(),
            addresses: preview.addresses.clone(),
            members: config.members.iter().filter(goes).chain(&preview.added).copied().collect(),
            ..config.clone()
        }
    }

    fn disk_change(
        &self,
        before: &ObjectConfig,
        after: &ObjectConfig,
        preview: PolicyPreview,
        Measured { held, rate_per_s }: &Measured,
    ) -> v1::DiskChange {
        let of_set = |member: &Member| {
            let same = before.members.iter().filter(|m| m.set() == member.set() && m.state.in_sync());
            same.filter_map(|m| held.get(&m.component)).max().copied()
        };
        let share = share_written(before, held);
        // Of another layout: as much of it as of the disk is written.
        let of_share = |set| Some((Area::of_set(after, set)?.component_bytes(set) as f64 * share?) as u64);
        let bytes = |member: &Member| match member.role {
            Role::Witness => Some(0),
            Role::Data { set, .. } if cairn_geometry::serves(before, set) => {
                held.get(&member.component).copied().or_else(|| of_set(member))
            }
            Role::Data { set, .. } => held.get(&member.component).copied().or_else(|| of_share(set)),
        };
        let component = |member: &Member| v1::ChangedComponent {
            role: super::disks::role_of(member),
            host_name: self.server_name(member.host),
            disk_group: member.disk_group,
            bytes: bytes(member),
        };
        let space = space_of(before, &preview.steps, bytes);
        let added: Vec<_> = preview.added.iter().map(component).collect();
        let bytes_to_copy: Option<u64> = added.iter().map(|component| component.bytes).sum();
        v1::DiskChange {
            disk: before.name.clone(),
            begun: false,
            policy_before: policy_words(before),
            policy_after: policy_words(after),
            bytes_to_copy,
            bytes_before: space.map(|space| space.before),
            bytes_after: space.map(|space| space.after),
            bytes_peak: space.map(|space| space.peak),
            takes_s: bytes_to_copy.zip(*rate_per_s).map(|(bytes, rate)| bytes.div_ceil(rate)),
            ftt_meanwhile: before.policy.ftt.min(after.policy.ftt),
            added,
            removed: preview.removed.iter().map(component).collect(),
            obstacle: preview.obstacle,
        }
    }

    /// Bytes that each component of a disk holds, as far as the hosts say.
    async fn held_by(&self, config: &ObjectConfig) -> BTreeMap<ComponentId, u64> {
        let mut hosts: Vec<HostId> = config.members.iter().filter(|m| m.set().is_some()).map(|m| m.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        self.usage_of(&hosts, Some(config.object)).await.0
    }
}

/// What was measured of the cluster.
pub(crate) struct Measured {
    /// Bytes that components hold, as far as the hosts say.
    pub(crate) held: BTreeMap<ComponentId, u64>,
    /// Bytes per second of the last copies; none where nothing was copied yet.
    pub(crate) rate_per_s: Option<u64>,
}

/// Bytes that a disk takes at once more than before.
pub(crate) fn demand_more(before: &ObjectConfig, after: &ObjectConfig) -> u64 {
    let demand = |of: &ObjectConfig| demand_of(of, &of.policy, of.size_bytes, of.members.iter());
    demand(after).saturating_sub(demand(before))
}

/// Bytes that a disk takes, all copies together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Space {
    before: u64,
    after: u64,
    peak: u64,
}

/// What these steps come to; none where it is not known of some component.
fn space_of(before: &ObjectConfig, steps: &[PreviewStep], bytes: impl Fn(&Member) -> Option<u64>) -> Option<Space> {
    let sum = |members: &[Member]| members.iter().map(&bytes).sum::<Option<u64>>();
    let mut now = sum(&before.members)?;
    let (before, mut peak) = (now, now);
    for step in steps {
        now += sum(&step.added)?;
        peak = peak.max(now);
        now = now.saturating_sub(sum(&step.removed)?);
    }
    Some(Space { before, after: now, peak })
}

/// Which part of a disk's data is written, by what members of its sets hold; none where no host says.
fn share_written(config: &ObjectConfig, held: &BTreeMap<ComponentId, u64>) -> Option<f64> {
    let (mut holds, mut could) = (0, 0);
    for member in &config.members {
        let Some(set) = member.set().filter(|set| config.addresses.serves(*set)) else { continue };
        if let Some(bytes) = held.get(&member.component) {
            holds += bytes;
            could += Area::of_set(config, set).map_or(0, |area| area.component_bytes(set));
        }
    }
    (could > 0).then(|| holds as f64 / could as f64)
}
