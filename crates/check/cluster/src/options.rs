//! What simulated hosts are made with: small devices, short delays, the product's lease.

use std::{net::SocketAddr, time::Duration};

use cairn_directory::{HostEntry, Name};
use cairn_node::NodeOptions;
use cairn_object::{LeaseOptions, ObjectOptions};
use cairn_store::{FormatOptions, OpenOptions, RunningOptions};
use cairn_types::{ClusterId, HostId};

use crate::{
    release::Release,
    shape::{LOG_SEGMENT_BYTES, REPAIR_DELAY_MS, Shape},
};

pub(crate) const CLUSTER: ClusterId = ClusterId(0xC1);
/// The lease of simulated clusters: the product's default.
pub const LEASE: Duration = Duration::from_secs(2);
/// Short, so that a run sees repairs.
pub const REPAIR_DELAY: Duration = Duration::from_millis(REPAIR_DELAY_MS);
/// Short too.
pub const ABSENT_AFTER: Duration = Duration::from_secs(5);
/// How long a guest's request waits in these clusters.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// No request takes longer on a host that runs: patience, one call, one takeover.
pub const STUCK_AFTER: Duration = Duration::from_secs(PATIENCE.as_secs() + 25);

/// Outcomes that a component remembers, at most: all slots of all sessions that 24 guests come to, and few more.
const OUTCOMES_MAX: usize = 128;

fn format_options(shape: &Shape) -> FormatOptions {
    FormatOptions {
        metadata_bytes: Some(shape.metadata_mib << 20),
        log_bytes: Some(shape.log_segments * LOG_SEGMENT_BYTES),
        log_segment_bytes: Some(LOG_SEGMENT_BYTES as u32),
        segment_bytes: 4 << 20,
        ..FormatOptions::default()
    }
}

fn open_options(shape: &Shape) -> OpenOptions {
    OpenOptions {
        read_cache_bytes: 1 << 20,
        map_cache_bytes: 1 << 20,
        outcomes_max: OUTCOMES_MAX,
        // So few that every level of the map turns within a run.
        map_waiting_blocks: Some(96),
        map_page_leaves_max: 2,
        running: RunningOptions {
            destage_percent: shape.destage_percent,
            place_bytes_min: 8 << 10,
            idle_destage_ms: shape.idle_destage_ms,
            ..RunningOptions::default()
        },
        ..OpenOptions::default()
    }
}

/// What the node of this host is told: `hosts` are the ids of all, by number.
pub(crate) fn node_options(number: usize, hosts: &[HostId], shape: &Shape, release: Release) -> NodeOptions {
    let text = |text: String| Name::new(text).expect("a host's name");
    let server = shape.server_of(number);
    NodeOptions {
        cluster: CLUSTER,
        entry: HostEntry {
            name: text(format!("h{number}")),
            fault_domain: text(format!("h{}", server.start)),
            peer_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            api_address: None,
            nbd_addresses: Vec::new(),
            vhost_user_dir: None,
            shard_of: (server.start != number).then(|| hosts[server.start]),
            build: Some(release.build()),
        },
        shards: hosts[server].to_vec(),
        directory_kind: "embedded".into(),
        leases: LeaseOptions { lease: LEASE, heartbeat: LEASE / 4 },
        objects: ObjectOptions {
            repair_delay: REPAIR_DELAY,
            absent_after: ABSENT_AFTER,
            guest_patience: PATIENCE,
            repeated_within: STUCK_AFTER,
            compare_period: Duration::from_millis(shape.compare_ms),
            ..ObjectOptions::default()
        },
        store_format: format_options(shape),
        store_open: open_options(shape),
        chunk_bytes_max: shape.chunk_bytes_max,
    }
}
