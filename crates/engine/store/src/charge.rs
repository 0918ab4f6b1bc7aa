//! Space that a component is charged for an operation from its admission until its record is applied.
//!
//! Promises    what is admitted has its space; what is reserved costs nothing, however full the device is, and what is overwritten costs
//!             nothing as long as all blocks fit at 4 KiB each (regime a)
//!             beyond that all that is written has room as if it did not pack (regime b)
//! Not here    what waits until there is space (`waiting.rs`)
//!
//! In regime b an overwrite may be refused: it may pack worse than what it replaces, and that stays until it is destaged.

use cairn_format::{LogPiece, LogRecord};
use cairn_types::{BLOCK_BYTES, BlockRange, Canary, ComponentId};

use crate::{
    components::Components,
    error::{StoreError, StoreErrorKind},
    queue::{Charge, Charged, More},
    tier::{By, Tier},
};

/// Free blocks from which on a write is charged for all of its blocks, without a look at which of them have space already: the
/// index is large, and the charge is given back when the record is applied. Above what waits for a log at once, unless more
/// than four hosts write here at their most (64 MiB each): then a group that is nearly full refuses new space that much early.
/// Overwrites are never refused for it: below this they are charged nothing.
const AMPLE_BLOCKS: u64 = (256 << 20) / BLOCK_BYTES as u64;

/// Sets space aside for what a record may add, or refuses it.
pub(crate) fn charge(components: &mut Components, tier: &mut Tier, record: &LogRecord) -> Result<Charge, StoreError> {
    let all = record.data_blocks();
    let new = |id: &ComponentId, range: BlockRange, keeps: bool| {
        let component = components.of(*id);
        let data = (component.device, all);
        let keeps = keeps && !component.cuts.is_empty();
        match tier.room(component.device) >= AMPLE_BLOCKS && !tier.metadata_is_full {
            true => {
                let (blocks, kept) = (range.count.into(), range.count.into());
                More { component: *id, blocks, history: if keeps { kept } else { 0 }, data }
            }
            false => {
                let history = if keeps { component.blocks_to_keep(range, &components.records) } else { 0 };
                More { component: *id, blocks: component.blocks_to_allocate(range, &components.records), history, data }
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
            let data = (components.of(*component).device, all);
            let none = More { component: *component, blocks: 0, history: 0, data };
            allocating.map(|range| new(component, range, keeps)).fold(none, |sum, more| More {
                blocks: sum.blocks + more.blocks,
                history: sum.history + more.history,
                ..sum
            })
        }
        LogRecord::ResizeComponent { component, reserved_blocks, .. } => {
            let known = components.of(*component);
            let more = (*reserved_blocks).saturating_sub(known.charge());
            let reserved = (*reserved_blocks).saturating_sub(known.reserved_blocks);
            let fits = more <= tier.raw_room(known.device) || reserved <= tier.packed_room(known.device, By::Guest);
            let wanted = (more, reserved, By::Guest);
            return if fits { Ok(Charge::Now(None)) } else { no_room(tier, known.device, wanted, more) };
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
    let delta = after.saturating_sub(before);
    // What is reserved or overwritten costs nothing, however full the device is, but for what a snapshot views of it.
    let is_reserved = own <= component.reserved_blocks && more.history == 0;
    let wanted = (delta, more.data.1, by(record));
    if !fits(tier, device, wanted, is_reserved) {
        return no_room(tier, device, wanted, blocks.max(more.data.1));
    }
    tier.of_mut(device).queued_data += more.data.1;
    components.change(tier, id, |c, _| {
        c.queued_blocks += more.blocks;
        c.queued_history += more.history;
    });
    Ok(Charge::Now(Some(more)))
}

fn by(record: &LogRecord) -> By {
    if matches!(record, LogRecord::Copy { .. }) { By::Copy } else { By::Guest }
}

/// Whether so many blocks more, of which so many have data, have room in one of the regimes.
fn fits(tier: &Tier, device: u8, (more, data, by): (u64, u64, By), is_reserved: bool) -> bool {
    match tier.has_packed {
        false => more == 0 || more <= tier.raw_room(device),
        true => {
            is_reserved
                || tier.fits_raw(device, more)
                || data <= tier.packed_room(device, by)
                || Canary::RegimeIgnored.sings()
        }
    }
}

/// `more` blocks find no room now, as they are or as if they did not pack.
fn no_room(tier: &Tier, device: u8, (more, data, by): (u64, u64, By), blocks: u64) -> Result<Charge, StoreError> {
    // What a trim hides is overwritten for nothing, and needs room as a new block does once the trim is destaged.
    let then = if tier.has_packed { more.max(data) } else { more };
    let raw = then > 0 && then <= tier.room_to_come(device);
    let packed = tier.has_packed && data <= tier.packed_room_to_come(device, by);
    match raw || packed {
        true => Ok(Charge::Later),
        false => Err(refusal(tier, device, blocks)),
    }
}

/// Why so many blocks are not written.
pub(crate) fn refusal(tier: &Tier, device: u8, blocks: u64) -> StoreError {
    if !tier.has_packed {
        return no_space(blocks, tier.room(device));
    }
    let room = tier.room(device);
    let text = format!(
        "{blocks} blocks to be written, {room} are free on the component's capacity device if they do not pack: it holds more blocks than it has room for \
         unpacked, so overwrites need room as well; trim, delete, or add space"
    );
    StoreError::new(StoreErrorKind::NoSpace, text)
}

/// The record was applied, or came to nothing.
pub(crate) fn uncharge(components: &mut Components, tier: &mut Tier, charged: Charged) {
    if let Some(more) = charged {
        tier.of_mut(more.data.0).queued_data -= more.data.1;
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
