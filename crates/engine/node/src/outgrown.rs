//! The cluster is at a level that this build does not speak: told once, heard once.
//!
//! Not here    what the level is (`level.rs`)

use std::cell::RefCell;

use futures::channel::oneshot;

/// Tells once that the cluster has outgrown this build.
pub(crate) struct Outgrown {
    tell: RefCell<Option<oneshot::Sender<String>>>,
    hear: RefCell<Option<oneshot::Receiver<String>>>,
}

impl Default for Outgrown {
    fn default() -> Self {
        let (tell, hear) = oneshot::channel();
        Self { tell: RefCell::new(Some(tell)), hear: RefCell::new(Some(hear)) }
    }
}

impl Outgrown {
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
