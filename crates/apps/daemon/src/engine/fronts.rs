//! The doors for guests: one list of kinds, each a function that opens what the plan asks for.
//!
//! Promises    a host knows its front ends as `FrontEnd`s only: a further protocol is one line in [`KINDS`] and its function
//! Not here    the protocols (`nbd`, `vhost-user`)

use std::{cell::RefCell, path::Path, rc::Rc};

use cairn_env_linux::LinuxEnv;
use cairn_nbd::{Doors, Entrance, Options, serve_moved, serve_tcp, serve_unix};
use cairn_node::NodeExports;
use cairn_volume::{FrontEnd, Session};
use futures::{FutureExt as _, future::LocalBoxFuture};

use crate::plan::HostPlan;

/// How clients change over between the shards of a server.
pub(super) struct Passage {
    /// Where clients go that another shard serves.
    pub(super) doors: Doors,
    /// Where they come in here.
    pub(super) entrance: Option<Entrance>,
}

/// Those that were opened.
type Opened = Result<Vec<Box<dyn FrontEnd>>, String>;
type Open = for<'a> fn(&'a NodeExports<LinuxEnv>, &'a HostPlan, &'a mut Passage) -> LocalBoxFuture<'a, Opened>;

/// Every kind of front end.
const KINDS: [Open; 2] = [nbd, vhost_user];

/// What guests come through. Clones are the same doors.
#[derive(Clone, Default)]
pub(super) struct Fronts(Rc<RefCell<Vec<Box<dyn FrontEnd>>>>);

impl Fronts {
    /// Opens all that the plan asks for.
    pub(super) async fn open(
        &self,
        exports: &NodeExports<LinuxEnv>,
        plan: &HostPlan,
        mut passage: Passage,
    ) -> Result<(), String> {
        for kind in KINDS {
            let opened = kind(exports, plan, &mut passage).await?;
            self.0.borrow_mut().extend(opened);
        }
        Ok(())
    }

    /// The sessions of all.
    pub(super) fn sessions(&self) -> Vec<Session> {
        self.0.borrow().iter().flat_map(|front| front.sessions()).collect()
    }

    /// Closes all, one after the other.
    pub(super) async fn stop(&self) {
        let fronts = self.0.take();
        for front in fronts {
            front.stop().await;
        }
    }
}

fn nbd<'a>(
    exports: &'a NodeExports<LinuxEnv>,
    plan: &'a HostPlan,
    passage: &'a mut Passage,
) -> LocalBoxFuture<'a, Opened> {
    let options = Options { doors: passage.doors.clone(), ..Options::default() };
    async move {
        let mut fronts: Vec<Box<dyn FrontEnd>> = Vec::new();
        if let Some(entrance) = passage.entrance.take() {
            fronts.push(Box::new(serve_moved(entrance, exports.clone(), options.clone())));
        }
        if let Some(address) = plan.nbd {
            let server = serve_tcp(address, exports.clone(), options.clone()).await;
            fronts.push(Box::new(server.map_err(|e| e.to_string())?));
        }
        if let Some(socket) = &plan.nbd_socket {
            if let Some(folder) = socket.parent() {
                make_folder(folder)?;
            }
            let server = serve_unix(socket, exports.clone(), options).await;
            fronts.push(Box::new(server.map_err(|e| e.to_string())?));
        }
        Ok(fronts)
    }
    .boxed_local()
}

fn vhost_user<'a>(
    exports: &'a NodeExports<LinuxEnv>,
    plan: &'a HostPlan,
    _: &'a mut Passage,
) -> LocalBoxFuture<'a, Opened> {
    async move {
        let Some(folder) = &plan.vhost_user_dir else { return Ok(Vec::new()) };
        make_folder(folder)?;
        let server = cairn_vhost_user::serve(folder, exports.clone(), cairn_vhost_user::Options::default());
        Ok(vec![Box::new(server.map_err(|e| e.to_string())?) as Box<dyn FrontEnd>])
    }
    .boxed_local()
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))
}
