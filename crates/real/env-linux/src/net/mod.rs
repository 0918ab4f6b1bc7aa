//! Messages between processes over TCP.
//!
//! Promises    N1  messages of one host to another arrive in order, or it hears `PeerDown` (and, where replies may be lost, the
//!                 other as well)
//!             N2  everything queued for a peer leaves in one system call; one read takes what arrived, of any number of messages
//!             N3  whatever bytes arrive, the worst is a closed connection; memory per connection and per queue is bounded
//! Assumes     the network may lose, delay and cut, but does not forge: peers are told apart by what they say (TLS comes later)
//! Not here    what a message means (`wire`), who may send it (`object`), detection of silence (leases do that)
//!
//! Each host dials each peer: its *link*, which carries messages one way. The other way the same connection carries only the
//! handshake's answer and pongs. Hosts of one process may share an address: a greeting names the one that is meant.
//!
//! When does a host hear what?
//! - `PeerUp`: its link has completed the handshake, or the peer's own connection to us broke, and then a ping was answered. The
//!   peer answers it once it has a link to us: what is asked from then on can be answered, or `PeerDown` tells.
//! - `PeerDown { process_gone: false }`: its link broke, its queue went over [`link::QUEUE_BYTES_MAX`] (the whole queue is dropped:
//!   a peer that takes nothing must not make us grow), or a connection *from* the peer broke, so that replies may be lost.
//! - `PeerDown { process_gone: true }`: dialling was refused: nothing listens there. A reset alone does not prove that
//!   (a peer resets when it refuses bytes), so after any break the link dials at once, and a dead process shows within a
//!   millisecond. This comes after the plain `PeerDown` of the same break.

mod accept;
mod frame;
mod health;
mod host;
mod identity;
mod link;
mod queue;
mod reader;
mod socket;

pub(crate) use accept::run as accept;
pub(crate) use frame::Greeting;
pub(crate) use health::Health;
pub use health::{PeerHealth, PeerState, RefusedConnection};
pub(crate) use host::{Command, Links, NetPort, Stop, run};
pub(crate) use identity::Connections;
pub use reader::frames_in;
