//! Everything that a disk group says about itself, and how that differs from what a model says.

use std::collections::{BTreeMap, BTreeSet};

use cairn_store::{StoreError, StoreErrorKind};
use cairn_types::{BlockRange, ClientTag, ComponentId, Contents, ObjectId, OpId, Run, SnapshotId};
use serde::{Deserialize, Serialize};

use crate::{
    model::{self, Model, Value},
    script::{is_zero, told, told_by},
    shape::Group,
};

/// Everything that a disk group says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub components: BTreeMap<ComponentId, SeenComponent>,
    pub records: BTreeMap<ObjectId, Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenComponent {
    pub object: ObjectId,
    pub size_blocks: u64,
    pub reserved_blocks: u64,
    pub settled: OpId,
    /// With the members that an operation concerns above its first block, as messages have them.
    pub window: Vec<(OpId, BlockRange)>,
    pub regions: Vec<(u32, OpId)>,
    /// By operation: in a full log trims overtake writes, so the order in which they were kept is not the script's.
    pub clients: Vec<(ClientTag, OpId)>,
    /// Per block: the tag of its data, or none for zeroes; of parity with what it says of its row.
    pub blocks: Vec<Option<u64>>,
    pub allocated: Vec<bool>,
    /// The same as blocks, of each snapshot.
    #[serde(default)]
    pub views: BTreeMap<SnapshotId, Vec<Option<u64>>>,
}

pub fn expected(model: &Model) -> Seen {
    let component = |(&id, c): (&ComponentId, &model::Component)| {
        let tag_of = |value, block: u64| match value {
            Some(Value::Data(tag) | Value::Parity { tag, .. }) if is_zero(told(tag, block)) => None,
            Some(Value::Data(tag)) => Some(told(tag, block)),
            Some(Value::Parity { tag, row_check }) => Some(parity(told(tag, block), row_check)),
            Some(Value::Bad(tag)) => Some(MARKED | tag),
            _ => None,
        };
        let tag = |block| tag_of(c.visible(block), block);
        // A view does not tell what a mark is of.
        let in_view = |(value, block): (&Option<Value>, u64)| match value {
            Some(Value::Bad(_)) => Some(MARKED),
            value => tag_of(*value, block),
        };
        let seen = SeenComponent {
            object: c.object,
            size_blocks: c.size_blocks,
            reserved_blocks: c.reserved_blocks,
            settled: c.settled,
            window: c.window().into_iter().map(|(op, range, members)| (op, concerning(range, members))).collect(),
            regions: c.regions.iter().map(|(r, op)| (*r, *op)).collect(),
            clients: by_operation(c.clients.clone()),
            blocks: (0..c.size_blocks).map(tag).collect(),
            allocated: (0..c.size_blocks).map(|block| c.allocated(block)).collect(),
            views: c.views.iter().map(|(id, view)| (*id, view.iter().zip(0..).map(in_view).collect())).collect(),
        };
        (id, seen)
    };
    Seen { components: model.components.iter().map(component).collect(), records: model.records.clone() }
}

pub async fn look(group: &Group) -> Result<Seen, StoreError> {
    let mut components = BTreeMap::new();
    for info in group.components() {
        assert!(!info.lost, "no device failed");
        let range = BlockRange::new(0, info.size_blocks as u32);
        let blocks = look_at_blocks(group, info.id, range).await?;
        let mut allocated = vec![];
        for (range, yes) in group.allocated(info.id, range).await? {
            assert_eq!(range.first, allocated.len() as u64, "runs are back to back");
            allocated.extend((0..range.count).map(|_| yes));
        }
        let seen = SeenComponent {
            object: info.object,
            size_blocks: info.size_blocks,
            reserved_blocks: info.reserved_blocks,
            settled: group.settled(info.id),
            window: group.window(info.id).iter().map(|u| (u.op, concerning(u.range, u.members))).collect(),
            regions: group.regions_after(info.id, OpId::ZERO),
            clients: by_operation(group.recent_clients(info.id)),
            blocks,
            allocated,
            views: look_at_views(group, info.id, range).await?,
        };
        components.insert(info.id, seen);
    }
    let records = group.records().into_iter().map(|(id, b)| (id, b.to_vec()));
    Ok(Seen { components, records: records.collect() })
}

/// What each snapshot of a component views.
async fn look_at_views(
    group: &Group,
    component: ComponentId,
    range: BlockRange,
) -> Result<BTreeMap<SnapshotId, Vec<Option<u64>>>, StoreError> {
    let mut views = BTreeMap::new();
    for snapshot in group.snapshots(component) {
        let view = match group.read_view(component, snapshot, range).await {
            Err(error) if matches!(error.kind, StoreErrorKind::BadBlock { .. }) => {
                look_at_each_of_view(group, component, snapshot, range).await?
            }
            read => shown_all(&read?, component, range.first),
        };
        assert_eq!(view.len() as u32, range.count, "what was read covers what was asked for");
        views.insert(snapshot, view);
    }
    Ok(views)
}

/// The same block by block; a mark is an error there.
async fn look_at_each_of_view(
    group: &Group,
    component: ComponentId,
    snapshot: SnapshotId,
    range: BlockRange,
) -> Result<Vec<Option<u64>>, StoreError> {
    let mut view = vec![];
    for block in range.first..range.end() {
        match group.read_view(component, snapshot, BlockRange::new(block, 1)).await {
            Err(error) if matches!(error.kind, StoreErrorKind::BadBlock { .. }) => view.push(Some(MARKED)),
            read => view.extend(shown_all(&read?, component, block)),
        }
    }
    Ok(view)
}

fn by_operation(mut clients: Vec<(ClientTag, OpId)>) -> Vec<(ClientTag, OpId)> {
    clients.sort_unstable_by_key(|(_, op)| *op);
    clients
}

/// With the checksum of a mark: that is the tag of the copy that brought it.
const MARKED: u64 = 1 << 63;

/// Of parity: above the tag is what it says of its row.
const PARITY: u64 = 1 << 62;

fn parity(tag: u64, row_check: u32) -> u64 {
    assert!(tag < 1 << 24, "tags of short scripts");
    PARITY | u64::from(row_check) << 24 | tag
}

fn concerning(range: BlockRange, members: u16) -> BlockRange {
    BlockRange { first: range.first | u64::from(members) << 40, ..range }
}

/// The tag of a block that is not wholly of one write, for its place: no model has it.
const FOREIGN: u64 = u64::MAX;

/// The tags of some blocks.
pub async fn look_at_blocks(
    group: &Group,
    component: ComponentId,
    range: BlockRange,
) -> Result<Vec<Option<u64>>, StoreError> {
    let contents = match group.read(component, range).await {
        Err(error) if matches!(error.kind, StoreErrorKind::BadBlock { .. }) => {
            return look_at_each(group, component, range).await;
        }
        read => read?,
    };
    assert!(contents.is_whole(range.count), "what was read covers what was asked for");
    Ok(shown_all(&contents, component, range.first))
}

/// What each block of an answer shows.
fn shown_all(contents: &Contents, component: ComponentId, first: u64) -> Vec<Option<u64>> {
    let data = contents.data.concat();
    let (mut bytes, mut block, mut all) = (data.chunks(4096), first, vec![]);
    let mut next = |block| shown(bytes.next().expect("the answer is whole"), component, block);
    for run in &contents.runs {
        for at in 0..run.blocks() as usize {
            all.push(match run {
                Run::Hole { .. } => None,
                Run::Bad { crcs } => Some(MARKED | u64::from(crcs[at])),
                Run::Data { .. } => next(block),
                Run::Parity { row_checks, .. } => match next(block) {
                    Some(tag) if tag != FOREIGN => Some(parity(tag, row_checks[at])),
                    other => other,
                },
            });
            block += 1;
        }
    }
    all
}

/// Whether a block is a mark, or cannot be read.
pub fn is_bad(tag: Option<u64>) -> bool {
    tag.is_some_and(|tag| tag != FOREIGN && tag & MARKED != 0)
}

impl Seen {
    /// Blocks that are marks.
    pub fn marks(&self) -> BTreeSet<(ComponentId, u64)> {
        let of = |(id, component): (&ComponentId, &SeenComponent)| {
            let blocks = (0u64..).zip(&component.blocks).filter(|(_, tag)| is_bad(**tag));
            blocks.map(|(block, _)| (*id, block)).collect::<Vec<_>>()
        };
        self.components.iter().flat_map(of).collect()
    }
}

/// The same where some are marks.
async fn look_at_each(
    group: &Group,
    component: ComponentId,
    range: BlockRange,
) -> Result<Vec<Option<u64>>, StoreError> {
    let mut shown_ones = vec![];
    for block in range.first..range.end() {
        let contents = group.read_marked(component, BlockRange::new(block, 1)).await?;
        shown_ones.extend(shown_all(&contents, component, block));
    }
    Ok(shown_ones)
}

/// Which write a block is of: all of its bytes must be that write's, for that place.
fn shown(bytes: &[u8], component: ComponentId, block: u64) -> Option<u64> {
    if bytes.iter().all(|b| *b == 0) {
        return None;
    }
    Some(told_by(bytes, component, block).unwrap_or(FOREIGN))
}

/// Where the group differs from the allowed state that is nearest to it: the one with the least to tell.
pub fn difference(expected: &[Seen], seen: &Seen) -> String {
    let nearest = expected
        .iter()
        .map(|expected| differences(expected, seen))
        .min_by_key(|lines| lines.iter().map(String::len).sum::<usize>());
    let mut lines = nearest.unwrap_or_default();
    lines.insert(0, format!("none of {} allowed states; from the nearest it differs in:", expected.len()));
    lines.truncate(40);
    lines.join("\n")
}

fn differences(expected: &Seen, seen: &Seen) -> Vec<String> {
    let mut lines = Vec::new();
    if expected.records != seen.records {
        lines.push(format!("records {:?}, expected {:?}", seen.records, expected.records));
    }
    if !expected.components.keys().eq(seen.components.keys()) {
        lines.push(format!("components {:?}, expected {:?}", seen.components.keys(), expected.components.keys()));
    }
    for (id, want) in &expected.components {
        let Some(have) = seen.components.get(id) else {
            continue;
        };
        if (have.settled, &have.window) != (want.settled, &want.window) {
            lines.push(format!(
                "{id:?} settled {:?} window {:?}, expected {:?} {:?}",
                have.settled.seq, have.window, want.settled.seq, want.window
            ));
        }
        if have.regions != want.regions {
            lines.push(format!("{id:?} regions {:?}, expected {:?}", have.regions, want.regions));
        }
        for (who, these, those) in
            [("forgotten", &want.clients, &have.clients), ("remembered in vain", &have.clients, &want.clients)]
        {
            for (client, op) in these.iter().filter(|known| !those.contains(known)) {
                let (slot, turn) = (client.slot(), client.turn());
                lines.push(format!(
                    "{id:?} {who}: session {} slot {slot} turn {turn}, operation {}",
                    client.session, op.seq
                ));
            }
        }
        for block in 0..want.blocks.len() {
            let (h, w) = ((have.blocks[block], have.allocated[block]), (want.blocks[block], want.allocated[block]));
            if h != w {
                lines.push(format!("{id:?} block {block}: {h:?}, expected {w:?}"));
            }
        }
        if !want.views.keys().eq(have.views.keys()) {
            lines.push(format!("{id:?} snapshots {:?}, expected {:?}", have.views.keys(), want.views.keys()));
        }
        for (snapshot, view) in &want.views {
            let Some(found) = have.views.get(snapshot) else { continue };
            let blocks = (0..).zip(found).zip(view).filter(|((_, have), want)| have != want);
            lines.extend(
                blocks.map(|((at, have), want)| format!("{id:?} {snapshot:?} block {at}: {have:?}, expected {want:?}")),
            );
        }
    }
    lines
}
