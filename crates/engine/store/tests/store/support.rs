//! A disk group on a simulated host, and short words for what is done with it.

use bytes::Bytes;
use cairn_format::block_crcs;
use cairn_sim::{Host, SimDisk, SimEnv, World};
use cairn_store::{
    DiskGroup, DiskGroupDevices, Expect, FormatOptions, Identity, OpenOptions, RunningOptions, StoreError,
    StoreErrorKind,
};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ClusterId, ComponentId, ComponentOp, Contents, DiskGroupId,
    Epoch, HostId, Incarnation, ObjectId, OpId, Run,
};

pub type Group = DiskGroup<SimEnv>;

/// Where the log begins on the cache device: 1 MiB of superblocks, then the metadata.
pub const LOG_OFFSET: u64 = (1 << 20) + (6 << 20);
/// Where segments begin on a capacity device.
pub const SEGMENTS_OFFSET: u64 = 1 << 20;

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
    let running = RunningOptions { place_bytes_min: 20 << 10, ..RunningOptions::default() };
    OpenOptions { running, ..OpenOptions::default() }
}

pub struct Rig {
    pub world: World,
    pub host: Host,
}

impl Rig {
    /// A host with a formatted disk group of two capacity devices of `segments` segments.
    pub fn new(seed: u64, segments: u64) -> Self {
        Self::with_log(seed, segments, 512 << 10)
    }
    /// The same with a log of so many bytes, at most 1 MiB.
    pub fn with_log(seed: u64, segments: u64, log_bytes: u64) -> Self {
        let world = World::new(seed);
        let host = world.add_host("a");
        host.add_disk("cache", 8 << 20);
        host.add_disk("capacity-0", SEGMENTS_OFFSET + segments * (64 << 10));
        host.add_disk("capacity-1", SEGMENTS_OFFSET + segments * (64 << 10));
        let rig = Self { world, host };
        assert_eq!(rig.format(&FormatOptions { log_bytes: Some(log_bytes), ..format_options() }), Ok(()));
        rig
    }
    /// The same with a larger cache device, for so many bytes of metadata, and segments of other sizes.
    pub fn of_sizes(seed: u64, metadata_bytes: u64, segments: u64, segment_bytes: u32) -> Self {
        let world = World::new(seed);
        let host = world.add_host("a");
        host.add_disk("cache", metadata_bytes + (4 << 20));
        for name in ["capacity-0", "capacity-1"] {
            host.add_disk(name, SEGMENTS_OFFSET + segments * u64::from(segment_bytes));
        }
        let rig = Self { world, host };
        let options = FormatOptions { metadata_bytes: Some(metadata_bytes), segment_bytes, ..format_options() };
        assert_eq!(rig.format(&options), Ok(()));
        rig
    }
    pub fn devices(&self) -> DiskGroupDevices<SimDisk> {
        DiskGroupDevices {
            cache: self.host.disk("cache"),
            capacity: vec![self.host.disk("capacity-0"), self.host.disk("capacity-1")],
        }
    }
    pub fn expect(&self) -> Expect {
        Expect { cluster: ClusterId(1), host: self.host.id(), disk_group: Some(DiskGroupId(3)) }
    }
    pub fn format(&self, options: &FormatOptions) -> Result<(), StoreError> {
        let identity = Identity { cluster: ClusterId(1), host: self.host.id(), disk_group: DiskGroupId(3) };
        let (env, devices, options) = (self.host.env(), self.devices(), options.clone());
        self.run(async move { DiskGroup::format(env, devices, identity, &options).await })
    }
    pub fn open_as(&self, devices: DiskGroupDevices<SimDisk>, expect: Expect) -> Result<Group, StoreError> {
        let env = self.host.env();
        self.run(async move { DiskGroup::open(env, devices, expect, &open_options()).await })
    }
    pub fn open(&self) -> Group {
        self.open_as(self.devices(), self.expect()).expect("a sound group opens")
    }
    pub fn fails_to_open(&self, devices: DiskGroupDevices<SimDisk>, expect: Expect) -> StoreError {
        match self.open_as(devices, expect) {
            Ok(_) => panic!("the group opened"),
            Err(error) => error,
        }
    }
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        self.host.run(future).expect("no crash is planned")
    }
    pub fn append(&self, group: &Group, change: Change) -> Result<(), StoreError> {
        self.run(group.append(change))
    }
    pub fn read(&self, group: &Group, component: u128, first: u64, count: u32) -> Result<Vec<u64>, StoreError> {
        self.run(group.read(ComponentId(component), BlockRange::new(first, count))).map(tags)
    }
    pub fn drain(&self, group: &Group) {
        let group = group.clone();
        assert_eq!(self.run(async move { group.drain().await }), Ok(()));
    }
    pub fn check(&self, group: &Group) {
        let group = group.clone();
        assert_eq!(self.run(async move { group.check_invariants().await }), Ok(()));
    }
    /// Closes the group, as far as it goes, and opens it again.
    pub fn reopen(&self, group: Group) -> Group {
        self.close(group);
        self.open()
    }
    pub fn close(&self, group: Group) {
        self.run(async move { group.close().await });
    }
}

pub fn op(seq: u64) -> OpId {
    OpId { epoch: Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) }, seq }
}

pub fn create(component: u128, blocks: u64, reserved: u64) -> Change {
    Change::CreateComponent {
        component: ComponentId(component),
        object: ObjectId(component),
        size_blocks: blocks,
        reserved_blocks: reserved,
    }
}

/// Blocks that say in each word which write they are of.
pub fn data(tag: u64, count: u32) -> Bytes {
    let words = count as usize * BLOCK_BYTES as usize / 8;
    tag.to_le_bytes().repeat(words).into()
}

pub fn write(component: u128, seq: u64, settled: u64, first_block: u64, count: u32) -> Change {
    let data = data(seq, count);
    let blocks = BlockOp::Write { first_block, crcs: block_crcs(&data) };
    apply(component, seq, settled, ClientTag { session: 7, number: seq }, blocks, data)
}

pub fn apply(component: u128, seq: u64, settled: u64, client: ClientTag, blocks: BlockOp, data: Bytes) -> Change {
    let op = ComponentOp::Apply { op: op(seq), settled: op(settled), client, blocks };
    Change::Component { component: ComponentId(component), op, data }
}

pub fn zero(component: u128, seq: u64, settled: u64, first: u64, count: u32) -> Change {
    let blocks = BlockOp::Zero { range: BlockRange::new(first, count), keep_allocated: false };
    apply(component, seq, settled, ClientTag::default(), blocks, Bytes::new())
}

/// A copy of these runs; those with data hold what a write of `seq` would.
pub fn copy(component: u128, seq: u64, settled: u64, first_block: u64, runs: Vec<Run>) -> Change {
    let blocks = runs.iter().map(|run| run.crcs().len() as u32).sum();
    apply(component, seq, settled, ClientTag::default(), BlockOp::Copy { first_block, runs }, data(seq, blocks))
}

/// Blocks of a copy of `seq`.
pub fn run_of(seq: u64, blocks: u32) -> Run {
    Run::Data { crcs: block_crcs(&data(seq, blocks)) }
}

pub fn undo(component: u128, seq: u64) -> Change {
    ComponentOp::Undo { ops: vec![op(seq)] }.on(ComponentId(component))
}

pub fn delete(component: u128) -> Change {
    Change::DeleteComponent { component: ComponentId(component) }
}

pub fn settle(component: u128, seq: u64) -> Change {
    ComponentOp::Settle { upto: op(seq) }.on(ComponentId(component))
}

/// The tag of each block, 0 for holes.
pub fn tags(contents: Contents) -> Vec<u64> {
    let blocks = contents.into_bytes().concat();
    blocks.chunks_exact(BLOCK_BYTES as usize).map(|b| u64::from_le_bytes(b[..8].try_into().unwrap())).collect()
}

pub fn kind<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.expect_err("it is refused").kind
}
