//! The thread that serves the API. It shares nothing with the shards but the bridge.

use std::{
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    os::unix::net::{UnixListener as StdUnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use cairn_api::Management;
use tokio::sync::watch;

use crate::plan::ApiPlan;

/// How long requests may go on after the server was told to stop.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// An address or socket that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the management API on {at}: {cause}. {remedy}")]
pub struct ListenError {
    /// Where.
    pub at: String,
    /// Why.
    pub cause: io::Error,
    /// What to do.
    pub remedy: &'static str,
}

/// The running server. Dropping it stops it.
#[derive(Debug)]
pub struct ApiServer {
    /// The TCP address that it really listens on.
    pub tcp: Option<SocketAddr>,
    socket: Option<PathBuf>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Listens where `plan` says and serves `management` on a thread of its own.
    ///
    /// # Errors
    /// When it cannot listen there; nothing is left behind then.
    pub fn start(plan: &ApiPlan, management: Arc<dyn Management>) -> Result<Self, ListenError> {
        let tcp = plan.tcp.map(listen_tcp).transpose()?;
        let unix = plan.socket.as_deref().map(listen_unix).transpose()?;
        let local = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let (stop, stopped) = watch::channel(false);
        let at = || "a thread of its own".to_owned();
        let thread = std::thread::Builder::new()
            .name("api".into())
            .spawn(move || serve(tcp, unix, management, stopped))
            .map_err(|cause| ListenError { at: at(), cause, remedy: "Raise the limit of threads" })?;
        Ok(Self { tcp: local, socket: plan.socket.clone(), stop, thread: Some(thread) })
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the management API had panicked");
        }
        if let Some(path) = &self.socket {
            // Somebody may have removed it already; then there is nothing left to tidy.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn serve(
    tcp: Option<std::net::TcpListener>,
    unix: Option<StdUnixListener>,
    management: Arc<dyn Management>,
    stopped: watch::Receiver<bool>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the API");
    runtime.block_on(async move {
        let router = super::router(management);
        let until = |mut stopped: watch::Receiver<bool>| async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let on_tcp = async {
            let Some(tcp) = tcp else { return Ok(()) };
            let listener = tokio::net::TcpListener::from_std(tcp)?;
            axum::serve(listener, router.clone()).with_graceful_shutdown(until(stopped.clone())).await
        };
        let on_unix = async {
            let Some(unix) = unix else { return Ok(()) };
            let listener = tokio::net::UnixListener::from_std(unix)?;
            axum::serve(listener, router.clone()).with_graceful_shutdown(until(stopped.clone())).await
        };
        let both = async { tokio::try_join!(on_tcp, on_unix) };
        // A client that keeps its connection open must not keep the daemon from stopping.
        let deadline = async {
            until(stopped.clone()).await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            ended = both => if let Err(error) = ended {
                tracing::error!(%error, "the management API ended");
            },
            () = deadline => {}
        }
    });
}

fn listen_tcp(address: SocketAddr) -> Result<std::net::TcpListener, ListenError> {
    let error = |cause| ListenError {
        at: address.to_string(),
        cause,
        remedy: "Set listen.api to a free address of this machine",
    };
    let listener = std::net::TcpListener::bind(address).map_err(error)?;
    listener.set_nonblocking(true).map_err(error)?;
    Ok(listener)
}

/// Only the owner and its group may connect: whoever does may do everything.
fn listen_unix(path: &Path) -> Result<StdUnixListener, ListenError> {
    let error = |cause| ListenError {
        at: path.display().to_string(),
        cause,
        remedy: "Set listen.api_socket to a path that can be made, or to \"\" to have none",
    };
    remove_stale_socket(path).map_err(error)?;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(error)?;
    }
    let listener = StdUnixListener::bind(path).map_err(error)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(error)?;
    listener.set_nonblocking(true).map_err(error)?;
    Ok(listener)
}

/// Removes a socket that a killed process left behind; one that answers, or a file that is no socket, stays.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::other("a file that is no socket is there"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::other("another process serves it")),
        Err(_) => std::fs::remove_file(path),
    }
}
