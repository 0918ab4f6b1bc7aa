//! Operations that find no room while trims and deletes that are not destaged yet will give some.
//!
//! Promises    each is admitted as soon as there is room, or refused with NoSpace [`ROOM_PATIENCE`] after it was asked for
//!             what holds when it is admitted is what holds for an operation that is asked for then
//! Assumes     the object layer orders an operation with overlapping ones: it may take effect later than what was asked for after it
//! Not here    what is refused at once, as no destage can help (`charge.rs`)
//!
//! A trim frees nothing before it is settled: until then an undo may bring its blocks back. What waits says how far its own component
//! is settled, and its owner may say nothing more before it has an answer: so that goes to the log ahead of it.

use std::time::Duration;

use cairn_env::Env;
use cairn_format::LogRecord;
use cairn_types::{BlockRange, ComponentId, OpId, Time};
use futures::channel::oneshot;

use crate::{
    charge::{charge, refusal},
    components::Components,
    disk_group::Inner,
    error::StoreError,
    options::RunningOptions,
    queue::{Charge, DataParts, Queue, Queued},
    ring::Class,
    state::State,
    tier::Tier,
};

/// How long an operation waits for room. A trim of 256 MiB takes destage one transaction, some 50 ms; guests wait 25 s for an answer.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// Wait before destage is asked again, where a round gave no room: what is hidden may not be settled yet.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl<E: Env> Inner<E> {
    /// Asks for a drain, where something waits for room that is to be had.
    pub(crate) fn drain_for_room(&self) {
        let mut state = self.state.borrow_mut();
        if state.admission.is_short_of_room() {
            state.drain_for_room();
            self.destager.raise();
        }
    }

    /// Something was freed: admits what waited for it.
    pub(crate) fn admit_short_of_room(&self) {
        let mut state = self.state.borrow_mut();
        if !state.admission.is_short_of_room() {
            return;
        }
        state.admit_short_of_room(self.env.now(), &self.tuning);
        self.writer.raise();
        self.placer.raise();
    }

    /// After a step of destage: what still waits keeps it going.
    pub(crate) async fn go_on_for_room(&self) {
        self.admit_short_of_room();
        let idle = {
            let state = self.state.borrow();
            state.admission.is_short_of_room() && !state.log.is_draining()
        };
        if idle {
            self.env.sleep(ASK_AGAIN).await;
            self.admit_short_of_room();
            self.drain_for_room();
        }
    }
}

impl State {
    /// Keeps an operation until there is room. What it says of its component is said ahead of it.
    pub(crate) fn wait_for_room(
        &mut self,
        since: Time,
        record: LogRecord,
        data: DataParts,
        class: Class,
    ) -> oneshot::Receiver<Result<(), StoreError>> {
        if let LogRecord::Write { component, settled, .. }
        | LogRecord::Zero { component, settled, .. }
        | LogRecord::Copy { component, settled, .. }
        | LogRecord::Rows { component, settled, .. }
        | LogRecord::ZeroRows { component, settled, .. } = &record
        {
            settle_ahead(&self.components, &mut self.admission.queue, since, *component, *settled);
        }
        let (done, answer) = oneshot::channel();
        self.admission.wait_for_room(Queued::new(since, record, data, class, None, None, done));
        answer
    }

    /// Asks for a drain, where something waits for room. Not before what is queued ahead is in the log: a trim that is settled only
    /// after destage met it is taken up a second time.
    pub(crate) fn drain_for_room(&mut self) {
        if self.admission.is_short_of_room() && self.admission.queue.nothing_is_settled() {
            self.log.request_drain();
        }
    }

    fn admit_short_of_room(&mut self, now: Time, tuning: &RunningOptions) {
        for mut queued in self.admission.take_short_of_room() {
            match self.charge_again(&queued.record) {
                Ok(Charge::Now(charged)) => {
                    queued.charged = charged;
                    self.enter(queued, tuning);
                }
                Ok(Charge::Later) if now.since(queued.since) < ROOM_PATIENCE => self.admission.wait_for_room(queued),
                Ok(Charge::Later) => {
                    drop(queued.done.send(Err(still_no_room(&self.components, &self.tier, &queued.record))))
                }
                Err(error) => drop(queued.done.send(Err(error))),
            }
        }
    }

    /// What was right when it was asked for may not be any more.
    fn charge_again(&mut self, record: &LogRecord) -> Result<Charge, StoreError> {
        self.life.not_closing()?;
        match record {
            LogRecord::Write { component, op, first_block, crcs, .. } => {
                self.components.check(*component, Some(*op), BlockRange::new(*first_block, crcs.len() as u32))?;
            }
            LogRecord::Zero { component, op, range, .. } | LogRecord::ZeroRows { component, op, range, .. } => {
                self.components.check(*component, Some(*op), *range)?
            }
            LogRecord::Copy { component, op, pieces, .. } | LogRecord::Rows { component, op, pieces, .. } => {
                for piece in pieces {
                    self.components.check(*component, Some(*op), piece.range())?;
                }
            }
            LogRecord::ResizeComponent { component, .. } => drop(self.components.not_lost(*component)?),
            _ => {}
        }
        charge(&mut self.components, &mut self.tier, record)
    }
}

fn settle_ahead(components: &Components, queue: &mut Queue, since: Time, component: ComponentId, upto: OpId) {
    if components.of(component).settled < upto {
        // Nobody waits for it.
        let (done, _) = oneshot::channel();
        let record = LogRecord::Settle { component, upto };
        queue.push(Queued::new(since, record, DataParts::new(), Class::Reserve, None, None, done));
    }
}

fn still_no_room(components: &Components, tier: &Tier, record: &LogRecord) -> StoreError {
    let device = match record {
        LogRecord::Write { component, .. }
        | LogRecord::Zero { component, .. }
        | LogRecord::Copy { component, .. }
        | LogRecord::Rows { component, .. }
        | LogRecord::ZeroRows { component, .. }
        | LogRecord::ResizeComponent { component, .. } => components.of(*component).device,
        _ => unreachable!("what takes no space waits for none"),
    };
    refusal(tier, device, record.data_blocks())
}
