//! The members of an etcd cluster as one: ask one, move to the next when it fails, give up in bounded time.
//!
//! Promises    a call ends within [`CALL_MS_MAX`]; one that no member even accepts ends at once
//!             a member that failed is connected anew at the next call, without a back-off that delays recovery
//!             the members may change meanwhile: a call that is under way ends with those that it began with
//! Why own     the client's balancer sends calls to dead members too, and does not say whether a call left this machine

use std::{
    collections::BTreeMap,
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
            // It has no vote yet, and carries nothing out.
            _ if status.message().contains("not supported for learner") => Attempt::NotSent,
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
    state: Mutex<State>,
}

struct State {
    urls: Vec<String>,
    /// The member that answered last.
    current: usize,
    clients: BTreeMap<String, Client>,
}

/// Whether these can be used.
fn check(urls: &[String]) -> Result<(), DirectoryError> {
    if urls.is_empty() {
        return Err(DirectoryError::Refused("no etcd URL is given: name one or more like http://10.0.0.1:2379".into()));
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
    Ok(())
}

impl Endpoints {
    /// The members at `urls`, each `http://host:port`.
    pub(crate) fn new(urls: &[String]) -> Result<Self, DirectoryError> {
        check(urls)?;
        Ok(Self { state: Mutex::new(State { urls: urls.to_vec(), current: 0, clients: BTreeMap::new() }) })
    }

    /// From now on these are the members. Connections to those that stay, stay.
    pub(crate) fn follow(&self, urls: &[String]) -> Result<(), DirectoryError> {
        check(urls)?;
        let mut state = self.state();
        if state.urls != urls {
            let current = state.urls[state.current].clone();
            state.current = urls.iter().position(|url| *url == current).unwrap_or(0);
            state.urls = urls.to_vec();
            state.clients.retain(|url, _| urls.contains(url));
        }
        Ok(())
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.state().urls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    /// The client of a member; a new one where the last one failed.
    pub(crate) async fn client(&self, url: &str) -> Result<Client, Error> {
        if let Some(client) = self.state().clients.get(url) {
            return Ok(client.clone());
        }
        let options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_millis(ATTEMPT_MS_MAX))
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(2))
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        let client = Client::connect([url], Some(options)).await?;
        let mut state = self.state();
        if state.urls.iter().any(|known| known == url) {
            state.clients.insert(url.to_owned(), client.clone());
        }
        Ok(client)
    }

    /// Forgets the connection to a member that failed, and turns to the next.
    pub(crate) fn failed(&self, url: &str) {
        let mut state = self.state();
        state.clients.remove(url);
        if state.urls[state.current] == url {
            state.current = (state.current + 1) % state.urls.len();
        }
    }

    /// The members, the one to ask first before the others.
    pub(crate) fn in_turn(&self) -> Vec<String> {
        let state = self.state();
        let mut urls = state.urls.clone();
        urls.rotate_left(state.current);
        urls
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
            for url in self.in_turn() {
                match self.attempt(&url, end, &mut run).await {
                    Ok(value) => return (Ok(value), lost),
                    Err((Attempt::Refused(error), _)) => {
                        return (Err(Failed::Refused(error)), lost);
                    }
                    Err((attempt, text)) => {
                        self.failed(&url);
                        cause = format!("{url}: {text}");
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
        url: &str,
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
        let client = match self.client(url).await {
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
    #[test]
    fn members_that_change_are_asked_in_turn() {
        let urls = |names: &[&str]| -> Vec<String> { names.iter().map(|name| format!("http://{name}:1")).collect() };
        let endpoints = Endpoints::new(&urls(&["a", "b", "c"])).unwrap();
        endpoints.failed("http://a:1");
        assert_eq!(endpoints.in_turn(), urls(&["b", "c", "a"]));
        endpoints.follow(&urls(&["d", "c", "b"])).unwrap();
        assert_eq!(endpoints.in_turn(), urls(&["b", "d", "c"]), "the one that answered is asked first");
        endpoints.follow(&urls(&["d"])).unwrap();
        endpoints.failed("http://b:1");
        assert_eq!(endpoints.in_turn(), urls(&["d"]), "one that is a member no more fails nobody");
        assert!(endpoints.follow(&[]).is_err());
    }
}
