//! Devices that nobody uses: one that is gone is found out all the same.
//!
//! Promises    a device that is gone is known to be within ten seconds, also where nothing is written or read
//!             a sector that cannot be read fails nothing: only a device that says that it is gone does
//! Assumes     a device that is gone says so to any read
//! Source      every 5 s: `polling_interval` of dm-multipath's path checkers

use std::{rc::Rc, time::Duration};

use cairn_env::{DiskErrorKind, Env};
use cairn_types::BLOCK_BYTES;

use crate::{disk_group::Inner, error::StoreError, segments::LOG};

const EVERY: Duration = Duration::from_secs(5);

impl<E: Env> Inner<E> {
    /// Looks after each device for as long as the group is open. A device that does not answer keeps nobody else waiting.
    pub(crate) fn start_probes(self: &Rc<Self>) {
        let capacity: Vec<bool> = self.capacity.borrow().iter().map(Option::is_some).collect();
        let there = (0u8..).zip(capacity).filter(|(_, is_there)| *is_there).map(|(number, _)| number);
        there.chain([LOG]).for_each(|device| self.probe_every(device));
    }

    /// The same of one device.
    pub(crate) fn probe_every(self: &Rc<Self>, device: u8) {
        // Held weakly: a group that was closed gives its devices back at once.
        let (env, group) = (self.env.clone(), Rc::downgrade(self));
        self.env.spawn(async move {
            loop {
                env.sleep(EVERY).await;
                match group.upgrade() {
                    Some(group) if group.probe(device).await => {}
                    _ => return,
                }
            }
        });
    }

    /// False when there is nothing left to look after.
    async fn probe(&self, device: u8) -> bool {
        let ends = || {
            let state = self.state.borrow();
            state.life.ends() || device != LOG && state.tier.of(device).failed
        };
        if ends() {
            return false;
        }
        let gone = match self.read_device(device, 0, BLOCK_BYTES).await {
            Err(error) if error.kind == DiskErrorKind::Gone => error,
            _ => return true,
        };
        if ends() {
            return false;
        }
        if device == LOG {
            self.state.borrow_mut().stop(StoreError::media("the cache device is gone", &gone));
            self.writer.raise();
            self.destager.raise();
            self.placer.raise();
        } else {
            self.fail_device(device, &gone);
        }
        false
    }
}
