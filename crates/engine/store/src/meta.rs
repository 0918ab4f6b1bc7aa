//! The metadata store of a disk group: ordered keys, one atomic durable batch at a time.
//!
//! Promises    a batch is there in full or not at all, and durable when `commit` returns
//!             a row that a damaged page hides is missed when the group is opened: see [`RedbMeta::agrees`]
//! Assumes     calls run on a thread of their own (`Env::run_blocking`): a commit blocks for 1..120 ms
//! Not here    what the rows mean (`rows.rs`)
//!
//! The implementation is `redb` over the metadata region of the cache device. The first page of the region holds the
//! length that redb believes its file to have; redb's bytes follow. One sector is written at a time there, so that it
//! is the old or the new one after a crash.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cairn_env::{BlockingDisk, DiskError};
use cairn_format::crc32c;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::{
    error::MetaError,
    rows::{LEAF, SCRUB},
    zone::Room,
};

/// Puts (some) and removals (none), in key order.
pub(crate) type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
/// Rows in key order.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A small ordered store with atomic batches.
pub(crate) trait Meta: Send + Sync + 'static {
    /// The value of each key.
    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, MetaError>;
    /// Rows from `from` (included) to `to` (not), at most `limit`.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Rows, MetaError>;
    /// Applies the batch; durable on return.
    fn commit(&self, batch: Batch) -> Result<(), MetaError>;
    /// Bytes written to the device since it was opened.
    fn written_bytes(&self) -> u64;
    /// Reads of the device since it was opened.
    fn reads(&self) -> u64;
    /// What the device said when it first failed a write or a flush.
    fn device_error(&self) -> Option<DiskError>;
    /// How the region is divided between its file and pages of the block map.
    fn room(&self) -> Room;
}

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("cairn");
/// Memory of redb's page cache: where the map is in rows all of it is read by way of it, else little is.
const ROWS_CACHE_BYTES: usize = 32 << 20;
const FEW_ROWS_CACHE_BYTES: usize = 8 << 20;

pub(crate) struct RedbMeta {
    /// Not dropped once a call has failed: its destructor commits, and over a damaged page it panics, and again while it
    /// unwinds, which would end the process and with it every disk group of the host.
    database: Option<Database>,
    failed: AtomicBool,
    panicked: AtomicBool,
    disk: Slot,
    traffic: Arc<Traffic>,
    said: Said,
    room: Room,
}

/// What went between the store and the device.
#[derive(Default)]
struct Traffic {
    written_bytes: AtomicU64,
    reads: AtomicU64,
}

/// The first error of a device.
type Said = Arc<Mutex<Option<DiskError>>>;

fn fail(error: impl std::fmt::Display) -> MetaError {
    MetaError(error.to_string())
}

impl RedbMeta {
    /// Makes an empty store in the region; what was there is gone.
    pub fn create(disk: Arc<dyn BlockingDisk>, offset: u64, region_bytes: u64) -> Result<(), MetaError> {
        let (disk, len, traffic, said) = (slot(disk), Mutex::new(0), Arc::default(), Said::default());
        let backend = Region { disk, offset, room: Room::new(region_bytes), len, traffic, said };
        backend.write_len(0).map_err(fail)?;
        backend.sync_data().map_err(fail)?;
        let database = Self::build(backend, FEW_ROWS_CACHE_BYTES)?;
        let transaction = database.begin_write().map_err(fail)?;
        Sum::default().write(&mut transaction.open_table(TABLE).map_err(fail)?)?;
        transaction.commit().map_err(fail)
    }

    /// Opens the store that [`Self::create`] made. `many_rows`: the block map is in rows.
    pub fn open(
        disk: Arc<dyn BlockingDisk>,
        offset: u64,
        region_bytes: u64,
        many_rows: bool,
    ) -> Result<Self, MetaError> {
        let len = read_len(&*disk, offset, region_bytes)?;
        if len == 0 {
            return Err(MetaError("the metadata region is empty".into()));
        }
        let disk = slot(disk);
        let (traffic, said) = (Arc::<Traffic>::default(), Said::default());
        let room = Room::new(region_bytes);
        room.set_file(HEAD_BYTES + len);
        let (len, of_region) = (Mutex::new(len), (disk.clone(), traffic.clone(), said.clone()));
        let (of_disk, of_traffic, of_said) = of_region;
        let backend = Region { disk: of_disk, offset, room: room.clone(), len, traffic: of_traffic, said: of_said };
        let cache_bytes = if many_rows { ROWS_CACHE_BYTES } else { FEW_ROWS_CACHE_BYTES };
        let database = Some(without_panic(|| Self::build(backend, cache_bytes))?);
        let (failed, panicked) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { database, failed, panicked, disk, traffic, said, room })
    }

    /// Whether `found` is of all rows that are there, but for leaves of the map: their number and sum are those that every commit
    /// keeps. A structurally damaged or stale page can lose rows silently. A lost leaf shows by itself, as the bits of its region say what it holds.
    pub fn agrees(&self, found: Sum) -> Result<(), MetaError> {
        let stored = self.with(|database| {
            let transaction = database.begin_read().map_err(fail)?;
            Sum::read(&transaction.open_table(TABLE).map_err(fail)?)
        })?;
        if found == stored {
            return Ok(());
        }
        self.failed.store(true, Ordering::Relaxed);
        Err(MetaError(format!("{} rows are there, {} were written", found.count, stored.count)))
    }

    /// Runs `act`, unless an earlier call panicked.
    fn with<T>(&self, act: impl FnOnce(&Database) -> Result<T, MetaError>) -> Result<T, MetaError> {
        let Some(database) = self.database.as_ref().filter(|_| !self.panicked.load(Ordering::Relaxed)) else {
            return Err(MetaError("a page is damaged: the metadata engine gave up before".into()));
        };
        let mut ended = false;
        let result = without_panic(|| {
            let result = act(database);
            ended = true;
            result
        });
        self.panicked.fetch_or(!ended, Ordering::Relaxed);
        self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result
    }

    fn build(backend: Region, cache_bytes: usize) -> Result<Database, MetaError> {
        Database::builder().set_cache_size(cache_bytes).create_with_backend(backend).map_err(fail)
    }
}

impl Drop for RedbMeta {
    fn drop(&mut self) {
        let database = self.database.take();
        if *self.failed.get_mut() {
            // The device is closed all the same: somebody may want to format it anew.
            drop(self.disk.lock().unwrap_or_else(PoisonError::into_inner).take());
            return std::mem::forget(database);
        }
        // What it writes when it is closed only saves time at the next opening.
        let _ = without_panic(|| {
            drop(database);
            Ok(())
        });
    }
}

/// Runs `act`; a panic of the metadata engine, which does not expect that pages are damaged, becomes an error.
fn without_panic<T>(act: impl FnOnce() -> Result<T, MetaError>) -> Result<T, MetaError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(MetaError(format!("a page is damaged: the metadata engine gave up ({words})")))
    })
}

impl Meta for RedbMeta {
    fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, MetaError> {
        self.with(|database| get_many(database, keys))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Rows, MetaError> {
        self.with(|database| scan(database, from, to, limit))
    }

    fn commit(&self, batch: Batch) -> Result<(), MetaError> {
        self.with(|database| commit(database, &batch))
    }

    fn written_bytes(&self) -> u64 {
        self.traffic.written_bytes.load(Ordering::Relaxed)
    }

    fn reads(&self) -> u64 {
        self.traffic.reads.load(Ordering::Relaxed)
    }

    fn device_error(&self) -> Option<DiskError> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn room(&self) -> Room {
        self.room.clone()
    }
}

fn get_many(database: &Database, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, MetaError> {
    let transaction = database.begin_read().map_err(fail)?;
    let table = transaction.open_table(TABLE).map_err(fail)?;
    let one = |key: &Vec<u8>| {
        let found = table.get(key.as_slice()).map_err(fail)?;
        found.map(|value| unsealed(key, value.value())).transpose()
    };
    keys.iter().map(one).collect()
}

fn scan(database: &Database, from: &[u8], to: &[u8], limit: usize) -> Result<Rows, MetaError> {
    let transaction = database.begin_read().map_err(fail)?;
    let table = transaction.open_table(TABLE).map_err(fail)?;
    let mut rows: Rows = Vec::new();
    for row in table.range(from..to).map_err(fail)?.take(limit) {
        let (key, value) = row.map_err(fail)?;
        let key = key.value().to_vec();
        // A damaged page may show keys out of order: a scan that goes on from its last key would never end.
        let low = rows.last().map_or(from, |(last, _)| last.as_slice());
        if key.as_slice() < low || key.as_slice() >= to || rows.last().is_some_and(|(last, _)| *last == key) {
            return Err(MetaError("rows are out of order".into()));
        }
        let value = unsealed(&key, value.value())?;
        rows.push((key, value));
    }
    Ok(rows)
}

fn commit(database: &Database, batch: &Batch) -> Result<(), MetaError> {
    let mut transaction = database.begin_write().map_err(fail)?;
    // Without it an open after a crash walks the whole store: 72 ms per 128 MB, against 0.5 ms.
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(TABLE).map_err(fail)?;
        let mut sum = Sum::read(&table)?;
        for (key, value) in batch {
            let key = key.as_slice();
            let value = value.as_ref().map(|value| sealed(key, value));
            let before = match &value {
                Some(value) => table.insert(key, value.as_slice()).map_err(fail)?,
                None => table.remove(key).map_err(fail)?,
            };
            if let Some(before) = before {
                sum.take(key, before.value());
            }
            if let Some(value) = &value {
                sum.add(key, value);
            }
        }
        sum.write(&mut table)?;
    }
    transaction.commit().map_err(fail)
}

/// Number and sum of all rows but leaves and its own: stands in a row of kind 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    count: u64,
    hashes: u64,
}

const SUM_KEY: [u8; 1] = [0];

impl Sum {
    /// Adds rows as they were read.
    pub fn add_all(&mut self, rows: &Rows) {
        rows.iter().for_each(|(key, value)| self.add(key, &sealed(key, value)));
    }
    fn read(table: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<Self, MetaError> {
        let row = table.get(SUM_KEY.as_slice()).map_err(fail)?;
        let row = row.ok_or_else(|| MetaError("the sum of the rows is missing".into()))?;
        let value = unsealed(&SUM_KEY, row.value())?;
        let (count, hashes) =
            value.split_first_chunk::<8>().ok_or_else(|| MetaError("the sum of the rows is not readable".into()))?;
        let hashes = hashes.try_into().map_err(|_| MetaError("the sum of the rows is not readable".into()))?;
        Ok(Self { count: u64::from_le_bytes(*count), hashes: u64::from_le_bytes(hashes) })
    }
    fn write(&self, table: &mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<(), MetaError> {
        let value = [self.count.to_le_bytes(), self.hashes.to_le_bytes()].concat();
        table.insert(SUM_KEY.as_slice(), sealed(&SUM_KEY, &value).as_slice()).map_err(fail).map(drop)
    }
    fn add(&mut self, key: &[u8], stored: &[u8]) {
        if let Some(hash) = Self::hash(key, stored) {
            self.count = self.count.wrapping_add(1);
            self.hashes = self.hashes.wrapping_add(hash);
        }
    }
    fn take(&mut self, key: &[u8], stored: &[u8]) {
        if let Some(hash) = Self::hash(key, stored) {
            self.count = self.count.wrapping_sub(1);
            self.hashes = self.hashes.wrapping_sub(hash);
        }
    }
    /// A number for a row, of the CRC that ends its stored value; none for a leaf, and none for the scrub's, which earlier releases do not
    /// read. Multiplied, as CRCs of like rows differ in few bits and would add up to the same.
    fn hash(key: &[u8], stored: &[u8]) -> Option<u64> {
        let (_, crc) = stored.split_last_chunk::<4>()?;
        let word = (u64::from(u32::from_le_bytes(*crc)) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (!matches!(key.first(), Some(&(LEAF | SCRUB)))).then_some(word ^ word >> 29)
    }
}

/// A row's value with the CRC-32C of key and value behind it: redb does not check its pages when it reads them.
fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let crc = row_crc(key, value);
    [value, &crc.to_le_bytes()].concat()
}

fn unsealed(key: &[u8], stored: &[u8]) -> Result<Vec<u8>, MetaError> {
    match stored.split_last_chunk::<4>() {
        Some((value, crc)) if u32::from_le_bytes(*crc) == row_crc(key, value) => Ok(value.to_vec()),
        _ => Err(MetaError(format!("a row of kind {} has a wrong checksum", key.first().copied().unwrap_or(0)))),
    }
}

fn row_crc(key: &[u8], value: &[u8]) -> u32 {
    crc32c(&[key, value].concat())
}

/// The device, until the store is given up.
type Slot = Arc<Mutex<Option<Arc<dyn BlockingDisk>>>>;

fn slot(disk: Arc<dyn BlockingDisk>) -> Slot {
    Arc::new(Mutex::new(Some(disk)))
}

/// A region of a device as the file that redb wants.
struct Region {
    disk: Slot,
    offset: u64,
    room: Room,
    len: Mutex<u64>,
    traffic: Arc<Traffic>,
    said: Said,
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "metadata region at {}", self.offset)
    }
}

const HEAD_BYTES: u64 = 4096;
const LEN_MAGIC: [u8; 8] = *b"CAIRNMD1";

fn read_len(disk: &dyn BlockingDisk, offset: u64, region_bytes: u64) -> Result<u64, MetaError> {
    let mut sector = [0u8; 512];
    disk.read_at(offset, &mut sector).map_err(fail)?;
    let len = u64::from_le_bytes(sector[8..16].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(sector[16..20].try_into().expect("four bytes"));
    let sound = sector[..8] == LEN_MAGIC && crc == crc32c(&sector[..16]) && len <= region_bytes - HEAD_BYTES;
    if sound { Ok(len) } else { Err(MetaError("the head of the metadata region is damaged".into())) }
}

impl Region {
    fn disk(&self) -> io::Result<Arc<dyn BlockingDisk>> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone();
        disk.ok_or_else(|| io::Error::other("the metadata store was given up"))
    }
    fn write_len(&self, len: u64) -> io::Result<()> {
        let mut sector = [0u8; 512];
        sector[..8].copy_from_slice(&LEN_MAGIC);
        sector[8..16].copy_from_slice(&len.to_le_bytes());
        let crc = crc32c(&sector[..16]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
        self.write_at(self.offset, &sector)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk()?.write_at(offset, data).map_err(|error| self.note(error))?;
        self.traffic.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }
    fn note(&self, error: DiskError) -> io::Error {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        io::Error::other(error)
    }
    fn check(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.saturating_add(len as u64);
        if end > *self.len.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the metadata"));
        }
        Ok(self.offset + HEAD_BYTES + offset)
    }
}

impl StorageBackend for Region {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(*self.len.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let at = self.check(offset, out.len())?;
        self.traffic.reads.fetch_add(1, Ordering::Relaxed);
        self.disk()?.read_at(at, out).map_err(io::Error::other)
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        if !self.room.set_file(HEAD_BYTES.saturating_add(len)) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the metadata region is full"));
        }
        let mut current = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        // redb asks that what it grows into reads zero; the device may hold anything there.
        let zeroes = vec![0u8; 1 << 20];
        let mut at = *current;
        while at < len {
            let part = (len - at).min(zeroes.len() as u64);
            self.write_at(self.offset + HEAD_BYTES + at, &zeroes[..part as usize])?;
            at += part;
        }
        if len > *current {
            // The zeroes first: after a crash the longer length must not uncover old bytes.
            self.disk()?.sync().map_err(|error| self.note(error))?;
        }
        self.write_len(len)?;
        *current = len;
        Ok(())
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        self.disk()?.sync().map_err(|error| self.note(error))
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let at = self.check(offset, data.len())?;
        self.write_at(at, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{COMPONENT, STATE};

    #[derive(Debug)]
    struct Memory(Mutex<Vec<u8>>);

    impl BlockingDisk for Memory {
        fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
            out.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..out.len()]);
            Ok(())
        }
        fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
            self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }
        fn sync(&self) -> Result<(), DiskError> {
            Ok(())
        }
    }

    fn store() -> RedbMeta {
        let disk = Arc::new(Memory(Mutex::new(vec![0; 4 << 20])));
        RedbMeta::create(disk.clone(), 0, 4 << 20).unwrap();
        RedbMeta::open(disk, 0, 4 << 20, true).unwrap()
    }

    /// Of all rows but leaves.
    fn sum_of(meta: &RedbMeta) -> Sum {
        let mut sum = Sum::default();
        sum.add_all(&meta.scan(&[STATE], &[LEAF], usize::MAX).unwrap());
        sum.add_all(&meta.scan(&[LEAF + 1], &[u8::MAX], usize::MAX).unwrap());
        sum
    }

    fn behind_its_back(meta: &RedbMeta, change: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>)) {
        let database = meta.database.as_ref().unwrap();
        let transaction = database.begin_write().unwrap();
        change(&mut transaction.open_table(TABLE).unwrap());
        transaction.commit().unwrap();
    }

    #[test]
    fn the_sum_of_rows_tells_a_lost_an_old_and_a_foreign_one() {
        let meta = store();
        let put = |key: &[u8], value: &[u8]| meta.commit([(key.to_vec(), Some(value.to_vec()))].into()).unwrap();
        put(&[STATE], b"one");
        put(&[COMPONENT, 1], b"two");
        put(&[COMPONENT, 2], b"three");
        put(&[LEAF, 1], b"a leaf");
        put(&[COMPONENT, 1], b"four");
        meta.commit([(vec![COMPONENT, 2], None), (vec![COMPONENT, 9], None)].into()).unwrap();
        meta.agrees(sum_of(&meta)).unwrap();
        let key = [COMPONENT, 1];
        let changes: [(&[u8], Option<&[u8]>); 4] =
            [(&key, None), (&key, Some(b"two")), (&[COMPONENT, 3], Some(b"five")), (&SUM_KEY, None)];
        for (key, value) in changes {
            let mut before = None;
            behind_its_back(&meta, |table| {
                before = table.get(key).unwrap().map(|row| row.value().to_vec());
                match value {
                    Some(value) => drop(table.insert(key, sealed(key, value).as_slice()).unwrap()),
                    None => drop(table.remove(key).unwrap()),
                }
            });
            assert!(meta.agrees(sum_of(&meta)).is_err(), "{key:?}");
            behind_its_back(&meta, |table| match before {
                Some(before) => drop(table.insert(key, before.as_slice()).unwrap()),
                None => drop(table.remove(key).unwrap()),
            });
            meta.agrees(sum_of(&meta)).unwrap();
        }
    }

    #[test]
    fn a_panic_of_the_engine_is_an_error_from_then_on() {
        let meta = store();
        let told = meta.with(|_| -> Result<(), MetaError> { panic!("a damaged page") });
        assert!(told.unwrap_err().to_string().contains("a damaged page"));
        assert!(meta.get_many(&[vec![STATE]]).is_err());
    }
}
