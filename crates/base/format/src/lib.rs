//! What Cairn writes to devices: superblock, log batch, run of a capacity segment, pages and rows of the metadata, records of seats.
//!
//! Promises    encoding is fixed (golden bytes in the tests); decoding checks a CRC-32C before it believes a
//!             field, and answers hostile bytes with an error, never with a panic or a large allocation
//! Assumes     a 4 KiB write may tear at 512 bytes; integers are little endian
//! Not here    where things are placed and when they are written (`store`); the metadata store's own pages (redb)
#![forbid(unsafe_code)]

mod batch;
mod checksum;
mod fingerprint;
mod flip;
mod history_page;
pub mod history_rows;
mod map_page;
pub mod map_rows;
mod packed;
mod record;
pub mod rows;
mod run;
mod seat;
pub mod shared_rows;
mod spot;
mod superblock;
mod varint;

pub use batch::{
    BATCH_HEADER_BYTES_MAX, BATCH_RECORDS_OFFSET, BatchError, BatchHeader, decode_batch_header, decode_batch_records,
    encode_batch, peek_batch_header_bytes, peek_batch_position,
};
pub use checksum::{block_crcs, crc32c, zero_block_crc};
pub use fingerprint::fingerprint;
pub use flip::{is_one_bit_off, one_bit_off_header};
pub use history_page::{
    HistoryAt, HistoryPage, HistoryPageName, PackedHistoryPage, decode_history_page, pack_history_pages,
    peek_history_page,
};
pub use map_page::{
    LEAF_BLOCKS, MAP_PAGE_BYTES, MapEntry, MapPage, MapPageName, PackedPage, SHARD_BLOCKS, decode_map_page,
    pack_map_pages, peek_map_page,
};
pub use packed::{Packer, unpack};
pub use record::{COMPONENT_BLOCKS_MAX, CUTS_MAX, KEPT_ZERO_BLOCKS_MAX, LogPiece, LogRecord, PlacedPiece, SlotRun};
pub use run::{
    ItemShape, RUN_ENTRIES_PER_HEADER_MAX, RUN_ITEM_BYTES, RunEntry, RunError, RunHeader, RunShape, decode_run_header,
    encode_run_header, packed_header_pages, run_header_pages,
};
pub use seat::{decode_seat_record, encode_seat_record};
pub use spot::{NAME_GENERATIONS, PACKED_SECTORS_MAX, PAGE_SECTORS, SECTOR_BYTES, Spot};
pub use superblock::{
    CacheRegions, CapacityRegions, DeviceRole, NO_DEVICE, Needs, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock,
    SuperblockError, decode_superblock, encode_superblock,
};
