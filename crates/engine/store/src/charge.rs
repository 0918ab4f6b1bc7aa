//! Space that a component is charged for an operation from its admission until its record is applied.
//!
//! Promises    what is admitted has its space; what is reserved or overwritten costs nothing, however full the device is
//! Not here    what waits until there is space (`waiting.rs`)

use cairn_format::{LogPiece, LogRecord};
use cairn_types::{BLOCK_BYTES, BlockRange, ComponentId};

use crate::{
    components::Components,
    error::{StoreError, StoreErrorKind},
    queue::{Charge, Charged, More},
    tier::Tier,
};

/// Free blocks from which on a write is charged for all of its blocks, without a look at which of them have space already: the
/// index is large, and the charge is given back when the record is applied. Above what waits for a log at once, unless more
/// than four hosts write here at their most (64 MiB each): then a group that is nearly full refuses new space that much early.
/// Overwrites are never refused for it: below this they are charged nothing.
const AMPLE_BLOCKS: u64 = (256 << 20) / BLOCK_BYTES as u64;

/// Sets space aside for what a record may add, or refuses it.
pub(crate) fn charge(components: &mut Components, tier: &mut Tier, record: &LogRecord) -> Result<Charge, StoreError> {
    let new = |id: &ComponentId, range: BlockRange, keeps: bool| {
        let component = components.of(*id);
        let keeps = keeps && !component.cuts.is_empty();
        match tier.room(component.device) >= AMPLE_BLOCKS && !tier.metadata_is_full {
            true => {
                More { component: *id, blocks: range.count.into(), history: if keeps { range.count.into() } else { 0 } }
            }
            false => {
                let history = if keeps { component.blocks_to_keep(range, &components.records) } else { 0 };
                More { component: *id, blocks: component.blocks_to_allocate(range, &components.records), history }
            }
        }
    };
    let more = match record {
        LogRecord::Write { component, first_block, crcs, .. } => {
            new(component, BlockRange::new(*first_block, crcs.len() as u32), true)
        }
        LogRecord::Zero { component, range, keep_allocated: true, .. }
        | LogRecord::ZeroRows { component, range, keep_allocated: true, .. } => new(component, *range, true),
        LogRecord::Copy { component, pieces, .. } | LogRecord::Rows { component, pieces, .. } => {
            let keeps = matches!(record, LogRecord::Rows { .. });
            let allocating = pieces.iter().filter(|piece| piece.allocates()).map(LogPiece::range);
            let none = More { component: *component, blocks: 0, history: 0 };
            allocating.map(|range| new(component, range, keeps)).fold(none, |sum, more| More {
                blocks: sum.blocks + more.blocks,
                history: sum.history + more.history,
                ..sum
            })
        }
        LogRecord::ResizeComponent { component, reserved_blocks, .. } => {
            let known = components.of(*component);
            let more = (*reserved_blocks).saturating_sub(known.charge());
            let room = tier.room(known.device);
            return if more > room { no_room(tier, known.device, more, more) } else { Ok(Charge::Now(None)) };
        }
        _ => return Ok(Charge::Now(None)),
    };
    let (id, blocks) = (more.component, more.blocks + more.history);
    if tier.metadata_is_full && blocks > 0 {
        let text = format!(
            "{blocks} blocks to be allocated, and the disk group's metadata is full: blocks that have data, and that no snapshot \
             views, can be overwritten; trim, delete, or add a disk group"
        );
        return Err(StoreError::new(StoreErrorKind::NoSpace, text));
    }
    let component = components.of(id);
    let (device, before) = (component.device, component.charge());
    let own = (component.allocated() + component.queued_blocks + more.blocks).max(component.reserved_blocks);
    let after = own + component.history() + more.history;
    let room = tier.room(device);
    // What is reserved or overwritten costs nothing, however full the device is, but for what a snapshot views of it.
    if after > before && after - before > room {
        return no_room(tier, device, after - before, blocks);
    }
    components.change(tier, id, |c, _| {
        c.queued_blocks += more.blocks;
        c.queued_history += more.history;
    });
    Ok(Charge::Now(Some(more)))
}

/// `more` blocks find no room now.
fn no_room(tier: &Tier, device: u8, more: u64, blocks: u64) -> Result<Charge, StoreError> {
    match more <= tier.room_to_come(device) {
        true => Ok(Charge::Later),
        false => Err(no_space(blocks, tier.room(device))),
    }
}

/// The record was applied, or came to nothing.
pub(crate) fn uncharge(components: &mut Components, tier: &mut Tier, charged: Charged) {
    if let Some(more) = charged {
        components.change(tier, more.component, |c, _| {
            c.queued_blocks -= more.blocks;
            c.queued_history -= more.history;
        });
    }
}

pub(crate) fn no_space(blocks: u64, room: u64) -> StoreError {
    let text = format!(
        "{blocks} blocks to be allocated, {room} are free on the component's capacity device: trim, delete, or add space"
    );
    StoreError::new(StoreErrorKind::NoSpace, text)
}
