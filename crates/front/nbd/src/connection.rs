//! One connection from accept to close: negotiate, then serve.

use std::{pin::pin, rc::Rc, time::Duration};

use cairn_volume::{Exports, Guest, Volume};
use futures::future::{Either, select};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::timeout,
};

use crate::{
    contexts::Context,
    execute::execute,
    handshake::{Chosen, Ended, Handover, Outcome, go_on, negotiate},
    session::Session,
    settings::Limits,
    stats::SessionRecord,
};

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

/// Serves one client on a stream that is there already, to its end: without a listener, for a server in memory.
pub async fn serve_stream<E: Exports, S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    guest: Rc<dyn Guest>,
    exports: E,
    limits: Limits,
) {
    // Kept until the client has gone: a lost sender is a stop.
    let (_running, signal) = watch::channel(false);
    let record = SessionRecord::new(1, "stream".to_owned());
    let mut stream = stream;
    run(&mut stream, Start::Fixed, guest, exports, limits, Stop::new(signal, Duration::ZERO), &record).await;
}

/// How a connection begins.
pub(crate) enum Start {
    /// Anew; the client stays at this shard.
    Fixed,
    /// Anew; the client may be moved to another shard.
    Movable,
    /// Where another shard has left off.
    Moved(Handover),
}

/// Serves one client to its end, or until another shard is to go on with it: then that shard, and what was agreed on.
pub(crate) async fn run<E: Exports, S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    start: Start,
    guest: Rc<dyn Guest>,
    exports: E,
    limits: Limits,
    mut stop: Stop,
    record: &SessionRecord,
) -> Option<(usize, Handover)> {
    let outcome = {
        let (stream, exports) = (&mut *stream, &exports);
        let negotiating = async move {
            match start {
                Start::Fixed => negotiate(stream, exports, false).await,
                Start::Movable => negotiate(stream, exports, true).await,
                Start::Moved(handover) => go_on(stream, exports, handover).await,
            }
        };
        let negotiating = timeout(limits.handshake_timeout, negotiating);
        match select(pin!(stop.wait()), pin!(negotiating)).await {
            Either::Left(_) => return None,
            Either::Right((outcome, _)) => outcome,
        }
    };
    let chosen = match outcome {
        Ok(Ok(Outcome::Chosen(chosen))) => chosen,
        Ok(Ok(Outcome::Moves(shard, handover))) => return Some((shard, handover)),
        Ok(Err(Ended::ByClient)) => return None,
        Ok(Err(Ended::Refused(text))) => {
            tracing::warn!(client = record.peer, "refuse an NBD client: {text}");
            return None;
        }
        Err(_) => {
            tracing::warn!(client = record.peer, "an NBD client did not negotiate in time");
            return None;
        }
    };
    let Chosen { volume, terms, contexts } = chosen;
    let contexts: Rc<[Context]> = contexts.into();
    let info = volume.info();
    *record.export.borrow_mut() = Some((info.id, info.name));
    volume.used_by(guest);
    // Boxed: the set of running requests moves each three times, and what one needs inline is some kilobytes.
    let start = |volume, incoming| Box::pin(execute(volume, incoming, contexts.clone()));
    let mut session = Session::new(stream, volume, terms, limits, record, start);
    let stopped = {
        let finish = pin!(session.finish());
        matches!(select(finish, pin!(stop.wait())).await, Either::Right(_))
    };
    if stopped {
        session.stop_reading();
        if timeout(stop.grace, session.finish()).await.is_err() {
            session.stop_writing();
            session.finish().await;
        }
    }
    None
}
