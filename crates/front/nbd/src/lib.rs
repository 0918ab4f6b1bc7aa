//! The NBD server: a guest's door to virtual disks, over a unix socket or TCP.
//!
//! Promises    every request gets the answer that the protocol names for it; a malformed one gets the protocol's error or a
//!             closed connection, and memory per connection stays within [`Limits`]
//!             a client learns that a disk is read-only, and such a disk is never asked for a change
//! Assumes     it runs inside a tokio `LocalSet` (the volumes' futures are not `Send`): one task per connection, on the shard
//!             that called [`serve_unix`] or [`serve_tcp`]
//! Not here    TLS (STARTTLS is refused by policy), extended headers (64-bit lengths), what a disk is (`volume`)
//! Source      the protocol's text: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>
//!
//! Pure: `wire` (numbers), `option` and `request` (bytes to values), `contexts` (what is told of ranges), `decode` (the stream of
//! requests), `reply` (values to bytes).
//! With effects: `handshake`, `session`, `server`, `doors`, `unix_stream`.
#![deny(unsafe_code)]

mod connection;
mod contexts;
mod decode;
mod doors;
mod execute;
mod handshake;
mod option;
mod reply;
mod request;
mod server;
mod session;
mod settings;
mod stats;
mod unix_stream;
mod wire;

pub use cairn_volume::ServeError;
pub use connection::serve_stream;
pub use doors::{Doors, Entrance, doors};
pub use server::{Server, serve_moved, serve_tcp, serve_unix};
pub use settings::{Limits, Options};
pub use stats::SessionStats;
