//! Reading a row as a whole: what one member cannot give is made from others.
//!
//! Promises    any members in sync do, as many as the row has columns: data first, as that needs no arithmetic
//!             P2  where they do not fit each other nothing is made, and it is told once
//! Assumes     the caller holds the lock of the row's range of the disk: no member is between two states
//! Not here    the arithmetic and what has to fit (`cairn-owner`)

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use cairn_env::Env;
use cairn_geometry::{RowRole, Rows, StripPart};
use cairn_owner::{Leg, NoImage, RowImage, Strip};
use cairn_types::{BlockRange, ComponentId, ReplicaSetIndex};
use cairn_wire::Refusal;
use futures::future::join_all;

use crate::{
    copies::For,
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{Ended, Owned, unreadable::Lost, write::OpError},
};

/// What was read of some blocks of a set's components.
#[derive(Default)]
pub(super) struct Gathered {
    /// By member.
    pub(super) given: BTreeMap<u32, Strip>,
    /// What cannot be read there.
    pub(super) bad: Vec<(Leg, Vec<BlockRange>)>,
    /// Who is not to be asked again.
    pub(super) tried: Vec<ComponentId>,
}

impl Gathered {
    /// Without this member, which is known to lack some of it.
    pub(super) fn but(component: Option<ComponentId>) -> Self {
        Self { tried: component.into_iter().collect(), ..Self::default() }
    }
}

/// The members of a row: those of its data in order, then those of its parity.
pub(super) fn data_first(rows: Rows, row: u64) -> Vec<u32> {
    let columns = (0..rows.data()).map(RowRole::Column);
    let parity = (0..rows.parity()).map(RowRole::Parity);
    columns.chain(parity).map(|role| rows.member(row, role)).collect()
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Reads members in this order until `needed` gave these blocks. False: so many are not there.
    pub(super) async fn gather(
        self: &Rc<Self>,
        (set, range): (ReplicaSetIndex, BlockRange),
        order: &[u32],
        needed: usize,
        by: For,
        gathered: &mut Gathered,
    ) -> bool {
        while gathered.given.len() < needed {
            let lacking = needed - gathered.given.len();
            let legs = self.to_ask(set, order, lacking, gathered);
            if legs.len() < lacking {
                return false;
            }
            let reads = legs.into_iter().map(|leg| async move { (leg, self.read_leg(leg, range, by).await) });
            for (leg, read) in join_all(reads).await {
                gathered.tried.push(leg.component);
                match read.map(|contents| Strip::of(contents, range.count)) {
                    Ok(Some(strip)) => drop(gathered.given.insert(leg.link.copy, strip)),
                    Ok(None) => self.member_failed(leg, &Refusal::Lost),
                    Err(Refusal::BadBlocks(blocks)) => gathered.bad.push((leg, blocks)),
                    Err(refusal) => match by {
                        For::History(snapshot) => drop(self.history_failed(leg, &[snapshot], &refusal)),
                        For::Guest | For::Resync => self.member_failed(leg, &refusal),
                    },
                }
            }
        }
        true
    }

    fn to_ask(&self, set: ReplicaSetIndex, order: &[u32], most: usize, gathered: &Gathered) -> Vec<Leg> {
        let state = self.state.borrow();
        if state.ended().is_some() {
            return Vec::new();
        }
        let readable = state.readable(set);
        let untried = |leg: &&Leg| !gathered.tried.contains(&leg.component);
        let of = |index: &u32| readable.iter().filter(untried).find(|leg| leg.link.copy == *index).copied();
        order.iter().filter(|index| !gathered.given.contains_key(index)).filter_map(of).take(most).collect()
    }

    /// A member that was to be read did not answer.
    pub(super) fn member_failed(&self, leg: Leg, refusal: &Refusal) {
        match refusal {
            Refusal::Fenced { promised } => self.finish_owner(Ended::Fenced(*promised)),
            refusal => {
                self.state.borrow_mut().fail(leg.component, *refusal == Refusal::NotFound);
                self.work.notify();
            }
        }
    }

    /// The row of a part that is written over: its other columns as they are, what the part has as it will be.
    pub(super) async fn row_with(
        self: &Rc<Self>,
        (rows, set, part): (Rows, ReplicaSetIndex, &StripPart),
        new: Strip,
    ) -> Result<RowImage, OpError> {
        let others = (0..rows.data()).filter(|column| *column != part.column);
        let others: Vec<u32> = others.map(|column| rows.member(part.row, RowRole::Column(column))).collect();
        let mut gathered = Gathered::default();
        let blocks = (set, part.range);
        if self.gather(blocks, &others, others.len(), For::Guest, &mut gathered).await {
            let column = |column| match column == part.column {
                true => new.clone(),
                false => gathered.given[&rows.member(part.row, RowRole::Column(column))].clone(),
            };
            return Ok(RowImage::of_columns(rows, (0..rows.data()).map(column).collect()));
        }
        let image = self.row_image((rows, set, part.row), part.range, For::Guest, &mut gathered).await?;
        Ok(image.with(part.column, new))
    }

    /// Some positions of one row, from those that are gathered and as many more as are needed.
    ///
    /// # Errors
    /// Blocks are bad, or do not fit: [`OpError::Unreadable`]. Too few members answer: the owner's set cannot be served now.
    pub(super) async fn row_image(
        self: &Rc<Self>,
        (rows, set, row): (Rows, ReplicaSetIndex, u64),
        range: BlockRange,
        by: For,
        gathered: &mut Gathered,
    ) -> Result<RowImage, OpError> {
        let order = data_first(rows, row);
        if !self.gather((set, range), &order, rows.data() as usize, by, gathered).await {
            return Err(self.cannot_read((rows, set, row), range, gathered));
        }
        RowImage::of(rows, row, &gathered.given).map_err(|why| match why {
            NoImage::TooFew => self.cannot_read((rows, set, row), range, gathered),
            NoImage::Disagrees { columns, blocks } => self.disagrees((rows, set, row), range, by, (&columns, &blocks)),
        })
    }

    /// Some blocks of one member, of several rows perhaps, made from others.
    pub(super) async fn strip_of(
        self: &Rc<Self>,
        (rows, set, member): (Rows, ReplicaSetIndex, u32),
        range: BlockRange,
        by: For,
        gathered: &mut Gathered,
    ) -> Result<Vec<(RowRole, Strip)>, OpError> {
        let of = rows.rows_of(range);
        let order = data_first(rows, of.start);
        if !self.gather((set, range), &order, rows.data() as usize, by, gathered).await {
            return Err(self.cannot_read((rows, set, of.start), range, gathered));
        }
        let mut made = Vec::new();
        for row in of {
            let some = rows.strip_range(row).intersection(range).expect("a row of these blocks");
            let first = (some.first - range.first) as u32;
            let given = gathered.given.iter().map(|(member, strip)| (*member, strip.slice(first, some.count)));
            let image = RowImage::of(rows, row, &given.collect()).map_err(|why| match why {
                NoImage::TooFew => self.cannot_read((rows, set, row), some, gathered),
                NoImage::Disagrees { columns, blocks } => {
                    self.disagrees((rows, set, row), some, by, (&columns, &blocks))
                }
            })?;
            let role = rows.role(row, member);
            made.push((role, image.strip(role)));
        }
        Ok(made)
    }

    fn cannot_read(
        &self,
        (rows, set, row): (Rows, ReplicaSetIndex, u64),
        range: BlockRange,
        gathered: &Gathered,
    ) -> OpError {
        if let Some(ended) = self.state.borrow().ended() {
            return OpError::Ended(ended.clone());
        }
        if gathered.bad.is_empty() {
            let why = format!("fewer than {} members of replica set {set} can be read", rows.data());
            return OpError::Ended(Ended::Inaccessible(why));
        }
        let copies = gathered.bad.iter().map(|(leg, _)| (leg.link.host, leg.link.target.disk_group)).collect();
        // What one of them lacks there, all columns lack that were not read.
        let missing = |column: &u32| !gathered.given.contains_key(&rows.member(row, RowRole::Column(*column)));
        let bad = gathered.bad.iter().flat_map(|(_, bad)| bad).filter_map(|bad| bad.intersection(range));
        let bad: BTreeSet<u64> = bad.flat_map(|bad| bad.first..bad.end()).collect();
        let of = |column: u32| bad.iter().map(move |at| rows.in_set(row, column, BlockRange::new(*at, 1)));
        let blocks = self.of_disk(set, (0..rows.data()).filter(missing).flat_map(of));
        OpError::Unreadable(Lost { set, blocks, copies })
    }

    /// Those of a set's blocks that are the disk's: what lies past its end in its last row is nobody's.
    fn of_disk(&self, set: ReplicaSetIndex, blocks: impl Iterator<Item = BlockRange>) -> Vec<BlockRange> {
        let end = self.area_of(set).map_or(0, |area| area.set_blocks(set));
        blocks.filter(|block| block.end() <= end).collect()
    }

    /// P2.
    fn disagrees(
        &self,
        (rows, set, row): (Rows, ReplicaSetIndex, u64),
        range: BlockRange,
        by: For,
        (columns, blocks): (&[u32], &[u32]),
    ) -> OpError {
        let block = |at: &u32| BlockRange::new(range.first + u64::from(*at), 1);
        let each = columns.iter().flat_map(|column| blocks.iter().map(move |at| (*column, at)));
        let lost = self.of_disk(set, each.map(|(column, at)| rows.in_set(row, column, block(at))));
        let members = self.state.borrow().readable(set);
        let members: Vec<_> = members.iter().map(|leg| (leg.link.host, leg.link.target.disk_group)).collect();
        // What was there at a snapshot says nothing of what is there now.
        let is_now = !matches!(by, For::History(_));
        let new = if is_now { self.unreadable.borrow_mut().lost(set, lost.iter().copied()) } else { 0 };
        if new > 0 {
            let (object, name, members) = (self.id, self.name(), members.clone());
            self.context.tell(ObjectEvent::RowDisagrees { object, name, blocks: new, members });
        }
        OpError::Unreadable(Lost { set, blocks: lost, copies: members })
    }
}
