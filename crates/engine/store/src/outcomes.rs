//! Which front-end requests a component has carried out: for a front end that repeats one at a new owner.
//!
//! Promises    an outcome is remembered until the slot that carried its request carries a later one, or its operation is undone;
//!             then it is dropped, and nobody's doing is forgotten for what others do meanwhile
//! Limits      what sessions that ended leave behind is dropped when there are more than the bound, oldest first. So would be what a
//!             living one waits for, if so many requests came to one component after it and none of their slots were used again

use std::{collections::BTreeMap, ops::Range};

use cairn_types::{Canary, ClientTag, OpId};

use crate::rows::ClientRow;

/// The outcome of a client's request.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// In the order in which they came: that of their positions.
    number: u64,
    client: ClientTag,
    op: OpId,
    /// Where in the log the record stands that it is from; 0 when it was read from the metadata.
    position: u64,
    /// The metadata has a row of it.
    saved: bool,
}

/// The outcomes of one component.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// By session, then in the order of slot, turn and part. Mostly a request takes the very place of the one before it in its slot.
    sessions: BTreeMap<u64, Vec<Outcome>>,
    /// How many there are.
    count: usize,
    /// How many of them have no row in the metadata.
    unsaved: usize,
    /// The number of the next one.
    next: u64,
    /// Rows in the metadata of what is dropped.
    gone: Vec<u64>,
}

/// Where those of the slot of `client` stand that it carried before.
fn before(of_session: &[Outcome], client: ClientTag) -> Range<usize> {
    let before = client.before();
    let first = of_session.partition_point(|outcome| outcome.client < before.start);
    let count = of_session[first..].iter().take_while(|outcome| outcome.client < before.end).count();
    // The bug: nothing is dropped until there are too many.
    if Canary::AnsweredKept.sings() { first..first } else { first..first + count }
}

impl Outcomes {
    /// The requests, each with the operation that it became, oldest first.
    pub fn all(&self) -> Vec<(ClientTag, OpId)> {
        let mut all: Vec<&Outcome> = self.sessions.values().flatten().collect();
        all.sort_unstable_by_key(|outcome| outcome.number);
        all.into_iter().map(|outcome| (outcome.client, outcome.op)).collect()
    }

    /// Whether the request was carried out, as far as is remembered.
    pub fn has(&self, client: ClientTag) -> bool {
        let of_session = self.sessions.get(&client.session);
        of_session.is_some_and(|all| all.binary_search_by_key(&client, |outcome| outcome.client).is_ok())
    }

    /// Drops what the slot of `client` carried before.
    pub fn answered(&mut self, client: ClientTag) {
        if let Some(of_session) = self.sessions.get_mut(&client.session) {
            let gone = before(of_session, client);
            let gone: Vec<Outcome> = of_session.drain(gone).collect();
            gone.iter().for_each(|outcome| self.dropped(outcome));
            self.forget_session_if_empty(client.session);
        }
    }

    /// Remembers an outcome, whose record stands at `position` of the log, and drops what its slot carried before; `max` are
    /// remembered, the last ones. Where there is no client, or where the outcome is known, nothing is remembered.
    pub fn remember(&mut self, client: ClientTag, op: OpId, position: u64, max: usize) {
        if client.session == 0 {
            return;
        }
        let of_session = self.sessions.entry(client.session).or_default();
        let old = before(of_session, client);
        let new = Outcome { number: self.next, client, op, position, saved: false };
        let alone = old.len() == 1 && of_session.get(old.end).is_none_or(|next| next.client > client);
        if alone {
            let old = std::mem::replace(&mut of_session[old.start], new);
            self.dropped(&old);
        } else {
            self.answered(client);
            let of_session = self.sessions.entry(client.session).or_default();
            let Err(place) = of_session.binary_search_by_key(&client, |outcome| outcome.client) else {
                return;
            };
            of_session.insert(place, new);
        }
        self.next += 1;
        self.count += 1;
        self.unsaved += 1;
        while self.count > max {
            self.drop_oldest();
        }
    }

    /// Takes in a row, in the order of their numbers.
    pub fn load(&mut self, number: u64, row: ClientRow) {
        self.next = number + 1;
        let ClientRow { client, op } = row;
        let of_session = self.sessions.entry(client.session).or_default();
        match of_session.binary_search_by_key(&client, |outcome| outcome.client) {
            Err(place) if client.session != 0 => {
                of_session.insert(place, Outcome { number, client, op, position: 0, saved: true });
                self.count += 1;
            }
            // An earlier build left the place of an undone operation empty.
            _ => {
                self.gone.push(number);
                self.forget_session_if_empty(client.session);
            }
        }
    }

    /// Accounts for one that was taken away.
    fn dropped(&mut self, outcome: &Outcome) {
        self.count -= 1;
        match outcome.saved {
            true => self.gone.push(outcome.number),
            false => self.unsaved -= 1,
        }
    }

    /// Rare, as only sessions that end leave anything behind: a look at all.
    fn drop_oldest(&mut self) {
        let oldest =
            self.sessions.values().flatten().min_by_key(|outcome| outcome.number).map(|outcome| outcome.number);
        self.drop_where(|outcome| Some(outcome.number) == oldest);
    }

    fn drop_where(&mut self, which: impl Fn(&Outcome) -> bool) {
        let gone: Vec<Outcome> =
            self.sessions.values_mut().flat_map(|all| all.extract_if(.., |outcome| which(outcome))).collect();
        for outcome in gone {
            self.dropped(&outcome);
            self.forget_session_if_empty(outcome.client.session);
        }
    }

    fn forget_session_if_empty(&mut self, session: u64) {
        if self.sessions.get(&session).is_some_and(Vec::is_empty) {
            self.sessions.remove(&session);
        }
    }

    /// An undone operation is no outcome: whoever repeats its request must carry it out.
    pub fn undo(&mut self, op: OpId) {
        self.drop_where(|outcome| outcome.op == op);
    }

    /// Rows that the metadata is to write (or to remove, where none) so that they and the log from `tail` on hold what memory holds.
    /// What came and went while the log had it is never written.
    pub fn take_changes(&mut self, tail: u64) -> Vec<(u64, Option<ClientRow>)> {
        let mut changes: Vec<_> = self.gone.drain(..).map(|number| (number, None)).collect();
        // Components at rest are not looked at.
        if self.unsaved > 0 {
            let left_behind = |outcome: &&mut Outcome| !outcome.saved && outcome.position < tail;
            for outcome in self.sessions.values_mut().flatten().filter(left_behind) {
                outcome.saved = true;
                self.unsaved -= 1;
                changes.push((outcome.number, Some(ClientRow { client: outcome.client, op: outcome.op })));
            }
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
                prop_assert_eq!(recovered.all(), outcomes.all());
                prop_assert_eq!(outcomes.all(), slow.clone());
                prop_assert!(slow.iter().all(|(client, _)| outcomes.has(*client)));
                for (of, what) in [(&outcomes, "kept"), (&recovered, "recovered")] {
                    let all: Vec<&Outcome> = of.sessions.values().flatten().collect();
                    let unsaved = all.iter().filter(|outcome| !outcome.saved).count();
                    prop_assert_eq!((of.count, of.unsaved), (all.len(), unsaved), "{}", what);
                    prop_assert!(of.sessions.values().all(|all| !all.is_empty()), "{}", what);
                }
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
        assert_eq!(outcomes.all().len(), 5);
    }

    #[test]
    fn empty_places_of_earlier_builds_go() {
        let mut outcomes = Outcomes::default();
        outcomes.load(3, ClientRow { client: ClientTag::request(9, 0, 0), op: op(1) });
        outcomes.load(4, ClientRow { client: ClientTag::default(), op: op(2) });
        assert_eq!(outcomes.all().len(), 1);
        let changes: Vec<_> =
            outcomes.take_changes(100).into_iter().map(|(number, row)| (number, row.is_none())).collect();
        assert_eq!(changes, [(4, true)]);
    }
}
