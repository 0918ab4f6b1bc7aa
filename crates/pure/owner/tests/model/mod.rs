//! A small cluster made of the real state machines: seats (`record`), owners (`record` and `cairn-owner`), messages. Shared by the
//! exhaustive and the random runs and by the scripted scenarios; each uses a part of it.
//!
//! What is modelled: one object, one component per seat; an operation is an element of a set that each component
//! holds; a block is `seq % BLOCKS`. What is durable changes in one instant (the store's crash sweep shows that).
//! Naive variants ([`Canary`]) must be caught by the same checks.
#![allow(dead_code)] // each test binary uses its part

pub mod canonical;
pub mod explore;
pub mod ghost;
pub mod message;
#[path = "../../../record/tests/names/mod.rs"]
pub mod names;
pub mod owner;
pub mod seat;
pub mod serving;
pub mod world;

use cairn_types::{ComponentId, OpId};
use serde::Serialize;

pub use names::{LEASE, OBJECT, closed, config_of, epoch, id_of, letter_of, member_of, picture_of, seat_of};

/// Blocks of the object; the model of a region too.
pub const BLOCKS: u64 = 2;

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
}

/// The component at a seat.
pub fn component_of(letter: char) -> ComponentId {
    ComponentId(id_of(letter))
}

/// The letter of a component's seat.
pub fn letter_of_component(component: ComponentId) -> char {
    char::from_u32(component.0 as u32).expect("made of a letter")
}

/// The block that an operation writes.
pub fn block_of(op: OpId) -> u64 {
    op.seq % BLOCKS
}
