//! What was admitted and is not in the log yet: what waits for a batch, for the capacity tier, for room.
//!
//! Promises    each is answered once
//! Not here    what is admitted (`append.rs`), when what waits for room is (`waiting.rs`), who writes (`append.rs`, `bypass.rs`)

use std::collections::VecDeque;

use crate::{
    error::StoreError,
    fills::Fill,
    placing::{Placement, Placing},
    queue::{Queue, Queued},
};

/// The four places in which operations wait.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// For a batch in the log.
    pub queue: Queue,
    /// For their blocks to be in the capacity tier.
    pub placing: Placing,
    /// For the transaction that takes them over: history that another copy brings.
    pub fills: VecDeque<Fill>,
    /// For room where destage will make some: admitted when it has, or refused after a while.
    short_of_room: VecDeque<Queued>,
}

impl Admission {
    /// What is admitted takes its way: past the log to a device, or into the log.
    pub fn enter(&mut self, queued: Queued, device: Option<u8>) {
        match device {
            Some(device) => {
                let Queued { since, record, data, charged, done, .. } = queued;
                self.placing.wait(Placement::new(since, device, record, data, charged, done));
            }
            None => self.queue.push(queued),
        }
    }

    pub fn wait_for_room(&mut self, queued: Queued) {
        self.short_of_room.push_back(queued);
    }
    pub fn is_short_of_room(&self) -> bool {
        !self.short_of_room.is_empty()
    }
    /// All that waits for room, in its order: the caller admits it, answers it, or lets it wait again.
    pub fn take_short_of_room(&mut self) -> VecDeque<Queued> {
        std::mem::take(&mut self.short_of_room)
    }
    /// Refuses those of what waits for room that are so.
    pub fn refuse_short_of_room(&mut self, which: impl Fn(&Queued) -> bool, error: &StoreError) {
        for queued in self.take_short_of_room() {
            match which(&queued) {
                true => drop(queued.done.send(Err(error.clone()))),
                false => self.short_of_room.push_back(queued),
            }
        }
    }

    /// Answers everything.
    pub fn fail_all(&mut self, error: &StoreError) {
        self.queue.fail_all(error);
        self.placing.fail_all(error);
        self.fills.drain(..).for_each(|fill| fill.answer(Err(error.clone())));
        self.refuse_short_of_room(|_| true, error);
    }
}
