//! Ctrl-C and SIGTERM while something is under way that has to be cleared away.

use tokio::signal::unix::{SignalKind, signal};

use crate::fail::Fail;

/// Carries something out, unless it is interrupted: then it is given up, and what it did is for the caller to undo.
///
/// # Errors
/// Its own, or that it was interrupted.
pub async fn unless<T>(work: impl Future<Output = Result<T, Fail>>) -> Result<T, Fail> {
    let cannot = |error| Fail::refused(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => Err(Fail::refused("interrupted")),
        _ = terminate.recv() => Err(Fail::refused("interrupted by SIGTERM")),
    }
}
