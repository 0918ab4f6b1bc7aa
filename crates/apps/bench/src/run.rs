//! One job on a thread of its own, with the product's own way to devices.

use cairn_env_linux::{ExecutorConfig, Host, HostConfig, HostEnd, LinuxEnv, run_host};
use cairn_types::{Build, ClusterId, HostId, Incarnation, Level};
use futures::channel::oneshot;

use crate::{
    address::Address,
    job::{Job, Measured, RunError, StreamJob, Verified},
    load,
    open::Door,
    replay::{self, Replay, Replayed},
    verify,
};

/// Runs the job, and returns when it is over: after ramp, measured time, and the end of what was under way.
///
/// # Errors
/// What kept it from beginning. What broke it later is in [`Measured::broken`].
pub fn run(job: &Job) -> Result<Measured, RunError> {
    check(job)?;
    let job = job.clone();
    on_shard(|env| async move { load::run(env, &job).await })
}

/// Replays a log, and returns when its last request has ended.
///
/// # Errors
/// What kept it from beginning. What broke it later is in [`Measured::broken`].
pub fn replay(replay: &Replay) -> Result<Replayed, RunError> {
    if replay.targets.len() != replay.log.files.len() {
        return Err(RunError::Job("each file of a log has one target".into()));
    }
    if replay.log.destroys() && !replay.destructive {
        let why = "this log writes, and what the targets hold is lost: say --destructive if that is meant";
        return Err(RunError::Refused(why.into()));
    }
    let replay = replay.clone();
    on_shard(|env| async move { replay::run(env, &replay).await })
}

/// Reads back what a job that remembered it wrote.
///
/// # Errors
/// A target does not open, or a read fails.
pub fn read_back(measured: &Measured) -> Result<Verified, RunError> {
    let written = measured.written.clone();
    on_shard(|env| async move { verify::read_back(&env, &written).await })
}

/// Bytes of each target, all of which can be written in whole blocks.
///
/// # Errors
/// The first one that cannot be opened, that is empty, or whose last bytes no request can ask for.
pub(crate) fn sizes(targets: &[Address]) -> Result<Vec<u64>, RunError> {
    let targets = targets.to_vec();
    on_shard(|env| async move {
        let mut sizes = Vec::new();
        for target in &targets {
            let error = |why: String| RunError::Open { target: target.to_string(), why };
            let open = Door::default().open(&env, target, true).await?;
            let (size, block) = (open.size_bytes(), open.block_bytes());
            if size == 0 || !size.is_multiple_of(block.into()) {
                return Err(error(format!("it has {size} bytes: take one whose size is a multiple of {block} bytes")));
            }
            sizes.push(size);
        }
        Ok(sizes)
    })
}

/// Carries out `work` on a thread of its own.
pub(crate) fn on_shard<T, F>(work: impl FnOnce(LinuxEnv) -> F + Send + 'static) -> Result<T, RunError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, RunError>> + 'static,
{
    let config = HostConfig {
        cluster: ClusterId(0),
        host: HostId(0),
        incarnation: Incarnation(0),
        build: Build::untold(Level::FIRST),
        level: Level::FIRST,
        listen: None,
        fabric: None,
    };
    let host = Host::new(config).map_err(|error| RunError::Job(error.to_string()))?;
    let (result, taken) = oneshot::channel();
    let ended = run_host(&host, ExecutorConfig::default(), |env| {
        let work = work(env);
        async move {
            let _ = result.send(work.await);
        }
    });
    match ended.map_err(|error| RunError::Job(format!("the system gives no thread: {error}")))? {
        HostEnd::Panicked(words) => Err(RunError::Job(format!("the load generator failed: {words}"))),
        _ => futures::executor::block_on(taken).unwrap_or_else(|_| Err(RunError::Job("the run was ended".into()))),
    }
}

fn check(job: &Job) -> Result<(), RunError> {
    let refused = |why: &str| Err(RunError::Job(why.to_owned()));
    if job.streams.is_empty() {
        return refused("no target: name an NBD export, a vhost-user device, a block device or a file");
    }
    if job.measure.is_zero() {
        return refused("a measured time of nothing: take a second or more");
    }
    if job.writes() && !job.destructive {
        let why = "this load writes, and what the targets hold is lost: say --destructive if that is meant";
        return Err(RunError::Refused(why.into()));
    }
    if job.verify { check_verify(job) } else { Ok(()) }
}

/// What a ledger assumes: a place is known by where it begins, and by one stream.
fn check_verify(job: &Job) -> Result<(), RunError> {
    let writers: Vec<&StreamJob> = job.streams.iter().filter(|stream| stream.spec.writes()).collect();
    for (number, writer) in writers.iter().enumerate() {
        if writers[..number].iter().any(|other| other.target == writer.target) {
            let why =
                "two streams write it: which of them wrote a place last cannot be told, so nothing could be judged";
            return Err(RunError::Job(format!("{}: {why}", writer.target)));
        }
        let mut sizes: Vec<u32> =
            writer.spec.kinds.iter().filter(|kind| kind.read_percent < 100).map(|kind| kind.request_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() > 1 {
            let why = "its writes are of several sizes, so that one may cover a part of another: what is there could not be judged";
            return Err(RunError::Job(format!("{}: {why}", writer.target)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cairn_workload::{Addresses, Content, Kind, Spec};

    use super::*;
    use crate::address::Address;

    /// A job that is to be read back, with a stream for each list of (bytes, read %) on the target of that name.
    fn job(streams: &[(&str, &[(u32, u8)])]) -> Job {
        let stream = |(target, kinds): &(&str, &[(u32, u8)])| {
            let kinds = kinds.iter().map(|(bytes, read)| Kind::new(*bytes, *read, 100)).collect();
            let spec = Spec { kinds, addresses: Addresses::Uniform, span_begin: 0, span_bytes: 0, seed: 1 };
            StreamJob::new(Address::Path((*target).into()), spec, Content::random(1, 0))
        };
        Job { streams: streams.iter().map(stream).collect(), verify: true, ..Job::default() }
    }

    #[test]
    fn only_what_can_be_judged_is_read_back() {
        let good = |streams| check_verify(&job(streams)).is_ok();
        assert!(good(&[("a", &[(4096, 50)]), ("b", &[(8192, 0)])]));
        assert!(good(&[("a", &[(4096, 0), (8192, 100)]), ("a", &[(512, 100)])]), "only writes count");
        assert!(!good(&[("a", &[(4096, 0)]), ("b", &[(4096, 0)]), ("a", &[(4096, 50)])]), "two write a");
        assert!(!good(&[("a", &[(4096, 0), (8192, 99)])]), "sizes overlap");
    }
}
