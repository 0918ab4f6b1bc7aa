//! One request at the disk: what is asked, and what the disk's answer means to the client.

use std::rc::Rc;

use bytes::Bytes;
use cairn_volume::{Extent, SessionCounters, Volume, VolumeError};

use crate::{
    contexts::{Context, Kind, allocation, changed_since, dirty},
    decode::Incoming,
    reply::{Address, Output, Status},
    request::{Command, Plan, Request},
    wire::Errno,
};

/// A request that the disk has answered.
pub(crate) struct Done {
    pub(crate) request: Request,
    command: Command,
    result: Result<Answer, VolumeError>,
}

enum Answer {
    Nothing,
    Data(Vec<Bytes>),
    Statuses(Vec<Status>),
}

/// Asks the disk. Only for requests whose plan is to run.
pub(crate) async fn execute<V: Volume>(volume: V, incoming: Incoming, contexts: Rc<[Context]>) -> Done {
    let Incoming { request, plan, payload } = incoming;
    let Plan::Run(command) = plan else {
        unreachable!("a refused request reached the disk: {request:?}");
    };
    let nothing = |result: Result<(), _>| result.map(|()| Answer::Nothing);
    let result = match command {
        Command::Read { offset, len_bytes, .. } => volume.read(offset, len_bytes).await.map(Answer::Data),
        Command::Write { offset, .. } => nothing(volume.write(offset, payload).await),
        Command::WriteZeroes { offset, len_bytes, keep_allocated } => {
            let len = u64::from(len_bytes);
            nothing(volume.write_zeroes(offset, len, keep_allocated).await)
        }
        Command::Trim { offset, len_bytes } => nothing(volume.trim(offset, u64::from(len_bytes)).await),
        Command::Flush => nothing(volume.flush().await),
        Command::BlockStatus { offset, len_bytes, .. } => {
            statuses(&volume, &contexts, offset, u64::from(len_bytes)).await.map(Answer::Statuses)
        }
        Command::Cache { offset, len_bytes } => nothing(volume.cache(offset, u64::from(len_bytes)).await),
    };
    Done { request, command, result }
}

/// What each context tells of a range.
async fn statuses<V: Volume>(
    volume: &V,
    contexts: &[Context],
    offset: u64,
    len: u64,
) -> Result<Vec<Status>, VolumeError> {
    let mut extents: Option<Vec<Extent>> = None;
    let mut statuses = Vec::with_capacity(contexts.len());
    for context in contexts {
        if extents.is_none() && matches!(context.kind, Kind::Allocation | Kind::ChangedSince(_)) {
            extents = Some(volume.block_status(offset, len).await?);
        }
        let extents = extents.as_deref().unwrap_or_default();
        let runs = match &context.kind {
            Kind::Allocation => allocation(extents),
            Kind::Dirty(moment) => dirty(&volume.changed_since(moment, offset, len).await?),
            Kind::ChangedSince(moment) => changed_since(&volume.changed_since(moment, offset, len).await?, extents),
        };
        statuses.push(Status { context: context.id, runs });
    }
    Ok(statuses)
}

impl Done {
    /// Why the request must not be answered and its connection ends, if so.
    pub(crate) fn is_abandoned(&self) -> Option<&str> {
        match &self.result {
            Err(VolumeError::Abandoned(why)) => Some(why),
            _ => None,
        }
    }

    /// Queues the answer.
    pub(crate) fn put(self, to: Address, output: &mut Output, counters: &mut SessionCounters) {
        counters.requests += 1;
        let len = self.request.len_bytes;
        match (self.result, self.command) {
            (Ok(Answer::Data(pieces)), Command::Read { offset, unfragmented, .. }) => {
                let total: usize = pieces.iter().map(Bytes::len).sum();
                assert_eq!(total, len as usize, "the disk read another length");
                counters.read_bytes += u64::from(len);
                output.put_data(to, offset, pieces, unfragmented);
            }
            (Ok(Answer::Statuses(statuses)), Command::BlockStatus { len_bytes, one_extent, .. }) => {
                output.put_statuses(to, &statuses, len_bytes, one_extent)
            }
            (Ok(_), command) => {
                if matches!(command, Command::Write { .. }) {
                    counters.write_bytes += u64::from(len);
                }
                output.put_done(to);
            }
            (Err(error), _) => {
                counters.failed_requests += 1;
                output.put_error(to, errno_of(&error), &error.to_string());
            }
        }
    }
}

fn errno_of(error: &VolumeError) -> Errno {
    match error {
        VolumeError::NoSpace(_) => Errno::NoSpace,
        VolumeError::Io(_) => Errno::Io,
        VolumeError::Invalid(_) => Errno::Invalid,
        // What is abandoned is not answered; see `is_abandoned`.
        VolumeError::Shutdown(_) | VolumeError::Abandoned(_) => Errno::Shutdown,
    }
}
