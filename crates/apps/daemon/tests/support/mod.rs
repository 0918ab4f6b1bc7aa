//! A real API server in front of the cluster in memory: server thread, bridge, shard thread, as in the daemon.

mod changes;
mod devices;
mod health;
mod latencies;
mod members;
pub mod memory;
mod scrubs;
mod snapshots;
mod space;
mod usage;

use std::{rc::Rc, sync::Arc, thread::JoinHandle};

use cairnd::{bridge::bridge, http::ApiServer, plan::ApiPlan};

/// The running server; dropping it stops its threads.
pub struct TestServer {
    /// The server.
    pub api: Option<ApiServer>,
    shard: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Serves a fresh cluster on a free port of loopback, and on `socket`.
    pub fn start(socket: Option<std::path::PathBuf>) -> Self {
        let (bridge, end) = bridge();
        let shard = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(end.serve(Rc::new(memory::MemoryCluster::new())));
        });
        let plan = ApiPlan { tcp: Some("127.0.0.1:0".parse().unwrap()), socket };
        let api = ApiServer::start(&plan, Arc::new(bridge)).unwrap();
        Self { api: Some(api), shard: Some(shard) }
    }

    /// "127.0.0.1:port".
    pub fn address(&self) -> String {
        self.api.as_ref().unwrap().tcp.unwrap().to_string()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.api.take());
        self.shard.take().unwrap().join().unwrap();
    }
}
