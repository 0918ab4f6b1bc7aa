//! The host daemon: configuration, identity, the management API over HTTP, and the wiring of a host's parts.
//!
//! Promises    a wrong configuration is one error that names file, line and key; two daemons never share a data directory;
//!             every API error is JSON with cause and remedy
//! Assumes     one process per host, or several hosts in one process for trying it out (`--embedded-hosts`)
//! Not here    what management calls do (`node`); threads of shards and devices (`env-linux`)
#![forbid(unsafe_code)]

mod addresses;
pub mod bridge;
pub mod config;
pub mod engine;
pub mod exit;
pub mod flags;
pub mod http;
pub mod identity;
pub mod logging;
pub mod notify;
pub mod plan;
pub mod program;
pub mod repeats;
pub mod supervise;
