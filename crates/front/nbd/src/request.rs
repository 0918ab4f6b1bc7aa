//! Requests: 28 bytes to a value, and what the disk's bounds make of it. No I/O.
//!
//! Promises    what [`plan`] lets through is a multiple of 512, inside the disk, and within the payload limit
//!             nothing that would change a read-only disk is let through
//! Source      "NBD protocol", sections "Transmission" and "Request types"

use cairn_types::SECTOR_BYTES;

use crate::{
    option::NotNbd,
    wire::{Errno, PAYLOAD_BYTES_MAX, REQUEST_MAGIC, cflag, cmd},
};

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;

/// A request as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Flags, see `cflag`.
    pub flags: u16,
    /// Command, see `cmd`.
    pub command: u16,
    /// Repeated in the answer.
    pub cookie: u64,
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub len_bytes: u32,
}

impl Request {
    /// Reads a request.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, NotNbd> {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        if u32_at(0) != REQUEST_MAGIC {
            return Err(NotNbd("a request does not start with its magic number"));
        }
        Ok(Self { flags: u16_at(4), command: u16_at(6), cookie: u64_at(8), offset: u64_at(16), len_bytes: u32_at(24) })
    }

    /// Bytes that follow the request on the wire.
    pub fn payload_bytes(&self) -> u32 {
        if self.command == cmd::WRITE { self.len_bytes } else { 0 }
    }

    /// Memory that the request and its answer may take, roughly, where so many contexts are told of.
    pub fn cost_bytes(&self, contexts: usize) -> usize {
        match self.command {
            cmd::READ | cmd::WRITE if self.len_bytes <= PAYLOAD_BYTES_MAX => {
                self.len_bytes as usize + REQUEST_COST_BYTES
            }
            cmd::BLOCK_STATUS => BLOCK_STATUS_COST_BYTES * contexts.max(1),
            _ => REQUEST_COST_BYTES,
        }
    }
}

/// Bookkeeping of any request.
const REQUEST_COST_BYTES: usize = 512;
/// [`STATUS_BYTES_MAX`] with every other block a hole: 65,536 extents of 16 bytes from the disk, for each context.
const BLOCK_STATUS_COST_BYTES: usize = 1 << 20;
/// Bytes of disk that one block status request is answered for, at most: an answer may cover less than was asked.
pub const STATUS_BYTES_MAX: u32 = 256 << 20;

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Ask the disk.
    Run(Command),
    /// Answer with an error.
    Refuse(Errno, &'static str),
    /// The client leaves: finish what runs, then close.
    Disconnect,
}

/// A request that the disk can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Command {
    Read {
        offset: u64,
        len_bytes: u32,
        /// One chunk with all of it.
        unfragmented: bool,
    },
    Write {
        offset: u64,
        len_bytes: u32,
    },
    WriteZeroes {
        offset: u64,
        len_bytes: u32,
        keep_allocated: bool,
    },
    Trim {
        offset: u64,
        len_bytes: u32,
    },
    Flush,
    BlockStatus {
        offset: u64,
        len_bytes: u32,
        one_extent: bool,
    },
    Cache {
        offset: u64,
        len_bytes: u32,
    },
}

impl Command {
    /// Whether the disk is another one afterwards.
    fn changes_the_disk(self) -> bool {
        match self {
            Self::Write { .. } | Self::WriteZeroes { .. } | Self::Trim { .. } => true,
            Self::Read { .. } | Self::Flush | Self::BlockStatus { .. } | Self::Cache { .. } => false,
        }
    }
}

/// What was negotiated, as far as requests are judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of the disk when it was opened.
    pub size_bytes: u64,
    /// Whether the disk takes no change.
    pub read_only: bool,
    /// Answers go in chunks.
    pub structured: bool,
    /// So many metadata contexts were selected.
    pub contexts: usize,
}

/// Judges a request.
pub fn plan(request: &Request, terms: &Terms) -> Plan {
    // FUA is taken on every command, as the protocol asks, and changes nothing: every acknowledged write is durable.
    let allowed = cflag::FUA
        | match request.command {
            cmd::READ if terms.structured => cflag::DF,
            cmd::WRITE_ZEROES => cflag::NO_HOLE | cflag::FAST_ZERO,
            cmd::BLOCK_STATUS => cflag::REQ_ONE,
            _ => 0,
        };
    let has = |flag| request.flags & flag != 0;
    let (offset, len_bytes) = (request.offset, request.len_bytes);
    let command = match request.command {
        cmd::READ => Command::Read { offset, len_bytes, unfragmented: has(cflag::DF) },
        cmd::WRITE => Command::Write { offset, len_bytes },
        cmd::DISC => return Plan::Disconnect,
        cmd::FLUSH => Command::Flush,
        cmd::TRIM => Command::Trim { offset, len_bytes },
        cmd::CACHE => Command::Cache { offset, len_bytes },
        cmd::WRITE_ZEROES => Command::WriteZeroes { offset, len_bytes, keep_allocated: has(cflag::NO_HOLE) },
        cmd::BLOCK_STATUS if terms.contexts > 0 => {
            Command::BlockStatus { offset, len_bytes: len_bytes.min(STATUS_BYTES_MAX), one_extent: has(cflag::REQ_ONE) }
        }
        cmd::BLOCK_STATUS => {
            return Plan::Refuse(Errno::Invalid, "no metadata context was negotiated");
        }
        _ => return Plan::Refuse(Errno::Invalid, "this server does not know the command"),
    };
    // First of all refusals: no other range and no other flags would help.
    if terms.read_only && command.changes_the_disk() {
        return Plan::Refuse(Errno::NotPermitted, "the disk is read-only");
    }
    if has(!allowed) {
        return Plan::Refuse(Errno::Invalid, "the command does not take these flags");
    }
    if let Some(refusal) = refuse_range(request, terms.size_bytes) {
        return refusal;
    }
    // A hole is made by changing the map; zeros that keep their space may have to be written.
    if has(cflag::FAST_ZERO) && has(cflag::NO_HOLE) {
        return Plan::Refuse(Errno::NotSupported, "zeros that keep their space are not fast");
    }
    Plan::Run(command)
}

fn refuse_range(request: &Request, size_bytes: u64) -> Option<Plan> {
    let refuse = |errno, text| Some(Plan::Refuse(errno, text));
    let (offset, len) = (request.offset, u64::from(request.len_bytes));
    if request.command == cmd::FLUSH {
        if (offset, len) == (0, 0) {
            return None;
        }
        return refuse(Errno::Invalid, "a flush has no range");
    }
    if len == 0 {
        return refuse(Errno::Invalid, "the length is zero");
    }
    let sector = u64::from(SECTOR_BYTES);
    if !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) {
        return refuse(Errno::Invalid, "offset and length must be multiples of 512 bytes");
    }
    let moves_data = matches!(request.command, cmd::READ | cmd::WRITE);
    if moves_data && request.len_bytes > PAYLOAD_BYTES_MAX {
        return refuse(Errno::Invalid, "one request reads or writes at most 32 MiB");
    }
    if offset.checked_add(len).is_none_or(|end| end > size_bytes) {
        let errno = match request.command {
            cmd::WRITE | cmd::WRITE_ZEROES => Errno::NoSpace,
            _ => Errno::Invalid,
        };
        return refuse(errno, "the range goes past the end of the disk");
    }
    None
}
