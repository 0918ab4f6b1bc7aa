//! What a seat answers to Seize: its record and what its components hold unsettled.

use cairn_types::{Accepted, ComponentId, Epoch, OpId, SessionId, UnsettledOp};
use serde::{Deserialize, Serialize};

/// What a seat says of one of its components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentAnswer {
    /// Which.
    pub component: ComponentId,
    /// False: the disk group does not hold it (any more).
    pub present: bool,
    /// True: its capacity device failed or missed a destage.
    pub lost: bool,
    /// The admission that this answer opens.
    pub session: SessionId,
    /// Every operation up to this one is decided, as the component was told, or its record where it is in sync.
    pub settled: OpId,
    /// The last operation at or below that, which came to it as a write and stands, as far as it knows; zero where it does not.
    pub last_written: OpId,
    /// The same by index, of the operations that concerned the member with that index; empty at a mirror, where each concerns all.
    ///
    /// It travels beside its component ([`SeizeAnswer`]).
    #[serde(skip)]
    pub last_written_with: Vec<OpId>,
    /// What it holds above that, ascending.
    pub window: Vec<UnsettledOp>,
    /// Set when its log is damaged or rolled back: a lack of an operation proves nothing.
    pub log_damaged: bool,
}

impl ComponentAnswer {
    /// The last settled write that it took and that concerned the member with this index too.
    pub fn last_written_with(&self, index: u32) -> OpId {
        match self.last_written_with.is_empty() {
            true => self.last_written,
            false => self.last_written_with.get(index as usize).copied().unwrap_or(OpId::ZERO),
        }
    }
}

/// A seat's answer to Seize.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EncodedSeizeAnswer", into = "EncodedSeizeAnswer")]
pub enum SeizeAnswer {
    /// The promise is durable, and so is every earlier append of the object.
    Promised {
        /// The last accepted record; none while nascent.
        accepted: Option<Box<Accepted>>,
        /// Its components.
        components: Vec<ComponentAnswer>,
    },
    /// A newer epoch was promised.
    Promisee {
        /// Which.
        promised: Epoch,
    },
    /// Another owner's lease stands.
    LeaseHeld {
        /// Its epoch.
        by: Epoch,
        /// For at most this long if it is silent from now on.
        for_ms: u64,
    },
    /// The disk group holds nothing of the object.
    NoSeat,
}

/// As it travels: components of disks with parity tell more than hosts without it understand.
#[derive(Serialize, Deserialize)]
enum EncodedSeizeAnswer {
    Promised {
        accepted: Option<Box<Accepted>>,
        components: Vec<ComponentAnswer>,
    },
    Promisee {
        promised: Epoch,
    },
    LeaseHeld {
        by: Epoch,
        for_ms: u64,
    },
    NoSeat,
    /// `Promised`, and what each component has of `last_written_with`.
    PromisedOfRows {
        accepted: Option<Box<Accepted>>,
        components: Vec<ComponentAnswer>,
        last_written_with: Vec<Vec<OpId>>,
    },
}

impl From<SeizeAnswer> for EncodedSeizeAnswer {
    fn from(answer: SeizeAnswer) -> Self {
        match answer {
            SeizeAnswer::Promised { accepted, mut components } => {
                let last_written_with: Vec<Vec<OpId>> =
                    components.iter_mut().map(|c| std::mem::take(&mut c.last_written_with)).collect();
                match last_written_with.iter().all(Vec::is_empty) {
                    true => Self::Promised { accepted, components },
                    false => Self::PromisedOfRows { accepted, components, last_written_with },
                }
            }
            SeizeAnswer::Promisee { promised } => Self::Promisee { promised },
            SeizeAnswer::LeaseHeld { by, for_ms } => Self::LeaseHeld { by, for_ms },
            SeizeAnswer::NoSeat => Self::NoSeat,
        }
    }
}

impl From<EncodedSeizeAnswer> for SeizeAnswer {
    fn from(answer: EncodedSeizeAnswer) -> Self {
        match answer {
            EncodedSeizeAnswer::Promised { accepted, components } => Self::Promised { accepted, components },
            EncodedSeizeAnswer::Promisee { promised } => Self::Promisee { promised },
            EncodedSeizeAnswer::LeaseHeld { by, for_ms } => Self::LeaseHeld { by, for_ms },
            EncodedSeizeAnswer::NoSeat => Self::NoSeat,
            EncodedSeizeAnswer::PromisedOfRows { accepted, mut components, last_written_with } => {
                components.iter_mut().zip(last_written_with).for_each(|(c, with)| c.last_written_with = with);
                Self::Promised { accepted, components }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{HostId, Incarnation};

    use super::*;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 3, host: HostId(7), incarnation: Incarnation(1) }, seq }
    }

    fn promised(last_written_with: [Vec<OpId>; 2]) -> SeizeAnswer {
        let components = last_written_with.into_iter().enumerate().map(|(number, with)| ComponentAnswer {
            component: ComponentId(number as u128),
            present: true,
            lost: false,
            session: SessionId(5),
            settled: op(4),
            last_written: op(3),
            last_written_with: with,
            window: Vec::new(),
            log_damaged: false,
        });
        SeizeAnswer::Promised { accepted: None, components: components.collect() }
    }

    /// Goal: what members of rows took travels with its component, and of a mirror nothing more does than ever. Method: there and back; the
    /// first byte names the form.
    #[test]
    fn what_members_of_rows_took_travels() {
        for (with, form) in [
            ([Vec::new(), Vec::new()], 0),
            ([vec![op(1), OpId::ZERO, op(2)], Vec::new()], 4),
            ([Vec::new(), vec![op(9)]], 4),
        ] {
            let answer = promised(with);
            let bytes = postcard::to_allocvec(&answer).expect("encodable");
            assert_eq!(bytes[0], form);
            assert_eq!(postcard::from_bytes::<SeizeAnswer>(&bytes).as_ref(), Ok(&answer));
        }
    }
}
