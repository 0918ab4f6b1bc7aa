//! What was chosen for a disk group, and holds until it is chosen anew.
//!
//! Not here    choosing it (`choice.rs`), what is chosen when a group is made or opened (`options.rs`)

use crate::rows::SettingsRow;

/// The settings of a group, and whether the metadata has them.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    row: SettingsRow,
    is_dirty: bool,
}

impl Settings {
    pub fn load(&mut self, row: SettingsRow) {
        self.row = row;
    }
    /// What is destaged is packed.
    pub fn compression(&self) -> bool {
        self.row.compression
    }
    /// The same, from the next transaction on.
    pub fn set_compression(&mut self, on: bool) {
        (self.row.compression, self.is_dirty) = (on, true);
    }
    /// Equal blocks are stored once.
    pub fn deduplication(&self) -> bool {
        self.row.deduplication
    }
    /// The same, from the next transaction on.
    pub fn set_deduplication(&mut self, on: bool) {
        (self.row.deduplication, self.is_dirty) = (on, true);
    }
    /// What was written before this round is written anew.
    pub fn rewrite_below(&self) -> Option<u64> {
        self.row.rewrite_below
    }
    /// The same, from the next transaction on.
    pub fn set_rewrite_below(&mut self, round: Option<u64>) {
        (self.row.rewrite_below, self.is_dirty) = (round, true);
    }
    /// What goes past the log is neither packed nor looked up.
    pub fn goes_through_log(&self) -> bool {
        self.row.compression || self.row.deduplication
    }
    /// What a transaction is to write.
    pub fn take_row(&mut self) -> Option<SettingsRow> {
        std::mem::take(&mut self.is_dirty).then_some(self.row)
    }
}
