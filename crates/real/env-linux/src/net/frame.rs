//! Frames: a fixed header of 64 bytes, the body, the payload.
//!
//! Promises    a header that parses was sent as such by somebody who speaks this protocol: magic, lengths and CRC agree
//! Not here    the CRC of payloads: block data carries its own, checked by whoever uses it
//!
//! ```text
//! 0 magic  4 kind  5 zero  24 body bytes  28 payload bytes  32 CRC-32C of the body  36 build  60 CRC-32C of 0..60
//! ```
//! All numbers are little-endian. The build stands in the headers of greetings only, elsewhere there are zeros:
//!
//! ```text
//! 36 least level that it speaks (u16)  38 highest (u16)  40 its version as text, filled up with zeros
//! ```
//! Release 0.2.0 takes a greeting of exactly 72 bytes with its own level in it, and looks at none of these 24 bytes: so they are where
//! builds tell of themselves, and the greeting itself has the cluster's level. Zeros are a build that tells nothing.

use cairn_types::{Build, ClusterId, HostId, Incarnation, Level, Speaks};

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
/// Where the build stands in the header of a greeting, and how long it is.
const BUILD_AT: std::ops::Range<usize> = 36..60;
const BUILD_BYTES: usize = 24;
/// Bytes of a version that is told, at most.
const VERSION_BYTES_MAX: usize = 20;

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
    /// Zeros but in greetings.
    build: [u8; BUILD_BYTES],
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
        Self { kind, body_bytes: body.len(), payload_bytes, body_crc: crc(body), build: [0; BUILD_BYTES] }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[24..28].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&(self.payload_bytes as u32).to_le_bytes());
        bytes[32..36].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[BUILD_AT].copy_from_slice(&self.build);
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
            build: bytes[BUILD_AT].try_into().expect("as many bytes"),
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

fn encode_build(build: &Build) -> [u8; BUILD_BYTES] {
    let mut bytes = [0; BUILD_BYTES];
    let level = |level: Level| u16::try_from(level.0).expect("levels are counted by ones").to_le_bytes();
    bytes[..2].copy_from_slice(&level(build.speaks.least));
    bytes[2..4].copy_from_slice(&level(build.speaks.highest));
    let version = &build.version[..build.version.floor_char_boundary(VERSION_BYTES_MAX)];
    bytes[4..4 + version.len()].copy_from_slice(version.as_bytes());
    bytes
}

/// The build that a header tells of; none: it tells nothing.
fn decode_build(bytes: &[u8; BUILD_BYTES]) -> Result<Option<Build>, FrameError> {
    let level = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (least, highest) = (level(0), level(2));
    if (least, highest) == (0, 0) {
        return Ok(None);
    }
    let text = bytes[4..].split(|byte| *byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(text) {
        Ok(version) if least <= highest && !version.chars().any(char::is_control) => {
            Ok(Some(Build { version: version.to_owned(), speaks: Speaks::of(least, highest) }))
        }
        _ => Err(FrameError::Greeting),
    }
}

/// Who speaks, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The level that the speaker takes the cluster for. Builds without ranges say the one that they speak.
    pub level: Level,
    /// What the speaker runs.
    pub build: Build,
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
    /// The whole frame.
    pub fn frame(&self, kind: Kind) -> Vec<u8> {
        let body = self.encode();
        let header = Header { build: encode_build(&self.build), ..Header::of(kind, &body, 0) };
        let mut frame = header.encode().to_vec();
        frame.extend_from_slice(&body);
        frame
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(GREETING_BYTES);
        bytes.extend_from_slice(&FRAME_VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.level.0.to_le_bytes());
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.host.0.to_le_bytes());
        bytes.extend_from_slice(&self.to.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.0.to_le_bytes());
        bytes.extend_from_slice(&self.process.to_le_bytes());
        bytes
    }

    /// Reads the body of a greeting that came under this header.
    pub fn decode(header: &Header, bytes: &[u8]) -> Result<Greeted, FrameError> {
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
        let level = Level(word(bytes, 4));
        Ok(Greeted::By(Self {
            level,
            build: decode_build(&header.build)?.unwrap_or_else(|| Build::untold(level)),
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

    fn greeting() -> Greeting {
        Greeting {
            level: Level(12),
            build: Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) },
            cluster: ClusterId(1),
            host: HostId(2),
            to: HostId(3),
            incarnation: Incarnation(4),
            process: 5,
        }
    }

    /// The header and the body of a whole frame.
    fn split(frame: &[u8]) -> (Header, &[u8]) {
        let (header, body) = frame.split_first_chunk().expect("a header");
        let header = Header::decode(header).expect("a sound header");
        assert_eq!(header.check_body(body), Ok(()));
        (header, body)
    }

    #[test]
    fn a_greeting_reads_back() {
        let greeting = greeting();
        let frame = greeting.frame(Kind::Hello);
        let (header, body) = split(&frame);
        assert!(matches!(Greeting::decode(&header, body), Ok(Greeted::By(back)) if back == greeting));
        assert!(Greeting::decode(&header, &body[..71]).is_err());
        assert!(matches!(Greeting::decode(&header, &[9, 0, 0, 0]), Ok(Greeted::Version(9))));
        let long = Build { version: "0.3.0-of-a-very-long-name".into(), ..greeting.build.clone() };
        let frame = Greeting { build: long, ..greeting }.frame(Kind::Hello);
        let (header, body) = split(&frame);
        let Ok(Greeted::By(back)) = Greeting::decode(&header, body) else { panic!("it reads") };
        assert_eq!(back.build.version, "0.3.0-of-a-very-long");
    }

    /// Goal: release 0.2.0 takes our greeting, and we take its. Method: the bytes that it sends, written down when it was current; ours
    /// differ in the build and its sum only.
    #[test]
    fn release_0_2_0_and_this_build_read_each_other() {
        let theirs = hex(include_str!("greeting-0.2.0.hex"));
        let (header, body) = split(&theirs);
        let Ok(Greeted::By(read)) = Greeting::decode(&header, body) else { panic!("it reads") };
        assert_eq!(read, Greeting { build: Build::untold(Level(12)), ..greeting() });
        let ours = greeting().frame(Kind::Hello);
        assert_eq!((&ours[..36], &ours[HEADER_BYTES..]), (&theirs[..36], &theirs[HEADER_BYTES..]));
        assert_eq!(&theirs[BUILD_AT], &[0; 24]);
    }

    #[test]
    fn a_build_that_makes_no_sense_is_refused() {
        let good = greeting().frame(Kind::Hello);
        let (header, body) = split(&good);
        for (at, value) in [(0, 99), (4, 0xff), (5, b'\n')] {
            let mut bad = header;
            bad.build[at] = value;
            assert!(matches!(Greeting::decode(&bad, body), Err(FrameError::Greeting)), "{at}");
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|two| (two[0] * 16 + two[1]) as u8).collect()
    }
}
