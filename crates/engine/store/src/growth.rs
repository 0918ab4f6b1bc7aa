//! A capacity device that waits to be named by the cache device's superblock (see `grow.rs`), and what is met where one is not there.

use cairn_env::{DiskError, DiskErrorKind, Env};
use cairn_format::CapacityRegions;
use cairn_types::DeviceId;
use futures::channel::oneshot;

use crate::error::StoreError;

/// A device that waits to be named.
pub(crate) struct Growth<E: Env> {
    pub disk: E::Disk,
    /// The number that its superblock gives it.
    pub index: u8,
    pub regions: CapacityRegions,
    pub id: DeviceId,
    pub instead_of: Option<u8>,
    /// The device that was given up.
    pub done: oneshot::Sender<Result<Option<E::Disk>, StoreError>>,
}

/// What a read or write of a device meets that is not there.
pub(crate) fn gone(act: &'static str) -> DiskError {
    DiskError {
        kind: DiskErrorKind::Gone,
        act,
        offset: 0,
        len_bytes: 0,
        cause: "the device is missing or was given up".into(),
    }
}
