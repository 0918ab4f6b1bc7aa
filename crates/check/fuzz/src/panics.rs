//! Panics that are the metadata engine's own.
//!
//! redb panics on some pages that are damaged in their structure. The product catches that and makes it an error
//! (docs/fault-model.md), but libFuzzer's panic hook would end the process before. So these panics are told from those of our own
//! code by where they arise.
//!
//! Promises    a panic of any other place goes on as it would without this file

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static OF_THE_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the hook of whoever came before (libFuzzer's aborts) away from panics of redb.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let ours = info.location().is_none_or(|at| !at.file().contains("/redb-"));
            OF_THE_ENGINE.set(!ours);
            if ours {
                before(info);
            }
        }));
    });
}

/// What `work` returns; none when redb panicked in it.
pub fn unless_redb_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    install_hook();
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Some(result),
        Err(_) if OF_THE_ENGINE.replace(false) => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}
