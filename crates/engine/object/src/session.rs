//! The numbers that a front end's session gives to its requests.
//!
//! Promises    no two requests of a session that are under way, or were, have one name; a slot is taken again only after the request
//!             that it carried was answered or given up, so that its next request tells copies to forget the last one

use std::{cell::RefCell, rc::Rc};

use cairn_types::ClientTag;

/// A session's slots: as many as there ever were requests under way at once.
pub(crate) struct Session {
    id: u64,
    /// By slot, the turn of its next request.
    turns: Vec<u32>,
    /// Slots that carry no request; the last one is taken next, so that few are in use.
    free: Vec<u32>,
}

impl Session {
    /// No request yet. `id` is random.
    pub(crate) fn new(id: u64) -> Self {
        // 0 is nobody's.
        Self { id: id | 1, turns: Vec::new(), free: Vec::new() }
    }

    /// A slot and its turn; none when all slots are in use or worn out.
    fn take(&mut self) -> Option<ClientTag> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.turns.len() < ClientTag::SLOTS_MAX as usize => {
                self.turns.push(0);
                (self.turns.len() - 1) as u32
            }
            None => return None,
        };
        let turn = self.turns[slot as usize];
        self.turns[slot as usize] = turn + 1;
        Some(ClientTag::request(self.id, slot, turn))
    }

    /// The request that `tag` names was answered or given up.
    fn give_back(&mut self, tag: ClientTag) {
        let slot = tag.slot();
        // A session that had no slot left was followed by another; and a slot ends with its last turn.
        if tag.session == self.id && self.turns[slot as usize] < ClientTag::TURNS_MAX {
            self.free.push(slot);
        }
    }
}

/// A request under way: its slot is free again when this is dropped.
pub(crate) struct Named {
    session: Rc<RefCell<Session>>,
    pub(crate) tag: ClientTag,
}

impl Named {
    /// Names a request. `random` is asked for the number of another session when this one has no slot left.
    pub(crate) fn next(session: &Rc<RefCell<Session>>, random: impl FnOnce() -> u64) -> Self {
        let mut of = session.borrow_mut();
        let tag = of.take().unwrap_or_else(|| {
            *of = Session::new(random());
            of.take().expect("a new session has slots")
        });
        drop(of);
        Self { session: session.clone(), tag }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.session.borrow_mut().give_back(self.tag);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: names are unique, and a slot's next request comes after the end of its last. Method: requests that begin and end in
    /// any order, more at once than a session has slots.
    #[test]
    fn a_slot_carries_one_request_at_a_time() {
        let session = Rc::new(RefCell::new(Session::new(6)));
        let (mut open, mut seen, mut random) = (Vec::<Named>::new(), BTreeSet::new(), 100);
        for step in 0..40_000usize {
            if step % 3 == 2 && !(9_000..19_000).contains(&step) {
                open.swap_remove(step * 7919 % open.len());
                continue;
            }
            let named = Named::next(&session, || {
                random += 2;
                random
            });
            assert!(seen.insert(named.tag), "a name is given once");
            assert!(!open.iter().any(|other| other.tag.of_slot().contains(&named.tag)), "the slot is in use");
            open.push(named);
        }
        assert!(random > 100, "there were more at once than slots");
        drop(open);
    }

    #[test]
    fn a_slot_ends_with_its_last_turn() {
        let session = Rc::new(RefCell::new(Session::new(6)));
        drop(Named::next(&session, || 0));
        session.borrow_mut().turns[0] = ClientTag::TURNS_MAX - 1;
        let last = Named::next(&session, || 0);
        assert_eq!((last.tag.slot(), last.tag.turn()), (0, u64::from(ClientTag::TURNS_MAX) - 1));
        drop(last);
        assert_eq!(Named::next(&session, || 0).tag.slot(), 1);
    }
}
