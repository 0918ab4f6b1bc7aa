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
    Payload { request: Request, plan: Plan, pages: PageBuf, filled: usize },
    Skip { request: Request, plan: Plan, left: usize },
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
        let most = if self.payloads_are_large { LARGE_READ_BYTES } else { BUFFER_BYTES };
        let to = self.buffer.len().min(self.end + most);
        &mut self.buffer[self.end..to]
    }

    /// Tells that `count` bytes were put at the start of [`Decoder::space`].
    pub fn filled(&mut self, count: usize) {
        match &mut self.state {
            State::Payload { pages, filled, .. } if self.end == 0 && pages.len() - *filled >= DIRECT_BYTES_MIN => {
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
            if request.cost_bytes(self.terms.contexts) > room_bytes {
                return Ok(Next::NoRoom);
            }
            self.start += REQUEST_BYTES;
            let plan = plan(&request, &self.terms);
            let payload_bytes = request.payload_bytes();
            self.state = match plan {
                _ if payload_bytes == 0 => {
                    return Ok(Next::Request(Incoming { request, plan, payload: Bytes::new() }));
                }
                Plan::Run(_) => {
                    State::Payload { request, plan, pages: PageBuf::dirty(payload_bytes as usize), filled: 0 }
                }
                _ if payload_bytes > SKIP_BYTES_MAX => {
                    return Err(NotNbd("a write of more than 64 MiB"));
                }
                _ => State::Skip { request, plan, left: payload_bytes as usize },
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
            State::Payload { request, plan, pages, .. } => {
                self.payloads_are_large = pages.len() >= LARGE_PAYLOAD_BYTES;
                Next::Request(Incoming { request, plan, payload: pages.freeze() })
            }
            State::Skip { request, plan, .. } => Next::Request(Incoming { request, plan, payload: Bytes::new() }),
            State::Head => Next::NeedBytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;
    use crate::{
        request::Command,
        wire::{Errno, REQUEST_MAGIC, cmd},
    };

    const TERMS: Terms = Terms { size_bytes: 1 << 20, read_only: false, structured: true, contexts: 1 };

    fn encode(request: &Request) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&request.flags.to_be_bytes());
        bytes.extend_from_slice(&request.command.to_be_bytes());
        bytes.extend_from_slice(&request.cookie.to_be_bytes());
        bytes.extend_from_slice(&request.offset.to_be_bytes());
        bytes.extend_from_slice(&request.len_bytes.to_be_bytes());
        bytes
    }

    /// Feeds `bytes` in pieces of at most `cuts` bytes; returns what came out.
    fn feed(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Incoming>, NotNbd> {
        let mut decoder = Decoder::new(TERMS);
        let (mut out, mut rest, mut cuts) = (Vec::new(), bytes, cuts.iter().cycle());
        loop {
            match decoder.next(usize::MAX)? {
                Next::Request(incoming) => out.push(incoming),
                Next::NoRoom => unreachable!("there is room for everything"),
                Next::NeedBytes if rest.is_empty() => return Ok(out),
                Next::NeedBytes => {
                    let space = decoder.space();
                    let count = space.len().min(rest.len()).min(*cuts.next().unwrap_or(&1));
                    assert!(count > 0, "no space for more");
                    space[..count].copy_from_slice(&rest[..count]);
                    decoder.filled(count);
                    rest = &rest[count..];
                }
            }
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let len = prop_oneof![
            4 => (0..20_u32).prop_map(|n| n * 512),
            2 => 0..20_000_u32,
            1 => (100..300_u32).prop_map(|n| n * 512),
        ];
        let flags = prop_oneof![4 => Just(0_u16), 1 => any::<u16>()];
        (flags, 0..10_u16, any::<u64>(), 0..2500_u64, len).prop_map(|(flags, command, cookie, sector, len_bytes)| {
            Request { flags, command, cookie, offset: sector * 512, len_bytes }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn requests_come_out_as_they_went_in(
            requests in vec(any_request(), 0..12),
            cuts in vec(prop_oneof![1..40_usize, 1..5000_usize, Just(1 << 20)], 1..8),
        ) {
            let mut bytes = Vec::new();
            for (number, request) in requests.iter().enumerate() {
                bytes.extend_from_slice(&encode(request));
                bytes.extend((0..request.payload_bytes()).map(|i| (i as usize * 31 + number) as u8));
            }
            let out = feed(&bytes, &cuts).expect("well formed");
            prop_assert_eq!(out.len(), requests.len());
            for (number, (incoming, request)) in out.iter().zip(&requests).enumerate() {
                prop_assert_eq!(incoming.request, *request);
                prop_assert_eq!(incoming.plan, plan(request, &TERMS));
                if let Plan::Run(Command::Write { len_bytes, .. }) = incoming.plan {
                    prop_assert_eq!(incoming.payload.len(), len_bytes as usize);
                    prop_assert_eq!(incoming.payload.as_ptr() as usize % 4096, 0);
                    let right = incoming.payload.iter().enumerate().all(|(i, b)| *b == (i * 31 + number) as u8);
                    prop_assert!(right, "payload {}", number);
                } else {
                    prop_assert!(incoming.payload.is_empty());
                }
            }
        }

        #[test]
        fn any_bytes_are_requests_or_refused(
            noise in vec(any::<u8>(), 0..3000),
            magics in vec(any::<Index>(), 0..20),
            cut in 1..3000_usize,
        ) {
            let mut bytes = noise;
            // With magic numbers sown in, noise gets past the first check.
            for at in magics {
                if bytes.len() >= 4 {
                    let at = at.index(bytes.len() - 3);
                    bytes[at..at + 4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
                }
            }
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
            }
            let whole = feed(&bytes, &[usize::MAX]);
            let cut = feed(&bytes, &[cut]);
            match (whole, cut) {
                (Ok(a), Ok(b)) => {
                    let requests = |v: &[Incoming]| v.iter().map(|i| i.request).collect::<Vec<_>>();
                    prop_assert_eq!(requests(&a), requests(&b));
                }
                (a, b) => prop_assert_eq!(a.err(), b.err()),
            }
        }

        #[test]
        fn what_a_plan_lets_through_is_inside_the_disk(mut request in any_request(), tail in any::<u64>()) {
            if tail % 3 == 0 {
                request.offset = request.offset.wrapping_add(tail);
            }
            match plan(&request, &TERMS) {
                Plan::Run(Command::Flush) => prop_assert_eq!(request.command, cmd::FLUSH),
                Plan::Run(_) => {
                    let (offset, len) = (request.offset, u64::from(request.len_bytes));
                    prop_assert!(len > 0 && offset % 512 == 0 && len % 512 == 0);
                    prop_assert!(offset <= TERMS.size_bytes && len <= TERMS.size_bytes - offset);
                }
                Plan::Refuse(..) => {}
                Plan::Disconnect => prop_assert_eq!(request.command, cmd::DISC),
            }
        }

        /// Goal: a read-only disk is never asked for a change, and for all else it is a disk like others. Method: any request is judged
        /// with and without.
        #[test]
        fn a_read_only_disk_differs_in_what_would_change_it(request in any_request()) {
            let planned = plan(&request, &Terms { read_only: true, ..TERMS });
            if [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES].contains(&request.command) {
                prop_assert!(matches!(planned, Plan::Refuse(Errno::NotPermitted, _)), "{:?}", planned);
            } else {
                prop_assert_eq!(planned, plan(&request, &TERMS));
            }
        }
    }

    #[test]
    fn a_large_payload_is_read_into_its_own_pages() {
        let mut decoder = Decoder::new(TERMS);
        let request = Request { flags: 0, command: cmd::WRITE, cookie: 1, offset: 0, len_bytes: 1 << 20 };
        let head = encode(&request);
        decoder.space()[..head.len()].copy_from_slice(&head);
        decoder.filled(head.len());
        assert!(matches!(decoder.next(1000), Ok(Next::NoRoom)), "costs more than there is room");
        assert!(matches!(decoder.next(usize::MAX), Ok(Next::NeedBytes)));
        assert_eq!(decoder.space().len(), 1 << 20);
        decoder.space().fill(9);
        decoder.filled(1 << 20);
        assert!(matches!(decoder.next(0), Ok(Next::Request(i)) if i.payload.iter().all(|b| *b == 9)));
        assert_eq!(decoder.space().len(), LARGE_READ_BYTES, "the next head without much of its payload");
    }
}
