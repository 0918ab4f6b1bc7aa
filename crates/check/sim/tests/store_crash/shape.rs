//! The disk group under test: small devices and settings, so that a short script goes through everything.

use cairn_env::Env;
use cairn_sim::{Host, SimDisk, SimEnv};
use cairn_store::{
    DiskGroup, DiskGroupDevices, Expect, FormatOptions, Identity, Needs, OpenOptions, RunningOptions, StoreError,
};
use cairn_types::{ClusterId, DiskGroupId};

pub type Group = DiskGroup<SimEnv>;

pub const CAPACITY: [&str; 2] = ["capacity-0", "capacity-1"];

pub fn format_options() -> FormatOptions {
    FormatOptions {
        log_bytes: Some(512 << 10),
        metadata_bytes: Some(6 << 20),
        log_segment_bytes: Some(64 << 10),
        segment_bytes: 64 << 10,
        ..FormatOptions::default()
    }
}

pub fn open_options() -> OpenOptions {
    OpenOptions {
        read_cache_bytes: 64 << 10,
        map_cache_bytes: 64 << 10,
        // A leaf a page: three components of four leaves have as many pages as fold, split and go one by one.
        map_page_leaves_max: 1,
        map_waiting_blocks: Some(48),
        running: RunningOptions { destage_percent: 25, place_bytes_min: 8 << 10, ..RunningOptions::default() },
        ..OpenOptions::default()
    }
}

pub fn identity(host: &Host) -> Identity {
    Identity { cluster: ClusterId(1), host: host.id(), disk_group: DiskGroupId(3) }
}

pub fn devices(host: &Host) -> DiskGroupDevices<SimDisk> {
    DiskGroupDevices { cache: host.disk("cache"), capacity: CAPACITY.map(|name| host.disk(name)).into() }
}

pub async fn open(env: SimEnv, devices: DiskGroupDevices<SimDisk>) -> Result<Group, StoreError> {
    open_as(env, devices, Needs::ALL).await
}

/// The same as in a cluster whose hosts know no more than this.
pub async fn open_as(env: SimEnv, devices: DiskGroupDevices<SimDisk>, allowed: Needs) -> Result<Group, StoreError> {
    let expect = Expect { cluster: ClusterId(1), host: env.host(), disk_group: None };
    DiskGroup::open(env, devices, expect, &OpenOptions { allowed, ..open_options() }).await
}

/// Adds blank devices.
pub fn add_devices(host: &Host) {
    host.add_disk("cache", 8 << 20);
    for name in CAPACITY {
        host.add_disk(name, (1 << 20) + 24 * (64 << 10));
    }
}
