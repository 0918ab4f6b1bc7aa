//! A disk group for tests that keeps what it is told in memory: versions of blocks by operation, so that undo and late operations are as
//! on a device. It takes a moment for each read and each append, and appends come to pass in their order.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::ready,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_sim::SimEnv;
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, BlockStates, Change, ClientTag, ComponentId, ComponentOp, Contents, Crcs,
    DiskGroupId, ObjectId, OpId, REGION_BLOCKS, RegionIndex, Run, UnsettledOp,
};
use cairn_wire::{AllocatedPiece, DiskGroupSummary, Refusal, block_crc};
use futures::channel::oneshot;

use super::{LocalComponent, LocalStore};

const BLOCK: usize = BLOCK_BYTES as usize;

/// What one version of a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Zero,
    Data(Bytes),
    /// With what it says of its row.
    Parity(Bytes, u32),
    Bad,
}

/// A component.
#[derive(Default)]
pub(crate) struct Held {
    versions: BTreeMap<u64, BTreeMap<OpId, Block>>,
    window: BTreeMap<OpId, (BlockRange, ClientTag, u16)>,
    undone: BTreeSet<OpId>,
    settled: OpId,
    clients: Vec<(ClientTag, OpId)>,
}

impl Held {
    fn newest(&self, block: u64) -> Block {
        self.versions.get(&block).and_then(|v| v.values().last()).cloned().unwrap_or(Block::Zero)
    }

    fn set(&mut self, op: OpId, block: u64, version: Block) {
        self.versions.entry(block).or_default().insert(op, version);
    }

    fn set_runs(&mut self, op: OpId, first: u64, runs: &[Run], mut data: Bytes) {
        let mut at = first;
        for run in runs {
            for n in 0..run.blocks() as usize {
                let version = match run {
                    Run::Hole { .. } => Block::Zero,
                    Run::Bad { .. } => Block::Bad,
                    Run::Data { crcs } => Block::Data(checked(data.split_to(BLOCK), crcs[n])),
                    Run::Parity { crcs, row_checks } => {
                        Block::Parity(checked(data.split_to(BLOCK), crcs[n]), row_checks[n])
                    }
                };
                self.set(op, at, version);
                at += 1;
            }
        }
        assert!(data.is_empty(), "bytes that no run tells of");
    }

    fn apply(&mut self, op: ComponentOp, data: Bytes) -> Result<(), Refusal> {
        match op {
            ComponentOp::Apply { op, settled, client, blocks } => {
                if self.undone.contains(&op) {
                    return Err(Refusal::Invalid("it was undone".into()));
                }
                let (range, members) = (blocks.range(), blocks.members());
                match &blocks {
                    BlockOp::Write { first_block, crcs } => {
                        self.set_runs(op, *first_block, &[Run::Data { crcs: crcs.clone() }], data);
                    }
                    BlockOp::Rows { first_block, runs, .. } | BlockOp::Copy { first_block, runs } => {
                        self.set_runs(op, *first_block, runs, data);
                    }
                    BlockOp::Zero { range, .. } | BlockOp::ZeroRows { range, .. } => {
                        (range.first..range.end()).for_each(|block| self.set(op, block, Block::Zero));
                    }
                    BlockOp::Difference(_) => return Err(Refusal::Invalid("no store's operation".into())),
                }
                self.window.insert(op, (range, client, members));
                self.clients.push((client, op));
                self.settle(settled);
            }
            ComponentOp::Undo { ops } => {
                for op in ops.iter().filter(|op| self.undone.insert(**op)) {
                    self.versions.values_mut().for_each(|versions| drop(versions.remove(op)));
                    self.window.remove(op);
                    self.clients.retain(|(_, of)| of != op);
                }
            }
            ComponentOp::Settle { upto } => self.settle(upto),
            ComponentOp::Remember { clients } => self.clients.extend(clients),
            ComponentOp::Resize { .. } => {}
            ComponentOp::Cuts { .. } => return Err(Refusal::Invalid("memory keeps nothing for snapshots".into())),
        }
        Ok(())
    }

    fn settle(&mut self, upto: OpId) {
        self.settled = self.settled.max(upto);
        let settled = self.settled;
        self.window.retain(|op, _| *op > settled);
    }
}

fn checked(bytes: Bytes, crc: u32) -> Bytes {
    assert_eq!(block_crc(&bytes), crc, "what is logged fits its checksum");
    bytes
}

type Queued = (Change, oneshot::Sender<Result<(), Refusal>>);

#[derive(Default)]
struct Inner {
    components: BTreeMap<ComponentId, Held>,
    records: BTreeMap<ObjectId, Bytes>,
    queued: VecDeque<Queued>,
    broken: bool,
}

/// One that holds components of one object.
#[derive(Clone)]
pub(crate) struct Memory {
    env: SimEnv,
    disk_group: DiskGroupId,
    object: ObjectId,
    inner: Rc<RefCell<Inner>>,
}

impl Memory {
    pub(crate) fn new(env: SimEnv, disk_group: DiskGroupId, object: ObjectId, components: &[ComponentId]) -> Self {
        let components = components.iter().map(|component| (*component, Held::default())).collect();
        let inner = Inner { components, ..Inner::default() };
        Self { env, disk_group, object, inner: Rc::new(RefCell::new(inner)) }
    }

    /// It has this record when it is opened.
    pub(crate) fn with_record(self, bytes: Bytes) -> Self {
        self.inner.borrow_mut().records.insert(self.object, bytes);
        self
    }

    /// It takes nothing and gives nothing from now on, or works again.
    pub(crate) fn set_broken(&self, broken: bool) {
        self.inner.borrow_mut().broken = broken;
    }

    /// What stands in a block.
    pub(crate) fn block(&self, component: ComponentId, block: u64) -> Block {
        self.inner.borrow().components[&component].newest(block)
    }

    /// The newest version of a block becomes another.
    pub(crate) fn spoil(&self, component: ComponentId, block: u64, version: Block) {
        let mut inner = self.inner.borrow_mut();
        let versions = inner.components.get_mut(&component).expect("here").versions.entry(block).or_default();
        let op = versions.keys().last().copied().unwrap_or(OpId::ZERO);
        versions.insert(op, version);
    }

    fn flush(&self) {
        let mut inner = self.inner.borrow_mut();
        let Some((change, durable)) = inner.queued.pop_front() else { return };
        let done = match change {
            _ if inner.broken => Err(Refusal::Media("broken".into())),
            Change::Component { component, op, data } => match inner.components.get_mut(&component) {
                Some(held) => held.apply(op, data),
                None => Err(Refusal::NotFound),
            },
            Change::Record { object, bytes } => {
                inner.records.insert(object, bytes);
                Ok(())
            }
            Change::CreateComponent { .. } | Change::DeleteComponent { .. } => Err(Refusal::Invalid("a test's".into())),
        };
        let _ = durable.send(done);
    }

    fn contents(&self, component: ComponentId, range: BlockRange) -> Result<Contents, Refusal> {
        let inner = self.inner.borrow();
        if inner.broken {
            return Err(Refusal::Media("broken".into()));
        }
        let held = inner.components.get(&component).ok_or(Refusal::NotFound)?;
        let (mut contents, mut bad) = (Contents::default(), Vec::new());
        for block in range.first..range.end() {
            match held.newest(block) {
                Block::Zero => contents.push_hole(1),
                Block::Bad => bad.push(BlockRange::new(block, 1)),
                Block::Data(bytes) => {
                    let crcs = Crcs::from_slice(&[block_crc(&bytes)]);
                    contents.push_data(bytes, crcs);
                }
                Block::Parity(bytes, check) => {
                    let (crcs, row_checks) = (Crcs::from_slice(&[block_crc(&bytes)]), Crcs::from_slice(&[check]));
                    contents.runs.push(Run::Parity { crcs, row_checks });
                    contents.data.push(bytes);
                }
            }
        }
        if bad.is_empty() { Ok(contents) } else { Err(Refusal::BadBlocks(bad)) }
    }
}

impl LocalStore for Memory {
    fn disk_group(&self) -> DiskGroupId {
        self.disk_group
    }
    fn append(&self, change: Change) -> impl Future<Output = Result<(), Refusal>> + 'static {
        let (durable, done) = oneshot::channel();
        self.inner.borrow_mut().queued.push_back((change, durable));
        let store = self.clone();
        self.env.spawn(async move {
            store.env.sleep(Duration::from_micros(100)).await;
            store.flush();
        });
        async move { done.await.unwrap_or(Err(Refusal::Lost)) }
    }
    fn refuse_waiting(&self, _: ComponentId) {}
    fn refuse_copies(&self, _: ComponentId) {}
    fn read(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        let store = self.clone();
        async move {
            store.env.sleep(Duration::from_micros(50)).await;
            store.contents(component, range)
        }
    }
    fn read_marked(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        self.read(component, range)
    }
    fn digests(&self, _: ComponentId, _: BlockRange) -> impl Future<Output = Result<Vec<u64>, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn block_states(
        &self,
        _: ComponentId,
        _: BlockRange,
    ) -> impl Future<Output = Result<BlockStates, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn compared(&self, _: ComponentId, _: &[BlockRange], _: &[BlockRange]) {}
    fn allocated(
        &self,
        component: ComponentId,
        range: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static {
        let inner = self.inner.borrow();
        let held = inner.components.get(&component).filter(|_| !inner.broken);
        let of = |held: &Held| {
            let one = |block| (BlockRange::new(block, 1), held.newest(block) != Block::Zero);
            (range.first..range.end()).map(one).map(|(range, allocated)| AllocatedPiece { range, allocated }).collect()
        };
        ready(held.map(of).ok_or(Refusal::NotFound))
    }
    fn component(&self, component: ComponentId) -> Option<LocalComponent> {
        self.components_of(self.object).into_iter().find(|c| c.component == component)
    }
    fn components_of(&self, object: ObjectId) -> Vec<LocalComponent> {
        let of = |c: &ComponentId| LocalComponent { component: *c, object, size_blocks: 1 << 20, lost: false };
        self.inner.borrow().components.keys().map(of).collect()
    }
    fn record_bytes_max(&self) -> usize {
        1 << 20
    }
    fn records(&self) -> Vec<(ObjectId, Bytes)> {
        self.inner.borrow().records.iter().map(|(object, bytes)| (*object, bytes.clone())).collect()
    }
    fn settled(&self, component: ComponentId) -> OpId {
        self.inner.borrow().components[&component].settled
    }
    fn last_written(&self, component: ComponentId) -> OpId {
        self.settled(component)
    }
    fn last_written_with(&self, _: ComponentId) -> Vec<OpId> {
        Vec::new()
    }
    fn is_late(&self, component: ComponentId, op: OpId, range: BlockRange) -> bool {
        let inner = self.inner.borrow();
        let window = &inner.components[&component].window;
        window.iter().any(|(later, (of, ..))| *later > op && of.overlaps(range))
    }
    fn window(&self, component: ComponentId) -> Vec<UnsettledOp> {
        let inner = self.inner.borrow();
        let window = inner.components[&component].window.iter();
        window
            .map(|(op, (range, client, members))| UnsettledOp {
                op: *op,
                range: *range,
                client: *client,
                members: *members,
            })
            .collect()
    }
    fn regions_after(&self, component: ComponentId, after: OpId) -> Vec<(RegionIndex, OpId)> {
        let mut regions: BTreeMap<RegionIndex, OpId> = BTreeMap::new();
        for (block, versions) in &self.inner.borrow().components[&component].versions {
            let last = versions.keys().last().copied().unwrap_or(OpId::ZERO);
            let region = regions.entry((block / u64::from(REGION_BLOCKS)) as RegionIndex).or_default();
            *region = last.max(*region);
        }
        regions.into_iter().filter(|(_, last)| *last > after).collect()
    }
    fn was_done(&self, component: ComponentId, client: ClientTag) -> bool {
        self.inner.borrow().components[&component].clients.iter().any(|(known, _)| *known == client)
    }
    fn recent_clients(&self, component: ComponentId) -> Vec<(ClientTag, OpId)> {
        self.inner.borrow().components[&component].clients.clone()
    }
    fn log_damaged(&self) -> bool {
        false
    }
    fn summary(&self) -> DiskGroupSummary {
        DiskGroupSummary {
            disk_group: self.disk_group,
            open_count: 1,
            durable_position: 0,
            devices: Vec::new(),
            components: 0,
            witnesses: 0,
            healthy: true,
            failed_devices: 0,
        }
    }
}
