//! Counters: this host's, gathered for the API; all hosts' together; and as text for Prometheus.
//!
//! Not here    what each number is called and says (`metrics`), who counts it (`object`, `store`)

use std::collections::{BTreeMap, BTreeSet};

use cairn_api::{ApiResult, v1};
use cairn_directory::CatalogueEntry;
use cairn_env::Env;
use cairn_measure::Latencies;
use cairn_metrics::Exposition;
use cairn_object::{DiskLatencies, IoKind, LocalStore, Stage};
use cairn_types::ObjectId;
use cairn_wire::{Api, HostAnswer, HostCommand};

use crate::{adapter::GroupStore, node::Node};

impl<E: Env> Node<E> {
    /// Of every host that answers.
    pub(crate) async fn counters(&self) -> ApiResult<v1::Counters> {
        let mut hosts = self.inner.copy.borrow().hosts();
        hosts.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let asked = hosts.iter().map(|(host, _)| self.on_host(*host, HostCommand::Counters));
        let mut all = v1::Counters::default();
        for ((_, entry), answer) in hosts.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(HostAnswer::Counters(Api(counters))) => all.hosts.push(counters),
                _ => all.hosts_silent.push(entry.name.as_str().to_owned()),
            }
        }
        Ok(all)
    }

    /// Of this host.
    pub(crate) fn counters_here(&self) -> v1::HostCounters {
        let inner = &self.inner;
        let mut disk_groups: Vec<v1::DiskGroupCounters> = inner.seats.stores().iter().map(group).collect();
        for (id, closed) in inner.closed_groups.borrow().iter() {
            disk_groups.push(v1::DiskGroupCounters {
                id: *id,
                state: v1::DiskGroupState::Failed,
                reason: Some(closed.reason()),
                open_count: 0,
                opened_unix_ms: 0,
                counters: None,
                gauges: None,
            });
        }
        disk_groups.sort_by_key(|group| group.id);
        let gauges = v1::HostGauges {
            peers_up: self.peers_up().len() as u64,
            disks_owned: inner.objects.all_owned().len() as u64,
            turn_longest_us: inner.env.turn_longest().as_micros() as u64,
        };
        v1::HostCounters {
            host: self.me(),
            host_name: self.host_name(self.me()),
            incarnation: inner.env.incarnation().0,
            started_unix_ms: inner.started_unix_ms,
            unix_ms: inner.env.unix_ms(),
            guests: inner.objects.guest_counters_of_all(),
            owner: inner.objects.owner_counters(),
            gauges,
            disks: self.disk_counters(),
            disk_groups,
        }
    }

    /// Of disks that guests used here, and of those that this host owns.
    fn disk_counters(&self) -> Vec<v1::DiskCounters> {
        let objects = &self.inner.objects;
        let guests: BTreeMap<ObjectId, v1::GuestCounters> = objects.guest_counters().into_iter().collect();
        let times: BTreeMap<ObjectId, DiskLatencies> = objects.latencies(None).into_iter().collect();
        let owned = objects.all_owned().into_iter().map(|owned| owned.status());
        let health: BTreeMap<ObjectId, v1::DiskGauges> = owned
            .map(|status| {
                let health = match self.health_of(&status.config, true).0 {
                    v1::DiskHealth::Healthy => 0,
                    v1::DiskHealth::ReducedRedundancy => 1,
                    v1::DiskHealth::Inaccessible => 2,
                    v1::DiskHealth::Deleting => 3,
                };
                (status.config.object, v1::DiskGauges { health })
            })
            .collect();
        let names: BTreeMap<ObjectId, CatalogueEntry> = self.catalogue().into_iter().collect();
        let all: BTreeSet<ObjectId> = guests.keys().chain(health.keys()).copied().collect();
        let one = |disk: ObjectId| {
            let took = |kind| times.get(&disk).and_then(|t| t.of(kind, Stage::Request)).map(request_times);
            v1::DiskCounters {
                disk,
                name: names.get(&disk).map_or_else(|| disk.to_string(), |entry| entry.name.as_str().to_owned()),
                guests: guests.get(&disk).copied().unwrap_or_default(),
                reads: took(IoKind::Read).unwrap_or_default(),
                writes: took(IoKind::Write).unwrap_or_default(),
                gauges: health.get(&disk).copied(),
            }
        };
        all.into_iter().map(one).collect()
    }

    /// The numbers of this server's shards in Prometheus' text format.
    pub(crate) async fn metrics(&self) -> ApiResult<String> {
        let shards = self.inner.options.shards.iter();
        let asked = shards.map(|shard| self.on_host(*shard, HostCommand::Counters));
        let mut text = Exposition::default();
        // A shard that does not answer is missing there, as a host is that is down.
        for answer in futures::future::join_all(asked).await {
            if let Ok(HostAnswer::Counters(Api(counters))) = answer {
                expose(&mut text, &counters);
            }
        }
        Ok(text.text())
    }
}

fn expose(text: &mut Exposition, counters: &v1::HostCounters) {
    let host = counters.host_name.as_str();
    text.add(&[host], counters.gauges.values());
    text.add(&[host], counters.owner.values());
    for disk in &counters.disks {
        let labels = [host, disk.name.as_str()];
        text.add(&labels, disk.guests.values());
        text.add_times(&labels, "read", &disk.reads);
        text.add_times(&labels, "write", &disk.writes);
        text.add(&labels, disk.gauges.iter().flat_map(v1::DiskGauges::values));
    }
    for group in &counters.disk_groups {
        let id = group.id.to_string();
        let labels = [host, id.as_str()];
        text.add(&labels, group.gauges.iter().flat_map(v1::StoreGauges::values));
        text.add(&labels, group.counters.iter().flat_map(v1::StoreCounters::values));
    }
}

fn request_times(took: &Latencies) -> v1::RequestTimes {
    let bins = took.bins();
    v1::RequestTimes::new(took.count(), took.sum_ns(), bins.iter().map(|bin| (bin.below_us, bin.count)))
}

fn group<E: Env>(store: &GroupStore<E>) -> v1::DiskGroupCounters {
    let stats = store.group().stats();
    v1::DiskGroupCounters {
        id: store.disk_group(),
        state: if stats.stopped.is_some() { v1::DiskGroupState::Failed } else { v1::DiskGroupState::Mounted },
        reason: stats.stopped.clone(),
        open_count: store.group().open_count(),
        opened_unix_ms: stats.opened_unix_ms,
        counters: Some(stats.counters),
        gauges: Some(stats.gauges()),
    }
}
