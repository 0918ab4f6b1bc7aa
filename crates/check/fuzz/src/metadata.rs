//! Superblocks and metadata of a disk group, damaged or made up, and the store that opens over them.
//!
//! Promises    a superblock that decodes encodes to what decodes the same; opening ends with a group or with an error; damage
//!             without right checksums never shows a wrong byte
//!             redb's own panics are the product's to survive (docs/fault-model.md)

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use cairn_format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, crc32c, decode_superblock, encode_superblock};
use cairn_sim::Medium;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use crate::{
    image::{COUNT, Devices, IMAGES, Image, chosen, look, open, with_devices},
    input::Input,
    log::right_or_not_at_all,
    panics::unless_redb_panics,
};

/// The table and the head of the region, as `cairn-store` writes them.
const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("cairn");
type Table<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;
const SUM_KEY: [u8; 1] = [0];
const LEAF: u8 = 4;
const HEAD_BYTES: u64 = PAGE;
const PAGE: u64 = 4096;
/// Changes of one input.
const CHANGES_MAX: usize = 16;
/// How a page of the map begins, and where its checksum stands.
const MAP_PAGE_MAGIC: [u8; 8] = *b"CAIRNMP1";
const MAP_PAGE_CRC: std::ops::Range<usize> = 8..12;
/// Where the checksum of a superblock stands.
const SUPERBLOCK_CRC: std::ops::Range<usize> = 16..20;

/// What is done to a group at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// Of one superblock by itself: no group is opened.
    Superblock,
    Superblocks,
    /// Bytes of pages that redb reads for rows.
    Damage,
    Rows,
    /// Bytes of pages of the map; checksums are put right, but for one in eight.
    MapPages,
}

impl Harm {
    /// From bits 1 to 3 of the first byte.
    fn of(choice: u8) -> Self {
        match choice >> 1 & 7 {
            0 => Self::Superblock,
            1 | 5 => Self::Superblocks,
            2 | 6 => Self::Damage,
            3 | 7 => Self::Rows,
            _ => Self::MapPages,
        }
    }
}

/// The first byte chooses image and kind of harm.
pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.u8();
    let image = chosen(choice);
    let mut devices = image.devices.clone();
    let harm = Harm::of(choice);
    match harm {
        Harm::Superblock => return superblock(input.rest(), choice & 1 == 1),
        Harm::Superblocks => superblocks(&mut devices, &mut input),
        Harm::Damage => damage(&mut devices, image, &mut input),
        Harm::MapPages => map_pages(&mut devices, image, &mut input),
        Harm::Rows => {
            if unless_redb_panics(|| rows(&mut devices, image, &mut input)).is_none() {
                return;
            }
        }
    }
    // A page of the map whose checksum is right says what it likes.
    let only_damaged = harm == Harm::Damage;
    let seen = image.seen.clone();
    let ran = unless_redb_panics(|| {
        with_devices(&devices, move |env, disks| async move {
            let Ok(group) = open(env, disks).await else { return };
            let now = look(&group).await;
            if only_damaged {
                right_or_not_at_all(&seen, &now);
            }
            let _ = group.check_bookkeeping().await;
            group.close().await;
        });
    });
    assert!(ran.is_some(), "a panic of the metadata engine came through");
}

/// Puts the checksum of a superblock right.
fn seal(block: &mut [u8]) {
    block[SUPERBLOCK_CRC].fill(0);
    let crc = crc32c(block);
    block[SUPERBLOCK_CRC].copy_from_slice(&crc.to_le_bytes());
}

fn superblock(bytes: &[u8], sealed: bool) {
    let mut block = bytes.to_vec();
    if sealed {
        block.resize(SUPERBLOCK_BYTES as usize, 0);
        block[..8].copy_from_slice(b"CAIRNSB1");
        block[8..12].copy_from_slice(&1u32.to_le_bytes());
        seal(&mut block);
    }
    if let Ok(superblock) = decode_superblock(&block) {
        assert_eq!(decode_superblock(&encode_superblock(&superblock)), Ok(superblock));
    }
}

/// Changes bytes of superblocks and puts their checksums right, on any device.
fn superblocks(devices: &mut Devices, input: &mut Input<'_>) {
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            return;
        }
        let (device, both) = (usize::from(input.below(4)), input.flag());
        let medium = match device {
            0 | 1 => &mut devices.cache,
            n => &mut devices.capacity[n - 2],
        };
        let (at, len) = (usize::from(input.u8()), usize::from(input.below(10)) + 1);
        let bytes = input.bytes(len);
        for offset in SUPERBLOCK_OFFSETS.into_iter().take(1 + usize::from(both)) {
            let mut block = vec![0; SUPERBLOCK_BYTES as usize];
            medium.read(offset, &mut block);
            block[at..at + bytes.len()].copy_from_slice(bytes);
            seal(&mut block);
            medium.poke(offset, &block);
        }
    }
}

/// Changes bytes of the metadata region where rows stand.
fn damage(devices: &mut Devices, image: &Image, input: &mut Input<'_>) {
    static PAGES: LazyLock<[Vec<u64>; COUNT]> =
        LazyLock::new(|| std::array::from_fn(|n| pages_of_rows(&IMAGES[n].devices.cache, &IMAGES[n])));
    let pages = &PAGES[image.number];
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            return;
        }
        let page = pages[usize::from(input.u8()) % pages.len()];
        let at = page + u64::from(input.u16()) % PAGE;
        let len = usize::from(input.below(12)) + 1;
        let bytes = input.bytes(len.min((page + PAGE - at) as usize));
        devices.cache.poke(at, bytes);
        if input.flag() {
            seal_head(&mut devices.cache, image);
        }
    }
}

/// The head of the region, and the pages that are read for rows. Not those of redb's own bookkeeping: on some of these it panics
/// when it commits, and again while it unwinds, which ends any process (docs/fault-model.md).
fn pages_of_rows(cache: &Medium, image: &Image) -> Vec<u64> {
    let file = Memory::of(file_of(cache, image));
    let read = file.read.clone();
    let database = Database::builder().set_cache_size(0).create_with_backend(file).expect("our own metadata");
    let pages = || std::mem::take(&mut *read.lock().unwrap_or_else(PoisonError::into_inner));
    pages();
    keys(&database);
    let start = image.regions.metadata_offset;
    // Where redb's file begins is its own head.
    let of_rows = pages().into_iter().filter(|page| *page > 0);
    std::iter::once(start).chain(of_rows.map(|page| start + HEAD_BYTES + page * PAGE)).collect()
}

/// Changes bytes of pages of the map, and mostly puts their checksums right: a page says what it likes then.
fn map_pages(devices: &mut Devices, image: &Image, input: &mut Input<'_>) {
    static PAGES: LazyLock<[Vec<u64>; COUNT]> =
        LazyLock::new(|| std::array::from_fn(|n| pages_of_the_map(&IMAGES[n].devices.cache, &IMAGES[n])));
    assert!(!PAGES[0].is_empty() && !PAGES[2].is_empty(), "some of the map of what has destaged is in pages");
    let pages = &PAGES[image.number];
    for _ in 0..CHANGES_MAX {
        if input.is_empty() || pages.is_empty() {
            return;
        }
        let page = pages[usize::from(input.u8()) % pages.len()];
        let mut bytes = vec![0; PAGE as usize];
        devices.cache.read(page, &mut bytes);
        // Pages of this image are short: their heads, epochs and first runs.
        let at = usize::from(input.u8());
        let len = usize::from(input.below(12)) + 1;
        let with = input.bytes(len);
        bytes[at..at + with.len()].copy_from_slice(with);
        if input.below(8) > 0 {
            bytes[MAP_PAGE_CRC].fill(0);
            let crc = crc32c(&bytes);
            bytes[MAP_PAGE_CRC].copy_from_slice(&crc.to_le_bytes());
        }
        devices.cache.poke(page, &bytes);
    }
}

/// Pages of the map in the metadata region, those that hold and those that no longer do.
fn pages_of_the_map(cache: &Medium, image: &Image) -> Vec<u64> {
    let start = image.regions.metadata_offset;
    let places = (start..start + image.regions.metadata_bytes).step_by(PAGE as usize);
    let begins = |at: &u64| {
        let mut magic = [0; MAP_PAGE_MAGIC.len()];
        cache.read(*at, &mut magic);
        magic == MAP_PAGE_MAGIC
    };
    places.filter(begins).collect()
}

fn seal_head(cache: &mut Medium, image: &Image) {
    let mut head = [0; 512];
    cache.read(image.regions.metadata_offset, &mut head);
    let crc = crc32c(&head[..16]);
    cache.poke(image.regions.metadata_offset + 16, &crc.to_le_bytes());
}

/// Changes, removes and adds rows, each with its right checksum, through redb itself.
fn rows(devices: &mut Devices, image: &Image, input: &mut Input<'_>) {
    let backend = Memory::of(file_of(&devices.cache, image));
    let file = backend.file.clone();
    let database = Database::builder().create_with_backend(backend).expect("our own metadata");
    let known = keys(&database);
    let transaction = database.begin_write().expect("a transaction");
    {
        let mut table = transaction.open_table(TABLE).expect("our table");
        for _ in 0..CHANGES_MAX {
            if input.is_empty() {
                break;
            }
            let mut key = known[usize::from(input.u8()) % known.len()].clone();
            let mut value = table.get(key.as_slice()).expect("a row").map_or_else(Vec::new, |row| row.value().to_vec());
            value.truncate(value.len().saturating_sub(4));
            match input.below(8) {
                0 => value = input.bytes(40).to_vec(),
                1 => {
                    let at = usize::from(input.u8()) % key.len();
                    key[at] = input.u8();
                }
                2 => {
                    table.remove(key.as_slice()).expect("a row");
                    continue;
                }
                3 => value.truncate(usize::from(input.u8())),
                _ => change(&mut value, input),
            }
            put(&mut table, &key, value);
        }
        let sum = sum(&table);
        put(&mut table, &SUM_KEY, sum);
    }
    transaction.commit().expect("a commit to memory");
    drop(database);
    let file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let start = image.regions.metadata_offset;
    if start + HEAD_BYTES + file.len() as u64 <= start + image.regions.metadata_bytes {
        devices.cache.poke(start + 8, &(file.len() as u64).to_le_bytes());
        seal_head(&mut devices.cache, image);
        devices.cache.poke(start + HEAD_BYTES, &file);
    }
}

/// Writes a row with its checksum.
fn put(table: &mut Table<'_>, key: &[u8], mut value: Vec<u8>) {
    let crc = crc32c(&[key, &value].concat());
    value.extend(crc.to_le_bytes());
    table.insert(key, value.as_slice()).expect("a row");
}

/// Number and sum of the rows, as `cairn-store` keeps them.
fn sum(table: &Table<'_>) -> Vec<u8> {
    let (mut count, mut hashes) = (0u64, 0u64);
    for row in table.iter().expect("rows") {
        let (key, stored) = row.expect("a row");
        let Some((_, crc)) = stored.value().split_last_chunk::<4>() else { continue };
        if matches!(key.value(), [0] | [LEAF, ..]) {
            continue;
        }
        let word = (u64::from(u32::from_le_bytes(*crc)) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (count, hashes) = (count + 1, hashes.wrapping_add(word ^ word >> 29));
    }
    [count.to_le_bytes(), hashes.to_le_bytes()].concat()
}

/// One to three numbers of a row become others: postcard writes them seven bits a byte.
fn change(value: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..input.below(3) + 1 {
        let at = usize::from(input.u8()) % value.len().max(1);
        let with: &[u8] = match input.below(6) {
            0 => &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            1 => &[0xff, 0xff, 0xff, 0xff, 0x0f],
            2 => input.bytes(2),
            _ => input.bytes(1),
        };
        let end = (at + 1).min(value.len());
        value.splice(at.min(end)..end, with.iter().copied());
    }
}

fn keys(database: &Database) -> Vec<Vec<u8>> {
    let transaction = database.begin_read().expect("a transaction");
    let table = transaction.open_table(TABLE).expect("our table");
    let keys: BTreeSet<Vec<u8>> =
        table.iter().expect("rows").map(|row| row.expect("a row").0.value().to_vec()).collect();
    keys.into_iter().collect()
}

fn file_of(cache: &Medium, image: &Image) -> Vec<u8> {
    let mut len = [0; 8];
    cache.read(image.regions.metadata_offset + 8, &mut len);
    let mut file = vec![0; u64::from_le_bytes(len) as usize];
    cache.read(image.regions.metadata_offset + HEAD_BYTES, &mut file);
    file
}

/// redb's file, in memory, and the pages of it that were read.
#[derive(Debug)]
struct Memory {
    file: Arc<Mutex<Vec<u8>>>,
    read: Arc<Mutex<BTreeSet<u64>>>,
}

impl Memory {
    fn of(file: Vec<u8>) -> Self {
        Self { file: Arc::new(Mutex::new(file)), read: Arc::default() }
    }
    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        act(&mut self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|file| file.len() as u64))
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(offset / PAGE);
        self.with(|file| {
            let part = file.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|file| file.resize(len as usize, 0));
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|file| {
            let part = file.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..data.len()));
            part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            Ok(())
        })
    }
}
