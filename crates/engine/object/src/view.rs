//! What a disk held at a snapshot, read from the copies that have it.
//!
//! Promises    V2  one copy that has it is enough; of rows, as many members as the row has columns
//! Assumes     a snapshot never changes: so nobody's lease is asked for, and an old record is as good as a new one
//! Not here    which seats tell it (`seats::history`), asking again (`snapshot_reader`, `owner::rollback`), what a clone has of its parents
//!             (`parents`)

use std::{collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, Piece, RowRole, Rows, StripPart, by_area};
use cairn_owner::{RowImage, Strip};
use cairn_types::{BlockRange, Contents, Member, ObjectConfig, ReplicaSetIndex, SnapshotId};
use cairn_wire::{AllocatedPiece, Answer, Refusal, Request, ViewAsk};
use futures::future::join_all;

use crate::{arrived::check, context::Context, local_store::LocalStore};

/// Why nobody gave it.
pub(crate) enum NotRead {
    /// No copy that answers has it.
    NoCopy(String),
    /// Those that answer cannot read it.
    Bad(String),
    /// Nobody will: all that may have it were asked.
    Lost(String),
}

fn no_copy(set: ReplicaSetIndex) -> NotRead {
    NotRead::NoCopy(format!("no reachable copy of replica set {set} has the snapshot"))
}

fn unreadable(set: ReplicaSetIndex, range: BlockRange) -> NotRead {
    NotRead::Bad(format!("blocks {}..{} of replica set {set} are unreadable on every copy", range.first, range.end()))
}

/// A snapshot of a disk that has this record.
pub(crate) struct View<E: Env, S: LocalStore> {
    pub(crate) context: Rc<Context<E, S>>,
    pub(crate) config: Rc<ObjectConfig>,
    pub(crate) snapshot: SnapshotId,
}

impl<E: Env, S: LocalStore> View<E, S> {
    /// What the disk itself had of these blocks, in their order.
    pub(crate) async fn contents(&self, blocks: BlockRange) -> Result<Vec<Contents>, NotRead> {
        let mut parts = Vec::new();
        for (area, some) in by_area(&self.config, blocks) {
            parts.extend(self.read_area(area, some).await?);
        }
        Ok(parts)
    }

    /// Which of these blocks the disk itself had allocated.
    pub(crate) async fn own_allocated(&self, blocks: BlockRange) -> Result<Vec<AllocatedPiece>, NotRead> {
        let mut found = Vec::new();
        for (area, some) in by_area(&self.config, blocks) {
            match area.rows() {
                // Members would have to be asked strip by strip: it is not worth it, and what counts as data is only read.
                Some(_) => found.push(AllocatedPiece { range: some, allocated: true }),
                None => {
                    for piece in area.split(some) {
                        found.extend(self.allocated_piece(piece).await?);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Which of these blocks may differ from what a later snapshot has; ascending. No others do.
    pub(crate) async fn changed_up_to(
        &self,
        later: SnapshotId,
        blocks: BlockRange,
    ) -> Result<Vec<BlockRange>, NotRead> {
        let mut changed = Vec::new();
        for (area, some) in by_area(&self.config, blocks) {
            let mut by_set: BTreeMap<ReplicaSetIndex, BlockRange> = BTreeMap::new();
            for piece in area.split(some) {
                // What lies between two strips of a set lies in this range as well.
                let known = by_set.entry(piece.set).or_insert(piece.range);
                known.count = (piece.range.end() - known.first) as u32;
            }
            for (set, of_set) in by_set {
                let told = match area.rows() {
                    Some(rows) => self.rows_changed_up_to(later, (area, rows, set), of_set).await?,
                    None => {
                        let told = self.told_changed(later, set, of_set).await?;
                        told.into_iter().flat_map(|run| area.to_object(set, run)).collect()
                    }
                };
                changed.extend(told.into_iter().filter_map(|run| run.intersection(some)));
            }
        }
        Ok(merged(changed))
    }

    async fn told_changed(
        &self,
        later: SnapshotId,
        set: ReplicaSetIndex,
        range: BlockRange,
    ) -> Result<Vec<BlockRange>, NotRead> {
        for member in self.holders(set, range.first) {
            if let Some(told) = self.member_changed(&member, later, range).await {
                return Ok(told);
            }
        }
        Err(no_copy(set))
    }

    async fn member_changed(&self, member: &Member, later: SnapshotId, range: BlockRange) -> Option<Vec<BlockRange>> {
        match self.ask(member, range, ViewAsk::ChangedUpTo(later)).await {
            Ok((Answer::Changed(mut told), _)) if told.len() == 1 => told.pop(),
            _ => None,
        }
    }

    /// Each member tells of its own; parity, which changes with each column, of those that do not answer.
    async fn rows_changed_up_to(
        &self,
        later: SnapshotId,
        (area, rows, set): (Area, Rows, ReplicaSetIndex),
        of_set: BlockRange,
    ) -> Result<Vec<BlockRange>, NotRead> {
        let (first, last) = (of_set.first / rows.row_blocks(), (of_set.end() - 1) / rows.row_blocks());
        let (first, end) = (rows.strip_range(first).first, rows.strip_range(last).end());
        let range = BlockRange::new(first, (end - first) as u32);
        let mut told: BTreeMap<u32, Vec<BlockRange>> = BTreeMap::new();
        for member in self.holders(set, range.first) {
            let Some(index) = member.copy().filter(|index| !told.contains_key(index)) else { continue };
            if let Some(changed) = self.member_changed(&member, later, range).await {
                told.insert(index, changed);
            }
        }
        if (told.len() as u32) < rows.data() {
            return Err(no_copy(set));
        }
        Ok(changed_in_object(area, set, told))
    }

    async fn read_area(&self, area: Area, blocks: BlockRange) -> Result<Vec<Contents>, NotRead> {
        let mut found = Vec::new();
        match area.rows() {
            None => {
                let reads = area.split(blocks).map(|piece| self.read_piece(piece));
                for read in join_all(reads).await {
                    found.push(read?);
                }
            }
            Some(rows) => {
                let pieces = area.split(blocks);
                let parts = pieces.flat_map(|piece| rows.parts(piece.range).map(move |part| (piece.set, part)));
                let reads = parts.map(|(set, part)| self.read_part((rows, set), part));
                for read in join_all(reads.collect::<Vec<_>>()).await {
                    found.push(read?.contents(false));
                }
            }
        }
        Ok(found)
    }

    /// Those of a set that have it, as the record says: one here first, else spread by address.
    fn holders(&self, set: ReplicaSetIndex, first: u64) -> Vec<Member> {
        let mut holders: Vec<Member> = self.config.replica_set(set).filter(|m| m.state.in_sync()).copied().collect();
        let me = self.context.env.host();
        if !holders.is_empty() {
            let turn = (first >> 8) as usize % holders.len();
            holders.rotate_left(turn);
        }
        holders.sort_by_key(|member| member.host != me);
        holders
    }

    async fn read_piece(&self, piece: Piece) -> Result<Contents, NotRead> {
        let mut contents = Contents::default();
        match self.read_run(piece.set, piece.range).await {
            Err(NotRead::Bad(_)) if piece.range.count > 1 => {}
            read => return read,
        }
        // Each block may be good somewhere.
        for block in piece.range.first..piece.range.end() {
            let one = self.read_run(piece.set, BlockRange::new(block, 1)).await?;
            contents.runs.extend(one.runs);
            contents.data.extend(one.data);
        }
        Ok(contents)
    }

    async fn read_run(&self, set: ReplicaSetIndex, range: BlockRange) -> Result<Contents, NotRead> {
        let mut bad = false;
        for member in self.holders(set, range.first) {
            match self.read_member(&member, range).await {
                Ok(contents) => return Ok(contents),
                Err(Refusal::BadBlocks(_)) => bad = true,
                Err(_) => {}
            }
        }
        Err(if bad { unreadable(set, range) } else { no_copy(set) })
    }

    async fn read_member(&self, member: &Member, range: BlockRange) -> Result<Contents, Refusal> {
        let context = &self.context;
        let (Answer::Data { runs }, data) = self.ask(member, range, ViewAsk::Read).await? else {
            return Err(Refusal::Lost);
        };
        let contents = Contents { runs, data: data.into_iter().filter(|d| !d.is_empty()).collect() };
        if check(&contents, range.count, member.host != context.env.host()).is_err() {
            context.tell_changed(member.host);
            return Err(Refusal::Lost);
        }
        match contents.bad_blocks(range.first) {
            bad if bad.is_empty() => Ok(contents),
            bad => Err(Refusal::BadBlocks(bad)),
        }
    }

    async fn ask(&self, member: &Member, range: BlockRange, ask: ViewAsk) -> Result<(Answer, Vec<Bytes>), Refusal> {
        let (disk_group, component, snapshot) = (member.disk_group, member.component, self.snapshot);
        let request = Request::View { disk_group, component, snapshot, range, ask };
        self.context.request(member.host, disk_group, request, None).await
    }

    /// A part of a row from its member, else from others.
    async fn read_part(&self, (rows, set): (Rows, ReplicaSetIndex), part: StripPart) -> Result<Strip, NotRead> {
        if let Some(strip) = self.read_strip(set, part.member, part.range).await {
            return Ok(strip);
        }
        match self.make_part((rows, set), &part, part.range).await {
            Err(NotRead::Bad(_)) if part.range.count > 1 => {}
            made => return made,
        }
        let mut made = Contents::default();
        for block in part.range.first..part.range.end() {
            let one = BlockRange::new(block, 1);
            let strip = match self.read_strip(set, part.member, one).await {
                Some(strip) => strip,
                None => self.make_part((rows, set), &part, one).await?,
            };
            strip.tell(false, &mut made);
        }
        Ok(Strip::of(made, part.range.count).expect("each block was made"))
    }

    /// What a member has; none where no component with its index gives all of it.
    async fn read_strip(&self, set: ReplicaSetIndex, index: u32, range: BlockRange) -> Option<Strip> {
        for member in self.holders(set, range.first).iter().filter(|m| m.copy() == Some(index)) {
            if let Ok(contents) = self.read_member(member, range).await
                && let Some(strip) = Strip::of(contents, range.count)
            {
                return Some(strip);
            }
        }
        None
    }

    async fn make_part(
        &self,
        (rows, set): (Rows, ReplicaSetIndex),
        part: &StripPart,
        range: BlockRange,
    ) -> Result<Strip, NotRead> {
        let columns = (0..rows.data()).map(RowRole::Column);
        let roles = columns.chain((0..rows.parity()).map(RowRole::Parity));
        let mut given: BTreeMap<u32, Strip> = BTreeMap::new();
        for index in roles.map(|role| rows.member(part.row, role)).filter(|index| *index != part.member) {
            if given.len() == rows.data() as usize {
                break;
            }
            if let Some(strip) = self.read_strip(set, index, range).await {
                given.insert(index, strip);
            }
        }
        let in_sync = self.config.replica_set(set).filter(|m| m.state.in_sync()).count();
        match RowImage::of(rows, part.row, &given) {
            Ok(image) => Ok(image.strip(RowRole::Column(part.column))),
            Err(_) if in_sync > given.len() + 1 => Err(unreadable(set, range)),
            Err(_) => Err(no_copy(set)),
        }
    }

    async fn allocated_piece(&self, piece: Piece) -> Result<Vec<AllocatedPiece>, NotRead> {
        for member in self.holders(piece.set, piece.range.first) {
            if let Ok((Answer::Allocated(pieces), _)) = self.ask(&member, piece.range, ViewAsk::Allocated).await {
                let shift = |p: AllocatedPiece| {
                    let range = BlockRange::new(p.range.first - piece.range.first + piece.object_first, p.range.count);
                    AllocatedPiece { range, ..p }
                };
                return Ok(pieces.into_iter().map(shift).collect());
            }
        }
        Err(no_copy(piece.set))
    }
}

/// Blocks of the disk that members of rows, by index, tell as changed. Where one does not tell, what others have changed at the same positions
/// stands for it: parity changes with each column.
pub(crate) fn changed_in_object(
    area: Area,
    set: ReplicaSetIndex,
    told: BTreeMap<u32, Vec<BlockRange>>,
) -> Vec<BlockRange> {
    let all = area.rows().is_some_and(|rows| told.len() as u32 == rows.members());
    let of = |(index, changed): (u32, Vec<BlockRange>)| {
        changed.into_iter().flat_map(move |run| match all {
            true => area.held_in_object(set, index, run),
            false => area.columns_in_object(set, run),
        })
    };
    told.into_iter().flat_map(of).collect()
}

/// Ascending, neighbours together, each block once.
pub(crate) fn merged(mut ranges: Vec<BlockRange>) -> Vec<BlockRange> {
    ranges.sort_unstable_by_key(|range| range.first);
    let mut merged: Vec<BlockRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end() >= range.first => {
                last.count = (last.end().max(range.end()) - last.first) as u32;
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        let range = |first, count| BlockRange::new(first, count);
        assert_eq!(merged(vec![range(8, 2), range(0, 3), range(2, 2), range(4, 1)]), [range(0, 5), range(8, 2)]);
    }
}
