//! The members of an etcd cluster as one: ask one, move to the next when it fails, give up in bounded time.
//!
//! Promises    a call ends within [`CALL_MS_MAX`]; one that no member even accepts ends at once
//!             a member that failed is connected anew at the next call, without a back-off that delays recovery
//! Why own     the client's balancer sends calls to dead members too, and does not say whether a call left this machine

use std::{
    future::Future,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use cairn_directory::DirectoryError;
use etcd_client::{Client, ConnectOptions, Error};
use tokio::time::{Instant, sleep, timeout};

/// Ms that one call may take, over all members.
///
/// An election takes 1 to 2 s with etcd's default timings: a call that meets one fails and is asked again by its caller;
/// waiting longer would make people wait where the local copy could answer.
pub const CALL_MS_MAX: u64 = 2000;
/// Ms that one member may take before the next is asked; the last attempt may use what is left of the call.
pub const ATTEMPT_MS_MAX: u64 = 800;
/// Ms between two rounds over all members, while some of them accept connections and fail (an election).
const ROUND_PAUSE_MS: u64 = 50;

/// How a call failed at all members.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A member refused it; asking another would give the same answer.
    Refused(Error),
    /// No member gave an answer.
    Away {
        /// The last failure seen.
        cause: String,
    },
}

impl Failed {
    /// As the contract has it.
    pub(crate) fn into_error(self, ambiguous: bool) -> DirectoryError {
        match self {
            Self::Refused(error) => refusal(&error),
            Self::Away { cause } => DirectoryError::Unavailable { cause, outcome_unknown: ambiguous },
        }
    }
}

/// What became of one attempt at one member.
enum Attempt {
    Refused(Error),
    /// It never left this machine.
    NotSent,
    /// It may have been carried out.
    Lost,
}

fn judge(error: Error) -> Attempt {
    use etcd_client_code::*;
    match &error {
        Error::GRpcStatus(status) => match status.code() as i32 {
            INVALID_ARGUMENT | OUT_OF_RANGE | FAILED_PRECONDITION | PERMISSION_DENIED | UNAUTHENTICATED
            | RESOURCE_EXHAUSTED | UNIMPLEMENTED | NOT_FOUND => Attempt::Refused(error),
            _ if words(&error).contains("connect error") => Attempt::NotSent,
            _ => Attempt::Lost,
        },
        Error::TransportError(_) | Error::IoError(_) => Attempt::Lost,
        // Everything else is found before a request is sent.
        _ => Attempt::Refused(error),
    }
}

/// gRPC's status codes that etcd uses; `tonic` itself is no dependency of ours.
pub(crate) mod etcd_client_code {
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const OUT_OF_RANGE: i32 = 11;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const UNAUTHENTICATED: i32 = 16;
}

/// `error` and all its causes in one line.
pub(crate) fn words(error: &Error) -> String {
    let mut text = match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    let mut cause = match error {
        Error::GRpcStatus(status) => std::error::Error::source(status),
        other => std::error::Error::source(other),
    };
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text
}

/// What etcd refused, with a remedy where we know one.
fn refusal(error: &Error) -> DirectoryError {
    let text = words(error);
    let remedy = if text.contains("database space exceeded") {
        "its quota is used up: compact and defragment it (etcdctl compact, defrag, alarm disarm)"
    } else if text.contains("too many requests") {
        return DirectoryError::away(format!("etcd is overloaded: {text}"));
    } else {
        "check its version (3.4 or newer) and that it needs no login"
    };
    DirectoryError::Refused(format!("etcd refused: {text}; {remedy}"))
}

pub(crate) struct Endpoints {
    urls: Vec<String>,
    state: Mutex<State>,
}

struct State {
    /// The member that answered last.
    current: usize,
    clients: Vec<Option<Client>>,
}

impl Endpoints {
    /// The members at `urls`, each `http://host:port`.
    pub(crate) fn new(urls: &[String]) -> Result<Self, DirectoryError> {
        if urls.is_empty() {
            return Err(DirectoryError::Refused(
                "no etcd URL is given: name one or more like http://10.0.0.1:2379".into(),
            ));
        }
        for url in urls {
            let plain = url.strip_prefix("http://").is_some_and(|rest| rest.contains(':'));
            if !plain {
                return Err(DirectoryError::Refused(format!(
                    "{url:?} is not an etcd URL that this release can use: write http://host:port (TLS to etcd is \
                     not in this release)"
                )));
            }
        }
        Ok(Self {
            urls: urls.to_vec(),
            state: Mutex::new(State { current: 0, clients: urls.iter().map(|_| None).collect() }),
        })
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    /// The client of member `index`; a new one where the last one failed.
    pub(crate) async fn client(&self, index: usize) -> Result<Client, Error> {
        if let Some(client) = &self.state().clients[index] {
            return Ok(client.clone());
        }
        let options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_millis(ATTEMPT_MS_MAX))
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(2))
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        let client = Client::connect([&self.urls[index]], Some(options)).await?;
        self.state().clients[index] = Some(client.clone());
        Ok(client)
    }

    /// Forgets the connection to a member that failed, and turns to the next.
    pub(crate) fn failed(&self, index: usize) {
        let mut state = self.state();
        state.clients[index] = None;
        if state.current == index {
            state.current = (index + 1) % self.urls.len();
        }
    }

    /// The member to ask first.
    pub(crate) fn current(&self) -> usize {
        self.state().current
    }

    /// Asks members until one answers. Returns also whether an attempt before it may have been carried out, its answer
    /// lost.
    pub(crate) async fn call<T, F>(&self, mut run: impl FnMut(Client) -> F) -> (Result<T, Failed>, bool)
    where
        F: Future<Output = Result<T, Error>>,
    {
        let end = Instant::now() + Duration::from_millis(CALL_MS_MAX);
        let mut lost = false;
        let mut cause = String::new();
        loop {
            let mut nobody_home = true;
            let first = self.current();
            for step in 0..self.urls.len() {
                let index = (first + step) % self.urls.len();
                match self.attempt(index, end, &mut run).await {
                    Ok(value) => return (Ok(value), lost),
                    Err((Attempt::Refused(error), _)) => {
                        return (Err(Failed::Refused(error)), lost);
                    }
                    Err((attempt, text)) => {
                        self.failed(index);
                        cause = format!("{}: {text}", self.urls[index]);
                        if matches!(attempt, Attempt::Lost) {
                            lost = true;
                            nobody_home = false;
                        }
                    }
                }
                if Instant::now() >= end {
                    return (Err(Failed::Away { cause }), lost);
                }
            }
            if nobody_home {
                return (Err(Failed::Away { cause }), lost);
            }
            sleep(Duration::from_millis(ROUND_PAUSE_MS)).await;
        }
    }

    async fn attempt<T, F>(
        &self,
        index: usize,
        end: Instant,
        run: &mut impl FnMut(Client) -> F,
    ) -> Result<T, (Attempt, String)>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let left = end.saturating_duration_since(Instant::now());
        let limit = Duration::from_millis(ATTEMPT_MS_MAX);
        // Too little left for two: let this one have it.
        let limit = if left < limit * 2 { left } else { limit };
        let client = match self.client(index).await {
            Ok(client) => client,
            Err(error) => return Err((Attempt::NotSent, words(&error))),
        };
        match timeout(limit, run(client)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let text = words(&error);
                Err((judge(error), text))
            }
            Err(_) => Err((Attempt::Lost, format!("no answer within {} ms", limit.as_millis()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_work_are_refused_in_words() {
        for (urls, why) in [
            (vec![], "no etcd URL"),
            (vec!["https://a:2379".to_owned()], "TLS to etcd"),
            (vec!["10.0.0.1:2379".to_owned()], "http://host:port"),
            (vec!["http://a".to_owned()], "http://host:port"),
        ] {
            let error = Endpoints::new(&urls).err().expect(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
