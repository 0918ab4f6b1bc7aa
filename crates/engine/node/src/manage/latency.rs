//! Latencies: this host's, gathered for the API, and all hosts' together.
//!
//! Promises    an answer between hosts stays below [`STAGES_MAX`] stages, however many disks there are: what is left out is told
//! Not here    how they are measured (`object`, `store`), what they say (the API's `explain`)

use cairn_api::{ApiResult, v1};
use cairn_env::Env;
use cairn_measure::Latencies;
use cairn_object::{CopyLatencies, DiskLatencies, IoKind, LocalStore, Stage};
use cairn_store::{ReadLatencies, ReadSource};
use cairn_types::{HostId, ObjectId};
use cairn_wire::{Api, HostAnswer, HostCommand};

use crate::{adapter::GroupStore, node::Node};

/// Stages that a host tells in an overview, at most.
///
/// Napkin: 160 bytes of JSON each, and 1 KiB for the bins of each tenth: 2 MiB of a message's 4 MiB. A disk has about ten.
const STAGES_MAX: usize = 8192;

/// The stages in the order of a request, with their names in the API.
const STAGES: [(Stage, v1::IoStage); 11] = [
    (Stage::Request, v1::IoStage::Request),
    (Stage::OwnerWait, v1::IoStage::OwnerWait),
    (Stage::Forward, v1::IoStage::Forward),
    (Stage::Served, v1::IoStage::Served),
    (Stage::Admission, v1::IoStage::Admission),
    (Stage::Lock, v1::IoStage::Lock),
    (Stage::Edges, v1::IoStage::Edges),
    (Stage::Copies, v1::IoStage::Copies),
    (Stage::SlowerCopy, v1::IoStage::SlowerCopy),
    (Stage::Recording, v1::IoStage::Recording),
    (Stage::Lease, v1::IoStage::Lease),
];

const KINDS: [(IoKind, v1::IoOperation); 2] =
    [(IoKind::Read, v1::IoOperation::Read), (IoKind::Write, v1::IoOperation::Write)];

impl<E: Env> Node<E> {
    /// Of one disk, from every host that answers.
    pub(crate) async fn disk_latencies(&self, disk: String) -> ApiResult<v1::Latencies> {
        let (object, _) = self.known_disk(&disk).await?;
        Ok(self.latencies_of(Some(object)).await)
    }

    pub(crate) async fn latencies(&self) -> ApiResult<v1::Latencies> {
        Ok(self.latencies_of(None).await)
    }

    /// Of one disk, or an overview of all.
    pub(crate) async fn latencies_of(&self, only: Option<ObjectId>) -> v1::Latencies {
        let mut hosts = self.inner.copy.borrow().hosts();
        hosts.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let asked = hosts.iter().map(|(host, _)| self.on_host(*host, HostCommand::Latencies { only }));
        let mut all = v1::Latencies::default();
        for ((_, entry), answer) in hosts.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(HostAnswer::Latencies(Api(latencies))) => all.hosts.push(latencies),
                _ => all.hosts_silent.push(entry.name.as_str().to_owned()),
            }
        }
        all
    }

    /// At this host: of one disk in full, or an overview of all.
    pub(crate) fn latencies_here(&self, only: Option<ObjectId>) -> v1::HostLatencies {
        let inner = &self.inner;
        let detail = only.is_some();
        let mut left = STAGES_MAX;
        let mut found = inner.objects.latencies(only);
        // Those with the most requests first: they are what an overview is about.
        found.sort_by_key(|(object, latencies)| (std::cmp::Reverse(requests(latencies)), *object));
        let all = found.len();
        let told = found.into_iter().map(|(disk, latencies)| v1::DiskLatencies {
            disk,
            name: self.disk_name(disk),
            stages: stages(&latencies, detail, &|host| self.server_of(host)),
        });
        let disks: Vec<v1::DiskLatencies> = told.take_while(|disk| take(&mut left, disk, detail)).collect();
        let mut left_out = all - disks.len();
        let mut stores = inner.seats.stores();
        stores.retain(|store| only.is_none_or(|object| !store.components_of(object).is_empty()));
        let groups = stores.iter().map(|store| self.group_latencies(store, only, (&mut left, &mut left_out)));
        let mut disk_groups: Vec<v1::DiskGroupLatencies> = groups.collect();
        disk_groups.sort_by_key(|group| group.id);
        v1::HostLatencies {
            host: self.me(),
            host_name: self.host_name(self.me()),
            incarnation: inner.env.incarnation().0,
            unix_ms: inner.env.unix_ms(),
            disks_left_out: left_out as u64,
            disks,
            disk_groups,
        }
    }

    fn group_latencies(
        &self,
        store: &GroupStore<E>,
        only: Option<ObjectId>,
        (left, left_out): (&mut usize, &mut usize),
    ) -> v1::DiskGroupLatencies {
        let (group, detail) = (store.group(), only.is_some());
        let log = group.log_latencies();
        let write = |stage, latencies| told(v1::IoOperation::Write, stage, latencies, detail);
        let log = [
            write(v1::IoStage::LogQueue, &log.queue),
            write(v1::IoStage::LogRoom, &log.room),
            write(v1::IoStage::LogDevice, &log.device),
            write(v1::IoStage::Congestion, &log.congestion),
        ];
        let found = group.read_latencies(only);
        let all = found.len();
        let told = found.into_iter().map(|(disk, latencies)| v1::DiskLatencies {
            disk,
            name: self.disk_name(disk),
            stages: reads(&latencies, detail),
        });
        let reads: Vec<v1::DiskLatencies> = told.take_while(|disk| take(left, disk, detail)).collect();
        *left_out += all - reads.len();
        v1::DiskGroupLatencies {
            id: store.disk_group(),
            open_count: group.open_count(),
            log: log.into_iter().filter(|stage| stage.count > 0).collect(),
            reads,
        }
    }

    fn disk_name(&self, object: ObjectId) -> String {
        let entry = self.inner.copy.borrow().get::<cairn_directory::CatalogueEntry>(&object);
        entry.map_or_else(|| object.to_string(), |entry| entry.name.as_str().to_owned())
    }
}

/// Whether there is room for a disk: always for the only one.
fn take(left: &mut usize, disk: &v1::DiskLatencies, detail: bool) -> bool {
    match left.checked_sub(disk.stages.len()) {
        Some(less) => *left = less,
        None => return detail,
    }
    true
}

fn requests(latencies: &DiskLatencies) -> u64 {
    let count = |kind, stage| latencies.of(kind, stage).map_or(0, Latencies::count);
    KINDS.iter().map(|(kind, _)| count(*kind, Stage::Request) + count(*kind, Stage::Served)).sum()
}

fn told(operation: v1::IoOperation, stage: v1::IoStage, of: &Latencies, bins: bool) -> v1::StageLatencies {
    v1::StageLatencies {
        operation,
        stage,
        copy: None,
        count: of.count(),
        sum_ns: of.sum_ns(),
        max_ns: of.max_ns(),
        last_ns: 0,
        bins: if bins { of.bins().iter().map(|bin| [bin.from_us, bin.below_us, bin.count]).collect() } else { vec![] },
    }
}

fn stages(latencies: &DiskLatencies, detail: bool, server_of: &dyn Fn(HostId) -> HostId) -> Vec<v1::StageLatencies> {
    let mut all = Vec::new();
    for (kind, operation) in KINDS {
        for (stage, name) in STAGES {
            if let Some(found) = latencies.of(kind, stage) {
                all.push(told(operation, name, found, detail || stage == Stage::Request));
            }
        }
        let mut copies: Vec<&CopyLatencies> = latencies.copies().iter().filter(|copy| copy.kind == kind).collect();
        copies.sort_by_key(|copy| (copy.host, copy.disk_group));
        all.extend(copies.into_iter().map(|copy| v1::StageLatencies {
            copy: Some(v1::CopyPlace { host: server_of(copy.host), disk_group: copy.disk_group }),
            last_ns: copy.last_ns,
            ..told(operation, v1::IoStage::Copy, &copy.latencies, detail)
        }));
    }
    all
}

fn reads(latencies: &ReadLatencies, detail: bool) -> Vec<v1::StageLatencies> {
    let sources = [
        (v1::IoStage::Map, latencies.map.as_deref()),
        (v1::IoStage::Memory, latencies.of(ReadSource::Memory)),
        (v1::IoStage::ReadLog, latencies.of(ReadSource::Log)),
        (v1::IoStage::ReadCapacity, latencies.of(ReadSource::Capacity)),
    ];
    let found = sources.into_iter().filter_map(|(stage, latencies)| Some((stage, latencies?)));
    found.map(|(stage, latencies)| told(v1::IoOperation::Read, stage, latencies, detail)).collect()
}
