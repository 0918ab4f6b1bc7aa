//! Transmission: requests in, answers out, many at a time, in one task.
//!
//! Promises    S1  what has completed leaves in one `writev`; one read of the socket may bring many requests
//!             S2  past the limits the socket is not read, so a client that floods or does not listen stalls only itself
//!             S3  a request that was let in finishes, also when its client is gone or the server stops, unless the disk
//!                 abandons it: then nothing more is answered, and the connection is closed at once
//! Why         requests run in a set inside the connection's task: a task for each cost 27 % more CPU per 4 KiB read at QD 32
//!             and 60 % more per write (`examples/ramdisk`, medians of five pairs). One round at QD 32 is one `recv`, one
//!             `writev`, one `epoll_wait`.
//! Assumes     the disk's futures wake the task that polls them
//! Not here    bytes to requests (`decode`), answers to bytes (`reply`), what is asked of the disk (`execute`)

use std::{
    future::{Future, poll_fn},
    io::IoSlice,
    pin::Pin,
    task::{Context, Poll, ready},
};

use cairn_volume::Volume;
use futures::stream::{FuturesUnordered, Stream};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::{
    decode::{Decoder, Incoming, Next},
    execute::Done,
    option::NotNbd,
    reply::{Address, Output},
    request::{Plan, Request, Terms},
    settings::Limits,
    stats::SessionRecord,
    wire::PAYLOAD_BYTES_MAX,
};

/// I/O vector entries of one `writev`: 64 answers with their data, about what a socket buffer takes.
const SLICES_MAX: usize = 128;

/// Rounds of collect, send, receive before the other tasks of the shard have a turn.
///
/// Napkin: a round of 32 reads of 4 KiB takes ~90 us; a client that never lets up may hold the shard for 0.4 ms.
const ROUNDS_MAX: u32 = 4;

/// One client and its disk. `F` is what runs for one request, `X` starts it.
pub(crate) struct Session<'a, V, S, F, X> {
    stream: &'a mut S,
    volume: V,
    terms: Terms,
    limits: Limits,
    record: &'a SessionRecord,
    decoder: Decoder,
    execute: X,
    running: FuturesUnordered<F>,
    running_cost_bytes: usize,
    output: Output,
    /// False once the client said goodbye, left, broke the protocol, or the server stops.
    reading: bool,
    /// False once writing failed or was given up: answers are dropped from then on.
    writing: bool,
    /// True from a request that was abandoned until the client was told, by a closed connection.
    hang_up: bool,
}

impl<'a, V, S, F, X> Session<'a, V, S, F, X>
where
    V: Volume,
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Done>,
    X: Fn(V, Incoming) -> F,
{
    pub(crate) fn new(
        stream: &'a mut S,
        volume: V,
        terms: Terms,
        limits: Limits,
        record: &'a SessionRecord,
        execute: X,
    ) -> Self {
        Self {
            stream,
            volume,
            terms,
            // One largest request must fit, or it would wait for ever.
            limits: Limits {
                bytes_in_flight_max: limits.bytes_in_flight_max.max(2 * PAYLOAD_BYTES_MAX as usize),
                requests_in_flight_max: limits.requests_in_flight_max.max(1),
                ..limits
            },
            record,
            decoder: Decoder::new(terms),
            execute,
            running: FuturesUnordered::new(),
            running_cost_bytes: 0,
            output: Output::default(),
            reading: true,
            writing: true,
            hang_up: false,
        }
    }

    /// Runs until the client is gone and nothing runs or waits to leave any more.
    pub(crate) async fn finish(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        if self.writing {
            let _ = self.stream.shutdown().await;
        }
    }

    /// Takes no more requests.
    pub(crate) fn stop_reading(&mut self) {
        self.reading = false;
    }

    /// Drops answers from now on.
    pub(crate) fn stop_writing(&mut self) {
        self.reading = false;
        self.writing = false;
        self.output.discard();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.poll_running(cx);
            if self.hang_up {
                // Of no consequence if it fails: the connection ends with this task in any case.
                let _ = ready!(Pin::new(&mut *self.stream).poll_shutdown(cx));
                self.hang_up = false;
            }
            moved |= self.poll_send(cx).is_ready();
            moved |= self.poll_receive(cx).is_ready();
            if !self.reading && self.running.is_empty() && self.output.is_empty() {
                return Poll::Ready(());
            }
            if !moved {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Collects every answer that is there. True if there was one.
    fn poll_running(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some(done)) = Pin::new(&mut self.running).poll_next(cx) {
            moved = true;
            self.running_cost_bytes -= done.request.cost_bytes(self.terms.contexts);
            if let Some(why) = done.is_abandoned() {
                if self.writing {
                    tracing::info!(
                        client = self.record.peer,
                        "close an NBD connection with a request unanswered: {why}"
                    );
                    self.stop_writing();
                    self.hang_up = true;
                }
                continue;
            }
            let to = address(&done.request, &self.terms);
            self.record.count(|counters| {
                if self.writing {
                    done.put(to, &mut self.output, counters);
                }
            });
        }
        moved
    }

    /// Sends what is queued. Ready if something left.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.output.is_empty() {
            return Poll::Pending;
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let used = self.output.gather(&mut slices);
        match ready!(Pin::new(&mut *self.stream).poll_write_vectored(cx, &slices[..used])) {
            Ok(count) if count > 0 => self.output.sent(count),
            _ => self.stop_writing(),
        }
        Poll::Ready(())
    }

    /// Reads the socket once, if there is room, and starts what came. Ready if something came.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.reading {
            return Poll::Pending;
        }
        // What is buffered may have waited for room.
        if !self.start_buffered() {
            return Poll::Pending;
        }
        let mut space = ReadBuf::new(self.decoder.space());
        let result = ready!(Pin::new(&mut *self.stream).poll_read(cx, &mut space));
        let count = space.filled().len();
        if result.is_err() || count == 0 {
            self.reading = false;
        } else {
            self.decoder.filled(count);
            self.start_buffered();
        }
        Poll::Ready(())
    }

    /// Starts every whole request that there is room for. True if the socket is to be read for more.
    fn start_buffered(&mut self) -> bool {
        while self.reading {
            let in_flight = self.running.len() + self.output.replies();
            if in_flight >= self.limits.requests_in_flight_max {
                return false;
            }
            let used = self.running_cost_bytes + self.output.cost_bytes();
            let room = self.limits.bytes_in_flight_max.saturating_sub(used);
            match self.decoder.next(room) {
                Ok(Next::Request(incoming)) => self.start(incoming),
                Ok(Next::NeedBytes) => return true,
                Ok(Next::NoRoom) => return false,
                Err(NotNbd(text)) => {
                    tracing::warn!(client = self.record.peer, "close an NBD connection: {text}");
                    self.reading = false;
                }
            }
        }
        false
    }

    fn start(&mut self, incoming: Incoming) {
        match incoming.plan {
            Plan::Run(_) => {
                self.running_cost_bytes += incoming.request.cost_bytes(self.terms.contexts);
                let task = (self.execute)(self.volume.clone(), incoming);
                self.running.push(task);
            }
            Plan::Refuse(errno, text) => {
                let to = address(&incoming.request, &self.terms);
                self.output.put_error(to, errno, text);
                self.record.count(|c| {
                    c.requests += 1;
                    c.failed_requests += 1;
                });
            }
            Plan::Disconnect => self.reading = false,
        }
    }
}

fn address(request: &Request, terms: &Terms) -> Address {
    let cost_bytes = request.cost_bytes(terms.contexts);
    Address { cookie: request.cookie, structured: terms.structured, cost_bytes }
}
