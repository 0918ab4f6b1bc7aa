//! A disk group of this host that is not open, and why: plain data.

use cairn_api::v1;
use cairn_store::{StoreError, StoreErrorKind};
use cairn_types::Time;

use crate::outside::GroupPaths;

/// Why a disk group of this host is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhyClosed {
    /// Nobody has tried yet.
    NotTried,
    /// Its cache device is not there, or all its capacity devices are not.
    Gone,
    /// Somebody else uses one of its devices.
    InUse,
    /// What stands on its devices is another disk group's, or nobody's.
    Foreign,
    /// A later release wrote what stands on its devices.
    Newer,
    /// Its superblocks or its metadata are damaged, or a device was cut short.
    Damaged,
    /// A device answers with errors.
    Media,
    /// The configuration asks for it, and it could not be made.
    NotMade,
}

/// Why a disk group did not open, for people too.
#[derive(Debug, Clone)]
pub(crate) struct NotOpen {
    pub(crate) why: WhyClosed,
    pub(crate) text: String,
}

/// A disk group of this host that is not open.
#[derive(Debug, Clone)]
pub(crate) struct ClosedGroup {
    pub(crate) paths: GroupPaths,
    pub(crate) why: WhyClosed,
    /// The same for people: cause and remedy.
    pub(crate) text: String,
    /// What the configuration asks for, where it was never made.
    pub(crate) wanted: Option<v1::DiskGroupCreate>,
    /// Tries so far.
    pub(crate) tries: u32,
    /// When the next one is due.
    pub(crate) next_try: Time,
}

impl ClosedGroup {
    pub(crate) fn untried(paths: GroupPaths) -> Self {
        let text = "it has not been opened yet".into();
        Self { paths, why: WhyClosed::NotTried, text, wanted: None, tries: 0, next_try: Time::default() }
    }

    /// Why it is not open, for people.
    pub(crate) fn reason(&self) -> String {
        match self.why {
            WhyClosed::NotMade => format!("the configuration asks for it, and it cannot be made: {}", self.text),
            _ => self.text.clone(),
        }
    }

    /// Its paths, where it is a disk group that there is.
    pub(crate) fn known(&self) -> Option<&GroupPaths> {
        self.wanted.is_none().then_some(&self.paths)
    }
}

impl From<StoreError> for NotOpen {
    fn from(error: StoreError) -> Self {
        let why = match error.kind {
            StoreErrorKind::Missing | StoreErrorKind::Foreign | StoreErrorKind::Swapped => WhyClosed::Foreign,
            StoreErrorKind::Media => WhyClosed::Media,
            StoreErrorKind::Newer => WhyClosed::Newer,
            _ => WhyClosed::Damaged,
        };
        Self { why, text: error.text }
    }
}

impl NotOpen {
    /// Whether a moment later it may be otherwise.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.why, WhyClosed::Gone | WhyClosed::InUse | WhyClosed::Media)
    }

    pub(crate) fn not_made(text: String) -> Self {
        Self { why: WhyClosed::NotMade, text }
    }
}
