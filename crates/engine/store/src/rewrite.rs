//! Rewriting: what stands on the capacity devices since before something was chosen is written anew, and is packed, shared or plain then as it is chosen.
//!
//! Promises    each segment that was written to before is emptied; what packs or is equal is decided as at destage, in a transaction of the cleaner
//!             it takes no room that guests were promised: where a device holds what it has only packed, that stays packed
//!             a start goes on where it was, as what was written anew is newer than the mark, which the metadata has
//! Assumes     the destage task calls, between two transactions
//! Time        a step is a segment; an idle group rests as long after it as it took, a busy one seven times as long
//! Not here    emptying a segment (`clean.rs`); items with several references: nobody knows where all of these are, so they move as they are

use std::time::Duration;

use bytes::Bytes;
use cairn_env::Env;
use cairn_format::{Spot, crc32c};
use cairn_types::{Canary, Time};
use futures::{StreamExt, stream};

use crate::{
    capacity::{CapacityWriter, OutBlock},
    clean::Emptied,
    destage::Written,
    disk_group::Inner,
    error::StoreError,
    hits::Shared,
    packed_read::plain,
    rewriting::{Next, RewriteProgress, Rewriting},
    segments::Segments,
    squeeze::{BLOCKS_PER_JOB, JOBS, Outgoing},
    state::State,
    tier::By,
    transaction::Transaction,
};

/// A busy group rests so many times as long as a step took.
const BUSY_RESTS: u32 = 7;
/// Wait before what could not be emptied is tried again: as it was in use, or for lack of room.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const ROOM_AFTER: Duration = Duration::from_secs(30);

impl State {
    /// Begins to write anew what was written until now, or ends that.
    pub fn rewrite(&mut self, on: bool) {
        self.rewriting = Rewriting::default();
        if on {
            // What is written from now on goes to other segments.
            self.tier.devices_mut().iter_mut().for_each(Segments::close_all_streams);
            self.tier.next_round();
        }
        self.settings.set_rewrite_below(on.then_some(self.tier.round()));
    }

    /// None where nothing is written anew.
    pub fn rewrite_progress(&self, now: Time) -> Option<RewriteProgress> {
        self.settings.rewrite_below()?;
        let segments: u64 = self.tier.devices().iter().map(Segments::count).sum();
        let done = self.rewriting.done(&self.tier);
        let rate = |(began, before): (Time, u64)| {
            let (took, since) = (now.since(began), done.checked_sub(before).filter(|since| *since > 0)?);
            Some(took.mul_f64(segments.saturating_sub(done) as f64 / since as f64))
        };
        let lacks_room = self.rewriting.lacks_room != [false; 2];
        Some(RewriteProgress { done_segments: done, segments, left: self.rewriting.began.and_then(rate), lacks_room })
    }

    /// Whether blocks may be unpacked for good: what a device has fits it so, or these do.
    fn may_unpack(&self, device: u8, blocks: u64) -> bool {
        Canary::UnpacksUnasked.sings()
            || self.tier.fits_raw(device, 0)
            || self.tier.packed_room(device, By::Guest) >= blocks
    }
}

impl<E: Env> Inner<E> {
    /// Whether there is something to write anew, and how long that rests yet.
    pub(crate) fn rewriting_rests(&self) -> Option<Duration> {
        let state = self.state.borrow();
        let is_due = !state.life.ends() && state.life.stopped().is_none() && state.settings.rewrite_below().is_some();
        is_due.then(|| state.rewriting.rests_until.since(self.env.now()))
    }

    /// Writes a segment anew, if that does not rest. `is_busy`: guests wait for destage.
    pub(crate) async fn rewrite_some(&self, is_busy: bool) -> Result<(), StoreError> {
        if self.rewriting_rests() != Some(Duration::ZERO) {
            return Ok(());
        }
        let began = self.env.now();
        let next = {
            let State { rewriting, settings, tier, .. } = &mut *self.state.borrow_mut();
            rewriting.next(tier, settings.rewrite_below().expect("just seen"), &self.pins)
        };
        let rest = match next {
            Next::Empty(device, segment) => {
                {
                    let State { rewriting, tier, .. } = &mut *self.state.borrow_mut();
                    let done = rewriting.done(tier);
                    rewriting.began.get_or_insert((began, done));
                }
                self.rewrite_segment(device, segment).await?;
                let took = self.env.now().since(began);
                took * if is_busy { BUSY_RESTS } else { 1 }
            }
            Next::More => Duration::from_millis(1),
            Next::Again if self.state.borrow().rewriting.lacks_room[1] => ROOM_AFTER,
            Next::Again => AGAIN_AFTER,
            Next::Done => {
                self.state.borrow_mut().settings.set_rewrite_below(None);
                self.commit(Transaction::default()).await?;
                Duration::ZERO
            }
        };
        self.state.borrow_mut().rewriting.rests_until = self.env.now() + rest;
        Ok(())
    }

    async fn rewrite_segment(&self, device: u8, segment: u32) -> Result<(), StoreError> {
        let blocks = u64::from(self.state.borrow().tier.of(device).row(segment).live.items);
        let has_room = self.clean_for(device, blocks).await?;
        // The cleaner may have emptied it, or filled it anew.
        let is_there = self.state.borrow().tier.of(device).may_be_emptied(segment, &self.pins);
        {
            let state = &mut *self.state.borrow_mut();
            let is_raw = state.tier.of(device).row(segment).live.is_raw();
            let fits = is_raw || state.settings.goes_through_log() || state.may_unpack(device, blocks);
            if !has_room {
                state.rewriting.leave_out_device();
                return Ok(());
            }
            if !fits {
                state.rewriting.leave_out_for_room();
                return Ok(());
            }
        }
        if !is_there {
            return Ok(());
        }
        self.state.borrow_mut().tier.of_mut(device).begin_emptying(segment);
        let emptied = self.empty(device, &[segment], true).await;
        let state = &mut *self.state.borrow_mut();
        state.tier.of_mut(device).end_emptying();
        match emptied? {
            Emptied::Done => state.counters.rewritten_segments += 1,
            Emptied::NoRoom => state.rewriting.leave_out_for_room(),
            Emptied::Failed => {}
        }
        Ok(())
    }

    /// Writes what is to leave a segment as it is chosen now, and begins to share what is equal to it. The spots of all; none where there is no
    /// room, or the device failed.
    pub(crate) async fn write_anew(
        &self,
        (device, ticket): (u8, u64),
        (blocks, is_parity): (&[OutBlock], Vec<Option<bool>>),
        transaction: &mut Transaction,
    ) -> Result<Option<(Vec<Spot>, Shared)>, StoreError> {
        let (unpacks, shares) = {
            let state = self.state.borrow();
            let (packs, shares) = (state.settings.compression(), state.settings.deduplication());
            // To be compared, to be packed again then; or for good.
            (shares && packs || !packs && state.may_unpack(device, blocks.len() as u64), shares)
        };
        let (mut outgoing, mut rest) = (Vec::new(), Vec::new());
        for (at, (block, is_parity)) in blocks.iter().zip(is_parity).enumerate() {
            match is_parity.filter(|_| !block.is_packed() || unpacks) {
                Some(is_parity) => {
                    outgoing.push(Outgoing { at, is_parity, record: None, packed: None, block: block.clone() })
                }
                None => rest.push(at),
            }
        }
        rest.extend(self.unpack_all(&mut outgoing).await);
        let writer = CapacityWriter::Clean(ticket);
        let as_they_are: Vec<OutBlock> = rest.iter().map(|at| blocks[*at].clone()).collect();
        let mut spots = vec![Spot::NONE; blocks.len()];
        let Some(written) = self.write_blocks(device, &as_they_are, writer).await else { return Ok(None) };
        rest.into_iter().zip(written).for_each(|(at, spot)| spots[at] = spot);
        let mut shared = Shared::default();
        let Written { places, zeroes, spots: written, found, .. } = self.write_outgoing(writer, device, outgoing).await;
        let Some(written) = written else { return Ok(None) };
        zeroes.into_iter().for_each(|at| spots[at] = Spot::ZERO);
        places.into_iter().zip(written).for_each(|(at, spot)| spots[at] = spot);
        if self.state.borrow().tier.of(device).failed {
            return Ok(None);
        }
        if shares {
            shared.take(found, &mut spots, self.state.borrow().tier.of(device));
        }
        let is_settled = self.settle_hits(writer, &shared, &mut spots, transaction).await?;
        let all = !spots.contains(&Spot::NONE);
        Ok((is_settled && all).then_some((spots, shared)))
    }

    /// Unpacks what is packed. Gives the places of blocks that cannot be, or whose bytes are wrong, and takes these out: they move as they are.
    async fn unpack_all(&self, outgoing: &mut Vec<Outgoing>) -> Vec<usize> {
        let packed: Vec<(u32, Bytes)> = outgoing.iter().map(|out| (out.block.crc, out.block.data.clone())).collect();
        let jobs = packed.chunks(BLOCKS_PER_JOB).map(|some| {
            let some = some.to_vec();
            let unpack = |(crc, data): &(u32, Bytes)| plain(data).filter(|block| crc32c(block) == *crc);
            self.env.run_blocking(move || some.iter().map(unpack).collect::<Vec<_>>())
        });
        let unpacked: Vec<Vec<Option<Bytes>>> = stream::iter(jobs).buffered(JOBS).collect().await;
        let (mut unpacked, mut left) = (unpacked.into_iter().flatten(), Vec::new());
        outgoing.retain_mut(|out| match unpacked.next().flatten() {
            Some(block) => {
                let stored = std::mem::replace(&mut out.block.data, block);
                out.packed = (stored.len() != out.block.data.len()).then_some(stored);
                out.block.pending = false;
                true
            }
            None => {
                left.push(out.at);
                false
            }
        });
        left
    }
}
