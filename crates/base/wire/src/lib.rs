//! What the hosts of a cluster say to each other, and how it is encoded.
//!
//! Promises    any bytes decode to a message or to a [`DecodeError`]; nothing panics, nothing allocates more than it was sent
//! Assumes     the carrier (`env`) checks that a body arrived as it was sent; block data carries its own CRCs
//! Not here    sockets, who may send what (`object`)
//!
//! A message is a body (postcard) and, apart from it, block data: the payload. What exists is never changed: new forms are added at the
//! end of an enum and sent from a level on ([`SPEAKS`], [`Message::since`]); every build decodes all that it knows of. The rules and what
//! proves them: `docs/internals/upgrades.md`.
#![forbid(unsafe_code)]

mod facts;
mod io;
mod manage;
mod message;
mod peer;
mod record;

pub use facts::Facts;
pub use io::{AllocatedPiece, GuestRequest, Target};
pub use manage::{Api, ComponentSpace, HostAnswer, HostCommand, ObjectStatus, OwnerCommand, ResyncStatus};
pub use message::{Answer, Message, ReadBy, Refusal, Request, Verified, VerifyBy, ViewAsk};
pub use peer::{DiskGroupSummary, Heartbeat, HeartbeatAnswer, HostSummary, Listed, PeerSession};
pub use record::{ComponentAnswer, SeizeAnswer};

use bytes::Bytes;
use cairn_types::Speaks;

/// The versions of the messages between hosts that this build speaks; which one a cluster uses is its level.
///
/// 1: mirrors, votes, leases, resync. 2: what requests copies remember is told at the end of a resync; heartbeats count failed devices.
/// 3: heartbeats list objects once. 4: one message answers all requests that were carried out together. 5: a request's name tells which
/// ones are answered. 6: seats that may have forgotten are told what was decided without them. 7: copies tell what they took last as a
/// write. 8: hosts tell their clock of the day, and records have no time of an absence. 9: one request carries
/// every operation on a component. 10: heartbeats tell the room of each capacity device, policies have a limit of
/// bytes per second. 11: heartbeats tell how fast resyncs may go beside a host's guests, and reads for a resync say so.
/// 12: management work has types of its own. 13: heartbeats carry facts; versions are ranges from here on. 14: snapshots.
pub const SPEAKS: Speaks = Speaks::of(12, 14);

/// Bytes of a body, at most: a record of a 62 TiB disk (250 chunks x 4 copies x ~100 B) takes some 100 KiB.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Bytes of a payload, at most: the largest guest request and the edges of its blocks.
pub const PAYLOAD_BYTES_MAX: usize = (32 << 20) + 2 * 4096;

/// Bytes of one operation on one replica set, at most: larger writes of guests are split. Each host splits a request in the same
/// places, so that a retry at another owner names the same parts: a change of it is a new version of the protocol.
pub const OP_BYTES_MAX: u32 = 1 << 20;

/// A body that is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message of {len} bytes does not decode: {cause}")]
pub struct DecodeError {
    /// Its length.
    pub len: usize,
    /// What the decoder says.
    pub cause: String,
}

/// Encodes a message body.
pub fn encode(message: &Message) -> Bytes {
    // A write of one block takes about 150 bytes.
    cairn_types::encode_onto(Vec::with_capacity(224), message).into()
}

/// Decodes a message body; trailing bytes are an error.
pub fn decode(body: &[u8]) -> Result<Message, DecodeError> {
    let fail = |cause: String| DecodeError { len: body.len(), cause };
    if body.len() > BODY_BYTES_MAX {
        return Err(fail(format!("bodies have at most {BODY_BYTES_MAX} bytes")));
    }
    match postcard::take_from_bytes::<Message>(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(fail(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(fail(error.to_string())),
    }
}

/// CRC-32C of one block, as the wire and the media carry it.
pub fn block_crc(block: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, block) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_types::{BlockOp, ComponentId, ComponentOp, DiskGroupId, Epoch, OpId, SessionId};

    #[test]
    fn a_message_reads_back_and_a_cut_one_does_not() {
        let target = Target {
            disk_group: DiskGroupId(7),
            component: ComponentId(9),
            epoch: Epoch { number: 3, ..Epoch::default() },
            session: SessionId(4),
        };
        let message = Message::Request {
            id: 77,
            request: Request::Change {
                to: target,
                op: ComponentOp::Apply {
                    op: OpId::ZERO,
                    settled: OpId::ZERO,
                    client: Default::default(),
                    blocks: BlockOp::Write { first_block: 1 << 40, crcs: vec![1, 2, 3].into() },
                },
            },
        };
        let body = encode(&message);
        assert_eq!(decode(&body), Ok(message));
        for cut in 0..body.len() {
            assert!(decode(&body[..cut]).is_err());
        }
        let mut long = body.to_vec();
        long.push(0);
        assert!(decode(&long).is_err());
    }
}
