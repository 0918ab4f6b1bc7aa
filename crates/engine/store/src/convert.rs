//! A change as the records that carry it out, each checked against everything that is known now.
//!
//! Promises    what is refused here leaves no trace (I9); bytes are handed on, and copied only where a device cannot read them in place
//! Assumes     the checksums of data are right: where blocks come from another host, they were compared on arrival
//! Not here    whether there is space (`charge.rs`), what the records do (`state.rs`)

use bytes::Bytes;
use cairn_env::{BUFFER_ALIGN, PageBuf};
use cairn_format::{COMPONENT_BLOCKS_MAX, CUTS_MAX, KEPT_ZERO_BLOCKS_MAX, LogPiece, LogRecord};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, ObjectId, OpId, RECORD_BYTES_MAX,
    REMEMBERED_MAX, Run, SnapshotId,
};
use smallvec::SmallVec;

use crate::{
    components::Components,
    error::{StoreError, StoreErrorKind, refused},
    log::Log,
    map::Map,
    queue::DataParts,
    ring::Class,
    state::State,
    tier::Tier,
};

/// Why rows are refused while leaves of the map are rows of the metadata: those have no row checks.
const NO_PAGES: &str = "the disk group keeps its block map as version 0.2.0 does, and parity needs it in pages: it goes over by itself \
                        once all hosts of the cluster run a release that knows them; ask again then";
/// Why snapshots are.
const NO_PAGES_FOR_CUTS: &str = "the disk group keeps its block map as version 0.2.0 does, and snapshots need it in pages: it goes over by \
                                 itself once all hosts of the cluster run a release that knows them; ask again then";
/// Why a difference is.
const NO_DIFFERENCE: &str =
    "a difference is added by the component's seat: a disk group is given the parity that comes of it";

const UNDONE: &str = "the operation was undone before it arrived";

/// A record, its data, and whether it may overtake in a full log.
pub(crate) type Converted = (LogRecord, DataParts, Class);

/// What a change is checked against.
pub(crate) struct Converter<'a> {
    pub components: &'a Components,
    pub tier: &'a Tier,
    pub log: &'a Log,
    pub map: &'a Map,
}

impl State {
    pub(crate) fn converter(&self) -> Converter<'_> {
        let Self { components, tier, log, map, .. } = self;
        Converter { components, tier, log, map }
    }
}

impl Converter<'_> {
    /// The records of a change, each with its own refusal: one record, but of undoing one for each operation.
    pub(crate) fn convert(&self, change: Change) -> SmallVec<[Result<Converted, StoreError>; 1]> {
        let one = match change {
            Change::Component { component, op: ComponentOp::Undo { ops }, .. } => {
                return ops.into_iter().map(|op| self.convert_undo(component, op)).collect();
            }
            Change::Component { component, op: ComponentOp::Apply { op, settled, client, blocks }, data } => {
                self.convert_blocks(component, (op, settled, client), blocks, data)
            }
            Change::Component { component, op: ComponentOp::Settle { upto }, .. } => {
                self.components.not_lost(component).map(|_| small(LogRecord::Settle { component, upto }))
            }
            Change::Component { component, op: ComponentOp::Remember { clients }, .. } => {
                self.convert_remember(component, clients)
            }
            Change::Component { component, op: ComponentOp::Cuts { at, settled, cuts }, .. } => {
                self.convert_cuts(component, (at, settled), cuts)
            }
            Change::Component { component, op: ComponentOp::Resize { size_blocks, reserved_blocks }, .. } => {
                self.convert_resize(component, size_blocks, reserved_blocks)
            }
            Change::CreateComponent { component, object, size_blocks, reserved_blocks } => {
                self.convert_create(component, object, size_blocks, reserved_blocks)
            }
            Change::DeleteComponent { component } => {
                self.components.known(component).map(|_| small(LogRecord::DeleteComponent { component }))
            }
            Change::Record { object, bytes } => self.convert_record(object, &bytes),
        };
        SmallVec::from_iter([one])
    }

    fn convert_cuts(
        &self,
        component: ComponentId,
        (at, settled): (OpId, OpId),
        cuts: Vec<(SnapshotId, OpId)>,
    ) -> Result<Converted, StoreError> {
        self.components.not_lost(component)?;
        if self.map.pages().is_none() {
            return Err(refused(NO_PAGES_FOR_CUTS));
        }
        let count = cuts.len();
        let record = LogRecord::Cuts { component, at, settled, cuts };
        match record.is_sound() {
            true => Ok(small(record)),
            false => Err(refused(format!(
                "{count} snapshots that are not in order, are there twice, or are not decided: at most {CUTS_MAX}"
            ))),
        }
    }

    fn convert_blocks(
        &self,
        component: ComponentId,
        (op, settled, client): (OpId, OpId, ClientTag),
        blocks: BlockOp,
        data: Bytes,
    ) -> Result<Converted, StoreError> {
        match blocks {
            BlockOp::Write { first_block, crcs } => {
                self.components.check(component, Some(op), BlockRange::new(first_block, crcs.len() as u32))?;
                check_length(crcs.len(), &data)?;
                let record = LogRecord::Write { component, op, settled, client, first_block, crcs };
                Ok((record, DataParts::from_iter([aligned(data)]), Class::Normal))
            }
            BlockOp::Zero { range, keep_allocated } => {
                self.check_zeroes(component, op, (range, keep_allocated), &data)?;
                Ok(small(LogRecord::Zero { component, op, settled, client, range, keep_allocated }))
            }
            BlockOp::Copy { first_block, runs } => {
                let (pieces, data) = self.convert_runs(component, first_block, runs, data)?;
                if self.components.of(component).is_undone(op) {
                    return Err(StoreError::new(StoreErrorKind::Undone, UNDONE));
                }
                Ok((LogRecord::Copy { component, op, settled, pieces }, data, Class::Normal))
            }
            BlockOp::Rows { members, first_block, runs } => {
                self.check_rows(members)?;
                if !runs.iter().all(|run| matches!(run, Run::Data { .. } | Run::Parity { .. })) {
                    return Err(refused("an operation on rows with holes or marks: it has data and parity alone"));
                }
                let (pieces, data) = self.convert_runs(component, first_block, runs, data)?;
                if self.components.of(component).is_undone(op) {
                    return Err(StoreError::new(StoreErrorKind::Undone, UNDONE));
                }
                Ok((LogRecord::Rows { component, op, settled, client, members, pieces }, data, Class::Normal))
            }
            BlockOp::ZeroRows { members, range, keep_allocated } => {
                self.check_rows(members)?;
                self.check_zeroes(component, op, (range, keep_allocated), &data)?;
                Ok(small(LogRecord::ZeroRows { component, op, settled, client, members, range, keep_allocated }))
            }
            BlockOp::Difference(_) => Err(refused(NO_DIFFERENCE)),
        }
    }

    /// Whether there can be operations on rows, or parity, and this one concerns anybody.
    fn check_rows(&self, members: u16) -> Result<(), StoreError> {
        if self.map.pages().is_none() {
            return Err(refused(NO_PAGES));
        }
        match members {
            0 => Err(refused("an operation on rows that concerns no member")),
            _ => Ok(()),
        }
    }

    fn check_parity(&self, blocks: usize, row_checks: usize) -> Result<(), StoreError> {
        if self.map.pages().is_none() {
            return Err(refused(NO_PAGES));
        }
        match row_checks == blocks {
            true => Ok(()),
            false => Err(refused(format!("{row_checks} row checks for {blocks} blocks of parity"))),
        }
    }

    fn check_zeroes(
        &self,
        component: ComponentId,
        op: OpId,
        (range, keep_allocated): (BlockRange, bool),
        data: &[u8],
    ) -> Result<(), StoreError> {
        self.components.check(component, Some(op), range)?;
        check_length(0, data)?;
        if keep_allocated && range.count > KEPT_ZERO_BLOCKS_MAX {
            return Err(refused(format!(
                "{} blocks of allocated zeroes at once: send at most {KEPT_ZERO_BLOCKS_MAX}",
                range.count
            )));
        }
        Ok(())
    }

    /// Runs with their places, and the bytes of each run by themselves.
    pub(crate) fn convert_runs(
        &self,
        component: ComponentId,
        mut first_block: u64,
        runs: Vec<Run>,
        mut data: Bytes,
    ) -> Result<(Vec<LogPiece>, DataParts), StoreError> {
        if runs.is_empty() {
            return Err(refused("a copy of nothing, or an operation on rows without blocks"));
        }
        let (mut pieces, mut parts) = (Vec::with_capacity(runs.len()), DataParts::new());
        let mut first = first_block;
        for run in &runs {
            let range = BlockRange::new(first, run.blocks());
            self.components.check(component, None, range)?;
            if let Run::Parity { crcs, row_checks } = run {
                self.check_parity(crcs.len(), row_checks.len())?;
            }
            first = range.end();
        }
        check_length(runs.iter().map(|run| run.crcs().len()).sum(), &data)?;
        for run in runs {
            let range = BlockRange::new(first_block, run.blocks());
            first_block = range.end();
            pieces.push(match run {
                Run::Hole { .. } => LogPiece::Hole { range },
                Run::Bad { crcs } => LogPiece::Bad { first_block: range.first, crcs },
                Run::Parity { crcs, row_checks } => {
                    parts.push(aligned(data.split_to(range.bytes() as usize)));
                    LogPiece::Parity { first_block: range.first, crcs, row_checks }
                }
                Run::Data { crcs } => {
                    parts.push(aligned(data.split_to(range.bytes() as usize)));
                    LogPiece::Data { first_block: range.first, crcs }
                }
            });
        }
        Ok((pieces, parts))
    }

    fn convert_undo(&self, component: ComponentId, op: OpId) -> Result<Converted, StoreError> {
        let known = self.components.known(component)?;
        if op <= known.settled && !known.is_undone(op) {
            return Err(refused(format!("operation {} is settled: it cannot be undone", op.seq)));
        }
        Ok(small(LogRecord::Undo { component, op }))
    }

    fn convert_remember(
        &self,
        component: ComponentId,
        clients: Vec<(ClientTag, OpId)>,
    ) -> Result<Converted, StoreError> {
        self.components.known(component)?;
        if clients.len() > REMEMBERED_MAX {
            return Err(refused(format!("{} requests at once: send at most {REMEMBERED_MAX}", clients.len())));
        }
        Ok(small(LogRecord::Remember { component, clients }))
    }

    fn convert_resize(
        &self,
        component: ComponentId,
        size_blocks: u64,
        reserved_blocks: u64,
    ) -> Result<Converted, StoreError> {
        let known = self.components.known(component)?;
        refuse_sizes(size_blocks, reserved_blocks)?;
        if size_blocks < known.size_blocks {
            return Err(refused("a component cannot shrink in this release"));
        }
        let record = LogRecord::ResizeComponent { component, size_blocks, reserved_blocks };
        Ok((record, DataParts::new(), Class::Normal))
    }

    fn convert_create(
        &self,
        component: ComponentId,
        object: ObjectId,
        size_blocks: u64,
        reserved_blocks: u64,
    ) -> Result<Converted, StoreError> {
        if self.components.is_or_was_here(component) {
            return Err(refused(format!("component {component} is or was here: ids are never reused")));
        }
        refuse_sizes(size_blocks, 0)?;
        let device = self
            .components
            .choose_device(self.tier, size_blocks, reserved_blocks)
            .ok_or_else(|| StoreError::new(StoreErrorKind::Lost, "every capacity device of the disk group failed"))?;
        let room = self.tier.room(device);
        if reserved_blocks > room {
            let text = format!(
                "{reserved_blocks} blocks to be reserved, {room} are free on the emptiest capacity device: free space, \
                 add devices, or reserve less"
            );
            return Err(StoreError::new(StoreErrorKind::NoSpace, text));
        }
        refuse_sizes(size_blocks, reserved_blocks)?;
        let record = LogRecord::CreateComponent { component, object, size_blocks, reserved_blocks, device };
        Ok((record, DataParts::new(), Class::Normal))
    }

    fn convert_record(&self, object: ObjectId, bytes: &[u8]) -> Result<Converted, StoreError> {
        if bytes.len() > RECORD_BYTES_MAX.min(self.log.ring.segment_bytes() as usize / 4) {
            return Err(refused(format!("an object record of {} bytes is too large", bytes.len())));
        }
        Ok(small(LogRecord::Record { object, bytes: bytes.to_vec() }))
    }
}

/// A record without data that may overtake what waits for room.
fn small(record: LogRecord) -> Converted {
    (record, DataParts::new(), Class::Reserve)
}

/// Recovery does not believe a record of more.
fn refuse_sizes(size_blocks: u64, reserved_blocks: u64) -> Result<(), StoreError> {
    let most = size_blocks.max(reserved_blocks);
    if most > COMPONENT_BLOCKS_MAX {
        return Err(refused(format!("a component of {most} blocks is too large: at most 255 GiB")));
    }
    Ok(())
}

/// Whether there are the blocks that the checksums are of.
fn check_length(crcs: usize, data: &[u8]) -> Result<(), StoreError> {
    if data.len() != crcs * BLOCK_BYTES as usize {
        return Err(refused(format!("{} bytes of data for {crcs} checksums of 4096 each", data.len())));
    }
    Ok(())
}

/// The bytes in memory that the device can read from: a copy only where they are not.
fn aligned(data: Bytes) -> Bytes {
    if (data.as_ptr() as usize).is_multiple_of(BUFFER_ALIGN) { data } else { PageBuf::copy_of(&data).freeze() }
}
