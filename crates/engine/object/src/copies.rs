//! Who of this host's resyncs may copy next: one window of bytes for all of them, and a lane for each host that they copy from or to.
//!
//! Promises    bytes of copies on the way stay within the window of the moment, or are one piece             (memory)
//!             guests slow a resync wherever it reads or writes: at this host, which owns the object, and at the hosts of its copies
//! Not here    the order of those who wait (`window`); how large the window is, how fast copies may follow each other, and what
//!             slows them (`pace`)

use std::{rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_types::{BlockOp, ComponentOp, HostId, SnapshotId, Time};
use cairn_wire::{ReadBy, Request, Target};

use crate::{context::Context, local_store::LocalStore, window::Place};

/// Whom this host's seats work for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Guest,
    Resync,
    /// A resync that reads what was there at a snapshot.
    History(SnapshotId),
}

/// The component whose blocks a request to a seat moves, and whom for; none where it moves none.
fn moves_for(request: &Request) -> Option<(Target, For)> {
    let (to, by_resync) = match request {
        Request::Read { to, by, .. } => (to, *by != ReadBy::Guest),
        Request::Change { to, op: ComponentOp::Apply { blocks, .. } }
        | Request::Exchange { to, op: ComponentOp::Apply { blocks, .. } } => {
            (to, matches!(blocks, BlockOp::Copy { .. }))
        }
        Request::ReadAt { to, .. } | Request::FillHistory { to, .. } => (to, true),
        _ => return None,
    };
    Some((*to, if by_resync { For::Resync } else { For::Guest }))
}

impl<E: Env, S: LocalStore> Context<E, S> {
    fn copy_window(&self) -> u64 {
        let window_max = self.options.borrow().resync_bytes_in_flight_max;
        self.throttle.borrow().window(self.env.now(), window_max)
    }

    /// What other hosts' resyncs may do here: to be told with each heartbeat.
    pub(crate) fn resync_allowed(&self) -> Option<u64> {
        let beside_owners = self.throttle.borrow_mut().allowed(self.env.now(), self.guests_within());
        let beside_seats = self.seats_allow();
        beside_owners.into_iter().chain(beside_seats).min()
    }

    fn seats_allow(&self) -> Option<u64> {
        self.seats_throttle.borrow_mut().allowed(self.env.now(), self.guests_within())
    }

    /// Two tellings: guests that pause for a moment are still there.
    fn guests_within(&self) -> Duration {
        self.leases.heartbeat_every() * 2
    }

    /// Waits until a resync may copy its next piece, of so many bytes, from and to these hosts, or a scrub read it at one: yields to guests,
    /// here and there, and to other resyncs.
    pub(crate) async fn admit_copy(self: &Rc<Self>, wanted: u64, at: &[HostId]) -> Place<impl Fn() -> u64 + use<E, S>> {
        // Before it has a place: whoever waits for a slow host must not keep places from copies between others.
        let pauses = at.iter().map(|host| self.lane(*host, wanted));
        self.pause(pauses.max().unwrap_or_default()).await;
        let context = self.clone();
        let place = self.copies.place(wanted, move || context.copy_window()).await;
        let limit = self.options.borrow().resync_bytes_per_s_max;
        let pause = self.throttle.borrow_mut().next(self.env.now(), limit, place.bytes);
        self.pause(pause).await;
        place
    }

    /// A seat here is asked by the owner of another host. When, where a guest waits for it: for what is written to a copy that is
    /// being filled nobody does.
    pub(crate) fn seat_is_asked(&self, request: &Request) -> Option<Time> {
        let (to, by) = moves_for(request)?;
        let now = self.env.now();
        match by {
            For::Guest => self.seats.is_in_sync(to).then_some(now),
            For::Resync | For::History(_) => {
                self.seats_throttle.borrow_mut().on_copy(now);
                self.throttle.borrow_mut().on_copy(now);
                None
            }
        }
    }

    /// A seat here has done what a guest of another host's owner waits for since `began`.
    pub(crate) fn seat_answers(&self, began: Time) {
        let now = self.env.now();
        self.seats_throttle.borrow_mut().on_guest(now, now.since(began));
    }

    fn lane(&self, host: HostId, bytes: u64) -> Duration {
        let now = self.env.now();
        let allowed = if host == self.env.host() {
            // What owners here hear of guests is in the throttle that follows.
            let allowed = self.seats_allow();
            self.seats_throttle.borrow_mut().on_copy(now);
            allowed
        } else {
            self.leases.resync_allowed(host)
        };
        self.lanes.borrow_mut().next(now, host, allowed, bytes)
    }

    async fn pause(&self, pause: Duration) {
        if pause > Duration::ZERO {
            self.env.sleep(pause).await;
        }
    }
}
