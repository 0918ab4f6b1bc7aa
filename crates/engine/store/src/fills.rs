//! Calls that bring history, and wait for the destage task.
//!
//! Not here    who carries them out (`fill_history.rs`)

use cairn_format::LogPiece;
use cairn_types::{BlockRange, ComponentId, SnapshotId};

use crate::{
    error::StoreError,
    queue::{DataParts, Done, More},
};

/// What one call brings.
#[derive(Debug)]
pub(crate) struct Fill {
    pub component: ComponentId,
    pub snapshot: SnapshotId,
    pub pieces: Vec<LogPiece>,
    /// Of each piece that has some.
    pub data: DataParts,
    pub charged: More,
    pub done: Done,
}

impl Fill {
    /// Nobody listens where the caller was cut off.
    pub fn answer(self, answer: Result<(), StoreError>) {
        let _ = self.done.send(answer);
    }
    pub fn range(&self) -> BlockRange {
        let (first, last) = (self.pieces[0].range().first, self.pieces[self.pieces.len() - 1].range().end());
        BlockRange::new(first, (last - first) as u32)
    }
    pub fn blocks(&self) -> u64 {
        u64::from(self.range().count)
    }
}
