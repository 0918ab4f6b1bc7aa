//! What the model's nodes say to each other.

use cairn_record::AcceptRefused;
use cairn_types::{Accepted, Csn, Epoch, OpId, SessionId};
use cairn_wire::{Heartbeat, HeartbeatAnswer, SeizeAnswer};
use serde::Serialize;

use super::{Piece, Place};

/// Between owner number `owner` and the seat of a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Msg {
    /// The owner, sender or receiver.
    pub owner: usize,
    /// The seat, receiver or sender.
    pub seat: char,
    /// What.
    pub body: Body,
}

/// What is said. Requests go to seats, answers to owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Body {
    /// Promise; `anew`: a rejoin, which begins another session.
    Seize { epoch: Epoch, overrule: bool, anew: bool },
    /// To it.
    SeizeAnswer { epoch: Epoch, anew: bool, answer: SeizeAnswer },
    /// Accept a record.
    Accept(Accepted),
    /// To it.
    AcceptAnswer { epoch: Epoch, csn: Csn, answer: Accepting },
    /// A record that was decided without the seat: it counts again.
    Tell(Accepted),
    /// Undo.
    Undo { epoch: Epoch, session: SessionId, ops: Vec<OpId> },
    /// To it.
    UndoAnswer { epoch: Epoch, session: SessionId, done: Result<(), Option<Epoch>> },
    /// An operation; `asks_old`: what stood there before is to be told.
    Write { epoch: Epoch, session: SessionId, op: OpId, settled: OpId, place: Place, piece: Piece, asks_old: bool },
    /// To it.
    WriteAnswer { epoch: Epoch, session: SessionId, op: OpId, done: Result<(), Option<Epoch>>, old: Option<OpId> },
    /// Lease messages; `token` finds the question.
    Heartbeat(Heartbeat),
    /// To it.
    HeartbeatAnswer(HeartbeatAnswer),
    /// Ask for a lease.
    Confirm { epoch: Epoch, token: u64 },
    /// To it, with the seat's promise.
    ConfirmAnswer { token: u64, granted: bool, promised: Epoch },
    /// Give it up.
    Release { epoch: Epoch },
}

/// [`AcceptRefused`] as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Accepting {
    Done,
    Promised(Epoch),
    Csn(Csn),
}

impl Accepting {
    pub fn result(self) -> Result<(), AcceptRefused> {
        match self {
            Self::Done => Ok(()),
            Self::Promised(epoch) => Err(AcceptRefused::Promised(epoch)),
            Self::Csn(csn) => Err(AcceptRefused::Csn(csn)),
        }
    }
}

impl Body {
    /// Of a request about the object's record or data: its epoch, and the session that it needs.
    pub fn epoch_and_session(&self) -> Option<(Epoch, Option<SessionId>)> {
        match self {
            Self::Seize { epoch, .. } => Some((*epoch, None)),
            Self::Accept(record) | Self::Tell(record) => Some((record.epoch, None)),
            Self::Undo { epoch, session, .. } | Self::Write { epoch, session, .. } => Some((*epoch, Some(*session))),
            _ => None,
        }
    }

    /// Whether it goes to the seat.
    pub fn is_request(&self) -> bool {
        !matches!(
            self,
            Self::SeizeAnswer { .. }
                | Self::AcceptAnswer { .. }
                | Self::UndoAnswer { .. }
                | Self::WriteAnswer { .. }
                | Self::HeartbeatAnswer(_)
                | Self::ConfirmAnswer { .. }
        )
    }
}
