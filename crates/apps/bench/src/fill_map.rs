//! `cairn-bench fill-map`: fills the block map of a disk group that no process uses, without writing the data.
//!
//! Promises    nothing is mapped without `--destructive`, and nothing where it cannot come to its end
//! Not here    what a filled map is (`cairn-store`, `fill.rs`)

use std::time::{Duration, Instant};

use cairn_env_linux::LinuxEnv;
use cairn_store::{Fill, FillOrder, FillPlan, Filled};
use cairn_types::{BLOCK_BYTES, format_bytes};
use serde_json::{Value, json};

use crate::{group::GroupFiles, job::RunError, run::on_shard};

/// Bytes of a page of the map.
const PAGE_BYTES: u64 = 4096;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct FillMap {
    /// Of which group.
    pub group: GroupFiles,
    /// Which blocks, and how.
    pub fill: Fill,
    /// Only tell what it comes to.
    pub dry_run: bool,
    /// Reads of the blocks may fail from now on.
    pub destructive: bool,
}

/// What it came to.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Before.
    pub plan: FillPlan,
    /// None where it was only asked.
    pub filled: Option<Filled>,
    /// From the opening of the group to its end.
    pub took: Duration,
}

impl FillMap {
    /// Does it. `told` is told how many blocks are mapped, of how many.
    ///
    /// # Errors
    /// A device does not open, or the map is not to be filled: then nothing is mapped. Or a device failed.
    pub fn run(&self, told: impl Fn(u64, u64) + Send + 'static) -> Result<Done, RunError> {
        if !self.destructive && !self.dry_run {
            let why =
                "reads of all blocks that are mapped so will fail: say --destructive if that is meant, or --dry-run";
            return Err(RunError::Refused(why.into()));
        }
        let asked = self.clone();
        on_shard(move |env| async move { asked.on(&env, &told).await })
    }

    async fn on(&self, env: &LinuxEnv, told: &dyn Fn(u64, u64)) -> Result<Done, RunError> {
        let begun = Instant::now();
        let group = self.group.open(env).await?;
        let planned = group.plan_fill(&self.fill).map_err(|error| self.group.broken(error));
        let filled = match &planned {
            Ok(_) if !self.dry_run => {
                Some(group.fill_map(&self.fill, told).await.map_err(|error| self.group.broken(error)))
            }
            _ => {
                group.close().await;
                None
            }
        };
        let plan = planned?;
        Ok(Done { plan, filled: filled.transpose()?, took: begun.elapsed() })
    }
}

impl Done {
    fn blocks(&self) -> u64 {
        self.filled.map_or(self.plan.blocks, |filled| filled.blocks)
    }

    fn pages(&self) -> u64 {
        self.filled.map_or(self.plan.pages, |filled| filled.pages)
    }

    fn page_bytes_a_block(&self) -> f64 {
        (self.pages() * PAGE_BYTES) as f64 / self.blocks().max(1) as f64
    }

    /// For people.
    pub fn text(&self) -> String {
        let Self { plan, filled, took } = self;
        let bytes = format_bytes(self.blocks() * u64::from(BLOCK_BYTES));
        let what = format!(
            "{} blocks ({bytes}) of {} components: {} pages of the map, {:.1} bytes a block",
            self.blocks(),
            plan.components,
            self.pages(),
            self.page_bytes_a_block()
        );
        match filled {
            Some(filled) => {
                let used = format_bytes(filled.metadata_used_bytes);
                format!("mapped {what}; {used} of metadata are in use; {:.2} s", took.as_secs_f64())
            }
            None => format!(
                "would map {what}; {} of metadata at most, of {} that are left; {} segments, whose heads take {}",
                format_bytes(plan.metadata_bytes),
                format_bytes(plan.metadata_free_bytes),
                plan.segments,
                format_bytes(plan.head_bytes)
            ),
        }
    }

    /// For programs.
    pub fn json(&self, order: FillOrder) -> Value {
        let Self { plan, filled, took } = self;
        json!({
            "mapped": filled.is_some(),
            "order": if order == FillOrder::Random { "random" } else { "sequential" },
            "components": plan.components,
            "blocks": self.blocks(),
            "bytes": self.blocks() * u64::from(BLOCK_BYTES),
            "pages": self.pages(),
            "page_bytes": self.pages() * PAGE_BYTES,
            "page_bytes_a_block": self.page_bytes_a_block(),
            "segments": plan.segments,
            "head_bytes": plan.head_bytes,
            "metadata_bytes_max": plan.metadata_bytes,
            "metadata_free_bytes_before": plan.metadata_free_bytes,
            "metadata_used_bytes": filled.map(|filled| filled.metadata_used_bytes),
            "seconds": took.as_secs_f64(),
        })
    }
}
