//! TCP addresses that somebody else has: told of all at once, before anything is made.
//!
//! Promises    whoever starts a second daemon on a machine reads once which flags it needs
//! Not here    listening: an address that is free now may be taken by then, which is an error there

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use crate::{identity, plan::Plan};

/// Ports above a taken one that are tried before none is proposed.
const TRIES: u16 = 200;

/// Looks whether the process can listen where the plan says.
///
/// # Errors
/// The addresses that are taken, with flags for others.
pub(crate) fn check_free(plan: &Plan) -> Result<(), String> {
    let kinds = [
        ("the management API", "--listen-api", plan.api.tcp.into_iter().collect::<Vec<_>>()),
        ("NBD", "--listen-nbd", plan.hosts.iter().filter_map(|host| host.nbd).collect()),
        ("other hosts", "--listen-peers", plan.hosts.iter().filter_map(|host| host.peers).collect()),
    ];
    let (mut taken, mut flags, mut ports) = (Vec::new(), Vec::new(), Vec::new());
    for (what, flag, addresses) in kinds {
        let Some(first) = addresses.iter().find(|address| is_taken(**address)) else { continue };
        taken.push(format!("{first} (for {what})"));
        let above = (first.port().saturating_add(1)..=first.port().saturating_add(TRIES)).find(|port| {
            let mut others = addresses.iter().map(|address| SocketAddr::new(address.ip(), *port));
            !ports.contains(port) && others.all(|address| !is_taken(address))
        });
        match above {
            Some(port) => flags.push(format!("{flag} {}", SocketAddr::new(addresses[0].ip(), port))),
            None => flags.push(format!("{flag} ADDRESS")),
        }
        ports.extend(above);
    }
    if taken.is_empty() {
        return Ok(());
    }
    let mut data_dirs = plan.hosts.iter().map(|host| &host.data_dir);
    if let Some(dir) = data_dirs.find(|dir| identity::is_in_use(dir)) {
        taken.push(format!("{} (the data directory)", dir.display()));
        flags.push("--data-dir DIR".into());
    }
    Err(format!(
        "taken on this machine: {}. Stop the other cairnd there, or start this one with {}",
        taken.join(", "),
        flags.join(" ")
    ))
}

/// Whether somebody listens there. What else may be wrong with an address is found by who listens on it.
fn is_taken(address: SocketAddr) -> bool {
    address.port() != 0 && TcpListener::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}
