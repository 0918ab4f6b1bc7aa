//! `cairn cache`.

use std::time::Duration;

use cairn_api::v1::{CacheClear, CacheState, CachesCleared, Counters, DiskGroupCache, StoreGauges};
use cairn_types::{DiskGroupId, format_bytes};

use super::{Context, disk_group};
use crate::{args::Cache as Verb, fail::Fail, output, progress};

/// The answer may take this much longer than the work was given: the last round ends, and the message travels.
const SPARE: Duration = Duration::from_secs(30);
/// Between two looks at what is left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    let Verb::Clear { host, disk_group, wait } = verb;
    let disk_group = match disk_group {
        Some(prefix) => Some(disk_group::find(context, &prefix).await?.id),
        None => None,
    };
    let request = CacheClear { host, disk_group, wait_s: wait };
    let cleared = clear(context, &request).await?;
    output::show(context.format, &cleared, show)?;
    judge(&cleared)
}

/// Has it done, and shows meanwhile what is left to destage.
async fn clear(context: &Context, request: &CacheClear) -> Result<CachesCleared, Fail> {
    let patient = context.client.patient(Duration::from_secs(request.wait_s) + SPARE);
    let asked = patient.caches_clear(request);
    tokio::pin!(asked);
    let watched = context.client.patient(LOOK_EVERY * 5);
    let mut bar: Option<indicatif::ProgressBar> = None;
    loop {
        if let Ok(answer) = tokio::time::timeout(LOOK_EVERY, &mut asked).await {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return answer;
        }
        // A look that fails is no matter: the answer tells all.
        let Ok(counters) = watched.counters().await else { continue };
        let left = left(&counters, request);
        let bar = bar.get_or_insert_with(|| progress::bytes_bar("destaged", left));
        let total = bar.length().unwrap_or(0).max(left);
        bar.set_length(total);
        bar.set_position(total - left);
    }
}

/// Bytes of the write buffers that are meant.
fn left(counters: &Counters, request: &CacheClear) -> u64 {
    // All shards of a host are meant with it.
    let is_of = |name: &str, host: &str| {
        name == host || name.strip_prefix(host).is_some_and(|rest| rest.starts_with(".shard-"))
    };
    let wanted = |name: &str, id: String| request.host.as_ref().is_none_or(|host| is_of(name, host) || *host == id);
    let hosts = counters.hosts.iter().filter(|host| wanted(&host.host_name, host.host.to_string()));
    let groups = hosts.flat_map(|host| &host.disk_groups);
    let meant = |id: DiskGroupId| request.disk_group.is_none_or(|only| only == id);
    let gauges = groups.filter(|group| meant(group.id)).filter_map(|group| group.gauges);
    gauges.map(|gauges: StoreGauges| gauges.log_used_bytes).sum()
}

fn show(cleared: &CachesCleared) -> String {
    let head = ["host", "disk group", "state", "destaged", "dirty", "of log", "dropped from memory", "reason"];
    let text = output::table(&head, cleared.disk_groups.iter().map(row));
    let seconds = cleared.elapsed_ms as f64 / 1000.0;
    match cleared.clear {
        true => format!("{text}\n\nclear after {seconds:.1} s"),
        false => format!("{text}\n\nnot clear after {seconds:.1} s"),
    }
}

fn row(group: &DiskGroupCache) -> Vec<String> {
    let unknown = group.state == CacheState::Unreachable || group.log_bytes == 0;
    let bytes = |bytes: u64| if unknown { "-".into() } else { format_bytes(bytes) };
    vec![
        group.host_name.clone(),
        group.id.to_string()[..8].to_owned(),
        match group.state {
            CacheState::Clear => "clear".into(),
            CacheState::NotDrained => "not drained".into(),
            CacheState::Failed => "failed".into(),
            CacheState::Unreachable => "unreachable".into(),
        },
        bytes(group.destaged_bytes),
        match unknown {
            true => "-".into(),
            // What decides is a hundredth: whole per cents do not show it.
            false => format!("{:.2} %", group.dirty_bytes as f64 * 100.0 / group.log_bytes as f64),
        },
        bytes(group.log_bytes),
        bytes(group.read_cache_bytes),
        group.reason.clone().unwrap_or_else(|| "-".into()),
    ]
}

fn judge(cleared: &CachesCleared) -> Result<(), Fail> {
    let in_state = |state| cleared.disk_groups.iter().filter(|group| group.state == state).count();
    if cleared.clear {
        return Ok(());
    }
    let (full, away) = (in_state(CacheState::NotDrained), in_state(CacheState::Unreachable));
    let all = cleared.disk_groups.len();
    Err(if full > 0 {
        Fail::refused(format!("{full} of {all} disk groups still hold 1 % of their write buffers or more"))
            .remedy("stop the guests that write, or give it more time with --wait")
    } else if away > 0 {
        Fail::refused(format!("{away} of {all} disk groups are on hosts that do not answer: nothing is known of them"))
            .remedy("bring these hosts back, or name one that answers with --host")
    } else {
        Fail::refused("no disk group that works was meant").remedy("see the reasons in cairn disk-group list")
    })
}
