//! Which front-end requests a component has carried out: for a front end that repeats one at a new owner.
//!
//! Promises    an outcome is remembered until the slot that carried its request carries a later one, or its operation is undone;
//!             then it is dropped, and nobody's doing is forgotten for what others do meanwhile
//! Limits      what sessions that ended leave behind is dropped when there are more than the bound, oldest first. So would be what a
//!             living one waits for, if so many requests came to one component after it and none of their slots were used again

use std::collections::BTreeMap;

use cairn_types::{Canary, ClientTag, OpId};

use crate::rows::ClientRow;

/// The outcome of a client's request.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    client: ClientTag,
    op: OpId,
    /// Where in the log the record stands that it is from; 0 when it was read from the metadata.
    position: u64,
}

/// The outcomes of one component.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// By number, in the order in which they came: that of their positions.
    all: BTreeMap<u64, Outcome>,
    /// The same by request.
    numbers: BTreeMap<ClientTag, u64>,
    /// The number of the next one.
    next: u64,
    /// Those below it that are remembered have rows in the metadata.
    saved_below: u64,
    /// Rows in the metadata of what is dropped.
    gone: Vec<u64>,
}

impl Outcomes {
    /// The requests, each with the operation that it became, oldest first.
    pub fn all(&self) -> impl Iterator<Item = (ClientTag, OpId)> + '_ {
        self.all.values().map(|outcome| (outcome.client, outcome.op))
    }

    /// Whether the request was carried out, as far as is remembered.
    pub fn has(&self, client: ClientTag) -> bool {
        self.numbers.contains_key(&client)
    }

    /// Drops what the slot of `client` carried before.
    pub fn answered(&mut self, client: ClientTag) {
        while !Canary::AnsweredKept.sings()
            && let Some((_, &number)) = self.numbers.range(client.before()).next()
        {
            self.drop_one(number);
        }
    }

    /// Remembers an outcome, whose record stands at `position` of the log, and the last `max` ones. Nothing is done where there is no
    /// client, or where the outcome is known.
    pub fn remember(&mut self, client: ClientTag, op: OpId, position: u64, max: usize) {
        if client.session == 0 || self.has(client) {
            return;
        }
        self.insert(self.next, Outcome { client, op, position });
        while self.all.len() > max {
            let (&oldest, _) = self.all.first_key_value().expect("more than none");
            self.drop_one(oldest);
        }
    }

    /// Takes in a row, in the order of their numbers.
    pub fn load(&mut self, number: u64, row: ClientRow) {
        // An earlier build left the place of an undone operation empty.
        if row.client.session == 0 || self.has(row.client) {
            self.gone.push(number);
        } else {
            self.insert(number, Outcome { client: row.client, op: row.op, position: 0 });
        }
        self.next = number + 1;
        self.saved_below = self.next;
    }

    fn insert(&mut self, number: u64, outcome: Outcome) {
        self.numbers.insert(outcome.client, number);
        self.all.insert(number, outcome);
        self.next = number + 1;
    }

    fn drop_one(&mut self, number: u64) {
        if let Some(outcome) = self.all.remove(&number) {
            self.numbers.remove(&outcome.client);
            if number < self.saved_below {
                self.gone.push(number);
            }
        }
    }

    /// An undone operation is no outcome: whoever repeats its request must carry it out.
    pub fn undo(&mut self, op: OpId) {
        // It is one of the latest.
        let undone = self.all.iter().rev().find(|(_, outcome)| outcome.op == op).map(|(&number, _)| number);
        undone.into_iter().for_each(|number| self.drop_one(number));
    }

    /// Rows that the metadata is to write (or to remove, where none) so that they and the log from `tail` on hold what memory holds.
    /// What came and went while the log had it is never written.
    pub fn take_changes(&mut self, tail: u64) -> Vec<(u64, Option<ClientRow>)> {
        let mut changes: Vec<_> = self.gone.drain(..).map(|number| (number, None)).collect();
        let left_behind = self.all.range(self.saved_below..).take_while(|(_, outcome)| outcome.position < tail);
        for (&number, &Outcome { client, op, .. }) in left_behind {
            changes.push((number, Some(ClientRow { client, op })));
            self.saved_below = number + 1;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{Epoch, HostId, Incarnation};
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 7;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 1, host: HostId(1), incarnation: Incarnation(1) }, seq }
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// A request of this slot and part is carried out; it is the slot's next turn, or `late` turns before it.
        Done { slot: u32, late: u32, part: u64 },
        /// The operation before the last `back` ones is undone.
        Undo { back: u64 },
        /// The metadata is brought up to all but the last `back` records.
        Commit { back: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let late = prop_oneof![4 => Just(0u32), 1 => 1u32..3];
        prop_oneof![
            6 => (0u32..4, late, 0u64..2).prop_map(|(slot, late, part)| Step::Done { slot, late, part }),
            1 => (0u64..5).prop_map(|back| Step::Undo { back }),
            2 => (0u64..6).prop_map(|back| Step::Commit { back }),
        ]
    }

    /// A record of the log, at the position of its number in the list.
    #[derive(Debug, Clone, Copy)]
    enum Logged {
        Done(ClientTag, OpId),
        Undo(OpId),
    }

    fn apply(outcomes: &mut Outcomes, position: usize, logged: Logged) {
        match logged {
            Logged::Done(client, op) => {
                outcomes.answered(client);
                outcomes.remember(client, op, position as u64, MAX);
            }
            Logged::Undo(op) => outcomes.undo(op),
        }
    }

    proptest! {
        /// Goal: the rows and the log from the tail on tell what memory tells; and it is what was done and not undone, but for what a
        /// later request of its slot has answered, and for the oldest where they are many. Method: any order of requests, undoing and
        /// commits; after each, a recovery, and a list that is searched from end to end.
        #[test]
        fn rows_and_log_hold_what_memory_holds(steps in proptest::collection::vec(step(), 1..80)) {
            let (mut outcomes, mut log, mut rows, mut tail) = (Outcomes::default(), Vec::new(), BTreeMap::new(), 0);
            let (mut turns, mut last) = ([3u32; 4], 0);
            let mut slow: Vec<(ClientTag, OpId)> = Vec::new();
            for step in steps {
                let logged = match step {
                    Step::Done { slot, late, part } => {
                        turns[slot as usize] += u32::from(late == 0);
                        let client = ClientTag::request(5, slot, turns[slot as usize] - late).part(part);
                        // A request that is known is not carried out again.
                        if outcomes.has(client) {
                            continue;
                        }
                        last += 1;
                        slow.retain(|(known, _)| known.slot() != slot || known.turn() >= client.turn());
                        slow.push((client, op(last)));
                        slow.drain(..slow.len().saturating_sub(MAX));
                        Some(Logged::Done(client, op(last)))
                    }
                    Step::Undo { back } => {
                        slow.retain(|(_, of)| *of != op(last.saturating_sub(back)));
                        Some(Logged::Undo(op(last.saturating_sub(back))))
                    }
                    Step::Commit { back } => {
                        tail = log.len().saturating_sub(back as usize).max(tail);
                        for (number, row) in outcomes.take_changes(tail as u64) {
                            match row {
                                Some(row) => drop(rows.insert(number, row)),
                                None => prop_assert!(rows.remove(&number).is_some(), "a row that is there"),
                            }
                        }
                        None
                    }
                };
                if let Some(logged) = logged {
                    apply(&mut outcomes, log.len(), logged);
                    log.push(logged);
                }
                let mut recovered = Outcomes::default();
                rows.iter().for_each(|(&number, row)| recovered.load(number, row.clone()));
                log.iter().enumerate().skip(tail).for_each(|(at, logged)| apply(&mut recovered, at, *logged));
                prop_assert_eq!(recovered.all().collect::<Vec<_>>(), outcomes.all().collect::<Vec<_>>());
                prop_assert_eq!(outcomes.all().collect::<Vec<_>>(), slow.clone());
                prop_assert!(slow.iter().all(|(client, _)| outcomes.has(*client)));
                prop_assert_eq!(outcomes.numbers.len(), outcomes.all.len());
            }
        }
    }

    #[test]
    fn what_a_client_waits_for_is_remembered_whatever_others_do() {
        let mut outcomes = Outcomes::default();
        let waits = ClientTag::request(9, 0, 5);
        outcomes.remember(waits, op(1), 1, MAX);
        for n in 2..1000u32 {
            apply(&mut outcomes, n as usize, Logged::Done(ClientTag::request(11, n % 4, n / 4), op(u64::from(n))));
        }
        assert!(outcomes.has(waits));
        assert_eq!(outcomes.all().count(), 5);
    }

    #[test]
    fn empty_places_of_earlier_builds_go() {
        let mut outcomes = Outcomes::default();
        outcomes.load(3, ClientRow { client: ClientTag::request(9, 0, 0), op: op(1) });
        outcomes.load(4, ClientRow { client: ClientTag::default(), op: op(2) });
        assert_eq!(outcomes.all().count(), 1);
        let changes: Vec<_> =
            outcomes.take_changes(100).into_iter().map(|(number, row)| (number, row.is_none())).collect();
        assert_eq!(changes, [(4, true)]);
    }
}
