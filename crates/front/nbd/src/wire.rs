//! The protocol's numbers, named as its text names them. All integers on the wire are big-endian.
//!
//! Promises    nothing but names; a number that is not here is not spoken
//! Source      "NBD protocol", sections "Values" and "Request types"

/// First eight bytes of the greeting.
pub const MAGIC: [u8; 8] = *b"NBDMAGIC";
/// Second eight bytes of the greeting, and the start of every option.
pub const OPTION_MAGIC: [u8; 8] = *b"IHAVEOPT";
/// Start of every answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag: fixed newstyle negotiation.
pub const FLAG_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Handshake flag: EXPORT_NAME is answered without 124 zero bytes.
pub const FLAG_NO_ZEROES: u32 = 1 << 1;

/// Options.
#[allow(missing_docs)]
pub mod opt {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
#[allow(missing_docs)]
pub mod rep {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    pub const ERR_POLICY: u32 = 0x8000_0002;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    pub const ERR_SHUTDOWN: u32 = 0x8000_0007;
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

/// Kinds of information in answers to INFO and GO.
#[allow(missing_docs)]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
#[allow(missing_docs)]
pub mod tflag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
#[allow(missing_docs)]
pub mod cmd {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
#[allow(missing_docs)]
pub mod cflag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Kinds of chunks of a structured reply.
#[allow(missing_docs)]
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 0x8001;
    /// Flag of the last chunk of a reply.
    pub const DONE: u16 = 1;
}

/// The metadata context that every disk has.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The id that it gets on every connection.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// With the name of an earlier moment behind it: what changed since, as QEMU tells it.
pub const QEMU_DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";
/// With the name of an earlier moment behind it: the allocation that an overlay over a copy of that moment has.
pub const CAIRN_CHANGED_SINCE: &str = "cairn:changed-since:";
/// `base:allocation` flags: takes no space.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation` flags: reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;
/// `qemu:dirty-bitmap` flags: may have changed.
pub const STATE_DIRTY: u32 = 1 << 0;

/// Longest string of the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Largest read or write of one request, in bytes; announced to clients.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Announced preferred request size, in bytes.
pub const PREFERRED_BYTES: u32 = 4096;

/// What this server offers on a disk.
///
/// Multi-conn promises that a flush on one connection covers writes answered on all: true, as every answered write is durable.
pub fn transmission_flags(structured: bool, read_only: bool) -> u16 {
    let always = tflag::HAS_FLAGS | tflag::SEND_FLUSH | tflag::SEND_FUA | tflag::CAN_MULTI_CONN | tflag::SEND_CACHE;
    // A flag offers what it names: commands that are refused are not offered.
    let changes =
        if read_only { tflag::READ_ONLY } else { tflag::SEND_TRIM | tflag::SEND_WRITE_ZEROES | tflag::SEND_FAST_ZERO };
    // "Do not fragment" means something only where answers come in chunks.
    let chunks = if structured { tflag::SEND_DF } else { 0 };
    always | changes | chunks
}

/// Error numbers of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// A change to a disk that is read-only.
    NotPermitted = 1,
    /// The disk cannot be read or written.
    Io = 5,
    /// Not a request that the disk takes.
    Invalid = 22,
    /// No room, or a write past the end.
    NoSpace = 28,
    /// A fast zero that would not be fast.
    NotSupported = 95,
    /// The server or the disk is going away.
    Shutdown = 108,
}
