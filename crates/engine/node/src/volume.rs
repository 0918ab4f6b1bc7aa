//! What a node opens for a front end: a disk, or a snapshot of one.

use std::rc::Rc;

use bytes::Bytes;
use cairn_env::Env;
use cairn_object::{DiskClient, SnapshotReader};
use cairn_volume::{ChangedExtent, Extent, Guest, Volume, VolumeError, VolumeInfo};
use futures::future::Either::{Left, Right};

use crate::adapter::GroupStore;

/// A disk or a snapshot, opened.
pub enum NodeVolume<E: Env> {
    /// A disk.
    Disk(DiskClient<E, GroupStore<E>>),
    /// A snapshot: it is read-only.
    Snapshot(SnapshotReader<E, GroupStore<E>>),
}

impl<E: Env> Clone for NodeVolume<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Disk(disk) => Self::Disk(disk.clone()),
            Self::Snapshot(snapshot) => Self::Snapshot(snapshot.clone()),
        }
    }
}

impl<E: Env> Volume for NodeVolume<E> {
    fn info(&self) -> VolumeInfo {
        match self {
            Self::Disk(disk) => disk.info(),
            Self::Snapshot(snapshot) => snapshot.info(),
        }
    }

    fn used_by(&self, guest: Rc<dyn Guest>) {
        match self {
            Self::Disk(disk) => disk.used_by(guest),
            Self::Snapshot(snapshot) => snapshot.used_by(guest),
        }
    }

    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.read(offset, len_bytes)),
            Self::Snapshot(snapshot) => Right(snapshot.read(offset, len_bytes)),
        }
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.write(offset, data)),
            Self::Snapshot(snapshot) => Right(snapshot.write(offset, data)),
        }
    }

    fn write_zeroes(
        &self,
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.write_zeroes(offset, len_bytes, keep_allocated)),
            Self::Snapshot(snapshot) => Right(snapshot.write_zeroes(offset, len_bytes, keep_allocated)),
        }
    }

    fn trim(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.trim(offset, len_bytes)),
            Self::Snapshot(snapshot) => Right(snapshot.trim(offset, len_bytes)),
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.flush()),
            Self::Snapshot(snapshot) => Right(snapshot.flush()),
        }
    }

    fn block_status(
        &self,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.block_status(offset, len_bytes)),
            Self::Snapshot(snapshot) => Right(snapshot.block_status(offset, len_bytes)),
        }
    }

    fn changed_since(
        &self,
        moment: &str,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<ChangedExtent>, VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.changed_since(moment, offset, len_bytes)),
            Self::Snapshot(snapshot) => Right(snapshot.changed_since(moment, offset, len_bytes)),
        }
    }

    fn cache(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        match self {
            Self::Disk(disk) => Left(disk.cache(offset, len_bytes)),
            Self::Snapshot(snapshot) => Right(snapshot.cache(offset, len_bytes)),
        }
    }
}
