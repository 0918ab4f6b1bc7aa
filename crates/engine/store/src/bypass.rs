//! Large copies go straight to the capacity tier, and the log gets a record of where they stand.
//!
//! Promises    P1  the record is in the log only once the blocks are on stable media: an acknowledged copy is (I3)
//!             P2  spots that a record of the log names are neither reused nor cleaned away until the log has left it behind:
//!                 by then destage has handed them to the map, or nobody will ask for them again
//!             P3  what was undone, fenced off or lost while its blocks were written leaves no trace (I9)
//!             P4  destage never waits for room because of it: it goes on only while what is free would hold all of the log as well
//! Assumes     the object layer orders a copy with overlapping writes: it takes effect later than what was asked for after it
//! Not here    what becomes of the record in destage (`fold.rs`); which spots are held (`segments.rs`)
//!
//! A resync fills no write buffer so: its bytes meet the capacity device once, and nobody waits for their destage.

use cairn_env::Env;
use cairn_format::LogRecord;
use cairn_types::BLOCK_BYTES;

use crate::{
    admission::Admission, capacity::CapacityWriter, charge::uncharge, disk_group::Inner, error::StoreError, leaf::Spot,
    log::Log, options::RunningOptions, placing::CopyParts, segments::Segments, state::State, tier::Tier,
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Segments that stay free for destage and cleaning, beside what the log would take.
const SPARE_SEGMENTS: u64 = 4;
/// Blocks that wait in the capacity tier for destage to hand them to the map, in rounds of destage: it begins with them at the first,
/// and at the second copies go through the log. Each takes 12 bytes of memory meanwhile, and some 0.1 us of the shard in one go.
const DUE_ROUNDS: u64 = 2;
const MOST_ROUNDS: u64 = 32;
/// The same as parts of a device, where that is less.
const DUE_PART: u64 = 32;
const MOST_PART: u64 = 8;

impl<E: Env> Inner<E> {
    /// One of the tasks that write copies to the capacity tier: runs until the group closes or stops.
    pub(crate) async fn run_placer(self: std::rc::Rc<Self>, number: usize) {
        loop {
            let (ticket, group) = {
                let mut state = self.state.borrow_mut();
                let ticket = state.tier.take_ticket();
                let group = state.admission.placing.take_group(ticket);
                (ticket, group)
            };
            let Some((device, blocks)) = group else {
                if self.state.borrow().life.ends() {
                    break;
                }
                self.placer.wait().await;
                continue;
            };
            if !self.state.borrow().admission.placing.nothing_waits() {
                // For the other task.
                self.placer.raise();
            }
            let spots = self.write_blocks(device, &blocks, CapacityWriter::Place { ticket, stream: 1 + number }).await;
            self.state.borrow_mut().placed(ticket, device, spots, blocks.len());
            self.writer.raise();
        }
        self.placers_ended[number].raise();
        // The other one may have waited when this one was told to end.
        self.placer.raise();
        self.writer.raise();
    }
}

impl State {
    /// The device that the blocks of a copy go to at once; none where they go through the log, as all that is no large copy does, each that
    /// has marks, and all that is to be packed.
    pub(crate) fn place_of(&self, record: &LogRecord, data_bytes: u64, tuning: &RunningOptions) -> Option<u8> {
        let LogRecord::Copy { component, .. } = record else {
            return None;
        };
        let device = self.components.of(*component).device;
        (data_bytes >= tuning.place_bytes_min
            && !record.has_marks()
            && !self.settings.goes_through_log()
            && has_place(&self.tier, &self.admission, &self.log, (device, data_bytes / PAGE), tuning))
        .then_some(device)
    }

    /// The blocks of a group were written and flushed: their records are queued for the log. `spots` is none where there was no room,
    /// and has fewer than `blocks` where the device failed.
    fn placed(&mut self, ticket: u64, device: u8, spots: Option<Vec<Spot>>, blocks: usize) {
        let mut queued = 0;
        for placement in self.admission.placing.under_way.remove(&ticket).unwrap_or_default() {
            let Some(spots) = &spots else {
                self.admission.queue.push(placement.into_logged());
                continue;
            };
            let valid = self.still_valid(&placement.copy, spots.len() == blocks);
            if let Err(error) = valid {
                uncharge(&mut self.components, &mut self.tier, placement.charged);
                let _ = placement.done.send(Err(error));
                continue;
            }
            let own = &spots[placement.spots_from..][..(placement.bytes() / PAGE) as usize];
            self.admission.queue.push(placement.into_placed(own, self.tier.of(device), ticket));
            queued += 1;
        }
        if queued == 0 {
            return self.round_over(ticket);
        }
        self.admission.placing.records.insert(ticket, queued);
    }

    /// What was right when the copy was admitted may not be any more (P3).
    fn still_valid(&self, copy: &CopyParts, written: bool) -> Result<(), StoreError> {
        self.life.not_stopped()?;
        for piece in &copy.pieces {
            self.components.check(copy.component, Some(copy.op), piece.range())?;
        }
        assert!(written, "the components of a device that failed are lost");
        Ok(())
    }

    /// A record that names blocks of this ticket is applied, and holds them, or came to nothing.
    pub(crate) fn placed_record_over(&mut self, ticket: u64) {
        let left = self.admission.placing.records.get_mut(&ticket).expect("a record that was queued is counted");
        *left -= 1;
        if *left == 0 {
            self.admission.placing.records.remove(&ticket);
            self.round_over(ticket);
        }
    }
}

/// Whether a device has room for so many blocks beside all that the log may still bring it (P4).
fn has_place(
    tier: &Tier,
    admission: &Admission,
    log: &Log,
    (device, blocks): (u8, u64),
    tuning: &RunningOptions,
) -> bool {
    let segments = tier.of(device);
    let on_their_way = admission.placing.blocks_for(device);
    let held = segments.held_blocks_from(0) + on_their_way;
    let wanted = blocks + on_their_way + log.ring.used() / PAGE;
    let most = (MOST_ROUNDS * u64::from(tuning.destage_blocks_max)).min(all_slots(segments) / MOST_PART);
    held + blocks <= most
        && segments.free_segments() >= wanted.div_ceil(segments.slots_per_segment().max(1)) + SPARE_SEGMENTS
}

/// Whether destage is to hand over what records name that no round has gathered, however little the log holds.
pub(crate) fn placed_is_due(tier: &Tier, log: &Log, tuning: &RunningOptions) -> bool {
    let from = log.ring.segment_of(log.gathered_to());
    tier.devices().iter().any(|segments| {
        let due = (DUE_ROUNDS * u64::from(tuning.destage_blocks_max)).min(all_slots(segments) / DUE_PART);
        segments.held_blocks_from(from) > due
    })
}

fn all_slots(segments: &Segments) -> u64 {
    segments.slots_per_segment() * segments.count()
}
