//! The keeper's part in moves: carries out the next step, one at a time.
//!
//! Promises    a component that is in sync leaves only when another one in sync holds the same                         (I12)
//!             moves come after failures, repair and what was left out; few of a host's objects are moved at a time
//! Not here    what the next step is and where a twin goes (`placement`), how it is filled (`resync`)

use std::{rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_types::{Canary, ComponentId, Member, ObjectConfig};

use crate::{
    local_store::LocalStore,
    owner::Owned,
    placer::{MemberChange, NextMove},
};

/// Objects of a host that are moved at a time: each takes the space of one more component until its move ends. Two, so that the end of
/// one is no pause in the copying.
const MOVES_AT_ONCE: usize = 2;
/// How long a move that was asked for waits for room and for its turn.
const ASKED_FOR: Duration = Duration::from_secs(600);

impl<E: Env, S: LocalStore> Owned<E, S> {
    pub(crate) async fn go_on_moving(self: &Rc<Self>) {
        let context = &self.context;
        let Some(placer) = context.placer.borrow().clone() else {
            return;
        };
        if self.state.borrow().ended().is_some() || self.state.borrow().has_failures() {
            return;
        }
        let config = self.config();
        let may_begin = self.may_have_turn();
        self.forget_what_was_asked(&config);
        let next = placer.next_move(&config, &self.asked_to_move.borrow(), may_begin);
        self.move_waits.set(next != NextMove::Nothing);
        if next != NextMove::Nothing && config.addresses.moving().is_some() {
            // One thing after the other: what has to leave a host goes first.
            return self.conversion_failed();
        }
        let change = match next {
            NextMove::Nothing | NextMove::Waits => return self.note_moving(),
            NextMove::Begin(change) => {
                // Before the awaits of the change: others look meanwhile.
                context.moving.borrow_mut().insert(self.id);
                change
            }
            NextMove::End(change) => change,
        };
        assert_stays_in_sync(&config, &change);
        // What cannot be done now is tried again with the next look.
        let _ = self.change_members(change, (config.addresses.clone(), config.size_bytes)).await;
        self.note_moving();
    }

    fn may_have_turn(&self) -> bool {
        let moving = self.context.moving.borrow();
        moving.contains(&self.id) || moving.len() < MOVES_AT_ONCE
    }

    /// Whether it may take space for a while; then it does.
    pub(super) fn has_turn(&self) -> bool {
        let may = self.may_have_turn();
        if may {
            self.context.moving.borrow_mut().insert(self.id);
        }
        may
    }

    /// What was asked for and is gone is done. What could not be begun for long is asked for no more: the cluster is another one by then.
    fn forget_what_was_asked(&self, config: &ObjectConfig) {
        let mut asked = self.asked_to_move.borrow_mut();
        asked.retain(|component, _| config.member(*component).is_some());
        let waited = self.context.env.now().since(self.asked_last.get());
        if config.twins().is_empty() && waited > ASKED_FOR {
            asked.clear();
        }
    }

    /// Whether something of it is being moved: its record says so, whichever owner began that.
    pub(super) fn note_moving(&self) {
        let config = self.config();
        let under_way = !config.twins().is_empty() || config.addresses.moving().is_some();
        let moves = self.state.borrow().ended().is_none() && under_way;
        let mut moving = self.context.moving.borrow_mut();
        match moves {
            true => moving.insert(self.id),
            false => moving.remove(&self.id),
        };
    }
}

/// I12, where a member leaves.
fn assert_stays_in_sync(config: &ObjectConfig, change: &MemberChange) {
    // That bug is for those who look from outside.
    if Canary::UnwantedIsSource.sings() {
        return;
    }
    let goes = |m: &&Member| change.removed.contains(&m.component) && m.set().is_some() && m.state.in_sync();
    let stays = |component: ComponentId| config.twin_of(component).is_some_and(|twin| twin.state.in_sync());
    for gone in config.members.iter().filter(goes) {
        assert!(stays(gone.component), "component {} leaves, and no other one in sync holds the same", gone.component);
    }
}
