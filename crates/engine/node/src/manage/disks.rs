//! Disks: lists, one in full, resize, attach, the record for experts.

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{CatalogueEntry, DiskState, HostEntry};
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_object::GroupTold;
use cairn_placement::ClusterPicture;
use cairn_types::{
    Accepted, BLOCK_BYTES, ComponentState, HostId, Layout, Member, ObjectConfig, ObjectId, Redundancy, Role, Seat,
    format_bytes,
};
use cairn_wire::{Answer, HostAnswer, HostCommand, ObjectStatus, OwnerCommand, Request};

use crate::{manage::reserve::demand_of, node::Node, servers::serving_shard};

/// How a disk with such a layout lies on its members.
fn rows_of(layout: &Layout) -> Option<v1::DiskRows> {
    match layout.redundancy {
        Redundancy::Mirror { .. } => None,
        Redundancy::Parity { data, parity, strip_blocks } => Some(v1::DiskRows {
            data_strips: data,
            parity_strips: parity,
            strip_bytes: u64::from(strip_blocks) * u64::from(BLOCK_BYTES),
        }),
    }
}

/// What of a disk has another layout than its policy asks for, in words.
fn laid_out_anew(config: &ObjectConfig) -> Option<String> {
    let areas = || Area::all(&config.addresses, config.size_bytes);
    let blocks = |area: Area| area.blocks().end - area.blocks().start;
    let bytes = |blocks: u64| format_bytes(blocks * u64::from(BLOCK_BYTES));
    let unfit: u64 = areas().filter(|area| !config.policy.fits(area.layout())).map(blocks).sum();
    (unfit > 0).then(|| {
        let all = areas().map(blocks).sum();
        let now = if config.addresses.moving().is_some() { ", of which a part is under way" } else { "" };
        format!("{} of {} are still to be laid out as the policy asks{now}", bytes(unfit), bytes(all))
    })
}

impl<E: Env> Node<E> {
    pub(crate) async fn known_disk(&self, name: &str) -> ApiResult<(ObjectId, CatalogueEntry)> {
        if let Some(found) = self.find_disk(name).await {
            return Ok(found);
        }
        if self.is_being_made(name).await {
            let refused = ApiError::conflict(format!("disk {name:?} is being made, or its making was cut in two"));
            return Err(refused.remedy("Try again in some minutes: by then it is made, or undone and its name free"));
        }
        Err(ApiError::not_found(format!("there is no disk {name:?}")).remedy("See `cairn disk list`"))
    }

    /// What every host that answers owns.
    pub(crate) async fn owned_everywhere(&self) -> BTreeMap<ObjectId, ObjectStatus> {
        let mut hosts = self.peers_up();
        hosts.push(self.me());
        let asked = hosts.into_iter().map(|host| self.on_host(host, HostCommand::Owned));
        let mut all: BTreeMap<ObjectId, ObjectStatus> = BTreeMap::new();
        for answer in futures::future::join_all(asked).await {
            let Ok(HostAnswer::Owned(owned)) = answer else { continue };
            for status in owned {
                let known = all.get(&status.config.object);
                if known.is_none_or(|k| k.epoch < status.epoch) {
                    all.insert(status.config.object, status);
                }
            }
        }
        all
    }

    pub(crate) async fn disk_list(&self) -> ApiResult<Vec<v1::DiskSummary>> {
        Ok(self.all_disks().await)
    }

    pub(crate) async fn disk_show(&self, disk: String) -> ApiResult<v1::Disk> {
        self.show_disk(&disk).await
    }

    pub(crate) async fn all_disks(&self) -> Vec<v1::DiskSummary> {
        self.disks_beside(&self.owned_everywhere().await).await
    }

    /// All disks, where this is what owners told.
    pub(crate) async fn disks_beside(&self, owned: &BTreeMap<ObjectId, ObjectStatus>) -> Vec<v1::DiskSummary> {
        let picture = self.picture();
        let mut disks = Vec::new();
        for (object, entry) in self.catalogue() {
            let known = match owned.get(&object) {
                Some(status) => Some((status.config.clone(), Some(status))),
                None => self.inner.objects.look_up(object, &entry.hint_hosts).await.map(|(a, _)| (a.config, None)),
            };
            disks.push(self.summary(&picture, object, &entry, known));
        }
        disks
    }

    fn summary(
        &self,
        picture: &ClusterPicture,
        object: ObjectId,
        entry: &CatalogueEntry,
        known: Option<(ObjectConfig, Option<&ObjectStatus>)>,
    ) -> v1::DiskSummary {
        let (mut health, mut reasons) = match &known {
            _ if entry.state == DiskState::Deleting => {
                let why = "it ends when the hosts that hold the disk answer and the directory takes changes";
                (v1::DiskHealth::Deleting, vec![why.to_owned()])
            }
            Some((config, status)) => self.health_of(config, status.is_some()),
            None => (v1::DiskHealth::Inaccessible, vec!["no host that answers has its record".to_owned()]),
        };
        // All that it has is well: it may still have less than its policy asks for, as one that was made by force.
        if let (v1::DiskHealth::Healthy, Some((config, _))) = (health, &known) {
            reasons = cairn_placement::compliance(picture, config);
            if !reasons.is_empty() {
                health = v1::DiskHealth::ReducedRedundancy;
            }
        }
        let status = known.as_ref().and_then(|(_, s)| *s);
        let waiting = status.map(|s| &s.resyncs[..]).unwrap_or_default().iter().filter(|r| r.blocks_unreadable > 0);
        reasons.extend(waiting.map(|resync| {
            let (host, blocks) = (self.server_name(resync.host), resync.blocks_unreadable);
            format!(
                "the copy on host {host} waits for {blocks} blocks of 4 KiB that no copy in sync can give: write them over, or restore them \
                 from a backup"
            )
        }));
        v1::DiskSummary {
            id: object,
            name: entry.name.as_str().to_owned(),
            size_bytes: known.as_ref().map_or(entry.size_bytes, |(c, _)| c.size_bytes),
            policy: known.as_ref().map_or(entry.policy_name.as_str(), |(c, _)| &c.policy_name).to_owned(),
            owner: status.map(|s| self.server_name(s.epoch.host)),
            health,
            reasons,
            resync_bytes_left: status.map_or(0, |s| s.resyncs.iter().map(|r| r.bytes_left).sum()),
        }
    }

    /// The judgement of one object: what votes and copies are reachable from here.
    pub(crate) fn health_of(&self, config: &ObjectConfig, owned: bool) -> (v1::DiskHealth, Vec<String>) {
        let reachable: std::collections::BTreeSet<_> =
            config.seats().into_iter().filter(|seat| self.why_away(*seat).is_none()).collect();
        let usable = |m: &Member| m.state.in_sync() && self.why_away(m.seat()).is_none();
        if !owned && let Err(why) = cairn_votes::accessible(config, &reachable, usable) {
            let mut reasons = vec![why.to_string()];
            let away = config.members.iter().filter_map(|m| self.away_words(m));
            reasons.extend(away);
            return (v1::DiskHealth::Inaccessible, reasons);
        }
        let mut reasons = Vec::new();
        // Of two that hold the same, the other one counts: a copy that is being moved is no copy less.
        let counts =
            |m: &&Member| m.state.in_sync() || !config.twin_of(m.component).is_some_and(|twin| twin.state.in_sync());
        for member in config.members.iter().filter(counts) {
            let host = self.server_name(member.host);
            match member.state {
                ComponentState::Active => reasons.extend(self.away_words(member)),
                ComponentState::Absent { .. } => {
                    reasons.push(format!("{} on host {host} is absent", role_words(member)))
                }
                ComponentState::Degraded => reasons.push(format!("{} on host {host} is lost", role_words(member))),
                ComponentState::Resyncing { .. } => {
                    reasons.push(format!("{} on host {host} is being filled", role_words(member)));
                }
            }
        }
        match reasons.is_empty() {
            true => (v1::DiskHealth::Healthy, reasons),
            false => (v1::DiskHealth::ReducedRedundancy, reasons),
        }
    }

    /// "a copy on host b: its disk group is closed there"; none where the component's place can be reached.
    fn away_words(&self, member: &Member) -> Option<String> {
        let why = self.why_away(member.seat())?;
        Some(format!("{} on host {}: {why}", role_words(member), self.server_name(member.host)))
    }

    /// Why a disk group cannot be used, as heartbeats have it.
    pub(crate) fn why_away(&self, seat: Seat) -> Option<&'static str> {
        if seat.host == self.me() {
            return match self.inner.seats.store(seat.disk_group) {
                None => Some("its disk group is closed there"),
                Some(store) if store.group().is_stopped() => Some("its disk group takes no writes"),
                Some(_) => None,
            };
        }
        if !self.inner.rpc.is_up(seat.host) {
            return Some("the host does not answer");
        }
        match self.inner.leases.told_of(seat)? {
            GroupTold::Closed => Some("its disk group is closed there"),
            GroupTold::Stopped => Some("its disk group takes no writes"),
            GroupTold::Works => None,
        }
    }

    /// A disk as its owner sees it, and its record.
    pub(crate) async fn status_and_record(
        &self,
        object: ObjectId,
        hints: &[HostId],
    ) -> (Option<ObjectStatus>, Option<Accepted>) {
        let looked_up = self.inner.objects.look_up(object, hints).await;
        if let Some((known, Some(owner))) = &looked_up
            && let Ok(status) = self.inner.objects.command(*owner, object, OwnerCommand::Status).await
            && status.epoch >= known.epoch
        {
            return (Some(status), looked_up.map(|(known, _)| known));
        }
        // Those who were asked know no owner, or one that is none any more: others may know a later one.
        let status = self.owned_everywhere().await.remove(&object);
        (status, looked_up.map(|(known, _)| known))
    }

    pub(crate) async fn show_disk(&self, name: &str) -> ApiResult<v1::Disk> {
        let (object, entry) = self.known_disk(name).await?;
        let (status, looked_up) = self.status_and_record(object, &entry.hint_hosts).await;
        let status = status.as_ref();
        let config = status.map(|s| s.config.clone()).or(looked_up.as_ref().map(|a| a.config.clone()));
        let csn = status.map(|s| s.csn).or(looked_up.as_ref().map(|a| a.csn.0)).unwrap_or(0);
        let summary = self.summary(&self.picture(), object, &entry, config.clone().map(|c| (c, status)));
        let rules = config.as_ref().map(|c| v1::PolicyRules::from(&c.policy)).unwrap_or_default();
        let components = config.as_ref().map(|c| self.components(c, status)).unwrap_or_default();
        let allocated_bytes = match &config {
            Some(config) => self.allocated_bytes(config).await,
            None => None,
        };
        let clone_of = match &config {
            Some(config) => self.clone_of(config).await,
            None => None,
        };
        let ancestry = config.as_ref().and_then(|config| config.ancestry.as_ref());
        Ok(v1::Disk {
            clone_of,
            flattens: ancestry.is_some_and(|ancestry| ancestry.flattens),
            nbd_uris: self.nbd_uris(&summary.name, status.map(|s| s.epoch.host)),
            notes: config.as_ref().and_then(laid_out_anew).into_iter().collect(),
            sessions: self.sessions(Some(object)).await.sessions,
            goes_back_to: config.as_ref().and_then(goes_back_to),
            summary,
            rules,
            rows: config.as_ref().and_then(|config| rows_of(&config.addresses.last().layout)),
            allocated_bytes,
            epoch: status.map(|s| format!("{}/{}/{}", s.epoch.number, s.epoch.host, s.epoch.incarnation.0)),
            csn,
            components,
        })
    }

    fn components(&self, config: &ObjectConfig, status: Option<&ObjectStatus>) -> Vec<v1::Component> {
        let hosts: BTreeMap<HostId, HostEntry> = self.inner.copy.borrow().hosts().into_iter().collect();
        let mut members = config.members.clone();
        members.sort_by_key(|m| match m.role {
            Role::Data { set, copy } => (0, set, copy),
            Role::Witness => (1, 0, 0),
        });
        let absent_ms = |m: &Member| {
            let all = status.map(|status| &status.absent_ms[..]).unwrap_or_default();
            all.iter().find(|(component, _)| *component == m.component).map(|(_, ms)| *ms)
        };
        let delay_ms = self.inner.objects.options().repair_delay.as_millis() as u64;
        let component = |m: &Member| v1::Component {
            id: m.component,
            role: role_of(m),
            host: self.server_of(m.host),
            host_name: self.server_name(m.host),
            fault_domain: hosts.get(&m.host).map(|h| h.fault_domain.as_str().to_owned()).unwrap_or_default(),
            disk_group: m.disk_group,
            problem: self.why_away(m.seat()).map(str::to_owned),
            votes: m.votes,
            state: match m.state {
                ComponentState::Active => v1::ComponentState::Active,
                ComponentState::Degraded => v1::ComponentState::Degraded,
                ComponentState::Absent { .. } => v1::ComponentState::Absent {
                    for_s: absent_ms(m).map(|ms| ms / 1000),
                    repair_in_s: absent_ms(m).map(|ms| delay_ms.saturating_sub(ms).div_ceil(1000)),
                },
                ComponentState::Resyncing { .. } => {
                    let resync = status.and_then(|s| s.resyncs.iter().find(|r| r.component == m.component));
                    v1::ComponentState::Resyncing {
                        bytes_left: resync.map(|r| r.bytes_left),
                        eta_s: resync.and_then(super::cluster::eta_s),
                    }
                }
            },
        };
        members.iter().map(component).collect()
    }

    fn nbd_uris(&self, disk: &str, owner: Option<HostId>) -> Vec<String> {
        let owner = owner.map(|owner| self.server_of(owner));
        let mut hosts = self.inner.copy.borrow().hosts();
        hosts.retain(|(host, _)| *host == self.me() || self.inner.rpc.is_up(*host));
        hosts.sort_by_key(|(host, entry)| (Some(*host) != owner, entry.name.clone()));
        let uri = |address: &String| match address.split_once("/?") {
            Some((scheme, query)) => format!("{scheme}/{disk}?{query}"),
            None => format!("{address}/{disk}"),
        };
        hosts.iter().flat_map(|(_, entry)| entry.nbd_addresses.iter().map(uri)).collect()
    }

    pub(crate) async fn disk_resize(&self, disk: String, request: v1::DiskResize) -> ApiResult<v1::Disk> {
        request.validate()?;
        let (object, entry) = self.known_disk(&disk).await?;
        let config = self.config_of(object, &entry).await?;
        let demand = |size_bytes| demand_of(&config, &config.policy, size_bytes, config.members.iter());
        let more = demand(request.size_bytes.max(config.size_bytes)) - demand(config.size_bytes);
        self.leave_reserve(&format!("disk {} of its new size", config.name), more)?;
        self.to_owner(object, &entry.hint_hosts, OwnerCommand::Grow { size_bytes: request.size_bytes }).await?;
        let update = self.inner.registry.update::<CatalogueEntry>(&object, |entry| {
            Ok(entry.map(|e| CatalogueEntry { size_bytes: request.size_bytes, ..e.clone() }))
        });
        // The record has the size; the catalogue is a hint that may lag while the directory is away.
        let _ = update.await;
        let shown = self.show_disk(&disk).await?;
        Ok(v1::Disk { notes: self.overcommitment().into_iter().collect(), ..shown })
    }

    pub(crate) async fn disk_set(&self, disk: String, limits: v1::DiskLimits) -> ApiResult<v1::Disk> {
        limits.validate()?;
        let (object, entry) = self.known_disk(&disk).await?;
        let command = OwnerCommand::Limit {
            iops_limit: limits.iops_limit,
            bandwidth_limit_bytes_per_s: limits.bandwidth_limit_bytes_per_s,
        };
        self.to_owner(object, &entry.hint_hosts, command).await?;
        self.show_disk(&disk).await
    }

    pub(crate) async fn disk_attach(&self, disk: String, request: v1::DiskAttach) -> ApiResult<v1::Disk> {
        let (object, entry) = self.known_disk(&disk).await?;
        let server = match &request.host {
            Some(host) => self.find_host(host)?,
            None => self.me(),
        };
        let shards = self.shards_of(server);
        let host = match &shards[..] {
            [only] => *only,
            _ => match self.inner.objects.look_up(object, &entry.hint_hosts).await {
                Some((known, _)) => serving_shard(&shards, &known.config),
                None => server,
            },
        };
        let attached = if host == self.me() {
            self.inner.objects.attach(object, &entry.hint_hosts, true).await
        } else {
            let call = self.inner.rpc.call(host, Request::Attach { object }, Vec::new());
            call.await.map(drop).map_err(|refusal| super::remote::words(&refusal))
        };
        attached
            .map_err(|text| ApiError::unavailable(format!("host {} cannot own it: {text}", self.server_name(host))))?;
        self.show_disk(&disk).await
    }

    pub(crate) async fn disk_record(&self, disk: String) -> ApiResult<v1::ObjectRecord> {
        let (object, entry) = self.known_disk(&disk).await?;
        let Some((known, _)) = self.inner.objects.look_up(object, &entry.hint_hosts).await else {
            return Ok(v1::ObjectRecord { object, seats: Vec::new(), config: None });
        };
        let mut seats = Vec::new();
        for seat in known.config.seats() {
            let reply = self.inner.objects.ask(seat.host, seat.disk_group, Request::WhoHas { object }).await;
            let mut report = v1::SeatReport {
                host: self.server_of(seat.host),
                host_name: self.server_name(seat.host),
                disk_group: seat.disk_group,
                votes: known.config.votes_at(seat),
                promised: None,
                accepted: None,
                csn: None,
                open: false,
                error: None,
            };
            match reply {
                Ok((Answer::Record { promised, accepted, .. }, _)) => {
                    report.promised = Some(epoch_words(promised));
                    report.accepted = accepted.as_ref().map(|a| epoch_words(a.epoch));
                    report.csn = accepted.as_ref().map(|a| a.csn.0);
                    report.open = accepted.is_some_and(|a| a.base.is_some());
                }
                Ok(_) => report.error = Some("it answered something else".into()),
                Err(refusal) => report.error = Some(super::remote::words(&refusal)),
            }
            seats.push(report);
        }
        Ok(v1::ObjectRecord { object, seats, config: Some(known.config) })
    }
}

/// The name of the snapshot that a disk is going back to.
fn goes_back_to(config: &ObjectConfig) -> Option<String> {
    let past = config.past.as_ref()?;
    past.goes_back_to.and_then(|id| past.snapshot(id)).map(|snapshot| snapshot.name.clone())
}

/// The policy of a disk by its name, and its rules.
pub(crate) fn policy_words(config: &ObjectConfig) -> String {
    format!("{} ({})", config.policy_name, v1::PolicyRules::from(&config.policy).describe())
}

fn epoch_words(epoch: cairn_types::Epoch) -> String {
    format!("{}/{}/{}", epoch.number, epoch.host, epoch.incarnation.0)
}

/// What a component is for, as the API says it.
pub(crate) fn role_of(member: &Member) -> v1::ComponentRole {
    match member.role {
        Role::Data { set, copy } => v1::ComponentRole::Data { set, copy },
        Role::Witness => v1::ComponentRole::Witness,
    }
}

fn role_words(member: &Member) -> &'static str {
    match member.role {
        Role::Data { .. } => "a copy",
        Role::Witness => "the witness",
    }
}
