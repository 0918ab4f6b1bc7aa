//! What was chosen for a disk group, and holds until it is chosen anew.
//!
//! Not here    choosing it (`compression.rs`), what is chosen when a group is made or opened (`options.rs`)

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
    /// What a transaction is to write.
    pub fn take_row(&mut self) -> Option<SettingsRow> {
        std::mem::take(&mut self.is_dirty).then_some(self.row)
    }
}
