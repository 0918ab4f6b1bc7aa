//! Devices that nobody uses: one that is gone is found out all the same.
//!
//! Promises    a device that is gone is known to be within ten seconds, also where nothing is written or read
//!             a sector that cannot be read fails nothing: only a device that says that it is gone does
//! Assumes     a device that is gone says so to any read
//! Source      every 5 s: `polling_interval` of dm-multipath's path checkers

use std::{rc::Rc, time::Duration};

use cairn_env::{Disk, DiskErrorKind, Env};
use cairn_types::BLOCK_BYTES;

use crate::{disk_group::Inner, error::StoreError, segments::LOG};

const EVERY: Duration = Duration::from_secs(5);

impl<E: Env> Inner<E> {
    /// Looks after each device for as long as the group is open. A device that does not answer keeps nobody else waiting.
    pub(crate) fn start_probes(self: &Rc<Self>) {
        let capacity = self.capacity.iter().enumerate().filter(|(_, disk)| disk.is_some());
        let devices = capacity.map(|(number, _)| number as u8).chain([LOG]);
        devices.for_each(|device| {
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
        let gone = match self.disk(device).read(0, BLOCK_BYTES).await {
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
