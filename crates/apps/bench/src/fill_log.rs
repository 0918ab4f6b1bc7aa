//! `cairn-bench fill-log`: fills the write buffer of a disk group that no process uses with writes whose data are left out.
//!
//! Promises    nothing is written without `--destructive`
//! Assumes     the cache device is a file with holes where its log is: what is left out reads as zeroes
//! Not here    what a filled log is (`cairn-store`, `fill_log.rs`)

use std::time::{Duration, Instant};

use cairn_env_linux::LinuxEnv;
use cairn_store::{LogFill, LogFilled};
use cairn_types::{ComponentId, format_bytes};
use serde_json::{Value, json};

use crate::{group::GroupFiles, job::RunError, run::on_shard};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct FillLog {
    /// Of which group.
    pub group: GroupFiles,
    /// Which component is written; the largest where not told.
    pub component: Option<ComponentId>,
    /// With what.
    pub fill: LogFill,
    /// What the component holds is lost.
    pub destructive: bool,
}

/// What it came to.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// What was written.
    pub filled: LogFilled,
    /// From the opening of the group to its end.
    pub took: Duration,
}

impl FillLog {
    /// Does it.
    ///
    /// # Errors
    /// A device does not open, or the log is not to be filled: then nothing is written. Or a device failed.
    pub fn run(&self, told: impl Fn(u64) + Send + 'static) -> Result<Done, RunError> {
        if !self.destructive {
            let why = "what the component holds is lost: say --destructive if that is meant";
            return Err(RunError::Refused(why.into()));
        }
        let asked = self.clone();
        on_shard(move |env| async move { asked.on(&env, &told).await })
    }

    async fn on(&self, env: &LinuxEnv, told: &dyn Fn(u64)) -> Result<Done, RunError> {
        let begun = Instant::now();
        let group = self.group.open(env).await?;
        let largest = group.components().into_iter().max_by_key(|info| info.size_blocks).map(|info| info.id);
        let Some(component) = self.component.or(largest) else {
            return Err(RunError::Refused("the group has no component: make a disk first".into()));
        };
        // The group is left as after a crash: closing it would go on behind a log that its memory knows nothing of.
        let filled = group.fill_log(component, self.fill, told).await;
        let filled = filled.map_err(|error| self.group.broken(error))?;
        Ok(Done { filled, took: begun.elapsed() })
    }
}

impl Done {
    /// For people.
    pub fn text(&self) -> String {
        let LogFilled { batches, writes, blocks, log_bytes } = self.filled;
        let (bytes, took) = (format_bytes(log_bytes), self.took.as_secs_f64());
        format!("{writes} writes of {blocks} blocks in {batches} batches: {bytes} of the log; {took:.2} s")
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let LogFilled { batches, writes, blocks, log_bytes } = self.filled;
        let seconds = self.took.as_secs_f64();
        json!({ "batches": batches, "writes": writes, "blocks": blocks, "log_bytes": log_bytes, "seconds": seconds })
    }
}
