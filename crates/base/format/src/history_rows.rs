//! Rows of cuts and of history: which cuts a component has, what a transaction kept for them, where a shard's history stands.
//!
//! Promises    encoding is fixed (golden bytes in the tests); bytes that are no row are an error
//! Assumes     the group says [`crate::Needs::CUTS`] before it has any of them
//! Not here    what is kept when, and which rows hold over which (`store`)
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 11 | component | [`CutsRow`] |
//! | 19 | component, shard | [`HistoryShardRow`] |
//! | 20 | number, part | pieces of one [`HistoryChanges`], in order; the number is that of the changes of the map |

use cairn_types::{ComponentId, Epoch, OpId, SnapshotId};
use serde::{Deserialize, Serialize};

use crate::{
    history_page::{HistoryAt, decode_history, encode_history},
    map_page::MapEntry,
    map_rows::{PIECE_BYTES, StoredBits},
    rows::{RowError, decode, key, malformed},
};

/// Kind of a key.
pub const CUTS: u8 = 11;
/// Kind of a key.
pub const HISTORY_SHARD: u8 = 19;
/// Kind of a key.
pub const HISTORY_CHANGES: u8 = 20;

/// The cuts of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CutsRow {
    /// The operation of the list that it has: an older one changes nothing.
    pub listed_at: OpId,
    /// Of the next cut.
    pub next_generation: u32,
    /// In their order.
    pub cuts: Vec<Cut>,
    /// A cut went, and what was kept for it alone may still be there.
    pub is_unswept: bool,
}

/// A moment of a component that can still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The snapshot that it is for; none where that went: what is kept may still be told by its generation.
    pub snapshot: Option<SnapshotId>,
    /// Counts the cuts of the component; never used again.
    pub generation: u32,
    /// Its view has all operations up to this one.
    pub op: OpId,
    /// Of the record that made it: the log has operations after it from here on, and none before.
    pub position: u64,
}

/// Where the history of a shard stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HistoryShardRow {
    /// The transaction that wrote it: what it and earlier ones kept is in its pages.
    pub number: u64,
    /// In order of blocks and generations.
    pub pages: Vec<HistoryPageRef>,
    /// How many there are, by generation.
    pub counts: Vec<HistoryCount>,
    /// Which blocks have an entry of a generation, of those of which that is asked; ascending.
    pub planes: Vec<HistoryPlane>,
}

/// A page of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPageRef {
    /// Its first entry: block of the shard, generation.
    pub first: (u16, u32),
    /// The low bits of the transaction that wrote it.
    pub stamp: u16,
    /// Where: pages from the end of the metadata region, the last one is 0.
    pub place: u32,
}

/// How many entries a shard has of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCount {
    /// The generation.
    pub generation: u32,
    /// All of them.
    pub entries: u32,
    /// Those of blocks that were mapped.
    pub blocks: u32,
}

/// Blocks of a shard that have an entry of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPlane {
    /// The generation.
    pub generation: u32,
    /// Which of the shard's regions, and which of its blocks; ascending.
    pub regions: Vec<(u8, StoredBits)>,
}

/// What one transaction kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryChanges {
    /// By component.
    pub components: Vec<ComponentHistory>,
}

/// What one transaction kept of a component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentHistory {
    /// Which.
    pub component: ComponentId,
    /// Shards that have no history any more: what earlier transactions said of them is past.
    pub gone: Vec<u16>,
    /// Entries that were not there before, by block of the component; ascending.
    pub entries: Vec<(HistoryAt, MapEntry)>,
    /// Entries that were there and stand elsewhere from now on; ascending.
    pub moved: Vec<(HistoryAt, MapEntry)>,
    /// Blocks in the place of holes, and holes in the place of blocks; ascending.
    pub turned: Vec<(HistoryAt, MapEntry)>,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    component: ComponentId,
    gone: Vec<u16>,
    epochs: Vec<Epoch>,
    entries: Vec<u8>,
    moved: Vec<u8>,
    turned: Vec<u8>,
}

impl HistoryChanges {
    /// Pieces of rows, in order; none where there is nothing to be told.
    ///
    /// # Panics
    /// When entries do not ascend.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        if self.components.is_empty() {
            return Vec::new();
        }
        let stored: Vec<StoredHistory> = self.components.iter().map(StoredHistory::of).collect();
        let bytes = postcard::to_stdvec(&stored).expect("plain values encode");
        bytes.chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect()
    }

    /// Of the pieces of one number, in order.
    ///
    /// # Errors
    /// They are not the pieces of changes.
    pub fn decode(pieces: &[Vec<u8>]) -> Result<Self, RowError> {
        let key = [HISTORY_CHANGES];
        let stored: Vec<StoredHistory> = decode(&key, &pieces.concat())?;
        let components = stored.into_iter().map(StoredHistory::history).collect::<Option<Vec<_>>>();
        Ok(Self { components: components.ok_or_else(|| malformed(&key))? })
    }
}

impl StoredHistory {
    fn of(history: &ComponentHistory) -> Self {
        let mut epochs: Vec<Epoch> = Vec::new();
        let mut number_of = |epoch: Epoch| {
            // The newest is the likeliest.
            epochs.iter().rposition(|known| *known == epoch).unwrap_or_else(|| {
                epochs.push(epoch);
                epochs.len() - 1
            }) as u64
        };
        let [entries, moved, turned] =
            [&history.entries, &history.moved, &history.turned].map(|entries| encode_history(entries, &mut number_of));
        Self { component: history.component, gone: history.gone.clone(), epochs, entries, moved, turned }
    }

    fn history(self) -> Option<ComponentHistory> {
        let entries = decode_history(&self.entries, &self.epochs)?;
        let moved = decode_history(&self.moved, &self.epochs)?;
        let turned = decode_history(&self.turned, &self.epochs)?;
        Some(ComponentHistory { component: self.component, gone: self.gone, entries, moved, turned })
    }
}

/// Its key.
pub fn cuts_key(component: ComponentId) -> Vec<u8> {
    key(CUTS, &[&component.0.to_be_bytes()])
}
/// Its key.
pub fn history_shard_key(component: ComponentId, shard: u16) -> Vec<u8> {
    key(HISTORY_SHARD, &[&component.0.to_be_bytes(), &shard.to_be_bytes()])
}
/// Its key.
pub fn history_changes_key(number: u64, part: u16) -> Vec<u8> {
    key(HISTORY_CHANGES, &[&number.to_be_bytes(), &part.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};

    use super::*;
    use crate::{
        Spot,
        map_rows::{changes_of, shard_of},
    };

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 300, host: HostId(7), incarnation: Incarnation(2) }, seq }
    }

    fn id(lowest: u8) -> [u8; 16] {
        u128::from(lowest).to_le_bytes()
    }

    /// Goal: rows that are on devices read back. Method: bytes that are fixed, one row of each kind.
    #[test]
    fn the_bytes_of_rows_are_fixed() {
        let epoch = [&[0xAC, 2][..], &id(7), &[2]].concat();
        let cut = Cut { snapshot: Some(SnapshotId(9)), generation: 3, op: op(5), position: 200 };
        let row = CutsRow { listed_at: op(6), next_generation: 4, cuts: vec![cut], is_unswept: true };
        let fixed = [&epoch[..], &[6, 4, 1, 1, 9, 3], &epoch, &[5, 200, 1, 1]].concat();
        assert_eq!(crate::rows::encode(&row), fixed);
        let row = HistoryShardRow {
            number: 200,
            pages: vec![HistoryPageRef { first: (64, 3), stamp: 5, place: 300 }],
            counts: vec![HistoryCount { generation: 3, entries: 2, blocks: 1 }],
            planes: vec![HistoryPlane { generation: 3, regions: vec![(1, StoredBits::All)] }],
        };
        assert_eq!(crate::rows::encode(&row), [200, 1, 1, 64, 3, 5, 0xAC, 2, 1, 3, 2, 1, 1, 3, 1, 1, 1]);
        let hole = MapEntry { spot: Spot::HOLE, crc: 0, row_check: 0, op: OpId::ZERO };
        let entry = MapEntry { spot: Spot::raw(30), crc: 5, row_check: 0, op: op(9) };
        let kept = ComponentHistory {
            component: ComponentId(6),
            gone: vec![4],
            entries: vec![((2, 1), hole), ((70_000, 3), entry)],
            moved: vec![((3, 1), entry)],
            turned: vec![((4, 1), hole)],
        };
        let changes = HistoryChanges { components: vec![kept] };
        let entries = [&[2 << 2 | 2, 2][..], &[0xB8, 0x8B, 0x11, 4, 60, 0, 18, 5, 0, 0, 0]].concat();
        let moved = [3 << 2, 2, 60, 0, 18, 5, 0, 0, 0];
        let turned = [4 << 2 | 2, 2];
        let lists = [&entries[..], &moved, &turned].map(|list| [&[list.len() as u8], list].concat()).concat();
        let fixed = [&[1][..], &id(6), &[1, 4, 1], &epoch, &lists].concat();
        assert_eq!(changes.encode(), [fixed]);
        assert_eq!(HistoryChanges::decode(&changes.encode()), Ok(changes));
        assert!(HistoryChanges::default().encode().is_empty());
    }

    #[test]
    fn keys_have_the_form_of_those_of_the_map() {
        let mut key = history_shard_key(ComponentId(2), 3);
        assert_eq!(key[0], HISTORY_SHARD);
        key[0] = crate::map_rows::SHARD;
        assert_eq!(shard_of(&key), Ok((ComponentId(2), 3)));
        let mut key = history_changes_key(1 << 40, 3);
        assert_eq!(key[0], HISTORY_CHANGES);
        key[0] = crate::map_rows::CHANGES;
        assert_eq!(changes_of(&key), Ok((1 << 40, 3)));
        assert_eq!(cuts_key(ComponentId(1))[..2], [CUTS, 0]);
    }
}
