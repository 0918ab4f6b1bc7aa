//! A disk's beginning and end: intent, components, name, first owner; tombstone, components, name.
//!
//! Whatever dies on the way leaves an intent that says what to remove, or a tombstone that says what to finish.

use std::time::Duration;

use cairn_api::{ApiError, ApiErrorKind, ApiResult, Request as _, v1};
use cairn_directory::{
    CatalogueEntry, CloneOf, Closed, ComponentPlace, DirectoryError, DiskGroupEntry, DiskState, NewDisk, names::Name,
};
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_owner::{check_delete_disk, check_unpinned};
use cairn_types::{
    Accepted, CHUNK_BYTES_MAX, ComponentId, Csn, DiskGroupId, Epoch, HostId, Member, ObjectConfig, ObjectId, OpId,
    Policy, SnapshotId,
};
use cairn_wire::{OwnerCommand, Request};
use futures::future::join_all;

use crate::{
    manage::{
        clones::{Origin, check_takes_clones},
        directory_error,
        reserve::demand_of,
    },
    node::Node,
    servers::serving_shard,
};

/// How long a creation may take before another host may undo it.
const CREATE_MS: u64 = 60_000;
/// How long a placement waits for what other hosts have just told, before it is refused. They tell of a disk group as soon as it is there;
/// not a heartbeat, which is 15 s where the lease is a minute.
const HEARD_WITHIN: Duration = Duration::from_millis(500);
/// How long a refused placement waits before it looks again.
const NEWS: Duration = Duration::from_millis(100);

/// What there is to do about a lock.
const LOCKED_REMEDY: &str = "See `cairn snapshot list`; locks end by themselves, and nobody can end one before";

impl<E: Env> Node<E> {
    pub(crate) async fn disk_create(&self, request: v1::DiskCreate) -> ApiResult<v1::Disk> {
        request.validate()?;
        self.make_disk(request, None).await
    }

    /// Makes a disk: an empty one, or a clone.
    pub(crate) async fn make_disk(&self, request: v1::DiskCreate, origin: Option<Origin>) -> ApiResult<v1::Disk> {
        let policy_name = request.policy.clone().unwrap_or_else(|| v1::DEFAULT_POLICY.into());
        let policy = self.policy(&policy_name).await?;
        let policy = with_limits(policy, &request.limits);
        policy.validate()?;
        self.check_policy_is_on(&policy)?;
        if origin.is_some() {
            check_takes_clones(&policy_name, &policy)?;
        }
        let owner = match &request.host {
            Some(host) => Some(self.find_host(host)?),
            None => None,
        };
        if self.find_disk(&request.name).await.is_some() {
            return Err(ApiError::conflict(format!("a disk named {:?} exists already", request.name))
                .remedy("Choose another name, or delete it first"));
        }
        let near = owner.map(|owner| self.shards_of(owner)).unwrap_or_default();
        let (config, reduced) = self.place(&request, &policy_name, policy, &near).await?;
        let config = ObjectConfig { ancestry: origin.as_ref().map(|origin| origin.ancestry.clone()), ..config };
        let over = origin.as_ref().map(|origin| origin.over.clone()).unwrap_or_default();
        self.enter(&config, (owner, over)).await?;
        if let Some(origin) = &origin
            && let Err(error) = self.pin_parent(&config, origin).await
        {
            self.take_back(&config).await;
            return Err(error);
        }
        if let Err(error) = self.make_components(&config).await {
            self.take_back(&config).await;
            return Err(error);
        }
        let known = Accepted { epoch: Epoch::default(), csn: Csn(0), base: None, config: config.clone() };
        if let Err(error) = self.inner.objects.take_over(&known).await {
            self.take_back(&config).await;
            return Err(ApiError::unavailable(format!("the new disk cannot be taken into use: {error}")));
        }
        if let Err(error) = self.inner.registry.finish_create(config.object).await {
            if matches!(error, DirectoryError::Refused(_)) {
                // Somebody has undone it: it has no name any more, and nobody else would remove it.
                let _ = self.delete_object(config.object, &[]).await;
            }
            return Err(directory_error(error));
        }
        let at = owner.map(|_| serving_shard(&near, &config));
        if let Some(owner) = at.filter(|at| *at != self.me()) {
            let attach = Request::Attach { object: config.object };
            let _ = self.inner.rpc.call(owner, attach, Vec::new()).await;
        }
        let disk = self.show_disk(&request.name).await?;
        Ok(v1::Disk { notes: reduced.into_iter().chain(self.overcommitment()).collect(), ..disk })
    }

    /// Where the new disk goes, and what force provisioning left out. Before it refuses, a host waits a moment for
    /// news, and one that has just started longer: what is missing may only not have been heard of yet.
    async fn place(
        &self,
        request: &v1::DiskCreate,
        policy_name: &str,
        policy: Policy,
        near: &[HostId],
    ) -> ApiResult<(ObjectConfig, Option<String>)> {
        let env = &self.inner.env;
        let layout = cairn_placement::layout_for(&self.picture(), &policy, CHUNK_BYTES_MAX);
        let named = cairn_placement::check_record(&policy, &layout.into(), request.size_bytes);
        named.map_err(|refusal| ApiError::refused(refusal.text))?;
        let heard_by = env.now() + HEARD_WITHIN;
        let placement = loop {
            let (picture, mut draw) = (self.picture(), || self.draw_component());
            let chunk_bytes_max = self.inner.options.chunk_bytes_max;
            match cairn_placement::place_near(&picture, &policy, request.size_bytes, chunk_bytes_max, near, &mut draw) {
                Ok(placement) => break placement,
                Err(_) if env.now() < heard_by || self.inner.objects.is_starting() => env.sleep(NEWS).await,
                Err(refusal) => return Err(ApiError::refused(refusal.text)),
            }
        };
        let config = ObjectConfig {
            object: ObjectId::from_random(env.random_u64(), env.random_u64()),
            name: request.name.clone(),
            size_bytes: request.size_bytes,
            policy,
            policy_name: policy_name.to_owned(),
            addresses: placement.addresses,
            members: placement.members,
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        };
        let demand = demand_of(&config, &config.policy, config.size_bytes, config.members.iter());
        self.leave_reserve(&format!("disk {}", config.name), demand)?;
        self.placed(&config.addresses, config.size_bytes, config.members.iter().copied());
        Ok((config, placement.reduced))
    }

    async fn enter(&self, config: &ObjectConfig, (owner, over): (Option<HostId>, Vec<Closed>)) -> ApiResult<()> {
        let name = |text: &str| Name::new(text).map_err(|e| ApiError::invalid(e.to_string()));
        let place = |m: &Member| ComponentPlace { component: m.component, host: m.host, disk_group: m.disk_group };
        let disk = NewDisk {
            object: config.object,
            name: name(&config.name)?,
            size_bytes: config.size_bytes,
            policy_name: name(&config.policy_name)?,
            preferred_owner: owner,
            clone_of: CloneOf::of(config),
            over,
            components: config.members.iter().map(place).collect(),
            by: self.me(),
            now_unix_ms: self.inner.env.unix_ms(),
            lasts_ms: CREATE_MS,
        };
        self.inner.registry.begin_create(&disk).await.map_err(directory_error)
    }

    async fn make_components(&self, config: &ObjectConfig) -> ApiResult<()> {
        let asked = config.members.iter().map(|member| {
            let size_blocks = member
                .set()
                .map_or(0, |set| Area::of_set(config, set).expect("a set of the disk").component_blocks(set));
            let request = Request::CreateComponent {
                disk_group: member.disk_group,
                component: member.component,
                object: config.object,
                size_blocks,
                reserved_blocks: size_blocks * u64::from(config.policy.reservation_percent) / 100,
            };
            let reply = self.inner.objects.ask(member.host, member.disk_group, request);
            async move { (member, reply.await) }
        });
        for (member, reply) in join_all(asked).await {
            reply.map_err(|refusal| {
                let host = self.server_name(member.host);
                ApiError::unavailable(format!(
                    "host {host} could not make a component: {}",
                    super::remote::words(&refusal)
                ))
            })?;
        }
        Ok(())
    }

    async fn take_back(&self, config: &ObjectConfig) {
        let asked = config.members.iter().map(|m| {
            let request =
                Request::DeleteComponent { disk_group: m.disk_group, component: m.component, object: config.object };
            self.inner.objects.ask(m.host, m.disk_group, request)
        });
        let gone = join_all(asked).await.iter().all(Result::is_ok);
        // What could not be removed now is removed by its host when the intent has expired.
        if gone {
            let _ = self.inner.registry.abandon_create(config.object).await;
        }
    }

    pub(crate) async fn disk_delete(&self, disk: String, how: v1::DiskDelete) -> ApiResult<()> {
        let (object, entry) = self.known_disk(&disk).await?;
        // One that has begun goes on: sessions that it was forced on may still be there.
        if !how.force && entry.state != DiskState::Deleting {
            v1::check_not_in_use(entry.name.as_str(), &self.sessions(Some(object)).await.sessions)?;
        }
        // One whose record nobody tells just now may be on record with locks or clones; then its owner refuses, and it is taken off it.
        let config = self.config_of(object, &entry).await.ok().filter(|config| !config.deleted);
        let closed = match &config {
            Some(config) => {
                self.check_not_locked(config)?;
                self.closed_with(object, &entry, config).await?
            }
            None => None,
        };
        // On record first: where the directory takes no changes nothing is destroyed, and what is begun is finished by whoever sees it.
        let begun = self.inner.registry.begin_delete(object).await;
        // From then on its state lets no clone be made; where its deletion is taken off the record, clones may be made again.
        if let Some(closed) = closed {
            self.open_to_clones(object, closed).await;
        }
        begun.map_err(directory_error)?;
        self.go_on_deleting(object, &entry.hint_hosts).await.map_err(|error| {
            error.remedy("Its deletion is on record: it is finished as soon as the hosts and the directory that it needs are there")
        })
    }

    /// Refuses while snapshots of a disk are locked, as its owner would: before its deletion is on record.
    fn check_not_locked(&self, config: &ObjectConfig) -> ApiResult<()> {
        let now = self.knows_the_day().then(|| self.day_unix_ms());
        let checked = check_delete_disk(config, now);
        checked.map_err(|why| ApiError::refused(format!("disk {}: {why}", config.name)).remedy(LOCKED_REMEDY))
    }

    /// No clone is made of a disk that is to be deleted, where it has or had any: there are none. Where it never had, its owner refuses as soon as
    /// there is one.
    async fn closed_with(
        &self,
        object: ObjectId,
        entry: &CatalogueEntry,
        config: &ObjectConfig,
    ) -> ApiResult<Option<Closed>> {
        let all = config.past.iter().flat_map(|past| &past.snapshots);
        let pinned: Vec<SnapshotId> = all.filter(|snapshot| snapshot.pinned).map(|snapshot| snapshot.id).collect();
        if pinned.is_empty() && self.clones_known(object).is_empty() {
            return Ok(None);
        }
        self.unpin(object, entry, (None, &pinned)).await.map(Some)
    }

    /// Carries out a deletion that is on record, from wherever it was left.
    pub(crate) async fn go_on_deleting(&self, object: ObjectId, hints: &[HostId]) -> ApiResult<()> {
        let deleted = self.delete_object(object, hints).await;
        if deleted.as_ref().is_err_and(|error| error.kind == ApiErrorKind::Refused) {
            self.call_off_if_kept(object).await?;
        }
        let config = deleted?;
        let place = |m: &Member| ComponentPlace { component: m.component, host: m.host, disk_group: m.disk_group };
        let mut components: Vec<ComponentPlace> = config.members.iter().map(place).collect();
        components.extend(self.groups_away());
        match self.inner.registry.mark_deleted(object, &components).await {
            // Somebody else has come to the end of it meanwhile.
            Err(DirectoryError::Refused(_)) if self.is_forgotten(object).await => Ok(()),
            marked => marked.map_err(directory_error),
        }
    }

    /// A disk whose owner did not delete it for a lock or for clones stays: they came before the deletion, which does not wait until they end.
    async fn call_off_if_kept(&self, object: ObjectId) -> ApiResult<()> {
        let entry = self.inner.copy.borrow().get::<CatalogueEntry>(&object);
        let Some(entry) = entry else { return Ok(()) };
        let Ok(config) = self.config_of(object, &entry).await else { return Ok(()) };
        if !config.deleted && (self.check_not_locked(&config).is_err() || check_unpinned(&config).is_err()) {
            self.inner.registry.call_off_delete(object).await.map_err(directory_error)?;
        }
        Ok(())
    }

    /// Disk groups that may hold what a disk had there before it was replaced: they are away, so that nobody could tell them. Each has to
    /// confirm a deletion, as if it had a component; hosts that were forgotten have not.
    fn groups_away(&self) -> Vec<ComponentPlace> {
        let groups = self.inner.copy.borrow().disk_groups().into_iter();
        let away = groups.filter(|(_, group)| group.host != self.me() && !self.inner.rpc.is_up(group.host));
        let place = |(disk_group, group): (DiskGroupId, DiskGroupEntry)| {
            // Ids are random: this one is no component's.
            ComponentPlace { component: ComponentId(disk_group.0), host: group.host, disk_group }
        };
        away.map(place).collect()
    }

    async fn is_forgotten(&self, object: ObjectId) -> bool {
        matches!(self.inner.registry.get::<CatalogueEntry>(&object).await, Ok(None))
    }

    /// The object has its tombstone; the configuration that it had last.
    async fn delete_object(&self, object: ObjectId, hints: &[HostId]) -> ApiResult<ObjectConfig> {
        // An earlier deletion came as far as this and no further: its copies may be gone, so that nobody can own it any more.
        if let Some((known, _)) = self.inner.objects.look_up(object, hints).await
            && known.config.deleted
        {
            return Ok(known.config);
        }
        Ok(self.to_owner(object, hints, OwnerCommand::Delete).await?.config)
    }
}

/// A policy with a disk's own limits.
fn with_limits(policy: Policy, limits: &v1::DiskLimits) -> Policy {
    Policy {
        iops_limit: limits.iops_limit.unwrap_or(policy.iops_limit),
        bandwidth_limit_bytes_per_s: limits.bandwidth_limit_bytes_per_s.unwrap_or(policy.bandwidth_limit_bytes_per_s),
        ..policy
    }
}
