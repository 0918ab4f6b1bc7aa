//! Suites that every implementation of a contract must pass, so that one can stand in for another.
//!
//! Promises    a suite names only the contract; what it needs of the world below it asks of a rig
//! Here        [`directory`]: embedded (memory, file), etcd (one member, three members, one of them killed)
#![forbid(unsafe_code)]

pub mod directory;
