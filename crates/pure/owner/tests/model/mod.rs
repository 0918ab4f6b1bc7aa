//! A small cluster made of the real state machines: seats (`record`), owners (`record` and `cairn-owner`), messages. Shared by the
//! exhaustive and the random runs and by the scripted scenarios; each uses a part of it.
//!
//! What is modelled: one object, one component per seat; an operation is an element of a set that each component holds. At a mirror it
//! writes one block. With rows it writes a column or a whole row; what members hold of it is computed with (`rows.rs`). What is durable
//! changes in one instant (the store's crash sweep shows that). Naive variants ([`Canary`]) must be caught by the same checks.
#![allow(dead_code)] // each test binary uses its part

pub mod canonical;
pub mod explore;
pub mod ghost;
pub mod io;
pub mod message;
#[path = "../../../record/tests/names/mod.rs"]
pub mod names;
pub mod owner;
pub mod rows;
pub mod seat;
pub mod serving;
pub mod world;

use cairn_types::{ComponentId, ObjectConfig};
use serde::Serialize;

pub use names::{
    LEASE, OBJECT, closed, config_of, config_of_rows, epoch, id_of, letter_of, member_of, picture_of, seat_of,
};
pub use rows::{Held, Piece, Place};

/// Blocks of a mirror, or rows; the model of a region too.
pub const BLOCKS: u64 = 2;

/// What a cluster stores: its picture, and strips of data and of parity if it has rows.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    pub picture: &'static str,
    pub rows: Option<(u8, u8)>,
}

impl Object {
    pub const fn mirror(picture: &'static str) -> Self {
        Self { picture, rows: None }
    }

    pub const fn of_rows(picture: &'static str, data: u8, parity: u8) -> Self {
        Self { picture, rows: Some((data, parity)) }
    }

    pub fn config(self) -> ObjectConfig {
        match self.rows {
            None => config_of(self.picture),
            Some((data, parity)) => config_of_rows(self.picture, data, parity),
        }
    }
}

/// A careless variant of the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Canary {
    /// As designed.
    None,
    /// A change of members is in force once a majority of the new ones accepted.
    NotJoint,
    /// Seats accept records and operations of epochs below their promise.
    NoPromise,
    /// An acknowledgement does not wait until a failed component is recorded absent.
    AckBeforeAbsent,
    /// The winner serves what settling undid on some and not on others.
    NoUndo,
    /// A component that comes back is active at once.
    NoResync,
    /// A component is active before operations that were begun meanwhile have reached it.
    NoBarrier,
    /// Activation does not carry `decided`.
    NoDecided,
    /// Operations of an earlier admission are applied, over later ones too.
    NoSession,
    /// A seizer does not wait for in-sync components.
    ServeTooEarly,
    /// The grantor revives a lapsed session.
    ReviveSession,
    /// A restarted grantor promises at once.
    NoGrace,
    /// The owner counts a lease from the answer.
    LeaseFromAnswer,
    /// The owner does not look at its leases.
    NoLease,
    /// A log whose last batches were damaged passes for one that power cut short.
    FlipTakenForTorn,
    /// A write to a column is acknowledged when its data member has it.
    ParityForgotten,
    /// The data member tells what it holds after the write, not before.
    OldNotBelow,
    /// What stood below is not told once the data member is lost, and the write is given up without recording that.
    LostNotRecorded,
    /// A column is written while another one of the row is, or while the row is read to make its parity.
    RowNotLocked,
    /// A parity member takes an operation that comes below what it has.
    ParityTakenLate,
    /// Of an operation, settling looks at the data member alone.
    ParityIgnored,
    /// Of an operation on a column, settling looks at all members.
    AllConcerned,
    /// A member must have the last of all operations, though it concerned others.
    ProofUnmasked,
    /// A data member that is filled gets what its twin of a mirror would: the block of another column.
    ColumnTakenForCopy,
}

/// The component at a seat.
pub fn component_of(letter: char) -> ComponentId {
    ComponentId(id_of(letter))
}

/// The letter of a component's seat.
pub fn letter_of_component(component: ComponentId) -> char {
    char::from_u32(component.0 as u32).expect("made of a letter")
}
