//! What a disk group must hold, said slowly: every version of every block, by operation.

use std::collections::{BTreeMap, BTreeSet};

use cairn_types::{
    BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, ObjectId, OpId, RegionIndex, Run, SnapshotId,
};

/// What a block holds: the tag of the write that filled it, and what it says of its row where it is parity; zeroes, or a mark with the tag of
/// the copy that brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Data(u64),
    Parity { tag: u64, row_check: u32 },
    Zero { allocated: bool },
    Bad(u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Component {
    pub object: ObjectId,
    pub size_blocks: u64,
    pub reserved_blocks: u64,
    pub settled: OpId,
    undone: BTreeSet<OpId>,
    /// By block, then in order of operation and arrival.
    versions: BTreeMap<u64, Vec<(OpId, Value)>>,
    /// The blocks from the first to the last of each operation that is not settled, and the members that it concerns.
    window: BTreeMap<OpId, ((u64, u64), u16)>,
    pub regions: BTreeMap<RegionIndex, OpId>,
    pub clients: Vec<(ClientTag, OpId)>,
    /// The operation of the list of snapshots, and what each of them views.
    listed_at: OpId,
    pub views: BTreeMap<SnapshotId, Vec<Option<Value>>>,
}

/// A disk group's contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub components: BTreeMap<ComponentId, Component>,
    pub records: BTreeMap<ObjectId, Vec<u8>>,
}

impl Component {
    pub fn visible(&self, block: u64) -> Option<Value> {
        self.versions.get(&block).and_then(|versions| versions.last()).map(|(_, value)| *value)
    }

    pub fn allocated(&self, block: u64) -> bool {
        match self.visible(block) {
            None => false,
            Some(Value::Data(_) | Value::Parity { .. } | Value::Bad(_)) => true,
            Some(Value::Zero { allocated }) => allocated,
        }
    }

    pub fn window(&self) -> Vec<(OpId, BlockRange, u16)> {
        let range = |(&op, &((first, end), members)): (&OpId, &((u64, u64), u16))| {
            (op, BlockRange::new(first, (end - first) as u32), members)
        };
        self.window.iter().map(range).collect()
    }

    fn settle(&mut self, upto: OpId) {
        if upto > self.settled {
            self.settled = upto;
            self.window.retain(|op, _| *op > upto);
            self.versions.values_mut().for_each(|v| forget(v, upto));
        }
    }

    fn put(&mut self, op: OpId, members: u16, range: BlockRange, value: Value) {
        for block in range.first..range.end() {
            let versions = self.versions.entry(block).or_default();
            let at = versions.partition_point(|(other, _)| *other <= op);
            versions.insert(at, (op, value));
            forget(versions, self.settled);
        }
        for region in range.regions() {
            let mark = self.regions.entry(region).or_default();
            *mark = op.max(*mark);
        }
        if op > self.settled {
            let ((first, end), _) = self.window.entry(op).or_insert(((range.first, range.end()), members));
            *first = range.first.min(*first);
            *end = range.end().max(*end);
        }
    }

    fn undo(&mut self, op: OpId) {
        if op <= self.settled || !self.undone.insert(op) {
            return;
        }
        self.window.remove(&op);
        // An undone operation is no outcome: whoever repeats its request must carry it out.
        self.clients.retain(|(_, of)| *of != op);
        self.versions.retain(|_, versions| {
            versions.retain(|(other, _)| *other != op);
            !versions.is_empty()
        });
    }

    fn apply(&mut self, op: &ComponentOp, tag: u64) {
        match op {
            ComponentOp::Apply { op, settled, client, blocks } => {
                self.mutate((*op, blocks.members()), *settled, *client, &pieces_of(blocks, tag));
            }
            ComponentOp::Undo { ops } => ops.iter().for_each(|op| self.undo(*op)),
            ComponentOp::Settle { upto } => self.settle(*upto),
            ComponentOp::Remember { clients } => {
                for (client, op) in clients {
                    self.answered(*client);
                    self.remember(*client, *op);
                }
            }
            ComponentOp::Resize { size_blocks, reserved_blocks } => {
                self.size_blocks = *size_blocks;
                self.reserved_blocks = *reserved_blocks;
            }
            ComponentOp::Cuts { at, settled, cuts } => {
                self.settle(*settled);
                if *at > self.listed_at {
                    self.listed_at = *at;
                    self.views.retain(|id, _| cuts.iter().any(|(listed, _)| listed == id));
                    let now: Vec<Option<Value>> = (0..self.size_blocks).map(|block| self.visible(block)).collect();
                    for (id, _) in cuts {
                        self.views.entry(*id).or_insert_with(|| now.clone());
                    }
                }
            }
        }
    }

    fn mutate(&mut self, (op, members): (OpId, u16), settled: OpId, client: ClientTag, pieces: &[(BlockRange, Value)]) {
        self.answered(client);
        self.settle(settled);
        if self.undone.contains(&op) {
            return;
        }
        for (range, value) in pieces {
            self.put(op, members, *range, *value);
        }
        self.remember(client, op);
    }

    /// A slot carries one request at a time: those before are answered.
    fn answered(&mut self, client: ClientTag) {
        self.clients.retain(|(tag, _)| !client.before().contains(tag));
    }

    fn remember(&mut self, client: ClientTag, op: OpId) {
        if client.session != 0 && !self.clients.iter().any(|(tag, _)| *tag == client) {
            self.clients.push((client, op));
        }
    }
}

/// What an operation leaves in its blocks.
fn pieces_of(blocks: &BlockOp, tag: u64) -> Vec<(BlockRange, Value)> {
    match blocks {
        BlockOp::Write { first_block, crcs } => {
            vec![(BlockRange::new(*first_block, crcs.len() as u32), Value::Data(tag))]
        }
        BlockOp::Zero { range, keep_allocated } | BlockOp::ZeroRows { range, keep_allocated, .. } => {
            vec![(*range, Value::Zero { allocated: *keep_allocated })]
        }
        BlockOp::Difference(_) => unreachable!("a store is given what comes of it"),
        BlockOp::Copy { first_block, runs } | BlockOp::Rows { first_block, runs, .. } => {
            let (mut first, mut pieces) = (*first_block, vec![]);
            for run in runs {
                let range = BlockRange::new(first, run.blocks());
                first = range.end();
                match run {
                    Run::Data { .. } => pieces.push((range, Value::Data(tag))),
                    Run::Hole { .. } => pieces.push((range, Value::Zero { allocated: false })),
                    Run::Bad { .. } => pieces.push((range, Value::Bad(tag))),
                    Run::Parity { row_checks, .. } => {
                        let blocks = (range.first..range.end()).zip(row_checks);
                        pieces.extend(
                            blocks.map(|(block, &row_check)| {
                                (BlockRange::new(block, 1), Value::Parity { tag, row_check })
                            }),
                        );
                    }
                }
            }
            pieces
        }
    }
}

/// Nobody asks for what stood below the newest settled version.
fn forget(versions: &mut Vec<(OpId, Value)>, settled: OpId) {
    let decided = versions.partition_point(|(op, _)| *op <= settled);
    versions.drain(..decided.saturating_sub(1));
}

impl Model {
    /// Blocks of parity.
    pub fn parities(&self) -> usize {
        let shown = |c: &Component| {
            (0..c.size_blocks).filter(|block| matches!(c.visible(*block), Some(Value::Parity { .. }))).count()
        };
        self.components.values().map(shown).sum()
    }

    /// Snapshots that there are.
    pub fn snapshots(&self) -> usize {
        self.components.values().map(|component| component.views.len()).sum()
    }

    /// Gives a change its effect; `tag` names its data.
    pub fn apply(&mut self, change: &Change, tag: u64) {
        match change {
            Change::CreateComponent { component, object, size_blocks, reserved_blocks } => {
                let made = Component {
                    object: *object,
                    size_blocks: *size_blocks,
                    reserved_blocks: *reserved_blocks,
                    ..Component::default()
                };
                self.components.insert(*component, made);
            }
            Change::DeleteComponent { component } => {
                self.components.remove(component);
            }
            Change::Component { component, op, .. } => self.change(component, |c| c.apply(op, tag)),
            Change::Record { object, bytes } => {
                if bytes.is_empty() {
                    self.records.remove(object);
                } else {
                    self.records.insert(*object, bytes.to_vec());
                }
            }
        }
    }

    /// An operation that comes after it was undone has no effect. But it stands in the log, and with it its client's word on what the
    /// slot carried before.
    pub fn refuse(&mut self, change: &Change) {
        if let Change::Component { component, op: ComponentOp::Apply { client, blocks, .. }, .. } = change
            && !matches!(blocks, BlockOp::Copy { .. })
        {
            self.change(component, |c| c.answered(*client));
        }
    }

    fn change(&mut self, component: &ComponentId, act: impl FnOnce(&mut Component)) {
        if let Some(component) = self.components.get_mut(component) {
            act(component);
        }
    }
}
