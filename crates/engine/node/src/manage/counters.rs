//! Counters: this host's, gathered for the API; all hosts' together; and as text for Prometheus.

use std::fmt::Write as _;

use cairn_api::{ApiResult, v1};
use cairn_directory::HostEntry;
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_store::StoreStats;
use cairn_types::BLOCK_BYTES;

use crate::{
    adapter::GroupStore,
    manage::remote::{HostAnswer, HostCommand},
    node::Node,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

impl<E: Env> Node<E> {
    /// Of every host that answers.
    pub(crate) async fn counters(&self) -> ApiResult<v1::Counters> {
        let mut hosts = self.inner.copy.borrow().list::<HostEntry>();
        hosts.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let asked = hosts.iter().map(|(host, _)| self.on_host(*host, HostCommand::Counters));
        let mut all = v1::Counters::default();
        for ((_, entry), answer) in hosts.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(HostAnswer::Counters(counters)) => all.hosts.push(*counters),
                _ => all.hosts_silent.push(entry.name.as_str().to_owned()),
            }
        }
        Ok(all)
    }

    /// Of this host.
    pub(crate) fn counters_here(&self) -> v1::HostCounters {
        let inner = &self.inner;
        let names = self.catalogue();
        let name = |object| {
            let known = names.iter().find(|(id, _)| *id == object);
            known.map_or_else(|| object.to_string(), |(_, entry)| entry.name.as_str().to_owned())
        };
        let disk = |(object, counted)| v1::DiskCounters { disk: object, name: name(object), guests: guests(counted) };
        let disks: Vec<v1::DiskCounters> = inner.shard.guest_counters().into_iter().map(disk).collect();
        let sum = |sum: v1::GuestCounters, disk: &v1::DiskCounters| sum.plus(&disk.guests);
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
        v1::HostCounters {
            host: self.me(),
            host_name: self.shard_name(self.me()),
            incarnation: inner.env.incarnation().0,
            started_unix_ms: inner.started_unix_ms,
            unix_ms: inner.env.unix_ms(),
            guests: disks.iter().fold(v1::GuestCounters::default(), sum),
            resync_out_bytes: inner.shard.resync_out_bytes(),
            disks,
            disk_groups,
        }
    }

    /// The counters of this server's shards in Prometheus' text format.
    pub(crate) async fn metrics(&self) -> ApiResult<String> {
        let shards = self.inner.options.shards.iter();
        let asked = shards.map(|shard| self.on_host(*shard, HostCommand::Metrics));
        // A shard that does not answer is missing there, as a host is that is down.
        let told = futures::future::join_all(asked).await.into_iter().filter_map(Result::ok);
        Ok(told.filter_map(|answer| if let HostAnswer::Metrics(text) = answer { Some(text) } else { None }).collect())
    }

    /// This shard's counters in Prometheus' text format.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = String::new();
        let mut put = |name: &str, labels: &str, value: u64| {
            let _ = writeln!(text, "cairn_{name}{{{labels}}} {value}");
        };
        let shards = &self.inner.options.shards;
        let number = shards.iter().position(|shard| *shard == self.me()).unwrap_or(0) + 1;
        let shard = if shards.len() > 1 { format!("shard=\"{number}\"") } else { String::new() };
        put("peers_up", &shard, self.peers_up().len() as u64);
        put("disks_owned", &shard, self.inner.shard.all_owned().len() as u64);
        let here = self.counters_here();
        put("guest_read_requests_total", &shard, here.guests.read_requests);
        put("guest_read_bytes_total", &shard, here.guests.read_bytes);
        put("guest_write_requests_total", &shard, here.guests.write_requests);
        put("guest_write_bytes_total", &shard, here.guests.write_bytes);
        put("resync_out_bytes_total", &shard, here.resync_out_bytes);
        for store in self.inner.seats.stores() {
            let (s, labels) = (store.group().stats(), format!("disk_group=\"{}\"", store.disk_group()));
            for (name, value) in metrics_of(&s) {
                put(name, &labels, value);
            }
        }
        text
    }
}

fn metrics_of(s: &StoreStats) -> [(&'static str, u64); 26] {
    let c = &s.counters;
    [
        ("log_bytes", s.log_bytes),
        ("log_used_bytes", s.log_used_bytes),
        ("capacity_usable_bytes", s.usable_bytes),
        ("capacity_free_bytes", s.free_bytes),
        ("components", s.components),
        ("log_batches_total", c.batches),
        ("operations_total", c.operations),
        ("write_bytes_total", c.write_bytes),
        ("resync_in_bytes_total", c.copy_bytes),
        ("log_write_bytes_total", c.log_write_bytes),
        ("destage_rounds_total", c.destage_rounds),
        ("destaged_blocks_total", c.destaged_blocks),
        ("capacity_write_bytes_total", c.capacity_write_bytes),
        ("capacity_write_destage_bytes_total", c.destage_write_bytes),
        ("capacity_write_clean_bytes_total", c.clean_write_bytes),
        ("capacity_write_resync_bytes_total", c.place_write_bytes),
        ("cleaned_blocks_total", c.cleaned_blocks),
        ("metadata_write_bytes_total", c.metadata_write_bytes),
        ("read_log_bytes_total", c.read_log_bytes),
        ("read_capacity_bytes_total", c.read_capacity_bytes),
        ("read_cache_used_bytes", s.read_cache_bytes),
        ("read_cache_hits_total", c.read_cache_hits),
        ("read_cache_misses_total", c.read_cache_misses),
        ("bad_blocks_total", c.bad_blocks),
        ("congestion", u64::from(s.congestion)),
        ("congestion_delay_us", s.congestion_delay_us),
    ]
}

fn guests(counted: cairn_object::GuestCounters) -> v1::GuestCounters {
    v1::GuestCounters {
        read_requests: counted.read_requests,
        read_bytes: counted.read_bytes,
        write_requests: counted.write_requests,
        write_bytes: counted.write_bytes,
        zero_requests: counted.zero_requests,
        zero_bytes: counted.zero_bytes,
        failed_requests: counted.failed_requests,
    }
}

fn group<E: Env>(store: &GroupStore<E>) -> v1::DiskGroupCounters {
    let stats = store.group().stats();
    v1::DiskGroupCounters {
        id: store.disk_group(),
        state: if stats.stopped.is_some() { v1::DiskGroupState::Failed } else { v1::DiskGroupState::Mounted },
        reason: stats.stopped.clone(),
        open_count: store.group().open_count(),
        opened_unix_ms: stats.opened_unix_ms,
        counters: Some(counters(&stats)),
        gauges: Some(gauges(&stats)),
    }
}

fn counters(stats: &StoreStats) -> v1::StoreCounters {
    let c = &stats.counters;
    v1::StoreCounters {
        write_operations: c.write_operations,
        write_bytes: c.write_bytes,
        resync_in_operations: c.copy_operations,
        resync_in_bytes: c.copy_bytes,
        zero_operations: c.zero_operations,
        log_writes: c.batches,
        log_write_bytes: c.log_write_bytes,
        destage_rounds: c.destage_rounds,
        destaged_bytes: c.destaged_blocks * BLOCK,
        destage_read_bytes: c.destage_read_bytes,
        capacity_write_destage_bytes: c.destage_write_bytes,
        capacity_write_clean_bytes: c.clean_write_bytes,
        capacity_write_resync_bytes: c.place_write_bytes,
        capacity_write_other_bytes: c.capacity_write_bytes
            - c.destage_write_bytes
            - c.clean_write_bytes
            - c.place_write_bytes,
        clean_read_bytes: c.clean_read_bytes,
        metadata_row_bytes: c.metadata_row_bytes,
        metadata_write_bytes: c.metadata_write_bytes,
        read_operations: c.read_operations,
        read_log_bytes: c.read_log_bytes,
        read_cache_bytes: c.read_cache_hits * BLOCK,
        read_capacity_bytes: c.read_capacity_bytes,
        read_hole_bytes: c.read_hole_bytes,
        bad_blocks: c.bad_blocks,
    }
}

fn gauges(stats: &StoreStats) -> v1::StoreGauges {
    v1::StoreGauges {
        log_bytes: stats.log_bytes,
        log_used_bytes: stats.log_used_bytes,
        log_fill_permille: stats.log_fill_permille,
        records_buffered: stats.records_buffered,
        destage_mark_bytes: stats.destage_mark_bytes,
        destage_mark_percent: stats.destage_mark_percent,
        congestion_low_bytes: stats.congestion_low_bytes,
        congestion_high_bytes: stats.congestion_high_bytes,
        congestion: stats.congestion,
        congestion_delay_us: stats.congestion_delay_us,
        read_cache_used_bytes: stats.read_cache_bytes,
    }
}
