//! The management API: what an administrator may ask, as types by version and as one trait.
//!
//! Promises    a client builds from this crate alone; a published version's fields keep name, unit and meaning
//! Assumes     values only: no sockets, no files, no clock. Sizes are bytes, times are ms since 1970 or seconds, as named
//! Not here    HTTP (the daemon), tables (the command line), the deeds themselves (`node`)
#![forbid(unsafe_code)]

mod calls;
mod error;
mod management;
pub mod v1;

pub use calls::{Access, CALLS, Call};
pub use error::{ApiError, ApiErrorKind, ApiResult};
pub use management::{BoxFuture, LocalManagement, Management, Request};

/// The environment variable that names the API's address for clients.
pub const API_ENV: &str = "CAIRN_API";
/// Where the API listens unless told otherwise.
pub const API_DEFAULT: &str = "http://127.0.0.1:9610";
/// The unix socket of the API on a packaged host.
pub const API_SOCKET_DEFAULT: &str = "/run/cairn/api.sock";
