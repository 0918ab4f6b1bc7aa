//! Why this host is to stop: told once, heard once.
//!
//! Not here    what the reason is (`level.rs`, `gone.rs`)

use std::cell::RefCell;

use futures::channel::oneshot;

/// Tells once why this host is to stop.
pub(crate) struct LastWord {
    tell: RefCell<Option<oneshot::Sender<String>>>,
    hear: RefCell<Option<oneshot::Receiver<String>>>,
}

impl Default for LastWord {
    fn default() -> Self {
        let (tell, hear) = oneshot::channel();
        Self { tell: RefCell::new(Some(tell)), hear: RefCell::new(Some(hear)) }
    }
}

impl LastWord {
    /// Tells why. False where that was told before.
    pub fn tell(&self, why: &str) -> bool {
        let tell = self.tell.borrow_mut().take();
        tell.map(|tell| tell.send(why.to_owned())).is_some()
    }
    /// Resolves when it is told, for the first who asks.
    pub async fn heard(&self) -> String {
        let hear = self.hear.borrow_mut().take();
        match hear {
            Some(hear) => hear.await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }
}
