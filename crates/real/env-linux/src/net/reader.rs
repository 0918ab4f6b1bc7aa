//! Takes frames out of a socket: few large reads, payloads received in place.
//!
//! Promises    one system call per wake takes everything that arrived, up to [`READ_BYTES`] beyond the message under way; while
//!             payloads are large, up to the head of the next one ([`LARGE_READ_BYTES`]): a call for each message, and no copy
//!             a payload is one 4 KiB aligned piece; what did not come with the first read goes straight into it
//!             memory: the buffer, and one message whose header was checked

use std::{
    io::{self, IoSliceMut},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use cairn_env::PageBuf;

use super::{
    frame::{FrameError, Greeting, HEADER_BYTES, Header, Kind},
    socket::Socket,
};

/// Bytes that one read takes, at most, beside the rest of a message under way.
///
/// Napkin: 32 messages of 4 KiB and their headers are 140 KiB; twice that leaves room for smaller ones between.
const READ_BYTES: usize = 256 << 10;

/// After a payload of this size the next one is likely as large: then only its head is read into the buffer, and all else goes straight
/// to its place, without a copy.
const LARGE_PAYLOAD_BYTES: usize = 64 << 10;
/// Bytes that are read beyond the message under way while payloads are large.
const LARGE_READ_BYTES: usize = 4096;

/// A frame that arrived whole, its body checked.
pub(crate) struct Frame {
    pub header: Header,
    pub body: Bytes,
    pub payload: Bytes,
}

/// A frame whose header is there.
struct Partial {
    header: Header,
    body: Vec<u8>,
    body_filled: usize,
    payload: PageBuf,
    payload_filled: usize,
}

impl Partial {
    fn new(header: Header) -> Self {
        Self {
            header,
            body: vec![0; header.body_bytes],
            body_filled: 0,
            payload: PageBuf::dirty(header.payload_bytes),
            payload_filled: 0,
        }
    }

    /// Takes from the front of `bytes` what belongs to this frame; returns how much.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let body = (self.body.len() - self.body_filled).min(bytes.len());
        self.body[self.body_filled..][..body].copy_from_slice(&bytes[..body]);
        self.body_filled += body;
        let rest = &bytes[body..];
        let payload = (self.payload.len() - self.payload_filled).min(rest.len());
        self.payload[self.payload_filled..][..payload].copy_from_slice(&rest[..payload]);
        self.payload_filled += payload;
        body + payload
    }

    /// Accounts for bytes that the kernel put in place; returns how many were beyond this frame.
    fn filled(&mut self, count: usize) -> usize {
        let body = (self.body.len() - self.body_filled).min(count);
        self.body_filled += body;
        let payload = (self.payload.len() - self.payload_filled).min(count - body);
        self.payload_filled += payload;
        count - body - payload
    }

    fn is_whole(&self) -> bool {
        self.body_filled == self.body.len() && self.payload_filled == self.payload.len()
    }

    fn finish(self) -> Result<Frame, FrameError> {
        self.header.check_body(&self.body)?;
        Ok(Frame {
            header: self.header,
            body: self.body.into(),
            payload: if self.payload.is_empty() { Bytes::new() } else { self.payload.freeze() },
        })
    }
}

/// Body and payload of every whole frame in `bytes`, as a connection takes them that gets `read_bytes` (more than a header)
/// at a time. Sends nothing: it is for whoever wants to know what any bytes come to.
///
/// # Errors
/// What the connection would be closed with.
pub fn frames_in(mut bytes: &[u8], read_bytes: usize) -> Result<Vec<(Bytes, Bytes)>, String> {
    let mut reader = FrameReader::with_buffer(read_bytes.max(HEADER_BYTES + 1));
    let mut frames = Vec::new();
    loop {
        while let Some(frame) = reader.next().map_err(|e| e.to_string())? {
            if matches!(frame.header.kind, Kind::Hello | Kind::Welcome) {
                Greeting::decode(&frame.header, &frame.body).map_err(|e| e.to_string())?;
            }
            frames.push((frame.body, frame.payload));
        }
        if bytes.is_empty() {
            return Ok(frames);
        }
        let read = |slices: &mut [IoSliceMut<'_>]| {
            let mut count = 0;
            for slice in slices {
                let part = slice.len().min(bytes.len()).min(read_bytes - count);
                slice[..part].copy_from_slice(&bytes[..part]);
                bytes = &bytes[part..];
                count += part;
            }
            Poll::Ready(Ok(count))
        };
        let Poll::Ready(Ok(_)) = reader.fill_by(read) else {
            return Err("memory is not readable".to_owned());
        };
    }
}

pub(crate) struct FrameReader {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    partial: Option<Partial>,
    payloads_are_large: bool,
}

impl FrameReader {
    pub fn new() -> Self {
        Self::with_buffer(READ_BYTES)
    }

    /// One that takes `bytes` (more than a header) per read.
    pub fn with_buffer(bytes: usize) -> Self {
        Self { buffer: vec![0; bytes].into_boxed_slice(), start: 0, end: 0, partial: None, payloads_are_large: false }
    }

    /// One read; 0 is the end of the connection. To be called when [`Self::next`] has no more.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, socket: &Socket) -> Poll<io::Result<usize>> {
        self.fill_by(|slices| socket.poll_read(cx, slices))
    }

    /// The same from wherever `read` takes bytes: it puts them into the slices, in order.
    fn fill_by(
        &mut self,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        // What is left is less than a header: moving it costs nothing.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let most = if self.payloads_are_large { LARGE_READ_BYTES } else { READ_BYTES };
        let to = self.buffer.len().min(self.end + most);
        let free = IoSliceMut::new(&mut self.buffer[self.end..to]);
        let count = match &mut self.partial {
            None => ready!(read(&mut [free]))?,
            Some(partial) => {
                let mut slices = [
                    IoSliceMut::new(&mut partial.body[partial.body_filled..]),
                    IoSliceMut::new(&mut partial.payload[partial.payload_filled..]),
                    free,
                ];
                ready!(read(&mut slices))?
            }
        };
        let beyond = match &mut self.partial {
            None => count,
            Some(partial) => partial.filled(count),
        };
        self.end += beyond;
        Poll::Ready(Ok(count))
    }

    /// The next whole frame among what was read.
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.partial.is_none() {
            let Some(bytes) = self.buffer[self.start..self.end].first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            self.partial = Some(Partial::new(Header::decode(bytes)?));
            self.start += HEADER_BYTES;
        }
        let partial = self.partial.as_mut().expect("just put there");
        self.start += partial.fill(&self.buffer[self.start..self.end]);
        if !partial.is_whole() {
            return Ok(None);
        }
        let partial = self.partial.take().expect("looked at above");
        self.payloads_are_large = partial.payload.len() >= LARGE_PAYLOAD_BYTES;
        partial.finish().map(Some)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Goal: of large payloads that follow one another, all but the first bytes are received in place; a small message ends that.
    #[test]
    fn large_payloads_are_received_in_place() {
        const PAYLOAD_BYTES: usize = 128 << 10;
        let payload: Vec<u8> = (0..PAYLOAD_BYTES).map(|at| (at / 11) as u8).collect();
        let head = Header::of(Kind::Message, b"body", PAYLOAD_BYTES).encode();
        let large = [&head[..], b"body", &payload].concat();
        let small = [&Header::of(Kind::Message, b"done", 0).encode()[..], b"done"].concat();
        let sent = [&large[..], &large, &large, &small, &small].concat();
        let (mut reader, mut rest) = (FrameReader::new(), &sent[..]);
        // Of each read: bytes offered beyond the message under way, and the frames that it made whole.
        let mut reads = Vec::new();
        while !rest.is_empty() {
            let mut beyond = 0;
            let read = |slices: &mut [IoSliceMut<'_>]| {
                beyond = slices.last().map_or(0, |free| free.len());
                let mut count = 0;
                for slice in slices {
                    let part = slice.len().min(rest.len());
                    slice[..part].copy_from_slice(&rest[..part]);
                    rest = &rest[part..];
                    count += part;
                }
                Poll::Ready(Ok(count))
            };
            assert!(matches!(reader.fill_by(read), Poll::Ready(Ok(1..))));
            let mut frames = 0;
            while let Some(frame) = reader.next().unwrap() {
                assert!(frame.payload.is_empty() || frame.payload == payload);
                frames += 1;
            }
            reads.push((beyond, frames));
        }
        assert_eq!(reads[0], (READ_BYTES, 1), "nothing is known yet, and the buffer takes nearly two");
        assert!(reads[1..].iter().all(|(beyond, _)| *beyond <= LARGE_READ_BYTES), "{reads:?}");
        assert_eq!(reads.iter().map(|(_, frames)| frames).sum::<usize>(), 5);
        assert!(!reader.payloads_are_large);
    }
}
