//! Whether the disk group takes changes: it is open, closing, or stopped.
//!
//! Promises    a group that stopped stays so until it is opened again, for the first reason that there was

use crate::error::{StoreError, StoreErrorKind};

/// How far the group is in its life.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// Set when a device that the group cannot do without failed.
    stopped: Option<StoreError>,
    closing: bool,
}

impl Life {
    pub fn close(&mut self) {
        self.closing = true;
    }
    pub fn stop(&mut self, error: StoreError) {
        self.stopped.get_or_insert(error);
    }
    pub fn is_closing(&self) -> bool {
        self.closing
    }
    /// Why it stopped, if it did.
    pub fn stopped(&self) -> Option<&StoreError> {
        self.stopped.as_ref()
    }
    /// Nothing new begins any more.
    pub fn ends(&self) -> bool {
        self.closing || self.stopped.is_some()
    }
    /// Refuses where the group stopped.
    pub fn not_stopped(&self) -> Result<(), StoreError> {
        match &self.stopped {
            Some(error) => {
                Err(StoreError::new(StoreErrorKind::Media, format!("the disk group takes no writes: {error}")))
            }
            None => Ok(()),
        }
    }
    /// Refuses where the group is closing.
    pub fn not_closing(&self) -> Result<(), StoreError> {
        match self.closing {
            true => Err(StoreError::new(StoreErrorKind::Media, "the disk group is closing")),
            false => Ok(()),
        }
    }
}
