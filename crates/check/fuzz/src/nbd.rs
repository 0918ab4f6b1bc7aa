//! What an NBD client may send to the server, over a stream in memory.
//!
//! Promises    whatever is sent, the server ends once the client has left; with well-formed requests, one at a time: a request
//!             that the protocol allows succeeds, one that it does not is answered with an error and changes nothing, and
//!             what is read is what was written
//! Source      the protocol's text, as in `cairn-nbd`; the numbers here are written down anew, so that a wrong one shows

use std::rc::Rc;

use cairn_nbd::{Limits, serve_stream};
use cairn_volume::{Guest, VolumeError};
use futures::future::join;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::{
    input::Input,
    volume::{MemoryVolume, OneDisk},
};

const SIZE_BYTES: u64 = 24 << 10;
/// Bytes that are under way in each direction, at most.
const PIPE_BYTES: usize = 64 << 10;
/// Payload of one request that is really sent, at most; one that claims more is cut off, and the client leaves.
const SENT_BYTES_MAX: usize = 64 << 10;
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const CONTEXTS: [&str; 3] = ["base:allocation", "qemu:dirty-bitmap:then", "cairn:changed-since:then"];

struct Somebody;

impl Guest for Somebody {
    fn has_left(&self) -> bool {
        false
    }
    fn leaves_visibly(&self) -> bool {
        true
    }
}

/// The first byte chooses: bytes as they are, bytes after a good negotiation, or well-formed requests.
pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    let mode = input.u8();
    let fault = match mode >> 4 & 7 {
        0..=3 => None,
        4 => Some(VolumeError::NoSpace("full".to_owned())),
        5 => Some(VolumeError::Io("the medium".to_owned())),
        6 => Some(VolumeError::Shutdown("stopping".to_owned())),
        _ => Some(VolumeError::Abandoned("too old".to_owned())),
    };
    let contexts = if mode & 8 == 0 { 0 } else { 1 + usize::from(mode >> 7) * 2 };
    let disk = MemoryVolume::new(SIZE_BYTES, fault.clone());
    let (client, server) = duplex(PIPE_BYTES);
    let serving = serve_stream(server, Rc::new(Somebody), OneDisk(disk.clone()), Limits::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    match mode & 3 {
        0 => runtime.block_on(join(serving, send_raw(client, input.rest().to_vec()))),
        1 => {
            let mut sent = negotiation(mode & 4 != 0, contexts);
            sent.extend_from_slice(input.rest());
            runtime.block_on(join(serving, send_raw(client, sent)))
        }
        _ => {
            let session = Session {
                stream: client,
                structured: mode & 4 != 0,
                contexts: if mode & 4 == 0 { 0 } else { contexts },
                fault,
                model: vec![0; SIZE_BYTES as usize],
                cookie: 0,
            };
            runtime.block_on(join(serving, session.run(input)))
        }
    };
}

/// Sends everything while it reads whatever comes.
async fn send_raw(client: DuplexStream, bytes: Vec<u8>) {
    let (mut from, mut to) = tokio::io::split(client);
    let send = async move {
        // The server may have closed the connection long before the end.
        let _ = to.write_all(&bytes).await;
        let _ = to.shutdown().await;
    };
    let receive = async move {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all).await;
    };
    join(send, receive).await;
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [OPTION_MAGIC.as_slice(), &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// All that a client says until requests may come.
fn negotiation(structured: bool, contexts: usize) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    if structured {
        bytes.extend(option(8, &[]));
    }
    let name = b"disk";
    if structured && contexts > 0 {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend((contexts as u32).to_be_bytes());
        for query in &CONTEXTS[..contexts] {
            data.extend((query.len() as u32).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        bytes.extend(option(10, &data));
    }
    let go = [(name.len() as u32).to_be_bytes().as_slice(), name, &0u16.to_be_bytes()].concat();
    bytes.extend(option(7, &go));
    bytes
}

/// A client that asks one thing at a time and knows what the answer must be.
struct Session {
    stream: DuplexStream,
    structured: bool,
    /// Metadata contexts that are selected, the first of [`CONTEXTS`].
    contexts: usize,
    fault: Option<VolumeError>,
    model: Vec<u8>,
    cookie: u64,
}

/// The connection ended.
struct Closed;

impl From<std::io::Error> for Closed {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

struct Request {
    command: u16,
    flags: u16,
    offset: u64,
    len: u32,
}

/// An answer: the error number, or the data.
type Answer = Result<Vec<u8>, u32>;

impl Session {
    async fn run(mut self, mut input: Input<'_>) {
        if self.negotiate().await.is_err() {
            panic!("a good negotiation failed");
        }
        while !input.is_empty() {
            if self.one(&mut input).await.is_err() {
                break;
            }
        }
        // The client leaves without a word; the server must end all the same.
    }

    async fn negotiate(&mut self) -> Result<(), Closed> {
        self.stream.write_all(&negotiation(self.structured, self.contexts)).await?;
        let mut greeting = [0; 18];
        self.stream.read_exact(&mut greeting).await?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        loop {
            let mut head = [0; 20];
            self.stream.read_exact(&mut head).await?;
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let mut data = vec![0; word(16) as usize];
            self.stream.read_exact(&mut data).await?;
            assert!(word(12) >> 31 == 0, "option {} was refused: {:#x}", word(8), word(12));
            if (word(8), word(12)) == (7, 1) {
                return Ok(());
            }
        }
    }

    fn request(&self, input: &mut Input<'_>) -> Request {
        let sectors = SIZE_BYTES / 512;
        let command = u16::from(input.below(10));
        let flags = match input.u8() {
            flags @ 0..32 => u16::from(flags),
            255 => input.u16(),
            _ => 0,
        };
        let place = input.u8();
        let (offset, len) = match place {
            0..248 => (u64::from(input.u8()) % (sectors + 2) * 512, u32::from(input.below(12)) * 512),
            248..252 => (input.u64(), input.u32()),
            _ => (u64::from(input.u16()), u32::from(input.u16())),
        };
        // A flush has no range; one time in many it has.
        if command == 3 && place < 192 {
            Request { command, flags, offset: 0, len: 0 }
        } else {
            Request { command, flags, offset, len }
        }
    }

    async fn one(&mut self, input: &mut Input<'_>) -> Result<(), Closed> {
        let request = self.request(input);
        self.cookie += 1;
        let mut head = 0x2560_9513u32.to_be_bytes().to_vec();
        head.extend(request.flags.to_be_bytes());
        head.extend(request.command.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(request.offset.to_be_bytes());
        head.extend(request.len.to_be_bytes());
        let mut payload = Vec::new();
        if request.command == 1 {
            let fill = self.cookie as u8;
            payload = (0..request.len.min(SENT_BYTES_MAX as u32)).map(|at| fill ^ at as u8 ^ (at >> 8) as u8).collect();
        }
        self.stream.write_all(&head).await?;
        self.stream.write_all(&payload).await?;
        if request.command == 1 && request.len as usize > SENT_BYTES_MAX {
            return Err(Closed);
        }
        let answer = self.answer(&request).await;
        if request.command == 2 {
            assert!(answer.is_err(), "a goodbye was answered");
        }
        let answer = answer?;
        self.judge(&request, &payload, answer);
        Ok(())
    }

    async fn answer(&mut self, request: &Request) -> Result<Answer, Closed> {
        let mut magic = [0; 4];
        self.stream.read_exact(&mut magic).await?;
        if magic == 0x6744_6698u32.to_be_bytes() {
            let mut rest = [0; 12];
            self.stream.read_exact(&mut rest).await?;
            assert_eq!(rest[4..], self.cookie.to_be_bytes(), "an answer to another request");
            let error = u32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
            let mut data = vec![0; if error == 0 && request.command == 0 { request.len as usize } else { 0 }];
            assert!(data.is_empty() || !self.structured, "data in a simple answer of a structured session");
            self.stream.read_exact(&mut data).await?;
            return Ok(if error == 0 { Ok(data) } else { Err(error) });
        }
        assert!(self.structured, "a structured answer that was not agreed on");
        let mut data =
            vec![0; if request.command == 0 && request.len <= SIZE_BYTES as u32 { request.len as usize } else { 0 }];
        let (mut error, mut covered) = (None, 0);
        loop {
            assert_eq!(magic, 0x668e_33efu32.to_be_bytes(), "neither answer nor chunk");
            let mut head = [0; 16];
            self.stream.read_exact(&mut head).await?;
            let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            assert_eq!(head[4..12], self.cookie.to_be_bytes(), "an answer to another request");
            let mut body = vec![0; u32::from_be_bytes(head[12..].try_into().expect("four bytes")) as usize];
            self.stream.read_exact(&mut body).await?;
            covered += chunk(short(2), &body, request, &mut data, &mut error);
            if short(0) & 1 == 1 {
                break;
            }
            self.stream.read_exact(&mut magic).await?;
        }
        if let Some(error) = error {
            return Ok(Err(error));
        }
        match request.command {
            0 => assert_eq!(covered, u64::from(request.len), "chunks do not cover what was read"),
            7 => {
                let most = u64::from(request.len) * self.contexts as u64;
                assert!(covered > 0 && covered <= most, "extents cover {covered}");
            }
            _ => assert_eq!(covered, 0),
        }
        Ok(Ok(data))
    }

    fn judge(&mut self, request: &Request, payload: &[u8], answer: Answer) {
        let (offset, len) = (request.offset, u64::from(request.len));
        let inside = offset.checked_add(len).is_some_and(|end| end <= SIZE_BYTES);
        let sectors = offset.is_multiple_of(512) && len.is_multiple_of(512);
        let legal = match request.command {
            0 | 1 | 4 | 5 | 6 => inside && sectors && len > 0,
            3 => (offset, len) == (0, 0),
            7 => self.contexts > 0 && inside && sectors && len > 0,
            _ => false,
        };
        let flags_allowed = match request.command {
            0 if self.structured => 0b101,
            6 => 0b1_0011,
            7 => 0b1001,
            _ => 0b1,
        };
        let legal = legal && request.flags & !flags_allowed == 0 && !(request.command == 6 && request.flags & 18 == 18);
        let faulty = self.fault.is_some() && request.command != 3 && offset.saturating_add(len) > SIZE_BYTES - 4096;
        match answer {
            Err(error) => {
                assert!(!legal || faulty, "a legal request was refused with {error}: {}+{len}", request.offset);
                assert!([5, 22, 28, 95, 108].contains(&error), "error {error} is none of the protocol");
            }
            Ok(data) => {
                assert!(
                    legal && !faulty,
                    "command {} at {offset}+{len} flags {:#x} was taken",
                    request.command,
                    request.flags
                );
                let range = offset as usize..(offset + len) as usize;
                match request.command {
                    0 => assert!(data == self.model[range], "read {offset}+{len}: other bytes than were written"),
                    1 => self.model[range].copy_from_slice(payload),
                    4 | 6 => self.model[range].fill(0),
                    _ => {}
                }
            }
        }
    }
}

/// Takes one chunk in; returns the bytes of disk that it tells of.
fn chunk(kind: u16, body: &[u8], request: &Request, data: &mut [u8], error: &mut Option<u32>) -> u64 {
    let word = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"));
    let place = || {
        let at = u64::from_be_bytes(body[..8].try_into().expect("eight bytes")) - request.offset;
        at as usize
    };
    match kind {
        0 => 0,
        1 => {
            let part = &body[8..];
            data[place()..][..part.len()].copy_from_slice(part);
            part.len() as u64
        }
        2 => {
            data[place()..][..word(8) as usize].fill(0);
            u64::from(word(8))
        }
        5 => body[4..]
            .chunks_exact(8)
            .map(|e| u64::from(u32::from_be_bytes(e[..4].try_into().expect("four bytes"))))
            .sum(),
        0x8001 => {
            *error = Some(word(0));
            0
        }
        _ => panic!("an unknown chunk of kind {kind:#x}"),
    }
}
