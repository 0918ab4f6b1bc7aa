//! Credit for requests that go to the owner's host: the asker bounds what waits for it there.
//!
//! Promises    requests of guests and their answers, between two hosts, are at most [`FORWARD_BYTES_MAX`] at once, or one
//! Why         the owner's host queues an answer as soon as it has the data. The link to a peer breaks when too much waits there:
//!             all that is under way on it is lost, and copies of disks that have nothing to do with it are recorded absent
//! Not here    what an owner has in flight with its copies: its own admission bounds that (`in_flight_bytes_max`)

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use cairn_types::HostId;
use cairn_wire::GuestRequest;

use crate::window::{Place, Window};

/// Bytes of forwarded requests and of their answers that may be under way to one host.
///
/// 32 MiB: the largest request of a guest, and 10 ms of a 25 Gbit/s network: more on the way is no faster.
pub(crate) const FORWARD_BYTES_MAX: u64 = 32 << 20;

/// The windows to the hosts that requests were forwarded to.
#[derive(Default)]
pub(crate) struct Forwards(RefCell<BTreeMap<HostId, Rc<Window>>>);

/// A forwarded request's place in the window.
pub(crate) type Forward = Place<fn() -> u64>;

impl Forwards {
    /// The request's place, to be kept until its answer is here; at once where there is room, else when it is its turn.
    pub(crate) fn place(
        &self,
        to: HostId,
        request: &GuestRequest,
        payload_bytes: u64,
    ) -> Result<Forward, impl Future<Output = Forward> + use<>> {
        let window = self.0.borrow_mut().entry(to).or_default().clone();
        let answer_bytes = match request {
            GuestRequest::Read { len_bytes, .. } => u64::from(*len_bytes),
            GuestRequest::Write { .. } | GuestRequest::Zero { .. } | GuestRequest::Status { .. } => 0,
        };
        let bytes = payload_bytes + answer_bytes;
        let limit: fn() -> u64 = || FORWARD_BYTES_MAX;
        window.place_now(bytes, limit).ok_or(async move { window.place(bytes, limit).await })
    }
}
