//! Comparing rows at rest: P of each row with the data of it, where one of the members may have lost writes and nobody could see that.
//!
//! Promises    X5  what is told to disagree did so while nobody wrote to its rows; nothing is overwritten: which member is wrong is not known
//!             X6  guests' writes of a region wait only where its rows seemed to disagree, for one round of messages
//!             X7  a guest's write of any block of such a place makes its parity anew
//! Assumes     `compare` says when, and of which part
//! Not here    Q: it does not follow from checksums (`cairn-owner`); rot of one member, which its own checksum tells (`repair`)

use std::{collections::BTreeMap, rc::Rc};

use cairn_env::Env;
use cairn_geometry::{RowRole, Rows};
use cairn_owner::{Leg, p_agrees};
use cairn_types::{BlockRange, BlockState, BlockStates, Canary, ReplicaSetIndex};

use crate::{event::ObjectEvent, local_store::LocalStore, owner::Owned};

/// Blocks that are remembered until they are written: what is beyond them is found again with the next pass.
const REMEMBERED_MAX: usize = 65_536;

/// Blocks of a region's components whose row disagrees, each with the member that has its P.
type Found = Vec<(u64, Leg)>;

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Compares these blocks of each component of a set, which are within one region.
    pub(in crate::owner) async fn compare_rows(self: &Rc<Self>, rows: Rows, set: ReplicaSetIndex, range: BlockRange) {
        if self.unlike(rows, set, range).await.is_empty() {
            return;
        }
        let parts = self.area_of(set).map(|area| area.rows_in_object(set, range)).unwrap_or_default();
        for (blocks, of_disk) in parts {
            // A write may have come between what two members told: under this lock none does.
            let _lock = self.locks.lock(of_disk, false).await;
            if !self.may_compare() || self.rows_of(set) != Some(rows) {
                return;
            }
            for (block, holder) in self.unlike(rows, set, blocks).await {
                self.tell_unlike(set, block, &holder).await;
            }
        }
    }

    /// Nothing where one of the members does not say.
    async fn unlike(self: &Rc<Self>, rows: Rows, set: ReplicaSetIndex, range: BlockRange) -> Found {
        let (members, states) = self.ask_states(set, range).await;
        let told: BTreeMap<u32, (Leg, &BlockStates)> =
            members.iter().zip(&states).map(|(leg, states)| (leg.link.copy, (*leg, states))).collect();
        if told.len() != rows.members() as usize {
            return Found::new();
        }
        let mut found = Found::new();
        for row in rows.rows_of(range) {
            let some = rows.strip_range(row).intersection(range).expect("a row of these blocks");
            let (holder, p) = told[&rows.member(row, RowRole::Parity(0))];
            let columns: Vec<&BlockStates> =
                (0..rows.data()).map(|column| told[&rows.member(row, RowRole::Column(column))].1).collect();
            for block in some.first..some.end() {
                let at = (block - range.first) as usize;
                let of_block: Vec<BlockState> = columns.iter().map(|states| states.blocks[at]).collect();
                if p_agrees(&of_block, p.blocks[at]) == Some(false) {
                    found.push((block, holder));
                }
            }
        }
        found
    }

    /// Whether parity of these blocks of a set's components is known not to be that of its row.
    pub(super) fn is_unlike(&self, set: ReplicaSetIndex, blocks: BlockRange) -> bool {
        let known = self.unlike.borrow().range((set, blocks.first)..(set, blocks.end())).next().is_some();
        known && !Canary::UnlikeBroughtOn.sings()
    }

    fn remember_unlike(&self, set: ReplicaSetIndex, block: u64) {
        let mut unlike = self.unlike.borrow_mut();
        if unlike.len() < REMEMBERED_MAX {
            unlike.insert((set, block));
        }
    }

    /// It was made anew.
    pub(super) fn fits_again(&self, set: ReplicaSetIndex, blocks: BlockRange) {
        let mut unlike = self.unlike.borrow_mut();
        if !unlike.is_empty() {
            unlike.retain(|(of, block)| *of != set || !(blocks.first..blocks.end()).contains(block));
        }
    }

    /// Whoever has P lists it until that is written: each write of the row's position does, and makes it anew.
    async fn tell_unlike(&self, set: ReplicaSetIndex, block: u64, holder: &Leg) {
        self.context.count(|counted| counted.undecided_blocks += 1);
        self.remember_unlike(set, block);
        let members = self.state.borrow().readable(set);
        let copies = members.iter().map(|leg| (leg.link.host, leg.link.target.disk_group)).collect();
        let (object, name) = (self.id, self.name());
        self.context.tell(ObjectEvent::Undecided { object, name, blocks: 1, copies });
        self.tell_compared(holder, Vec::new(), vec![BlockRange::new(block, 1)]).await;
    }
}
