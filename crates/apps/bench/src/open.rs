//! Opens the targets of a job, and makes its loads of what was asked for and what they are.
//!
//! Promises    a path is opened once, whatever the number of its streams: it is locked for as long as it is open
//!             a vhost-user device, too: it has one front end at a time
//!             each stream on an NBD export has a connection of its own
//! Not here    requests (`load`)

use cairn_env_linux::LinuxEnv;
use cairn_workload::{Content, Requests, Spec, UNIT_BYTES};

use crate::{
    address::Address,
    job::{Job, RunError, StreamJob},
    target::Target,
    vhost_user::Driver,
};

/// Opens targets: those that can be open once only, once.
#[derive(Default)]
pub(crate) struct Door {
    shared: Vec<(Address, Target)>,
    driver: Driver,
}

impl Door {
    /// # Errors
    /// It does not open, or it takes no writes where there are some.
    pub(crate) async fn open(&mut self, env: &LinuxEnv, address: &Address, writes: bool) -> Result<Target, RunError> {
        let open_error = |why: String| RunError::Open { target: address.to_string(), why };
        let target = match self.shared.iter().find(|(open, _)| open == address) {
            Some((_, open)) => open.clone(),
            None => Target::open(env, &self.driver, address).await.map_err(open_error)?,
        };
        if let Some(why) = target.refuses_writes().filter(|_| writes) {
            return Err(open_error(why.into()));
        }
        if target.is_exclusive() && !self.shared.iter().any(|(open, _)| open == address) {
            self.shared.push((address.clone(), target.clone()));
        }
        Ok(target)
    }
}

/// A stream that may begin.
pub(crate) struct Open {
    pub(crate) target: Target,
    pub(crate) requests: Requests,
    pub(crate) content: Content,
    /// Bytes after which no more requests begin.
    pub(crate) bytes_max: u64,
}

/// Opens all, in the order of the job's streams.
///
/// # Errors
/// The first one that cannot be.
pub(crate) async fn all(env: &LinuxEnv, job: &Job) -> Result<Vec<Open>, RunError> {
    let mut door = Door::default();
    let mut specs = Vec::new();
    for (number, stream) in job.streams.iter().enumerate() {
        let open_error = |why: String| RunError::Open { target: stream.target.to_string(), why };
        let target = door.open(env, &stream.target, stream.spec.writes()).await?;
        let spec = spec(stream, number as u64, &target).map_err(open_error)?;
        specs.push((target, spec));
    }
    let units = units(job, &specs);
    let streams = job.streams.iter().zip(specs).enumerate();
    let open = streams.map(|(number, (stream, (target, spec)))| {
        let open_error = |why: String| RunError::Open { target: stream.target.to_string(), why };
        let spans = stream.spans_max.map_or(u64::MAX, |spans| (spec.span_bytes as f64 * spans) as u64);
        let bytes_max = stream.bytes_max.unwrap_or(u64::MAX).min(spans);
        let requests = Requests::new(spec, 0, 1).map_err(|e| open_error(e.to_string()))?;
        let duplicates = match stream.duplicates_share {
            Some(share) => ((units as f64 * share) as u64).max(1),
            None => stream.content.duplicates,
        };
        let content = Content { disk: stream.content.disk + number as u64, duplicates, ..stream.content };
        Ok(Open { target, requests, content, bytes_max })
    });
    open.collect()
}

/// Units of 4 KiB in the spans of all targets; streams of one target share theirs, of which the longest counts.
fn units(job: &Job, specs: &[(Target, Spec)]) -> u64 {
    let mut spans: Vec<(&Address, u64)> = Vec::new();
    for (stream, (_, spec)) in job.streams.iter().zip(specs) {
        match spans.iter_mut().find(|(address, _)| *address == &stream.target) {
            Some((_, bytes)) => *bytes = spec.span_bytes.max(*bytes),
            None => spans.push((&stream.target, spec.span_bytes)),
        }
    }
    spans.iter().map(|(_, bytes)| bytes / UNIT_BYTES as u64).sum()
}

/// The load of stream `number`, as far as the target can take it.
fn spec(stream: &StreamJob, number: u64, target: &Target) -> Result<Spec, String> {
    let (size_bytes, block, most) = (target.size_bytes(), target.block_bytes(), target.request_bytes_max());
    let mut spec = stream.spec.clone();
    if spec.request_bytes_max() > most {
        return Err(format!("requests here have at most {most} bytes"));
    }
    if let Some((from, to)) = stream.part {
        let grain = u64::from(spec.request_bytes_max()).max(u64::from(block));
        let at = |percent: f64| (size_bytes as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64 / grain * grain;
        (spec.span_begin, spec.span_bytes) = (at(from), at(to).saturating_sub(at(from)));
        if spec.span_bytes == 0 {
            return Err(format!("{from} to {to} % of its {size_bytes} bytes hold no request of {grain} bytes"));
        }
    }
    let whole = |bytes: u64| bytes.is_multiple_of(u64::from(block));
    if !spec.kinds.iter().all(|kind| whole(kind.request_bytes.into())) || !whole(spec.span_begin) {
        return Err(format!("requests here begin and end at multiples of {block} bytes"));
    }
    let rest = size_bytes.saturating_sub(spec.span_begin);
    match spec.span_bytes {
        0 => spec.span_bytes = rest,
        asked if asked > rest => {
            let begin = spec.span_begin;
            return Err(format!("a span of {asked} bytes from {begin} on ends beyond its {size_bytes} bytes"));
        }
        _ => {}
    }
    spec.seed = spec.seed.wrapping_add(number);
    Ok(spec)
}
