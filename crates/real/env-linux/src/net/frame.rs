//! Frames: a fixed header of 64 bytes, the body, the payload.
//!
//! Promises    a header that parses was sent as such by somebody who speaks this protocol: magic, lengths and CRC agree
//! Not here    the CRC of payloads: block data carries its own, checked by whoever uses it
//!
//! ```text
//! 0 magic  4 kind  5 zero  24 body bytes  28 payload bytes  32 CRC-32C of the body  36 zero  60 CRC-32C of 0..60
//! ```
//! All numbers are little-endian.

use cairn_types::{ClusterId, HostId, Incarnation};

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of a body, at most.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of a payload, at most: the largest guest request and the edges of its blocks, rounded up.
pub(crate) const PAYLOAD_BYTES_MAX: usize = (32 << 20) + (64 << 10);
/// Bytes of a body before the handshake is done, at most.
pub(crate) const GREETING_BYTES_MAX: usize = 1024;
/// The version of the frames and of the handshake.
const FRAME_VERSION: u32 = 2;

const MAGIC: [u8; 4] = *b"CRNf";
const GREETING_BYTES: usize = 72;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The dialer's first frame; its body is a [`Greeting`].
    Hello = 1,
    /// The answer that lets it in; its body is a [`Greeting`].
    Welcome = 2,
    /// The answer that does not; its body says why, in words.
    Refuse = 3,
    Message = 4,
    /// "Do you still read this connection?"
    Ping = 5,
    Pong = 6,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("these are not frames of Cairn")]
    Magic,
    #[error("a frame's header is damaged")]
    HeaderCrc,
    #[error("a frame has an unknown kind")]
    Unknown,
    #[error("a frame is longer than allowed")]
    TooLong,
    #[error("a frame's body is damaged")]
    BodyCrc,
    #[error("the greeting is malformed")]
    Greeting,
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: Kind,
    pub body_bytes: usize,
    pub payload_bytes: usize,
    body_crc: u32,
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Four bytes at `at` as a number.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Header {
    /// The header of a frame with this body and so many bytes of payload.
    pub fn of(kind: Kind, body: &[u8], payload_bytes: usize) -> Self {
        Self { kind, body_bytes: body.len(), payload_bytes, body_crc: crc(body) }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[24..28].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&(self.payload_bytes as u32).to_le_bytes());
        bytes[32..36].copy_from_slice(&self.body_crc.to_le_bytes());
        let sum = crc(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header; nothing in it may be believed before this has returned it.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic);
        }
        if crc(&bytes[..60]) != word(bytes, 60) {
            return Err(FrameError::HeaderCrc);
        }
        let kind = match bytes[4] {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Refuse,
            4 => Kind::Message,
            5 => Kind::Ping,
            6 => Kind::Pong,
            _ => return Err(FrameError::Unknown),
        };
        let header = Self {
            kind,
            body_bytes: word(bytes, 24) as usize,
            payload_bytes: word(bytes, 28) as usize,
            body_crc: word(bytes, 32),
        };
        let (body_max, payload_max) = match kind {
            Kind::Message => (BODY_BYTES_MAX, PAYLOAD_BYTES_MAX),
            Kind::Ping | Kind::Pong => (0, 0),
            _ => (GREETING_BYTES_MAX, 0),
        };
        if header.body_bytes > body_max || header.payload_bytes > payload_max {
            return Err(FrameError::TooLong);
        }
        Ok(header)
    }

    pub fn check_body(&self, body: &[u8]) -> Result<(), FrameError> {
        if crc(body) == self.body_crc { Ok(()) } else { Err(FrameError::BodyCrc) }
    }
}

/// Who speaks, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub protocol: u32,
    pub cluster: ClusterId,
    pub host: HostId,
    /// Whom the speaker believes to talk to: an address may have passed to another host.
    pub to: HostId,
    pub incarnation: Incarnation,
    /// Drawn at the start of the process: tells two processes of one incarnation apart.
    pub process: u64,
}

/// What a greeting says, or the version of frames that its sender speaks.
pub(crate) enum Greeted {
    By(Greeting),
    Version(u32),
}

impl Greeting {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GREETING_BYTES);
        bytes.extend_from_slice(&FRAME_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.protocol.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.host.0.to_le_bytes());
        bytes.extend_from_slice(&self.to.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.process.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Greeted, FrameError> {
        if bytes.len() < 4 {
            return Err(FrameError::Greeting);
        }
        // The version comes first for ever, so that hosts of different releases can name the difference.
        let version = word(bytes, 0);
        if version != FRAME_VERSION {
            return Ok(Greeted::Version(version));
        }
        if bytes.len() != GREETING_BYTES {
            return Err(FrameError::Greeting);
        }
        let long = |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
        let short = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Ok(Greeted::By(Self {
            protocol: word(bytes, 4),
            cluster: ClusterId(long(8)),
            host: HostId(long(24)),
            to: HostId(long(40)),
            incarnation: Incarnation(short(56)),
            process: short(64),
        }))
    }
}

/// A whole frame without payload.
pub(crate) fn small_frame(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut frame = Header::of(kind, body, 0).encode().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// The version that a refusal names as ours.
pub(crate) fn frame_version() -> u32 {
    FRAME_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_no_flipped_bit_does() {
        let header = Header::of(Kind::Message, b"body", 4096);
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn lengths_over_the_bounds_are_refused() {
        let mut header = Header::of(Kind::Message, b"", 0);
        header.payload_bytes = PAYLOAD_BYTES_MAX + 1;
        assert_eq!(Header::decode(&header.encode()), Err(FrameError::TooLong));
        let mut header = Header::of(Kind::Hello, b"", 0);
        header.body_bytes = GREETING_BYTES_MAX + 1;
        assert_eq!(Header::decode(&header.encode()), Err(FrameError::TooLong));
    }

    #[test]
    fn a_greeting_reads_back() {
        let greeting = Greeting {
            protocol: 3,
            cluster: ClusterId(1),
            host: HostId(2),
            to: HostId(3),
            incarnation: Incarnation(4),
            process: 5,
        };
        let bytes = greeting.encode();
        assert!(matches!(Greeting::decode(&bytes), Ok(Greeted::By(back)) if back == greeting));
        assert!(Greeting::decode(&bytes[..71]).is_err());
        assert!(matches!(Greeting::decode(&[9, 0, 0, 0]), Ok(Greeted::Version(9))));
    }
}
