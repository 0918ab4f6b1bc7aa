//! One connection from accept to close: negotiate, then serve.

use std::time::Duration;

use cairn_volume::Exports;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use crate::{options::Limits, stats::SessionRecord};

/// Tells a connection to end, and how long its last answers may take to leave.
pub(crate) struct Stop {
    signal: watch::Receiver<bool>,
    pub(crate) grace: Duration,
}

impl Stop {
    pub(crate) fn new(signal: watch::Receiver<bool>, grace: Duration) -> Self {
        Self { signal, grace }
    }

    /// Resolves when the server stops.
    pub(crate) async fn wait(&mut self) {
        // An error means that the server itself is gone: that is a stop, too.
        let _ = self.signal.wait_for(|stop| *stop).await;
    }
}

pub(crate) async fn run<E: Exports, S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    _exports: E,
    _limits: Limits,
    mut stop: Stop,
    _record: &SessionRecord,
) {
    stop.wait().await;
    drop((stream, stop.grace));
}
