//! The devices of a real disk group after some work, in memory, and a world to open changed copies of them in.
//!
//! Promises    made by the product itself, once per process, from one seed: the same devices each time
//! Not here    what is changed (`log`, `metadata`)

use std::{collections::BTreeMap, future::Future, sync::LazyLock};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_format::{
    BatchHeader, CacheRegions, DeviceRole, SUPERBLOCK_BYTES, block_crcs, crc32c, decode_batch_header, decode_superblock,
};
use cairn_sim::{Medium, SimDisk, SimEnv, World};
use cairn_store::{
    Choice, DiskGroup, DiskGroupDevices, Expect, FormatOptions, Identity, OpenOptions, RunningOptions, StoreError,
};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ClusterId, ComponentId, ComponentOp, DiskGroupId, Epoch,
    HostId, Incarnation, ObjectId, OpId, Run, SnapshotId, UnsettledOp,
};

/// An open disk group of the simulator.
pub type Group = DiskGroup<SimEnv>;

const CAPACITY: [&str; 2] = ["capacity-0", "capacity-1"];
const HOST: HostId = HostId(0xA);
const SEGMENT_BYTES: u32 = 64 << 10;
const LOG_SEGMENT_BYTES: u32 = 64 << 10;
const METADATA_BYTES: u64 = 4 << 20;
const LOG_BYTES: u64 = 8 * LOG_SEGMENT_BYTES as u64;
/// Blocks of a component that [`look`] reads; those of the images have fewer.
const BLOCKS_READ: u64 = 64;
/// A run of the world that takes more steps than this does not end: one that does takes some ten thousand.
const STEPS_MAX: u64 = 3_000_000;

/// The components of the images.
pub const COMPONENTS: [ComponentId; 3] = [ComponentId(0xC1), ComponentId(0xC2), ComponentId(0xC3)];

/// The devices of one disk group, at rest.
#[derive(Debug, Clone)]
pub struct Devices {
    /// Log and metadata.
    pub cache: Medium,
    /// The others.
    pub capacity: Vec<Medium>,
}

/// A disk group at rest and what is known of it.
#[derive(Debug, Clone)]
pub struct Image {
    /// Which of [`IMAGES`] it is.
    pub number: usize,
    /// Its devices.
    pub devices: Devices,
    /// How the cache device is divided.
    pub regions: CacheRegions,
    /// Where its log ends.
    pub head: u64,
    /// Where its log begins.
    pub tail: u64,
    /// What it holds.
    pub seen: Seen,
}

/// A block as it was read: its CRC-32C, none for a hole, or that it cannot be read.
pub type Block = Result<Option<u32>, ()>;

/// What a disk group shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Each component: settled, unsettled, blocks.
    pub components: BTreeMap<ComponentId, (OpId, Vec<UnsettledOp>, Vec<Block>)>,
    /// Records of seats.
    pub records: Vec<(ObjectId, Bytes)>,
}

/// How many there are.
pub const COUNT: usize = 4;

/// A disk group with blocks in the log and on capacity devices, and one that has never destaged; then the same two of groups that pack.
pub static IMAGES: LazyLock<[Image; COUNT]> = LazyLock::new(|| std::array::from_fn(make));

/// The one that an input's first byte chooses.
pub fn chosen(choice: u8) -> &'static Image {
    &IMAGES[usize::from(choice & 1 | choice >> 3 & 2)]
}

fn format_options() -> FormatOptions {
    FormatOptions {
        log_bytes: Some(LOG_BYTES),
        metadata_bytes: Some(METADATA_BYTES),
        log_segment_bytes: Some(LOG_SEGMENT_BYTES),
        segment_bytes: SEGMENT_BYTES,
        ..FormatOptions::default()
    }
}

fn open_options() -> OpenOptions {
    OpenOptions {
        // So few that some of the map is in pages.
        map_waiting_blocks: Some(8),
        map_page_leaves_max: 1,
        read_cache_bytes: 64 << 10,
        map_cache_bytes: 64 << 10,
        running: RunningOptions { place_bytes_min: u64::from(BLOCK_BYTES), ..RunningOptions::default() },
        ..OpenOptions::default()
    }
}

fn world_of(devices: &Devices) -> (World, cairn_sim::Host) {
    let world = World::new(7);
    world.set_steps_max(STEPS_MAX);
    let host = world.add_host_with_id("a", HOST);
    host.add_disk_of("cache", devices.cache.clone());
    for (name, medium) in CAPACITY.iter().zip(&devices.capacity) {
        host.add_disk_of(name, medium.clone());
    }
    (world, host)
}

/// Runs `act` on a host that has these devices.
pub fn with_devices<T, F>(devices: &Devices, act: impl FnOnce(SimEnv, DiskGroupDevices<SimDisk>) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let (_world, host) = world_of(devices);
    let disks = DiskGroupDevices { cache: host.disk("cache"), capacity: CAPACITY.map(|name| host.disk(name)).into() };
    host.run(act(host.env(), disks)).expect("no crash was planned")
}

/// Opens the disk group as the product does.
pub async fn open(env: SimEnv, disks: DiskGroupDevices<SimDisk>) -> Result<Group, StoreError> {
    let expect = Expect { cluster: ClusterId(1), host: env.host(), disk_group: None };
    DiskGroup::open(env, disks, expect, &open_options()).await
}

/// The operation of this number.
pub fn op(epoch: u64, seq: u64) -> OpId {
    OpId { epoch: Epoch { number: epoch, host: HOST, incarnation: Incarnation(1) }, seq }
}

/// A write of `count` blocks whose bytes tell the operation.
pub fn write(component: ComponentId, seq: u64, settled: u64, first_block: u64, count: u32) -> Change {
    let data = PageBuf::copy_of(&vec![seq as u8; (count * BLOCK_BYTES) as usize]).freeze();
    let blocks = BlockOp::Write { first_block, crcs: block_crcs(&data) };
    let client = ClientTag { session: 9, number: seq };
    let op = ComponentOp::Apply { op: op(1, seq), settled: op(1, settled), client, blocks };
    Change::Component { component, op, data }
}

fn zero(component: ComponentId, seq: u64, first: u64, count: u32, keep_allocated: bool) -> Change {
    let client = ClientTag { session: 9, number: seq };
    let blocks = BlockOp::Zero { range: BlockRange::new(first, count), keep_allocated };
    ComponentOp::Apply { op: op(1, seq), settled: op(1, seq - 2), client, blocks }.on(component)
}

/// A copy of one block and one hole: the block goes past the log.
fn copy(component: ComponentId, seq: u64) -> Change {
    let data = PageBuf::copy_of(&[seq as u8; BLOCK_BYTES as usize]).freeze();
    let runs = vec![Run::Data { crcs: block_crcs(&data) }, Run::Hole { blocks: 3 }];
    let (client, blocks) = (ClientTag::default(), BlockOp::Copy { first_block: 0, runs });
    let op = ComponentOp::Apply { op: op(1, seq), settled: op(1, seq - 2), client, blocks };
    Change::Component { component, op, data }
}

/// The work that every image has behind it; the group destages after the part of this number.
fn work() -> Vec<Change> {
    let [a, b, c] = COMPONENTS;
    let create = |component, size_blocks, reserved_blocks| Change::CreateComponent {
        component,
        object: ObjectId(0x0B),
        size_blocks,
        reserved_blocks,
    };
    let record = |bytes: &'static [u8]| Change::Record { object: ObjectId(0x0B), bytes: Bytes::from_static(bytes) };
    vec![
        create(a, 48, 0),
        create(b, 16, 4),
        record(b"first"),
        write(a, 1, 0, 0, 4),
        write(a, 2, 1, 2, 4),
        write(b, 3, 0, 0, 3),
        zero(a, 4, 1, 2, false),
        write(a, 5, 3, 20, 2),
        copy(b, 6),
        create(c, 32, 0),
        write(c, 1, 0, 30, 2),
        // Here one image destages.
        ComponentOp::Cuts { at: op(1, 6), settled: op(1, 5), cuts: vec![(SnapshotId(1), op(1, 5))] }.on(a),
        write(a, 7, 5, 0, 1),
        write(a, 8, 6, 40, 3),
        ComponentOp::Undo { ops: vec![op(1, 8)] }.on(a),
        zero(b, 7, 8, 2, true),
        Change::DeleteComponent { component: c },
        write(b, 8, 7, 1, 2),
        record(b"second"),
        ComponentOp::Settle { upto: op(1, 7) }.on(b),
        write(a, 9, 7, 5, 1),
    ]
}
const DESTAGE_AFTER: usize = 11;

fn make(number: usize) -> Image {
    let (destages, packs) = (number.is_multiple_of(2), number >= 2);
    let blank = |bytes| Medium::new(bytes);
    let capacity = blank((1 << 20) + 12 * u64::from(SEGMENT_BYTES));
    let cache = blank((1 << 20) + METADATA_BYTES + LOG_BYTES);
    let (_world, host) = world_of(&Devices { cache, capacity: vec![capacity.clone(), capacity] });
    let disks = DiskGroupDevices { cache: host.disk("cache"), capacity: CAPACITY.map(|name| host.disk(name)).into() };
    let env = host.env();
    let ran = host.run(async move {
        let identity = Identity { cluster: ClusterId(1), host: HOST, disk_group: DiskGroupId(3) };
        DiskGroup::format(env.clone(), disks.clone(), identity, &format_options()).await.expect("blank devices");
        let group = open(env, disks).await.expect("a new group");
        group.choose(Choice::packs(packs)).await.expect("it is allowed");
        for (at, operation) in work().into_iter().enumerate() {
            if destages && at == DESTAGE_AFTER {
                group.drain().await.expect("devices that work");
            }
            group.append(operation).await.expect("an operation that is in order");
        }
        group.check_invariants().await.expect("a group that works");
        let (seen, head, used) = (look(&group).await, group.durable_position(), group.stats().log_used_bytes);
        group.close().await;
        (seen, head, head - used)
    });
    let (seen, head, tail) = ran.expect("no crash was planned");
    let devices =
        Devices { cache: host.disk("cache").image(), capacity: CAPACITY.map(|name| host.disk(name).image()).into() };
    let mut superblock = vec![0; SUPERBLOCK_BYTES as usize];
    devices.cache.read(0, &mut superblock);
    let DeviceRole::Cache { regions, .. } = decode_superblock(&superblock).expect("our superblock").role else {
        panic!("a cache device is one");
    };
    Image { number, devices, regions, head, tail, seen }
}

/// Reads everything that a group shows.
pub async fn look(group: &Group) -> Seen {
    let mut seen = Seen { records: group.records(), ..Seen::default() };
    for info in group.components() {
        let mut blocks = Vec::new();
        for block in 0..info.size_blocks.min(BLOCKS_READ) {
            blocks.push(read_block(group, info.id, block).await);
        }
        let all = BlockRange::new(0, blocks.len() as u32);
        if !all.regions().is_empty() {
            let _ = group.allocated(info.id, all).await;
            let _ = group.read(info.id, all).await;
        }
        let _ = (group.regions_after(info.id, OpId::ZERO), group.recent_clients(info.id));
        seen.components.insert(info.id, (group.settled(info.id), group.window(info.id), blocks));
    }
    let _ = group.stats();
    seen
}

async fn read_block(group: &Group, component: ComponentId, block: u64) -> Block {
    let contents = group.read(component, BlockRange::new(block, 1)).await.map_err(drop)?;
    assert!(contents.is_whole(1));
    match &contents.runs[..] {
        [Run::Data { crcs } | Run::Parity { crcs, .. }] => {
            assert_eq!([crc32c(&contents.data.concat())], crcs[..], "a block with another checksum than its own");
            Ok(Some(crcs[0]))
        }
        _ => Ok(None),
    }
}

/// Every batch header that stands in the log of `cache`, with its place on the device, by position.
pub fn batches(cache: &Medium, regions: &CacheRegions) -> Vec<(u64, BatchHeader)> {
    let mut found = Vec::new();
    let mut log = vec![0; regions.log_bytes as usize];
    cache.read(regions.log_offset, &mut log);
    for at in (0..log.len()).step_by(BLOCK_BYTES as usize) {
        if let Ok(header) = decode_batch_header(&log[at..]) {
            found.push((regions.log_offset + at as u64, header));
        }
    }
    found.sort_by_key(|(_, header)| header.position);
    found
}
