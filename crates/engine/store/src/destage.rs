//! Destage (being written): the loop that empties the log.
use std::rc::Rc;

use cairn_env::Env;

use crate::{disk_group::Inner, error::StoreError};

impl<E: Env> Inner<E> {
    pub(crate) async fn run_destager(self: Rc<Self>) {
        while !self.state.borrow().closing {
            self.destager.wait().await;
        }
        self.destager_ended.raise();
    }
    pub(crate) async fn drain(&self) -> Result<(), StoreError> {
        Ok(())
    }
    pub(crate) async fn leave_damaged_log(&self, _jump_to: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
