//! The log of a disk group, damaged or made up, and the store that opens over it.
//!
//! Promises    opening ends with a group or with an error; what was only damaged reads right or not at all, unless the log is
//!             known to be behind; a group that opened keeps its books, takes operations, destages, opens again, and then shows
//!             the same (I8), at least when its log was only damaged or is empty by then
//! Assumes     the images (`image`); three places of damage do what thirty do, since each input is its own history

use cairn_env::PageBuf;
use cairn_format::{
    BatchHeader, LogPiece, LogRecord, PlacedPiece, SlotRun, block_crcs, crc32c, encode_batch, peek_batch_header_bytes,
    zero_block_crc,
};
use cairn_sim::{SimDisk, SimEnv};
use cairn_store::{DiskGroupDevices, LogHealth};
use cairn_types::{
    BLOCK_BYTES, BlockOp, BlockRange, Change, ClientTag, ComponentId, ComponentOp, Crcs, ObjectId, OpId, SnapshotId,
};

use crate::{
    image::{COMPONENTS, Devices, Group, Image, Seen, batches, chosen, look, op, open, with_devices},
    input::Input,
    panics::unless_redb_panics,
};

const PAGE: u64 = BLOCK_BYTES as u64;
/// Damages, or batches, of one input.
const CHANGES_MAX: usize = 24;

/// Slots of capacity devices from here on are free in both images.
const FREE_SLOTS_FROM: u64 = 8 * 16 + 1;

/// The first byte chooses image and kind of harm: damage, damage with right checksums, batches of one's own.
pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.u8();
    let image = chosen(choice);
    let mut devices = image.devices.clone();
    let only_damaged = match choice >> 1 & 3 {
        0 => {
            damage(&mut devices, image, &mut input);
            true
        }
        1 => {
            damage(&mut devices, image, &mut input);
            seal(&mut devices, image);
            false
        }
        _ => {
            forge(&mut devices, image, &mut input);
            false
        }
    };
    let position = image.head;
    let seen = image.seen.clone();
    let ran = unless_redb_panics(|| {
        with_devices(&devices, move |env, disks| async move {
            let Ok(group) = open(env.clone(), disks.clone()).await else { return };
            group.check_bookkeeping().await.expect("the books of a group that has just opened");
            let now = look(&group).await;
            if only_damaged && group.log_health() == LogHealth::Sound && group.durable_position() >= position {
                right_or_not_at_all(&seen, &now);
            }
            // Closed and gone: two groups on the same devices are nobody's promise.
            group.close().await;
            drop(group);
            let Some(group) = open_again(env.clone(), disks.clone()).await else { return };
            // A made-up history may hold what no store writes, such as a change of a component before its beginning: the
            // metadata may have the one by then, and the other takes effect when it is replayed.
            if only_damaged {
                assert_eq!(look(&group).await, now, "another state after opening again");
            }
            let log_is_empty = go_on(&group).await;
            let now = look(&group).await;
            group.close().await;
            drop(group);
            let Some(group) = open_again(env, disks).await else { return };
            if only_damaged || log_is_empty {
                assert_eq!(look(&group).await, now, "another state after work and opening again");
            }
            group.close().await;
        });
    });
    assert!(ran.is_some(), "the metadata was not touched");
}

/// What opened once opens again, unless what it was made to believe takes more room than its metadata has.
async fn open_again(env: SimEnv, disks: DiskGroupDevices<SimDisk>) -> Option<Group> {
    match open(env, disks).await {
        Ok(group) => Some(group),
        Err(error) if error.text.contains("metadata region is full") => None,
        Err(error) => panic!("what opened once opens again: {error:?}"),
    }
}

/// Writes, zeroes, settles, destages: whatever the log said, the group does its work or refuses it. Returns whether all was
/// destaged in the end.
async fn go_on(group: &Group) -> bool {
    for info in group.components() {
        let settled = group.settled(info.id);
        let next = |by| OpId { seq: settled.seq.saturating_add(by), ..settled };
        let data = PageBuf::copy_of(&[77; BLOCK_BYTES as usize]).freeze();
        let client = ClientTag { session: 10, number: 1 };
        let first_block = info.size_blocks.saturating_sub(2);
        let blocks = BlockOp::Write { first_block, crcs: block_crcs(&data) };
        let op = ComponentOp::Apply { op: next(1000), settled, client, blocks };
        let _ = group.append(Change::Component { component: info.id, op, data }).await;
        let blocks = BlockOp::Zero { range: BlockRange::new(0, 2), keep_allocated: false };
        let zero = ComponentOp::Apply { op: next(1001), settled: next(1000), client, blocks };
        let _ = group.append(zero.on(info.id)).await;
        let _ = group.append(ComponentOp::Undo { ops: vec![next(1001)] }.on(info.id)).await;
    }
    group.check_bookkeeping().await.expect("the books after work");
    let _ = group.drain().await;
    group.check_bookkeeping().await.expect("the books after destage");
    if let Some(first) = group.components().first() {
        let _ = group.append(Change::DeleteComponent { component: first.id }).await;
        group.check_bookkeeping().await.expect("the books after a deletion");
    }
    let drained = group.drain().await;
    group.check_bookkeeping().await.expect("the books after destage");
    drained.is_ok()
}

/// Every block is what it was, or cannot be read.
pub fn right_or_not_at_all(was: &Seen, is: &Seen) {
    for (id, (_, _, blocks)) in &was.components {
        let (_, _, now) =
            is.components.get(id).unwrap_or_else(|| panic!("{id:?} is gone, and the log counts as sound"));
        for (block, (was, is)) in blocks.iter().zip(now).enumerate() {
            assert!(is.is_err() || was == is, "{id:?} block {block}: {is:?}, it was {was:?}");
        }
    }
}

/// Changes bytes where batches stand, or anywhere in the log.
fn damage(devices: &mut Devices, image: &Image, input: &mut Input<'_>) {
    let places: Vec<u64> = batches(&devices.cache, &image.regions).into_iter().map(|(at, _)| at).collect();
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            return;
        }
        let place = input.u8();
        let at = match places.get(usize::from(place)) {
            // The fixed part and the records are what is worth changing.
            Some(at) => at + u64::from(input.u16() % 1024),
            None => image.regions.log_offset + u64::from(input.u32()) % image.regions.log_bytes,
        };
        let len = usize::from(input.below(16)) + 1;
        let end = image.regions.log_offset + image.regions.log_bytes;
        let bytes = input.bytes(len.min((end - at) as usize));
        devices.cache.poke(at, bytes);
    }
}

/// Puts the checksums of headers right, and the chain that they make.
fn seal(devices: &mut Devices, image: &Image) {
    let mut before: Option<u32> = None;
    for (at, _) in batches(&image.devices.cache, &image.regions) {
        let mut page = vec![0; PAGE as usize];
        devices.cache.read(at, &mut page);
        let Some(len) = peek_batch_header_bytes(&page) else { return };
        page.resize(len as usize, 0);
        if at + u64::from(len) > devices.cache.len_bytes() {
            return;
        }
        devices.cache.read(at, &mut page);
        if let Some(crc) = before {
            page[64..68].copy_from_slice(&crc.to_le_bytes());
        }
        page[68..72].fill(0);
        let crc = crc32c(&page);
        page[68..72].copy_from_slice(&crc.to_le_bytes());
        before = Some(crc);
        devices.cache.poke(at, &page);
    }
}

/// Appends batches to the log, or begins it anew, with records that the input describes.
fn forge(devices: &mut Devices, image: &Image, input: &mut Input<'_>) {
    let regions = &image.regions;
    let last = batches(&devices.cache, regions).pop().map(|(_, header)| header);
    let (mut position, mut previous) = match (input.flag(), last) {
        (true, Some(last)) => (image.head, (last.position, last.crc)),
        _ => (image.tail, (u64::MAX, 0)),
    };
    let mut next_slot = FREE_SLOTS_FROM;
    for _ in 0..CHANGES_MAX {
        if input.is_empty() {
            return;
        }
        let records: Vec<LogRecord> = (0..input.below(6)).map(|_| record(input, &mut next_slot)).collect();
        let header = BatchHeader {
            log_id: regions.log_id,
            position,
            previous_position: previous.0,
            previous_crc: previous.1,
            durable_position: if input.below(16) == 15 { input.u64() } else { position },
            open_count: regions.open_count,
            ..BatchHeader::default()
        };
        let (finished, _) = encode_batch(header, &records);
        let bytes = finished.end() - position;
        let segment = u64::from(regions.log_segment_bytes);
        if bytes > segment {
            continue;
        }
        if position % segment + bytes > segment {
            position = position.next_multiple_of(segment);
        }
        let (finished, encoded) = encode_batch(BatchHeader { position, ..header }, &records);
        let at = regions.log_offset + position % regions.log_bytes;
        devices.cache.poke(at, &encoded);
        devices.cache.poke(at + encoded.len() as u64, &vec![0; finished.data_bytes as usize]);
        previous = (position, finished.crc);
        position = finished.end();
    }
}

fn record(input: &mut Input<'_>, next_slot: &mut u64) -> LogRecord {
    let component = component(input);
    match input.below(16) {
        0 => LogRecord::CreateComponent {
            component,
            object: ObjectId(u128::from(input.below(3))),
            size_blocks: input.mostly_below(64),
            reserved_blocks: input.mostly_below(16),
            device: input.mostly_below(3) as u8,
        },
        1 => LogRecord::DeleteComponent { component },
        2 => LogRecord::ResizeComponent {
            component,
            size_blocks: input.mostly_below(64),
            reserved_blocks: input.mostly_below(16),
        },
        3..=5 => LogRecord::Write {
            component,
            op: operation(input),
            settled: operation(input),
            client: client(input),
            first_block: input.mostly_below(48),
            crcs: crcs(input),
        },
        6 => LogRecord::Zero {
            component,
            op: operation(input),
            settled: operation(input),
            client: client(input),
            range: range(input),
            keep_allocated: input.flag(),
        },
        7 => LogRecord::Copy {
            component,
            op: operation(input),
            settled: operation(input),
            pieces: (0..input.below(5)).map(|_| piece(input)).collect(),
        },
        8 | 9 => LogRecord::Undo { component, op: operation(input) },
        10 => LogRecord::Settle { component, upto: operation(input) },
        11 => LogRecord::Record { object: ObjectId(u128::from(input.below(16))), bytes: input.bytes(3).to_vec() },
        12 => LogRecord::Rows {
            component,
            op: operation(input),
            settled: operation(input),
            client: client(input),
            members: u16::from(input.u8()),
            pieces: (0..input.below(4)).map(|_| piece(input)).filter(|piece| piece.data_blocks() > 0).collect(),
        },
        13 => LogRecord::ZeroRows {
            component,
            op: operation(input),
            settled: operation(input),
            client: client(input),
            members: u16::from(input.u8()),
            range: range(input),
            keep_allocated: input.flag(),
        },
        14 => cuts(component, input),
        _ => LogRecord::Placed {
            component,
            op: operation(input),
            settled: operation(input),
            pieces: (0..input.below(4)).map(|_| placed(input, next_slot)).collect(),
        },
    }
}

fn component(input: &mut Input<'_>) -> ComponentId {
    let number = usize::from(input.below(5));
    COMPONENTS.get(number).copied().unwrap_or(ComponentId(number as u128))
}

fn cuts(component: ComponentId, input: &mut Input<'_>) -> LogRecord {
    let (at, settled) = (operation(input), operation(input));
    let cuts = (0..input.below(4)).map(|_| (SnapshotId(u64::from(input.below(6))), operation(input))).collect();
    LogRecord::Cuts { component, at, settled, cuts }
}

fn operation(input: &mut Input<'_>) -> OpId {
    let epoch = input.below(4);
    op(u64::from(epoch), input.mostly_below(24))
}

fn client(input: &mut Input<'_>) -> ClientTag {
    let number = u64::from(input.below(16));
    ClientTag { session: number / 8 * 9, number }
}

fn range(input: &mut Input<'_>) -> BlockRange {
    let first = input.mostly_below(48);
    BlockRange::new(first, input.mostly_below(12) as u32)
}

/// Checksums of blocks of zeroes, which is what stands behind the header; one in many is wrong.
fn crcs(input: &mut Input<'_>) -> Crcs {
    let (count, wrong) = (input.below(6), input.u8());
    (0..count).map(|at| zero_block_crc() ^ u32::from(at == wrong)).collect()
}

/// One for each block; where there are five of them, one is lacking.
fn row_checks(crcs: &Crcs) -> Crcs {
    crcs.iter().take(4).map(|crc| crc.rotate_left(7)).collect()
}

/// Slots that are free, each once, as nobody can tell of a single slot whether it is in use; now and then some that do not exist.
fn placed(input: &mut Input<'_>, next_slot: &mut u64) -> PlacedPiece {
    if input.flag() {
        return PlacedPiece::Hole { range: range(input) };
    }
    let (first_block, crcs) = (input.mostly_below(48), crcs(input));
    let count = crcs.len() as u32;
    let first_slot = if input.below(16) == 15 { input.u64() | 1 << 32 } else { *next_slot };
    *next_slot += u64::from(count);
    let run = SlotRun { first_slot, count, generation: input.mostly_below(4) };
    match first_slot % 3 {
        0 => PlacedPiece::Parity { first_block, row_checks: row_checks(&crcs), crcs, runs: vec![run] },
        _ => PlacedPiece::Data { first_block, crcs, runs: vec![run] },
    }
}

fn piece(input: &mut Input<'_>) -> LogPiece {
    match input.flag() {
        true => match (input.mostly_below(48), crcs(input)) {
            (first_block, crcs) if first_block % 3 == 2 => {
                LogPiece::Parity { first_block, row_checks: row_checks(&crcs), crcs }
            }
            (first_block, crcs) => LogPiece::Data { first_block, crcs },
        },
        false => match range(input) {
            range if range.count % 8 == 7 => {
                LogPiece::Bad { first_block: range.first, crcs: (0..range.count.min(48)).collect() }
            }
            range => LogPiece::Hole { range },
        },
    }
}
