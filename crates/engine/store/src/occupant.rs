//! What stands on a device, before anybody opens or formats it, and giving a device back blank.
//!
//! Promises    reading changes nothing; only superblocks of the disk group that is named are wiped
//! Assumes     what others put on devices is asked of others (the process around): here is only what the first MiB shows
//! Not here    opening (`recovery`), formatting (`create`)

use std::time::Duration;

use cairn_env::{Disk, DiskErrorKind, Durability, Env, PageBuf};
use cairn_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, SuperblockError, decode_superblock};
use cairn_types::DiskGroupId;

use crate::error::StoreError;

/// What a blank device has only zeroes in: superblocks and most signatures stand there.
const HEAD_BYTES: u32 = 1 << 20;

/// How often a superblock is read again that could not be read, and after what pause, which doubles: 0.6 s in all.
const SUPERBLOCK_RETRIES: u32 = 5;
const SUPERBLOCK_PAUSE: Duration = Duration::from_millis(20);

/// What stands where a superblock may stand.
pub(crate) enum Found {
    Good(Box<Superblock>),
    Nothing,
    /// A later release wrote it.
    Newer(String),
    Bad(String),
    /// No copy is good, and one could not be read: it may be read yet.
    Unread(String),
}

/// Reads both copies; the good one with the higher generation holds.
pub(crate) async fn read_superblock<D: Disk>(disk: &D) -> Found {
    let (mut best, mut bad): (Option<Superblock>, Option<String>) = (None, None);
    let (mut unread, mut newer) = (false, None);
    for offset in SUPERBLOCK_OFFSETS {
        if offset + u64::from(SUPERBLOCK_BYTES) > disk.len_bytes() {
            continue;
        }
        match disk.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => match decode_superblock(&bytes) {
                Ok(found) if best.as_ref().is_none_or(|b| found.generation > b.generation) => best = Some(found),
                Ok(_) | Err(SuperblockError::None) => {}
                // The other copy may be of before: what is there now needs more.
                Err(error @ (SuperblockError::Version(_) | SuperblockError::Newer(_))) => {
                    newer = Some(error.to_string())
                }
                Err(error) => bad = Some(error.to_string()),
            },
            Err(error) => {
                unread |= error.kind == DiskErrorKind::Read;
                bad = Some(error.to_string());
            }
        }
    }
    if let Some(newer) = newer {
        return Found::Newer(newer);
    }
    match (best, bad) {
        (Some(best), _) => Found::Good(Box::new(best)),
        (None, Some(bad)) if unread => Found::Unread(bad),
        (None, Some(bad)) => Found::Bad(bad),
        (None, None) => Found::Nothing,
    }
}

/// The same, with patience: a device that answers a read with an error now may answer it a moment later.
///
/// What a start takes for dead stays so until the next one, and its components with it.
pub(crate) async fn find_superblock<E: Env>(env: &E, disk: &E::Disk) -> Found {
    for tries in 0..SUPERBLOCK_RETRIES {
        match read_superblock(disk).await {
            Found::Unread(_) => env.sleep(SUPERBLOCK_PAUSE * (1 << tries)).await,
            found => return found,
        }
    }
    read_superblock(disk).await
}

/// What stands on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occupant {
    /// A Cairn superblock.
    Superblock(Box<Superblock>),
    /// Zeroes, as far as its first MiB shows.
    Blank,
    /// Something that is not Cairn's.
    Data,
    /// A Cairn superblock of a later release, and which.
    Newer(String),
    /// A Cairn superblock of which no copy is whole, and why.
    Damaged(String),
    /// Nobody knows: it cannot be read, and why.
    Unread(String),
}

/// Looks at a device.
pub async fn occupant_of<E: Env>(env: &E, disk: &E::Disk) -> Occupant {
    match find_superblock(env, disk).await {
        Found::Good(superblock) => return Occupant::Superblock(superblock),
        Found::Newer(why) => return Occupant::Newer(why),
        Found::Bad(why) => return Occupant::Damaged(why),
        Found::Unread(why) => return Occupant::Unread(why),
        Found::Nothing => {}
    }
    let head = disk.len_bytes().min(u64::from(HEAD_BYTES)) as u32;
    match disk.read(0, head).await {
        Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Occupant::Blank,
        Ok(_) => Occupant::Data,
        Err(error) => Occupant::Unread(error.to_string()),
    }
}

/// Zeroes the superblocks of `disk_group` on a device, so that it is free; whether there were any.
///
/// # Errors
/// The device fails; then it may still hold one of the copies.
pub async fn wipe_superblocks<D: Disk>(disk: &D, disk_group: DiskGroupId) -> Result<bool, StoreError> {
    let mut wiped = false;
    for offset in SUPERBLOCK_OFFSETS {
        if offset + u64::from(SUPERBLOCK_BYTES) > disk.len_bytes() {
            continue;
        }
        let copy =
            disk.read(offset, SUPERBLOCK_BYTES).await.map_err(|e| StoreError::media("read the superblock", &e))?;
        if !decode_superblock(&copy).is_ok_and(|found| found.disk_group == disk_group) {
            continue;
        }
        let zeroes = PageBuf::zeroed(SUPERBLOCK_BYTES as usize).freeze();
        let written = disk.write(offset, vec![zeroes], Durability::Durable).await;
        written.map_err(|e| StoreError::media("wipe the superblock", &e))?;
        wiped = true;
    }
    Ok(wiped)
}
