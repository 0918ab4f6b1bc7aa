//! The management calls as functions: one request, one connection, JSON over HTTP/1.1 on TCP or a unix socket.
//!
//! Promises    every call of the API's list is here, made from it; nothing else knows a path

use std::{collections::BTreeMap, time::Duration};

use cairn_api::ApiError;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use crate::{address::ApiAddress, fail::Fail, progress};

/// How long a connection may take to open.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The API at one address.
pub struct Client {
    address: ApiAddress,
    timeout: Duration,
    /// Something moves on a terminal while an answer is waited for.
    spinner: bool,
}

impl Client {
    /// A client that waits `timeout` for an answer.
    pub fn new(address: ApiAddress, timeout: Duration) -> Self {
        Self { address, timeout, spinner: true }
    }

    /// The same for a long work whose progress is shown otherwise.
    pub fn patient(&self, timeout: Duration) -> Self {
        Self { address: self.address.clone(), timeout, spinner: false }
    }

    /// Whether who answers is on this machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            ApiAddress::Unix(_) => true,
            ApiAddress::Tcp(host) => {
                let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host).trim_matches(['[', ']']);
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<T, Fail> {
        let answer = self.exchange(method, path, body).await?;
        // Nothing is the answer of what has nothing to say.
        let answer: &[u8] = if answer.is_empty() { b"null" } else { &answer };
        serde_json::from_slice(answer).map_err(|error| self.not_understood(&error.to_string()))
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, Fail> {
        let exchange = async {
            match &self.address {
                ApiAddress::Tcp(host) => {
                    let stream = self.connect(TcpStream::connect(host)).await?;
                    self.over(TokioIo::new(stream), method, path, body).await
                }
                ApiAddress::Unix(socket) => {
                    let stream = self.connect(UnixStream::connect(socket)).await?;
                    self.over(TokioIo::new(stream), method, path, body).await
                }
            }
        };
        let limited = tokio::time::timeout(self.timeout, async {
            match self.spinner {
                true => progress::while_waiting(exchange).await,
                false => exchange.await,
            }
        });
        limited.await.unwrap_or_else(|_| {
            Err(Fail::unreachable(format!("{} did not answer within {} s", self.address, self.timeout.as_secs()))
                .remedy("what was asked may still be done: look before you repeat it"))
        })
    }

    async fn connect<S>(&self, connecting: impl Future<Output = std::io::Result<S>>) -> Result<S, Fail> {
        let why = match tokio::time::timeout(CONNECT_WAIT, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", CONNECT_WAIT.as_secs()),
        };
        Err(Fail::unreachable(format!("cannot reach the management API at {}: {why}", self.address))
            .remedy("start cairnd there, or name another place with --api or CAIRN_API"))
    }

    async fn over<IO>(&self, io: IO, method: Method, path: &str, body: Option<Bytes>) -> Result<Bytes, Fail>
    where
        IO: hyper::rt::Read + hyper::rt::Write + Unpin,
    {
        let broken = |error: hyper::Error| {
            Fail::unreachable(format!("{} ended the conversation: {error}", self.address))
                .remedy("look at the daemon's log, then try again")
        };
        let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
        let host = match &self.address {
            ApiAddress::Tcp(host) => host,
            ApiAddress::Unix(_) => "localhost",
        };
        let mut request = Request::builder().method(method).uri(path).header("Host", host);
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Fail::usage(format!("{path} cannot be asked for: {error}")))?;
        let conversation = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let status = answer.status();
            let body = answer.into_body().collect().await.map_err(broken)?;
            Ok::<_, Fail>((status, body.to_bytes()))
        };
        let (status, body) = tokio::select! {
            answered = conversation => answered?,
            // Polled only to move bytes: its end without an answer shows in the conversation as well.
            Err(error) = connection => return Err(broken(error)),
        };
        self.judge(status, body)
    }

    fn judge(&self, status: StatusCode, body: Bytes) -> Result<Bytes, Fail> {
        if status.is_success() {
            return Ok(body);
        }
        Err(match serde_json::from_slice::<ApiError>(&body) {
            Ok(error) => error.into(),
            Err(_) => self.not_understood(&format!("HTTP {status}")),
        })
    }

    fn not_understood(&self, what: &str) -> Fail {
        Fail::unreachable(format!("{} answers, and not as a management API of Cairn: {what}", self.address))
            .remedy("check --api and CAIRN_API; cairn and cairnd of different releases may not understand each other")
    }
}

macro_rules! method {
    (get) => {
        Method::GET
    };
    (post) => {
        Method::POST
    };
    (put) => {
        Method::PUT
    };
    (patch) => {
        Method::PATCH
    };
    (delete) => {
        Method::DELETE
    };
}

macro_rules! functions {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        #[allow(dead_code, reason = "all calls of the API are here; some have no verb")]
        impl Client {
            $($(#[$doc])*
            pub async fn $name(
                &self,
                $($place: impl std::fmt::Display,)?
                $($body: &$body_type,)?
            ) -> Result<$answer, Fail> {
                let path = $path.to_owned();
                $(let path = path.replace(concat!("{", stringify!($place), "}"), &segment(&$place.to_string()));)?
                let sent: Option<Bytes> = None;
                $(let sent = sent.or(Some(encode($body)?));)?
                let method = method!($method);
                match sent {
                    Some(body) if [Method::GET, Method::DELETE].contains(&method) => {
                        self.ask(method, &format!("{path}{}", query(&body)), None).await
                    }
                    sent => self.ask(method, &path, sent).await,
                }
            })*
        }
    };
}

cairn_api::management_calls!(functions);

fn encode(body: &impl Serialize) -> Result<Bytes, Fail> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| Fail::usage(format!("the request cannot be written: {error}")))
}

/// The fields of a flat JSON object as a query.
fn query(body: &[u8]) -> String {
    let fields: BTreeMap<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let one = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", segment(text))),
        other => Some(format!("{name}={other}")),
    };
    let fields: Vec<String> = fields.iter().filter_map(one).collect();
    if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
}

/// One segment of a path, so that a name with odd characters cannot name another path.
fn segment(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        // A segment of dots only would be taken as "here" or "up".
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && !name.trim_matches('.').is_empty())
        {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{query, segment};

    #[test]
    fn a_flat_body_is_a_query() {
        assert_eq!(query(br#"{"force":true,"none":null,"name":"a b"}"#), "?force=true&name=a%20b");
        assert_eq!(query(b"{}"), "");
    }

    #[test]
    fn odd_names_stay_one_segment() {
        assert_eq!(segment("vm-1.a_b"), "vm-1.a_b");
        assert_eq!(segment("../x y?"), "..%2Fx%20y%3F");
        assert_eq!(segment(".."), "%2E%2E");
    }
}
