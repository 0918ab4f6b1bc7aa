//! The stream of requests: bytes in any cut become requests with their payloads. No I/O.
//!
//! Promises    D1  any bytes, in any cut, give the same requests                                     (tests: decode)
//!             D2  a payload is copied once at most, and not at all where it is large: it is read into its own pages
//!             D3  memory is one buffer and one payload, and that is allocated only for a request that was let in
//! Not here    sockets (`session`), what a request means (`request`)

use bytes::Bytes;
use cairn_env::PageBuf;

use crate::{
    option::NotNbd,
    request::{Plan, REQUEST_BYTES, Request, Terms, plan},
    wire::PAYLOAD_BYTES_MAX,
};

/// Bytes that one read of the socket may bring: 60 writes of 4 KiB or 9000 reads.
const BUFFER_BYTES: usize = 256 << 10;
/// From here on, what is missing of a payload is read straight into its pages; below, a copy is cheaper than a system call.
const DIRECT_BYTES_MIN: usize = 16 << 10;
/// After a payload of this size, the next one is likely as large: then only its head is read into the buffer.
const LARGE_PAYLOAD_BYTES: usize = 64 << 10;
/// How much is read while payloads are large: the request, and a bit of its payload.
const LARGE_READ_BYTES: usize = 4096;
/// Payload of a refused write that is read and thrown away, at most; past it the connection is closed.
const SKIP_BYTES_MAX: u32 = 2 * PAYLOAD_BYTES_MAX;

/// A whole request.
#[derive(Debug)]
pub struct Incoming {
    /// As it stood on the wire.
    pub request: Request,
    /// What to do with it.
    pub plan: Plan,
    /// What to write; empty but for writes that may run.
    pub payload: Bytes,
}

/// What the buffered bytes hold.
#[derive(Debug)]
pub enum Next {
    /// A request.
    Request(Incoming),
    /// Nothing whole: read more.
    NeedBytes,
    /// A request that costs more than there is room for now.
    NoRoom,
}

enum State {
    Head,
    Payload {
        request: Request,
        plan: Plan,
        pages: PageBuf,
        filled: usize,
    },
    Skip {
        request: Request,
        plan: Plan,
        left: usize,
    },
}

/// Turns the bytes of one connection into requests.
pub struct Decoder {
    terms: Terms,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
    payloads_are_large: bool,
}

impl Decoder {
    /// A decoder at the start of transmission.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            state: State::Head,
            payloads_are_large: false,
        }
    }

    /// Where the next bytes of the socket go; never empty after [`Next::NeedBytes`]. Then call [`Decoder::filled`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if let State::Payload { pages, filled, .. } = &mut self.state
            && self.end == 0
            && pages.len() - *filled >= DIRECT_BYTES_MIN
        {
            return &mut pages[*filled..];
        }
        if self.buffer.len() - self.end < self.buffer.len() / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = if self.payloads_are_large {
            LARGE_READ_BYTES
        } else {
            BUFFER_BYTES
        };
        let to = self.buffer.len().min(self.end + most);
        &mut self.buffer[self.end..to]
    }

    /// Tells that `count` bytes were put at the start of [`Decoder::space`].
    pub fn filled(&mut self, count: usize) {
        match &mut self.state {
            State::Payload { pages, filled, .. }
                if self.end == 0 && pages.len() - *filled >= DIRECT_BYTES_MIN =>
            {
                *filled += count;
            }
            _ => self.end += count,
        }
    }

    /// The next request, if it is whole and costs at most `room_bytes`.
    pub fn next(&mut self, room_bytes: usize) -> Result<Next, NotNbd> {
        if matches!(self.state, State::Head) {
            let Some(head) = self.buffer[self.start..self.end].first_chunk() else {
                return Ok(Next::NeedBytes);
            };
            let request = Request::parse(head)?;
            if request.cost_bytes() > room_bytes {
                return Ok(Next::NoRoom);
            }
            self.start += REQUEST_BYTES;
            let plan = plan(&request, &self.terms);
            let payload_bytes = request.payload_bytes();
            self.state = match plan {
                _ if payload_bytes == 0 => {
                    return Ok(Next::Request(Incoming {
                        request,
                        plan,
                        payload: Bytes::new(),
                    }));
                }
                Plan::Run(_) => State::Payload {
                    request,
                    plan,
                    pages: PageBuf::dirty(payload_bytes as usize),
                    filled: 0,
                },
                _ if payload_bytes > SKIP_BYTES_MAX => {
                    return Err(NotNbd("a write of more than 64 MiB"));
                }
                _ => State::Skip {
                    request,
                    plan,
                    left: payload_bytes as usize,
                },
            };
        }
        Ok(self.next_payload())
    }

    fn next_payload(&mut self) -> Next {
        let here = &self.buffer[self.start..self.end];
        match &mut self.state {
            State::Head => return Next::NeedBytes,
            State::Payload { pages, filled, .. } => {
                let count = here.len().min(pages.len() - *filled);
                pages[*filled..*filled + count].copy_from_slice(&here[..count]);
                self.start += count;
                *filled += count;
                if *filled < pages.len() {
                    return Next::NeedBytes;
                }
            }
            State::Skip { left, .. } => {
                let count = here.len().min(*left);
                self.start += count;
                *left -= count;
                if *left > 0 {
                    return Next::NeedBytes;
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Head) {
            State::Payload {
                request,
                plan,
                pages,
                ..
            } => {
                self.payloads_are_large = pages.len() >= LARGE_PAYLOAD_BYTES;
                Next::Request(Incoming {
                    request,
                    plan,
                    payload: pages.freeze(),
                })
            }
            State::Skip { request, plan, .. } => Next::Request(Incoming {
                request,
                plan,
                payload: Bytes::new(),
            }),
            State::Head => Next::NeedBytes,
        }
    }
}
