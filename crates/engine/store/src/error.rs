//! Why the store refuses or fails: a kind to act on, and a sentence that names cause and remedy.

use std::fmt;

use cairn_env::DiskError;
use cairn_format::rows;
use cairn_types::ComponentId;

/// What a failure asks of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// No such component here.
    NotFound,
    /// The capacity tier cannot take it. Nothing was logged. Trims and deletes make room.
    NoSpace,
    /// The request contradicts the rules: nothing was changed.
    Refused,
    /// The operation was undone before it arrived: it has no effect, now or later.
    Undone,
    /// The disk group takes no more writes until it is reopened.
    Media,
    /// The component's capacity device failed: the component is lost for good.
    Lost,
    /// These blocks cannot be read right: read them elsewhere and write them again here.
    BadBlock {
        /// Whose.
        component: ComponentId,
        /// Which, ascending.
        blocks: Vec<u64>,
    },
    /// A device of another cluster, host or disk group.
    Foreign,
    /// Devices of this disk group in the wrong places.
    Swapped,
    /// A device is shorter than when it was formatted.
    Truncated,
    /// A device is not there, or was never formatted.
    Missing,
    /// A superblock or the metadata is damaged.
    Damaged,
    /// A later release wrote the disk group, and this one does not know all that it wrote.
    Newer,
    /// The device is in use by a Cairn disk group already.
    Formatted,
}

/// A failure of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// What it asks of the caller.
    pub kind: StoreErrorKind,
    /// Cause and remedy, lower case, no full stop.
    pub text: String,
    /// What the device said, where one failed.
    pub device: Option<Box<DiskError>>,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), device: None }
    }
    pub(crate) fn media(act: &str, error: &DiskError) -> Self {
        Self::new(StoreErrorKind::Media, format!("{act}: {error}")).said_by(Some(error.clone()))
    }
    pub(crate) fn said_by(self, device: Option<DiskError>) -> Self {
        Self { device: device.map(Box::new), ..self }
    }
    pub(crate) fn unknown(component: ComponentId) -> Self {
        Self::new(StoreErrorKind::NotFound, format!("component {component} is not in this disk group"))
    }
}

pub(crate) fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Damaged, error.to_string())
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreError {}

/// Why the metadata store failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("metadata: {0}")]
pub(crate) struct MetaError(pub String);

impl From<rows::RowError> for MetaError {
    fn from(error: rows::RowError) -> Self {
        Self(error.to_string())
    }
}

/// What was asked for makes no sense here.
pub(crate) fn refused(text: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, text)
}
