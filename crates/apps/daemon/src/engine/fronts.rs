//! The doors for guests: one list of kinds, each a function that opens what the plan asks for.
//!
//! Promises    a host knows its front ends as `FrontEnd`s only: a further protocol is one line in [`KINDS`] and its function
//! Not here    the protocols (`nbd`, `vhost-user`)

use std::{
    cell::RefCell,
    fs::Permissions,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::Path,
    rc::Rc,
};

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
    let options = Options { doors: passage.doors.clone(), unix_group: plan.socket_group, ..Options::default() };
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
                let made = make_folder(folder)?;
                open_to_group(folder, made, plan.socket_group)?;
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
        // One daemon has it, and nothing else is in it: it follows the group.
        open_to_group(folder, true, plan.socket_group)?;
        let options = cairn_vhost_user::Options { unix_group: plan.socket_group, ..Default::default() };
        let server = cairn_vhost_user::serve(folder, exports.clone(), options);
        Ok(vec![Box::new(server.map_err(|e| e.to_string())?) as Box<dyn FrontEnd>])
    }
    .boxed_local()
}

/// Whether it was not there.
fn make_folder(folder: &Path) -> Result<bool, String> {
    let there = folder.is_dir();
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    Ok(!there)
}

/// Gives a folder of sockets to their group where it is ours alone, and looks whether the group gets as far as it.
fn open_to_group(folder: &Path, ours: bool, group: Option<u32>) -> Result<(), String> {
    let Some(group) = group else { return Ok(()) };
    let fail = |e: std::io::Error| format!("cannot give {} to the group of listen.socket_group: {e}", folder.display());
    if ours {
        chown(folder, None, Some(group)).map_err(fail)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o750)).map_err(fail)?;
    }
    for on_the_way in std::path::absolute(folder).map_err(fail)?.ancestors() {
        let meta = std::fs::metadata(on_the_way).map_err(fail)?;
        let passes = if meta.gid() == group { 0o010 } else { 0o001 };
        if meta.mode() & passes == 0 {
            let (place, mode) = (on_the_way.display(), meta.mode() & 0o7777);
            return Err(format!(
                "the group of listen.socket_group cannot reach the sockets in {}: {place} has mode {mode:o}. Let others pass \
                 there (chmod o+x), or put the sockets elsewhere",
                folder.display()
            ));
        }
    }
    Ok(())
}
