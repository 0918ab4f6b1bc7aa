//! Guests' reads of rows, and what is allocated of them.
//!
//! Promises    a block is read from its data member, neighbours of one member together; where that cannot give it, it is made under the
//!             lock of its row, and what is bad is repaired
//! Assumes     the caller holds a lock of the blocks, or of all their rows
//! Not here    leases and waiting for another copy (`guest`)

use std::{collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, RowRole, Rows, StripPart};
use cairn_owner::{Leg, Strip};
use cairn_types::{BlockRange, Canary, ReplicaSetIndex};
use cairn_wire::{AllocatedPiece, Answer, Refusal, Request};
use futures::future::join_all;

use super::{Locked, image::Gathered};
use crate::{
    copies::For,
    local_store::LocalStore,
    owner::{Owned, unreadable::Lost, write::OpError},
    stages::Watch,
};

/// A run of one member that is read at once.
struct Run {
    set: ReplicaSetIndex,
    member: u32,
    range: BlockRange,
    /// Which of the parts it has, in order.
    parts: Vec<usize>,
}

/// The runs of these parts. Strips of one member that follow each other, as far as no parity is between, are one.
fn runs(parts: &[(ReplicaSetIndex, StripPart)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut last: BTreeMap<(ReplicaSetIndex, u32), usize> = BTreeMap::new();
    for (at, (set, part)) in parts.iter().enumerate() {
        let of = last.entry((*set, part.member)).or_insert(usize::MAX);
        match runs.get_mut(*of) {
            Some(run) if run.range.end() == part.range.first => {
                run.range.count += part.range.count;
                run.parts.push(at);
            }
            _ => {
                *of = runs.len();
                runs.push(Run { set: *set, member: part.member, range: part.range, parts: vec![at] });
            }
        }
    }
    runs
}

fn parts_of((area, rows): (Area, Rows), blocks: BlockRange) -> Vec<(ReplicaSetIndex, StripPart)> {
    let pieces = area.split(blocks);
    pieces.flat_map(|piece| rows.parts(piece.range).map(move |part| (piece.set, part))).collect()
}

/// What came of reading a run.
enum Said {
    Has(Strip),
    /// Who is there, and what is bad; nobody, where none is.
    Lacks(Option<(Leg, Vec<BlockRange>)>),
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Reads these blocks of the disk.
    ///
    /// # Errors
    /// [`OpError::NeedsRows`]: some of it has to be made, and the rows are not locked.
    pub(in crate::owner) async fn read_rows(
        self: &Rc<Self>,
        (area, rows): (Area, Rows),
        (blocks, locked): (BlockRange, Locked),
        by: For,
        watch: Option<&Watch<E>>,
    ) -> Result<Vec<Bytes>, OpError> {
        let parts = parts_of((area, rows), blocks);
        let runs = runs(&parts);
        let reads = runs.iter().map(|run| self.read_run(run, by, watch));
        let said = join_all(reads).await;
        if locked == Locked::Blocks
            && !Canary::RowNotLocked.sings()
            && said.iter().any(|said| matches!(said, Said::Lacks(_)))
        {
            return Err(OpError::NeedsRows);
        }
        let mut strips: Vec<Option<Strip>> = vec![None; parts.len()];
        for (run, said) in runs.iter().zip(said) {
            for at in &run.parts {
                let (set, part) = &parts[*at];
                strips[*at] = Some(match &said {
                    Said::Has(strip) => strip.slice((part.range.first - run.range.first) as u32, part.range.count),
                    Said::Lacks(bad) => {
                        let made = self.make_part((rows, *set, part), by, bad.as_ref().map(|(leg, _)| *leg)).await?;
                        if let Some((leg, _)) = bad {
                            self.repair_later(*leg, *set, vec![part.range]);
                        }
                        made
                    }
                });
                let of_set = BlockRange::new(part.set_first, part.range.count);
                self.unreadable.borrow_mut().whole_again(*set, of_set);
            }
        }
        Ok(strips.into_iter().flatten().flat_map(|strip| strip.contents(false).into_bytes()).collect())
    }

    async fn read_run(&self, run: &Run, by: For, watch: Option<&Watch<E>>) -> Said {
        let legs = self.state.borrow().readable(run.set);
        let mut bad = None;
        // Two where it is being moved.
        for leg in legs.into_iter().filter(|leg| leg.link.copy == run.member) {
            let read = self.read_leg(leg, run.range, by).await;
            if let Some(watch) = watch {
                watch.copy_was_read((leg.link.host, leg.link.target.disk_group));
            }
            match read.map(|contents| Strip::of(contents, run.range.count)) {
                Ok(Some(strip)) => return Said::Has(strip),
                Ok(None) => self.member_failed(leg, &Refusal::Lost),
                Err(Refusal::BadBlocks(ranges)) => bad = Some((leg, ranges)),
                Err(refusal) => self.member_failed(leg, &refusal),
            }
        }
        Said::Lacks(bad)
    }

    /// Makes a part from other members; block by block where none of them has all of it.
    async fn make_part(
        self: &Rc<Self>,
        (rows, set, part): (Rows, ReplicaSetIndex, &StripPart),
        by: For,
        but: Option<Leg>,
    ) -> Result<Strip, OpError> {
        let but = but.map(|leg| leg.component);
        let column = RowRole::Column(part.column);
        let whole = self.row_image((rows, set, part.row), part.range, by, &mut Gathered::but(but)).await;
        match whole {
            Err(OpError::Unreadable(_)) if part.range.count > 1 => {}
            image => return image.map(|image| image.strip(column)),
        }
        let mut made = cairn_types::Contents::default();
        let mut lost: Option<Lost> = None;
        for block in (part.range.first..part.range.end()).map(|first| BlockRange::new(first, 1)) {
            // It may read well where others beside it do not.
            match self.row_image((rows, set, part.row), block, by, &mut Gathered::default()).await {
                Ok(image) => image.strip(column).tell(false, &mut made),
                Err(OpError::Unreadable(more)) => match &mut lost {
                    Some(lost) => lost.blocks.extend(more.blocks),
                    None => lost = Some(more),
                },
                Err(error) => return Err(error),
            }
        }
        match lost {
            Some(lost) => Err(OpError::Unreadable(lost)),
            None => Ok(Strip::of(made, part.range.count).expect("each block was made")),
        }
    }

    /// What is allocated of these blocks of the disk, in order.
    ///
    /// Of a strip whose member does not answer, what parity has: as much at least.
    pub(in crate::owner) async fn allocated_rows(
        &self,
        (area, rows): (Area, Rows),
        blocks: BlockRange,
    ) -> Result<Vec<AllocatedPiece>, OpError> {
        let mut found: Vec<AllocatedPiece> = Vec::new();
        for piece in area.split(blocks) {
            let first_row = piece.range.first / rows.row_blocks();
            let last_row = (piece.range.end() - 1) / rows.row_blocks();
            let strips = super::bodies::strips(rows, &(first_row..last_row + 1));
            let told = self.ask_allocated(piece.set, strips).await;
            for part in rows.parts(piece.range) {
                let parity = (0..rows.parity()).map(|number| rows.member(part.row, RowRole::Parity(number)));
                let of = std::iter::once(part.member).chain(parity).find_map(|member| told.get(&member));
                let all = vec![AllocatedPiece { range: part.range, allocated: true }];
                let first = piece.object_first + (part.set_first - piece.range.first);
                for some in of.map_or(all, |of| within(of, part.range)) {
                    let range = BlockRange::new(first + some.range.first - part.range.first, some.range.count);
                    match found.last_mut() {
                        Some(last) if last.allocated == some.allocated && last.range.end() == range.first => {
                            last.range.count += range.count;
                        }
                        _ => found.push(AllocatedPiece { range, ..some }),
                    }
                }
            }
        }
        Ok(found)
    }

    /// By member, of those that answer.
    async fn ask_allocated(&self, set: ReplicaSetIndex, range: BlockRange) -> BTreeMap<u32, Vec<AllocatedPiece>> {
        let legs = self.state.borrow().readable(set);
        let asks = legs.into_iter().map(|leg| {
            let request = Request::Allocated { to: leg.link.target, range };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None);
            async move { (leg.link.copy, reply.await) }
        });
        let answers = join_all(asks.collect::<Vec<_>>()).await.into_iter();
        let told = answers.filter_map(|(copy, reply)| match reply {
            Ok((Answer::Allocated(pieces), _)) => Some((copy, pieces)),
            _ => None,
        });
        told.collect()
    }
}

/// Those of `pieces`, which ascend, that are in `range`.
fn within(pieces: &[AllocatedPiece], range: BlockRange) -> Vec<AllocatedPiece> {
    let from = pieces.partition_point(|piece| piece.range.end() <= range.first);
    let some = pieces[from..].iter().take_while(|piece| piece.range.first < range.end());
    some.filter_map(|piece| Some(AllocatedPiece { range: piece.range.intersection(range)?, ..*piece })).collect()
}

#[cfg(test)]
mod tests;
