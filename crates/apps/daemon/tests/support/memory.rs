//! A cluster that exists in memory only, for tests of what is in front of the engine: four hosts, their disk groups, disks.
//!
//! It keeps what it is told and refuses what the real one refuses, so that HTTP, bridge and command line meet real answers.

use std::{cell::RefCell, collections::BTreeMap};

use cairn_api::{ApiError, ApiResult, Request as _, v1::*};
use cairn_types::{ClusterId, ComponentId, DeviceId, DiskGroupId, HostId, MaintenanceMode, ObjectId, Policy as Stored};

use super::{
    changes::{growth, moved, policy_change, policy_edited, record_of, what_if},
    devices::{changed, host_devices, located},
    health::{health, health_with, history},
    latencies::host_latencies,
    members::{members, members_changed},
    scrubs::scrub_of,
    snapshots::Snapshots,
    space::space,
};

/// The cluster.
pub struct MemoryCluster(pub(super) RefCell<State>);

pub(super) struct State {
    settings: ClusterSettings,
    resync: ResyncSettings,
    hosts: Vec<Host>,
    groups: Vec<DiskGroup>,
    pub(super) disks: BTreeMap<String, Disk>,
    policies: BTreeMap<String, PolicyRules>,
    pub(super) snapshots: Snapshots,
    /// How often latencies were asked for.
    asked: u64,
    next: u128,
}

pub(super) const GROUP_BYTES: u64 = 100 << 30;

impl MemoryCluster {
    /// Four hosts, one disk group each; host-4 is down, and disk "wounded" has its second copy there.
    pub fn new() -> Self {
        let hosts = (1..=4u128).map(|n| Host {
            id: HostId(n << 96),
            name: format!("host-{n}"),
            fault_domain: format!("rack-{}", n.div_ceil(2)),
            address: format!("10.0.0.{n}:9600"),
            nbd_addresses: if n == 3 {
                Vec::new()
            } else {
                vec![format!("nbd://10.0.0.{n}:10809"), "nbd+unix:///?socket=/run/cairn/nbd.sock".into()]
            },
            vhost_user_dir: (n == 1).then(|| "/run/cairn/vhost".into()),
            up: n < 4,
            incarnation: 1,
            maintenance: false,
            shards: (n < 4).then_some(2),
            disk_groups: vec![DiskGroupId(n << 100)],
            capacity: Capacity { raw_bytes: GROUP_BYTES, used_bytes: 0, free_bytes: GROUP_BYTES },
            disks_owned: (n < 4).then_some(0),
        });
        let hosts: Vec<Host> = hosts.collect();
        let groups = hosts.iter().map(|host| group(host.disk_groups[0], host, host.up));
        let mut state = State {
            settings: ClusterSettings::default(),
            resync: ResyncSettings::default(),
            groups: groups.collect(),
            hosts,
            disks: BTreeMap::new(),
            policies: BTreeMap::from([(DEFAULT_POLICY.to_owned(), PolicyRules::default())]),
            snapshots: Snapshots::default(),
            asked: 0,
            next: 1,
        };
        let mut wounded = state.disk("wounded", 1 << 30, DEFAULT_POLICY);
        wounded.summary.health = DiskHealth::ReducedRedundancy;
        wounded.summary.reasons = vec!["copy 1 on host-4 is absent".into()];
        wounded.summary.resync_bytes_left = 3 << 20;
        wounded.components[1].host = state.hosts[3].id;
        wounded.components[1].host_name = "host-4".into();
        wounded.components[1].state = ComponentState::Absent { for_s: Some(60), repair_in_s: Some(3540) };
        state.disks.insert("wounded".into(), wounded);
        Self(RefCell::new(state))
    }
}

fn maintenance(host: &str, state: MaintenanceState, mode: Option<MaintenanceMode>) -> Maintenance {
    Maintenance {
        host: host.to_owned(),
        disk_group: None,
        state,
        mode,
        disks: 0,
        components_left: 0,
        bytes_left: 0,
        eta_s: None,
        obstacles: Vec::new(),
        inaccessible: Vec::new(),
        reduced: 0,
    }
}

fn group(id: DiskGroupId, host: &Host, up: bool) -> DiskGroup {
    let device = |n: u128, path: String| Device {
        id: DeviceId(id.0 | n),
        path,
        size_bytes: GROUP_BYTES,
        state: DeviceState::Ok,
        problem: None,
        medium: None,
        slow: None,
    };
    DiskGroup {
        id,
        host: host.id,
        host_name: host.name.clone(),
        state: if up { DiskGroupState::Mounted } else { DiskGroupState::Unreachable },
        draining: false,
        reason: (!up).then(|| "its host does not answer".into()),
        cache: up.then(|| device(1, "/dev/nvme0n1".into())),
        devices: if up { vec![device(2, "/dev/sda".into())] } else { vec![] },
        capacity: host.capacity,
        log: up.then_some(LogFill { size_bytes: 10 << 30, used_bytes: 1 << 30 }),
        components: up.then_some(0),
        slow: None,
        scrubbed_unix_ms: None,
        compression: up.then_some(false),
        deduplication: up.then_some(false),
        rewriting: None,
        space: up.then(space),
    }
}

/// Two copies of 100 MiB that a guest wrote at host-1 are on host-1 and host-2.
fn host_counters(host: &Host, groups: &[DiskGroup]) -> HostCounters {
    let number = (host.id.0 >> 96) as u64;
    let (guest, copy) = (u64::from(number == 1) * (100 << 20), u64::from(number < 3) * (100 << 20));
    let guests = GuestCounters {
        read_requests: guest / 8192,
        read_bytes: guest / 2,
        write_requests: guest / 4096,
        write_bytes: guest,
        ..GuestCounters::default()
    };
    let counters = StoreCounters {
        write_operations: copy / 4096,
        write_bytes: copy,
        log_writes: copy / 65536,
        log_write_bytes: copy + copy / 16,
        destage_rounds: 3,
        destaged_bytes: copy / 2,
        destage_read_bytes: copy / 2,
        capacity_write_destage_bytes: copy / 2 + copy / 256,
        metadata_row_bytes: copy / 256,
        metadata_write_bytes: copy / 64,
        read_operations: copy / 16384,
        read_log_bytes: copy / 8,
        read_cache_bytes: copy / 16,
        read_capacity_bytes: copy / 16,
        ..StoreCounters::default()
    };
    let gauges = |log: LogFill| StoreGauges {
        log_bytes: log.size_bytes,
        log_used_bytes: log.used_bytes,
        log_fill_permille: log.used_bytes * 1000 / log.size_bytes,
        destage_mark_bytes: log.size_bytes / 2,
        destage_mark_percent: 50,
        congestion_low_bytes: log.size_bytes / 4 * 3,
        congestion_high_bytes: log.size_bytes / 10 * 9,
        ..StoreGauges::default()
    };
    let group = |group: &DiskGroup| DiskGroupCounters {
        id: group.id,
        state: group.state,
        reason: group.reason.clone(),
        open_count: 1,
        opened_unix_ms: 1_800_000_000_000,
        counters: Some(counters),
        gauges: group.log.map(gauges),
    };
    let times = |count: u64| RequestTimes::new(count, count * 200_000, [(256, count)].into_iter());
    let disk = DiskCounters {
        disk: ObjectId(2 << 96),
        name: "wounded".into(),
        guests,
        reads: times(guests.read_requests),
        writes: times(guests.write_requests),
        gauges: (number == 1).then_some(DiskGauges { health: 1 }),
    };
    HostCounters {
        host: host.id,
        host_name: host.name.clone(),
        incarnation: host.incarnation,
        started_unix_ms: 1_800_000_000_000,
        unix_ms: 1_800_000_060_000,
        guests,
        owner: OwnerCounters::default(),
        gauges: HostGauges { peers_up: 2, disks_owned: u64::from(number == 1), ..HostGauges::default() },
        disks: vec![disk],
        disk_groups: groups.iter().filter(|g| g.host == host.id).map(group).collect(),
    }
}

fn cleared(group: &DiskGroup, state: CacheState, reason: Option<String>, log: LogFill) -> DiskGroupCache {
    DiskGroupCache {
        id: group.id,
        host: group.host,
        host_name: group.host_name.clone(),
        state,
        reason,
        log_bytes: log.size_bytes,
        dirty_bytes: 0,
        destaged_bytes: log.used_bytes,
        read_cache_bytes: 64 << 20,
    }
}

impl State {
    fn host(&self, host: &str) -> ApiResult<&Host> {
        self.hosts
            .iter()
            .find(|known| known.name == host || known.id.to_string() == host)
            .ok_or_else(|| ApiError::not_found(format!("there is no host {host}")).remedy("cairn host list shows all"))
    }

    fn disk(&mut self, name: &str, size_bytes: u64, policy: &str) -> Disk {
        self.next += 1;
        let id = self.next << 96;
        let component = |n: usize, role| Component {
            id: ComponentId(id | (n as u128 + 1) << 120),
            role,
            host: self.hosts[n].id,
            host_name: self.hosts[n].name.clone(),
            fault_domain: self.hosts[n].fault_domain.clone(),
            disk_group: self.hosts[n].disk_groups[0],
            votes: 1,
            state: ComponentState::Active,
            problem: None,
        };
        Disk {
            summary: DiskSummary {
                id: ObjectId(id),
                name: name.into(),
                size_bytes,
                policy: policy.into(),
                owner: Some("host-1".into()),
                health: DiskHealth::Healthy,
                reasons: vec![],
                resync_bytes_left: 0,
            },
            rules: self.policies[policy].clone(),
            rows: None,
            allocated_bytes: Some(0),
            epoch: Some("1/host-1/1".into()),
            csn: 1,
            components: vec![
                component(0, ComponentRole::Data { set: 0, copy: 0 }),
                component(1, ComponentRole::Data { set: 0, copy: 1 }),
                component(2, ComponentRole::Witness),
            ],
            nbd_uris: vec![format!("nbd://10.0.0.1:10809/{name}")],
            notes: Vec::new(),
            sessions: Vec::new(),
            goes_back_to: None,
            clone_of: None,
            flattens: false,
        }
    }

    pub(super) fn disk_named(&mut self, name: &str) -> ApiResult<&mut Disk> {
        self.disks
            .values_mut()
            .find(|disk| disk.summary.name == name || disk.summary.id.to_string() == name)
            .ok_or_else(|| ApiError::not_found(format!("there is no disk {name}")).remedy("cairn disk list shows all"))
    }
}

macro_rules! refuse_what_is_not_here {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        /// A refusal for every call: what `MemoryCluster` has no function for. Its own functions go first.
        #[allow(dead_code, unused_variables, reason = "most calls have a function below")]
        trait Refuses {
            $(async fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> ApiResult<$answer> {
                Err(ApiError::refused(concat!("the cluster in memory cannot carry out ", stringify!($name))))
            })*
        }

        impl cairn_api::LocalManagement for MemoryCluster {
            $(async fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> ApiResult<$answer> {
                self.$name($($place,)? $($body)?).await
            })*
        }
    };
}

impl Refuses for MemoryCluster {}

cairn_api::management_calls!(refuse_what_is_not_here);

impl MemoryCluster {
    async fn cluster_status(&self) -> ApiResult<ClusterStatus> {
        let health = self.health().await?;
        let state = self.0.borrow();
        Ok(ClusterStatus {
            id: ClusterId(7 << 96),
            name: "memory".into(),
            version: "0.1.0".into(),
            answered_by: "host-1".into(),
            hosts_up: 3,
            hosts_total: 4,
            disk_groups: 4,
            disks: state.disks.len() as u32,
            capacity: Capacity { raw_bytes: 4 * GROUP_BYTES, used_bytes: 0, free_bytes: 4 * GROUP_BYTES },
            provisioned_bytes: state.disks.values().map(|d| d.summary.size_bytes).sum(),
            directory: DirectoryStatus { kind: "embedded".into(), reachable: true },
            health: health.severity,
            problems: health.checks.into_iter().filter(|c| c.severity > Severity::Ok).map(|c| c.text).collect(),
        })
    }
    async fn cluster_capacity(&self) -> ApiResult<ClusterCapacity> {
        let state = self.0.borrow();
        let told = state.groups.iter().filter_map(|group| group.space);
        let (disk_groups, space) = told.fold((0, DiskGroupSpace::default()), |(n, sum), one| (n + 1, sum.with(one)));
        let silent = state.groups.iter().filter(|group| group.space.is_none());
        let why =
            |group: &DiskGroup| format!("disk group {} of {}: its host does not answer", group.id, group.host_name);
        Ok(ClusterCapacity {
            space,
            provisioned_bytes: state.disks.values().map(|disk| disk.summary.size_bytes).sum(),
            disk_groups,
            not_counted: silent.map(why).collect(),
        })
    }
    async fn cluster_settings(&self) -> ApiResult<ClusterSettings> {
        Ok(self.0.borrow().settings.clone())
    }
    async fn cluster_settings_set(&self, patch: ClusterSettingsPatch) -> ApiResult<ClusterSettings> {
        let mut state = self.0.borrow_mut();
        state.settings = patch.apply(&state.settings)?;
        Ok(state.settings.clone())
    }
    async fn cluster_pause_repair(&self, request: RepairPause) -> ApiResult<ClusterSettings> {
        request.validate()?;
        let mut state = self.0.borrow_mut();
        state.settings.repair_paused_s = request.for_s;
        Ok(state.settings.clone())
    }
    async fn cluster_upgrade(&self) -> ApiResult<Upgrade> {
        let hosts = self.0.borrow().hosts.clone();
        let host = |(n, host): (usize, Host)| {
            let (version, highest) = if n == 2 { ("0.2.0", 12) } else { ("0.3.0", 13) };
            let (speaks_least, speaks_highest) = (Some(12), Some(highest));
            UpgradeHost {
                id: host.id,
                name: host.name,
                up: host.up,
                version: Some(version.into()),
                speaks_least,
                speaks_highest,
            }
        };
        let feature = |feature: cairn_types::Feature| UpgradeFeature {
            name: feature.name().into(),
            since: feature.since().0,
            text: feature.sentence().into(),
            on: false,
        };
        let features = cairn_types::Speaks::of(12, 13).features().map(feature).collect();
        let obstacles = vec!["host host-3 runs 0.2.0, which speaks protocol 12 and not 13: upgrade it".into()];
        let hosts = hosts.into_iter().enumerate().map(host).collect();
        Ok(Upgrade { level: 12, level_next: 13, hosts, features, obstacles })
    }
    async fn cluster_upgrade_finish(&self, _: UpgradeFinish) -> ApiResult<Upgrade> {
        let why = self.cluster_upgrade().await?.obstacles.join("; ");
        Err(ApiError::refused(format!("the upgrade to 13 cannot be finished: {why}"))
            .remedy("`cairn cluster upgrade status` shows every host"))
    }
    async fn cluster_members(&self) -> ApiResult<DirectoryMembers> {
        Ok(members())
    }
    async fn cluster_members_change(&self, request: DirectoryMembersChange) -> ApiResult<DirectoryMembers> {
        let added = request.add.as_ref().map(|add| self.0.borrow().host(&add.host).cloned()).transpose()?;
        members_changed(&request, added.as_ref())
    }
    async fn host_list(&self) -> ApiResult<Vec<Host>> {
        Ok(self.0.borrow().hosts.clone())
    }
    async fn host_show(&self, host: String) -> ApiResult<Host> {
        self.0.borrow().host(&host).cloned()
    }
    async fn host_devices(&self, host: String) -> ApiResult<Vec<HostDevice>> {
        let state = self.0.borrow();
        let id = state.host(&host)?.id;
        let group = state.groups.iter().find(|group| group.host == id);
        Ok(group.map_or_else(Vec::new, host_devices))
    }
    async fn host_locate(&self, host: String, request: DeviceLocate) -> ApiResult<DeviceLocated> {
        let name = self.0.borrow().host(&host)?.name.clone();
        located(name, &self.host_devices(host).await?, &request)
    }
    async fn host_maintenance_show(&self, host: String) -> ApiResult<Maintenance> {
        let host = self.0.borrow().host(&host)?.clone();
        let state = if host.maintenance { MaintenanceState::In } else { MaintenanceState::Out };
        let mode = host.maintenance.then_some(MaintenanceMode::EnsureAccessibility);
        Ok(maintenance(&host.name, state, mode))
    }
    async fn host_maintenance(&self, host: String, request: HostMaintenance) -> ApiResult<Maintenance> {
        let name = self.0.borrow().host(&host)?.name.clone();
        let mode = request.mode.unwrap_or_default();
        if !request.enter {
            return Ok(maintenance(&name, MaintenanceState::Out, None));
        }
        // Of three hosts that answer none can be emptied, and each can be away.
        let mut told = maintenance(&name, MaintenanceState::Out, Some(mode));
        (told.disks, told.reduced) = (2, 2);
        if mode == MaintenanceMode::FullEvacuation {
            (told.components_left, told.bytes_left, told.eta_s) = (2, 3 << 30, Some(95));
            let why = "mirror with FTT=1 needs 3 fault domains, 2 are up";
            told.obstacles = vec![format!("disk vm-1: {why}"), format!("disk wounded: {why}")];
        }
        if !told.obstacles.is_empty() && !request.dry_run && !request.force {
            let why = told.obstacles.join("; ");
            return Err(ApiError::refused(format!("host {name} cannot be emptied (full-evacuation): {why}"))
                .remedy("Add a host or capacity, choose another mode, or use --force"));
        }
        let entered = if told.components_left > 0 { MaintenanceState::Entering } else { MaintenanceState::In };
        Ok(Maintenance { state: if request.dry_run { told.state } else { entered }, ..told })
    }
    async fn host_remove(&self, host: String, request: HostRemove) -> ApiResult<HostRemoval> {
        let found = self.0.borrow().host(&host)?.clone();
        let mut removal = HostRemoval {
            host: found.name.clone(),
            up: found.up,
            disk_groups: found.disk_groups.clone(),
            disks_owned: 1,
            ..HostRemoval::default()
        };
        if !found.maintenance {
            removal.components = 3;
            removal.obstacles = vec![
                "it is not in maintenance with full evacuation".to_owned(),
                "3 components of 2 disks are there".to_owned(),
            ];
        }
        if !removal.obstacles.is_empty() && !request.dry_run {
            let why = removal.obstacles.join("; ");
            return Err(ApiError::refused(format!("host {} cannot be removed: {why}", found.name)).remedy(format!(
                "Empty it first: `cairn host maintenance enter {} --mode full-evacuation --wait`, then give the command again",
                found.name
            )));
        }
        if !request.dry_run {
            self.0.borrow_mut().hosts.retain(|host| host.id != found.id);
        }
        Ok(removal)
    }
    async fn host_forget(&self, host: String, request: HostForget) -> ApiResult<HostLoss> {
        let found = self.0.borrow().host(&host)?.clone();
        let heard_by = if found.up { vec!["h1".to_owned()] } else { Vec::new() };
        let loss = HostLoss {
            host: found.name.clone(),
            heard_by,
            disk_groups: found.disk_groups.clone(),
            disks: 2,
            components: 2,
            reduced: vec!["vm-1".to_owned()],
            not_rebuilt: vec!["disk vm-1: mirror with FTT=1 needs 3 fault domains, 2 are up".to_owned()],
            lost: vec!["wounded".to_owned()],
            directory_member: found.name == "host-4",
            ..HostLoss::default()
        };
        match (request.dry_run, loss.heard_by.is_empty(), request.force) {
            (false, false, _) => Err(ApiError::refused(format!("host {host} is alive: it answers h1"))),
            (false, true, false) => Err(ApiError::refused(format!(
                "host {host} is not forgotten: votes or the last good copy are lost with it of these disks: wounded"
            ))
            .remedy("Start the hosts that are away, ask another host, or use --force: what only that host has is given up then")),
            (true, ..) => Ok(loss),
            (false, true, true) => {
                self.0.borrow_mut().hosts.retain(|host| host.id != found.id);
                Ok(loss)
            }
        }
    }
    async fn host_readmit(&self, host: String) -> ApiResult<()> {
        Err(ApiError::not_found(format!("no host {host:?} was removed or forgotten")).remedy("None was"))
    }
    async fn disk_group_list(&self) -> ApiResult<Vec<DiskGroup>> {
        Ok(self.0.borrow().groups.clone())
    }
    async fn disk_group_show(&self, disk_group: DiskGroupId) -> ApiResult<DiskGroup> {
        let state = self.0.borrow();
        let found = state.groups.iter().find(|g| g.id == disk_group).cloned();
        found.ok_or_else(|| ApiError::not_found(format!("there is no disk group {disk_group}")))
    }
    async fn disk_group_create(&self, request: DiskGroupCreate) -> ApiResult<DiskGroup> {
        let mut state = self.0.borrow_mut();
        let host = state.host(request.host.as_deref().unwrap_or("host-1"))?.clone();
        if !host.up {
            return Err(ApiError::unavailable(format!("{} does not answer", host.name)));
        }
        state.next += 1;
        let mut made = group(DiskGroupId(state.next << 64), &host, true);
        made.cache.as_mut().unwrap().path = request.cache;
        made.devices[0].path = request.capacity.join(",");
        state.groups.push(made.clone());
        Ok(made)
    }
    async fn disk_group_add_capacity(&self, id: DiskGroupId, request: DiskGroupAddCapacity) -> ApiResult<DeviceChange> {
        Ok(changed(&self.disk_group_show(id).await?, request.device, None))
    }
    async fn disk_group_replace_device(
        &self,
        id: DiskGroupId,
        request: DiskGroupReplaceDevice,
    ) -> ApiResult<DeviceChange> {
        Ok(changed(&self.disk_group_show(id).await?, request.with, Some(request.device)))
    }
    async fn disk_group_drain_show(&self, disk_group: DiskGroupId) -> ApiResult<Maintenance> {
        let group = self.disk_group_show(disk_group).await?;
        let state = if group.draining { MaintenanceState::In } else { MaintenanceState::Out };
        Ok(Maintenance { disk_group: Some(disk_group), ..maintenance(&group.host_name, state, None) })
    }
    async fn disk_group_drain(&self, disk_group: DiskGroupId, request: DiskGroupDrain) -> ApiResult<Maintenance> {
        let now = self.disk_group_drain_show(disk_group).await?;
        let mode = request.drain.then_some(MaintenanceMode::FullEvacuation);
        if request.dry_run {
            return Ok(Maintenance { mode, disks: 2, components_left: 2, bytes_left: 3 << 30, ..now });
        }
        let mut state = self.0.borrow_mut();
        state.groups.iter_mut().filter(|g| g.id == disk_group).for_each(|g| g.draining = request.drain);
        let state = if request.drain { MaintenanceState::In } else { MaintenanceState::Out };
        Ok(Maintenance { mode, state, ..now })
    }
    async fn disk_group_set(&self, disk_group: DiskGroupId, settings: DiskGroupSettings) -> ApiResult<DiskGroup> {
        settings.validate()?;
        self.disk_group_show(disk_group).await?;
        let mut state = self.0.borrow_mut();
        let group = state.groups.iter_mut().find(|group| group.id == disk_group).unwrap();
        group.compression = settings.compression.or(group.compression);
        group.deduplication = settings.deduplication.or(group.deduplication);
        Ok(group.clone())
    }
    async fn disk_group_remove(&self, disk_group: DiskGroupId) -> ApiResult<()> {
        let first = self.0.borrow().groups[0].id;
        if disk_group == first {
            return Err(ApiError::refused(format!("disk group {disk_group} holds 2 components"))
                .remedy(format!("Move them away first: `cairn disk-group drain {disk_group} --wait`")));
        }
        self.disk_group_show(disk_group).await?;
        self.0.borrow_mut().groups.retain(|g| g.id != disk_group);
        Ok(())
    }
    async fn disk_list(&self) -> ApiResult<Vec<DiskSummary>> {
        Ok(self.0.borrow().disks.values().map(|disk| disk.summary.clone()).collect())
    }
    pub(super) async fn disk_show(&self, disk: String) -> ApiResult<Disk> {
        let mut disk = self.0.borrow_mut().disk_named(&disk)?.clone();
        disk.sessions = self.session_list().await?.sessions;
        disk.sessions.retain(|session| session.disk == disk.summary.name);
        Ok(disk)
    }
    async fn disk_create(&self, request: DiskCreate) -> ApiResult<Disk> {
        let mut state = self.0.borrow_mut();
        if state.disks.contains_key(&request.name) {
            return Err(
                ApiError::conflict(format!("there is a disk {} already", request.name)).remedy("Choose another name")
            );
        }
        let policy = request.policy.as_deref().unwrap_or(DEFAULT_POLICY);
        let Some(rules) = state.policies.get(policy) else {
            return Err(ApiError::not_found(format!("there is no policy {policy}")));
        };
        if rules.ftt > 1 {
            return Err(ApiError::refused("mirror with FTT 2 needs 5 fault domains, 3 are up: host-4 does not answer")
                .remedy("Add hosts, or choose a policy with a lower FTT"));
        }
        let disk = state.disk(&request.name, request.size_bytes, policy);
        state.disks.insert(request.name, disk.clone());
        Ok(disk)
    }
    async fn disk_delete(&self, disk: String, how: DiskDelete) -> ApiResult<()> {
        let (mut sessions, mut state) = (self.session_list().await?.sessions, self.0.borrow_mut());
        let name = state.disk_named(&disk)?.summary.name.clone();
        sessions.retain(|session| session.disk == name && !how.force);
        cairn_api::v1::check_not_in_use(&name, &sessions)?;
        state.disks.remove(&name);
        Ok(())
    }
    async fn disk_resize(&self, disk: String, request: DiskResize) -> ApiResult<Disk> {
        let mut state = self.0.borrow_mut();
        let disk = state.disk_named(&disk)?;
        if request.size_bytes < disk.summary.size_bytes {
            return Err(ApiError::refused(format!("disk {} cannot shrink", disk.summary.name))
                .remedy("Make a smaller disk and copy"));
        }
        disk.summary.size_bytes = request.size_bytes;
        Ok(disk.clone())
    }
    async fn disk_set(&self, disk: String, limits: DiskLimits) -> ApiResult<Disk> {
        let mut state = self.0.borrow_mut();
        let disk = state.disk_named(&disk)?;
        let rules = &mut disk.rules;
        rules.iops_limit = limits.iops_limit.unwrap_or(rules.iops_limit);
        rules.bandwidth_limit_bytes_per_s =
            limits.bandwidth_limit_bytes_per_s.unwrap_or(rules.bandwidth_limit_bytes_per_s);
        Ok(disk.clone())
    }
    async fn what_if_lost(&self, lost: WhatIfLost) -> ApiResult<WhatIf> {
        lost.validate()?;
        let state = self.0.borrow();
        let name = match (&lost.host, lost.disk_group) {
            (Some(host), _) => state.host(host)?.name.clone(),
            (None, id) => state.groups.iter().find(|g| Some(g.id) == id).map_or(String::new(), |g| g.host_name.clone()),
        };
        Ok(what_if(&name, lost.host.is_some(), state.disks.values(), state.settings.repair_delay_s))
    }
    async fn what_if_growth(&self, request: WhatIfGrowth) -> ApiResult<Growth> {
        request.validate()?;
        Ok(growth(&request, self.0.borrow().hosts.len()))
    }
    async fn disk_policy_set(&self, disk: String, request: DiskPolicySet) -> ApiResult<DiskChange> {
        let rules = self.policy_show(request.policy.clone()).await?.rules;
        let mut state = self.0.borrow_mut();
        let disk = state.disk_named(&disk)?;
        let change = policy_change(disk, &request, &rules)?;
        if change.begun {
            (disk.summary.policy, disk.rules) = (request.policy, rules);
        }
        Ok(change)
    }
    async fn disk_move(&self, disk: String, request: DiskMove) -> ApiResult<DiskChange> {
        let mut state = self.0.borrow_mut();
        let from = state.host(&request.from)?.name.clone();
        let to = state.host(request.to.as_deref().unwrap_or("host-3"))?.name.clone();
        moved(state.disk_named(&disk)?, &from, &to, request.dry_run)
    }
    async fn disk_attach(&self, disk: String, request: DiskAttach) -> ApiResult<Disk> {
        let mut state = self.0.borrow_mut();
        let host = state.host(request.host.as_deref().unwrap_or("host-1"))?.name.clone();
        let disk = state.disk_named(&disk)?;
        disk.summary.owner = Some(host);
        Ok(disk.clone())
    }
    async fn disk_record(&self, disk: String) -> ApiResult<ObjectRecord> {
        Ok(record_of(self.0.borrow_mut().disk_named(&disk)?))
    }
    async fn session_list(&self) -> ApiResult<Sessions> {
        let state = self.0.borrow();
        // From the future, so that it is always there for 0 s.
        let session = |disk: &Disk| Session {
            disk: disk.summary.name.clone(),
            host: state.hosts[0].id,
            host_name: state.hosts[0].name.clone(),
            front_end: "nbd".into(),
            peer: "10.0.0.9:50000".into(),
            since_unix_ms: 4_000_000_000_000,
            requests: 7,
            failed_requests: 1,
            read_bytes: 1 << 20,
            write_bytes: 2 << 20,
        };
        let sessions = state.disks.get("wounded").map(session).into_iter().collect();
        let silent = state.hosts.iter().filter(|host| !host.up).map(|host| host.name.clone());
        Ok(Sessions { sessions, hosts_silent: silent.collect() })
    }
    async fn policy_list(&self) -> ApiResult<Vec<Policy>> {
        let state = self.0.borrow();
        let policy = |(name, rules): (&String, &PolicyRules)| Policy {
            name: name.clone(),
            builtin: name == DEFAULT_POLICY,
            rules: rules.clone(),
            disks: state.disks.values().filter(|d| &d.summary.policy == name).count() as u32,
        };
        Ok(state.policies.iter().map(policy).collect())
    }
    async fn policy_show(&self, policy: String) -> ApiResult<Policy> {
        let all = self.policy_list().await?;
        let found = all.into_iter().find(|known| known.name == policy);
        found.ok_or_else(|| ApiError::not_found(format!("there is no policy {policy}")))
    }
    async fn policy_create(&self, request: PolicyCreate) -> ApiResult<Policy> {
        Stored::from(&request.rules).validate()?;
        let name = request.name.clone();
        if self.0.borrow().policies.contains_key(&name) {
            return Err(ApiError::conflict(format!("there is a policy {name} already")));
        }
        self.0.borrow_mut().policies.insert(request.name, request.rules);
        self.policy_show(name).await
    }
    async fn policy_edit(&self, policy: String, request: PolicyEdit) -> ApiResult<PolicyChange> {
        request.validate()?;
        let known = self.policy_show(policy.clone()).await?;
        let mut state = self.0.borrow_mut();
        let change = policy_edited(&known, &request, state.disks.values())?;
        if change.begun {
            state.policies.insert(policy.clone(), request.rules.clone());
            for disk in state.disks.values_mut().filter(|disk| disk.summary.policy == policy) {
                disk.rules = request.rules.clone();
            }
        }
        Ok(change)
    }
    async fn policy_delete(&self, policy: String) -> ApiResult<()> {
        if self.policy_show(policy.clone()).await?.builtin {
            return Err(ApiError::refused(format!("policy {policy} is built in and stays")));
        }
        self.0.borrow_mut().policies.remove(&policy);
        Ok(())
    }
    async fn health_mute(&self, request: HealthMute) -> ApiResult<Health> {
        health_with(&request)
    }
    async fn health(&self) -> ApiResult<Health> {
        Ok(health())
    }
    async fn health_history(&self) -> ApiResult<HealthHistory> {
        Ok(history())
    }
    async fn resync_list(&self) -> ApiResult<Vec<Resync>> {
        let state = self.0.borrow();
        let wounded = state.disks.get("wounded").map(|disk| Resync {
            disk: disk.summary.id,
            disk_name: "wounded".into(),
            component: disk.components[1].id,
            host_name: "host-4".into(),
            kind: ResyncKind::Delta,
            bytes_total: 12 << 20,
            bytes_left: 3 << 20,
            bytes_per_s: 1 << 20,
            eta_s: Some(3),
        });
        Ok(wounded.into_iter().collect())
    }
    async fn resync_settings(&self) -> ApiResult<ResyncSettings> {
        Ok(self.0.borrow().resync.clone())
    }
    async fn resync_settings_set(&self, request: ResyncSettings) -> ApiResult<ResyncSettings> {
        self.0.borrow_mut().resync = request.clone();
        Ok(request)
    }
    async fn scrub_list(&self) -> ApiResult<Vec<Scrub>> {
        Ok(self.0.borrow().groups.iter().map(scrub_of).collect())
    }
    async fn scrub(&self, request: ScrubChange) -> ApiResult<Vec<Scrub>> {
        request.validate()?;
        let state = self.0.borrow();
        let host = request.host.as_deref().map(|host| state.host(host)).transpose()?.map(|host| host.id);
        let meant = |group: &&DiskGroup| {
            request.disk_group.is_none_or(|id| id == group.id) && host.is_none_or(|id| id == group.host)
        };
        let changed = |group: &DiskGroup| {
            let scrub = scrub_of(group);
            let (state, at_once) = match request.verb {
                _ if scrub.state == ScrubState::Unreachable => (scrub.state, false),
                ScrubVerb::Start => (ScrubState::Running, true),
                ScrubVerb::Pause => (ScrubState::Paused, false),
                ScrubVerb::Resume => (ScrubState::Running, false),
            };
            let runs = state == ScrubState::Running;
            Scrub { state, at_once, bytes_per_s: u64::from(runs) << 28, eta_s: runs.then_some(12), ..scrub }
        };
        Ok(state.groups.iter().filter(meant).map(changed).collect())
    }
    async fn counters(&self) -> ApiResult<Counters> {
        let state = self.0.borrow();
        let (up, down): (Vec<&Host>, Vec<&Host>) = state.hosts.iter().partition(|host| host.up);
        let hosts = up.into_iter().map(|host| host_counters(host, &state.groups)).collect();
        Ok(Counters { hosts, hosts_silent: down.into_iter().map(|host| host.name.clone()).collect() })
    }
    async fn disk_latencies(&self, disk: String) -> ApiResult<Latencies> {
        self.0.borrow_mut().disk_named(&disk)?;
        self.latencies().await
    }
    async fn latencies(&self) -> ApiResult<Latencies> {
        let state = &mut *self.0.borrow_mut();
        state.asked += 1;
        let (up, down): (Vec<&Host>, Vec<&Host>) = state.hosts.iter().partition(|host| host.up);
        let hosts = up.into_iter().map(|host| host_latencies(host, &state.groups, state.asked)).collect();
        Ok(Latencies { hosts, hosts_silent: down.into_iter().map(|host| host.name.clone()).collect() })
    }
    async fn caches_clear(&self, request: CacheClear) -> ApiResult<CachesCleared> {
        request.validate()?;
        let state = self.0.borrow();
        let host = request.host.as_deref().map(|host| state.host(host)).transpose()?.map(|host| host.id);
        let meant = |group: &&DiskGroup| {
            request.disk_group.is_none_or(|id| id == group.id) && host.is_none_or(|id| id == group.host)
        };
        let groups = state.groups.iter().filter(meant).map(|group| match group.log {
            Some(log) => cleared(group, CacheState::Clear, None, log),
            None => cleared(group, CacheState::Unreachable, group.reason.clone(), LogFill::default()),
        });
        Ok(CachesCleared::judge(groups.collect(), request.disk_group.is_some(), 1500))
    }
    async fn metrics(&self) -> ApiResult<String> {
        Ok("# TYPE cairn_hosts_up gauge\ncairn_hosts_up 3\n".into())
    }
}
