//! What waits for one peer, as pieces that leave in few system calls.
//!
//! Promises    headers and small bodies lie together in memory; payloads and large bodies are shared, never copied

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, Bytes, BytesMut};
use cairn_env::OutMessage;

use super::frame::{BODY_BYTES_MAX, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX};

/// Bodies up to this are copied beside their header: cheaper than a slice of their own.
const COPY_BYTES_MAX: usize = 2048;
/// Bytes of one stretch of headers and small bodies.
const ARENA_BYTES: usize = 64 << 10;
/// Slices of one system call (`UIO_MAXIOV`).
const SLICES_MAX: usize = 1024;
/// Bytes that are offered to one system call: more than a socket buffer takes would only be walked in vain.
const OFFER_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct OutQueue {
    pieces: VecDeque<Bytes>,
    /// Headers and small bodies since the last shared piece.
    arena: BytesMut,
    bytes: usize,
}

impl OutQueue {
    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn close_arena(&mut self) {
        if !self.arena.is_empty() {
            self.pieces.push_back(self.arena.split().freeze());
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        if self.arena.capacity() - self.arena.len() < bytes.len() {
            // Closed first: growing would copy what lies there.
            self.close_arena();
            self.arena.reserve(ARENA_BYTES.max(bytes.len()));
        }
        self.arena.extend_from_slice(bytes);
        self.bytes += bytes.len();
    }

    fn share(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.close_arena();
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// # Panics
    /// On a message over the bounds: our own code made it, and the peer would refuse it.
    pub fn push(&mut self, message: OutMessage) {
        let payload_bytes = message.payload.iter().map(Bytes::len).sum();
        assert!(
            message.body.len() <= BODY_BYTES_MAX && payload_bytes <= PAYLOAD_BYTES_MAX,
            "a message has {} bytes of body and {payload_bytes} of payload",
            message.body.len()
        );
        let header = Header::of(Kind::Message, &message.body, payload_bytes);
        self.copy(&header.encode());
        if message.body.len() <= COPY_BYTES_MAX {
            self.copy(&message.body);
        } else {
            self.share(message.body);
        }
        for part in message.payload {
            self.share(part);
        }
    }

    /// A frame made elsewhere.
    pub fn push_frame(&mut self, frame: &[u8]) {
        assert!(frame.len() >= HEADER_BYTES);
        self.copy(frame);
    }

    /// The front of the queue for one system call.
    pub fn slices(&mut self) -> Vec<IoSlice<'_>> {
        self.close_arena();
        let mut offered = 0;
        self.pieces
            .iter()
            .take(SLICES_MAX)
            .take_while(|piece| {
                let before = offered;
                offered += piece.len();
                before < OFFER_BYTES
            })
            .map(|piece| IoSlice::new(piece))
            .collect()
    }

    /// Takes `count` bytes, which were sent, off the front.
    pub fn sent(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let front = self.pieces.front_mut().expect("sent bytes were queued");
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the bytes that leave are those of the messages in order, however much each call takes.
    #[test]
    fn bytes_leave_in_order_however_much_is_taken() {
        for step in [61, 64, 65, 1000, 100_000] {
            let mut queue = OutQueue::default();
            let mut want = Vec::new();
            for number in 0..60usize {
                let body = vec![number as u8; number * 37 % 5000];
                let payload = vec![Bytes::from(vec![number as u8; 512 * (number % 4)]); number % 3];
                let payload_bytes = payload.iter().map(Bytes::len).sum();
                let header = Header::of(Kind::Message, &body, payload_bytes);
                want.extend_from_slice(&header.encode());
                want.extend_from_slice(&body);
                for part in &payload {
                    want.extend_from_slice(part);
                }
                queue.push(OutMessage { body: body.into(), payload });
            }
            assert_eq!(queue.bytes(), want.len());
            let mut got = Vec::new();
            while !queue.is_empty() {
                let before = got.len();
                for slice in queue.slices() {
                    let room = step - (got.len() - before);
                    got.extend_from_slice(&slice[..slice.len().min(room)]);
                }
                let taken = got.len() - before;
                queue.sent(taken);
            }
            assert!(got == want);
        }
    }
}
