//! The keeper's part in what a disk's policy asks for: the policy is set, then copies come and go until it is met.
//!
//! Promises    the record says what is wanted; whoever owns the object next goes on from there, and to set the former policy takes it back
//!             a copy in sync goes only where as many in sync stay as the policy asks for                                    (I12)
//! Assumes     room that is set aside stays so until the record says less: it is made before the record asks for it
//! Not here    which copies come and go (`placement`), how a copy is filled (resync.rs)

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::Area;
use cairn_types::{Canary, ComponentId, ComponentOp, Feature, HostId, ObjectConfig, Policy};
use cairn_wire::Request;

use crate::{
    local_store::LocalStore,
    owner::Owned,
    placer::{MemberChange, PolicyStep},
};

/// What a majority that does not answer leaves to do.
const NOT_ACCEPTED: &str = "the change was not accepted by a majority; ask again";

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Adds copies that the policy asks for and the disk lacks, and lets go those that are asked for no more.
    pub(super) async fn meet_policy(self: &Rc<Self>) {
        if self.state.borrow().ended().is_some() || self.state.borrow().has_failures() {
            return;
        }
        let Some(placer) = self.context.placer.borrow().clone() else {
            return;
        };
        let config = self.config();
        let change = match placer.meet_policy(&config) {
            PolicyStep::Nothing => return self.policy_waits.set(false),
            PolicyStep::Add(change) => change,
            PolicyStep::Drop(change) => {
                assert_enough_stay(&config, &change);
                change
            }
        };
        // What cannot be done now is tried again soon; what has no place, when an object at rest is looked at.
        self.policy_waits
            .set(self.change_members(change, (config.addresses.clone(), config.size_bytes)).await.is_err());
    }

    /// The disk goes over to another policy. Copies follow by [`Self::meet_policy`].
    pub(super) async fn set_policy(self: &Rc<Self>, name: String, policy: Policy) -> Result<(), String> {
        let config = self.config();
        match self.context.level.get().has(Feature::Conversion) {
            true => policy.validate(),
            false => policy.check_after(&config.policy),
        }
        .map_err(|e| e.to_string())?;
        let next = ObjectConfig { policy: policy.clone(), policy_name: name, ..(*config).clone() };
        if next == *config {
            return Ok(());
        }
        let goes_over = config.addresses.spans().iter().any(|span| !policy.fits(&span.layout));
        let snapshots = config.past.as_ref().map_or(0, |past| past.snapshots.len());
        if goes_over && snapshots > 0 {
            return Err(format!(
                "the policy asks for another layout, and the disk has {snapshots} snapshots, which cannot go over to it: delete them first"
            ));
        }
        if goes_over && !config.parents().is_empty() {
            return Err("the policy asks for another layout, and the disk is a clone, which cannot go over to it: flatten it first".into());
        }
        let grows = policy.reservation_percent > config.policy.reservation_percent;
        if grows && let Err(why) = self.resize_components(&config, &policy, config.size_bytes).await {
            // What has taken it gives it back; one that is away then learns it when it comes.
            let _ = self.resize_components(&config, &config.policy, config.size_bytes).await;
            return Err(why);
        }
        if !self.change(next).await {
            return Err(NOT_ACCEPTED.into());
        }
        if policy.reservation_percent < config.policy.reservation_percent {
            let config = self.config();
            // Room that could not be given back now is set aside in vain until the component is resized or moved.
            let _ = self.resize_components(&config, &policy, config.size_bytes).await;
        }
        Ok(())
    }

    /// How much guests may do.
    pub(super) async fn limit(self: &Rc<Self>, iops: Option<u32>, bytes_per_s: Option<u64>) -> Result<(), String> {
        let mut next = (*self.config()).clone();
        let policy = &mut next.policy;
        policy.iops_limit = iops.unwrap_or(policy.iops_limit);
        policy.bandwidth_limit_bytes_per_s = bytes_per_s.unwrap_or(policy.bandwidth_limit_bytes_per_s);
        if next == *self.config() || self.change(next).await {
            return Ok(());
        }
        Err("the new limit was not accepted by a majority; ask again".into())
    }

    /// Tells all components of the disk the size that they have with it, and what the policy sets aside of that.
    pub(super) async fn resize_components(
        &self,
        config: &ObjectConfig,
        policy: &Policy,
        size_bytes: u64,
    ) -> Result<(), String> {
        let links = self.state.borrow().links();
        let addresses = &cairn_geometry::grown(&config.addresses, config.size_bytes, size_bytes);
        for leg in links {
            let Some(set) = config.member(leg.component).and_then(|m| m.set()) else {
                continue;
            };
            // What is on its way to another layout is given up where a disk grows.
            let Some(area) = Area::of_set_at(addresses, size_bytes, set) else { continue };
            let size_blocks = area.component_blocks(set);
            let op = ComponentOp::Resize { size_blocks, reserved_blocks: reserved_blocks(policy, size_blocks) };
            let request = Request::Change { to: leg.link.target, op };
            let reply = self.context.request(leg.link.host, leg.link.target.disk_group, request, None).await;
            reply.map_err(|refusal| format!("a component cannot take its new size: {refusal:?}"))?;
        }
        Ok(())
    }

    /// A component is to go elsewhere: it is moved as what has to leave a host is, until it is gone or this owner ends.
    pub(super) fn ask_to_move(&self, component: ComponentId, to: Vec<HostId>) -> Result<(), String> {
        if self.config().member(component).is_none() {
            return Err(format!("the disk has no component {component} any more"));
        }
        self.asked_to_move.borrow_mut().insert(component, to);
        self.asked_last.set(self.context.env.now());
        self.work.notify();
        Ok(())
    }
}

/// Blocks to set aside for a component of this size.
pub(super) fn reserved_blocks(policy: &Policy, blocks: u64) -> u64 {
    blocks * u64::from(policy.reservation_percent) / 100
}

/// I12, where copies are asked for no more.
fn assert_enough_stay(config: &ObjectConfig, change: &MemberChange) {
    // That bug is for those who look from outside.
    if Canary::WrongCopyGoes.sings() {
        return;
    }
    let goes = |m: &&cairn_types::Member| change.removed.contains(&m.component) && m.state.in_sync();
    for gone in config.members.iter().filter(goes) {
        let Some(set) = gone.set() else { continue };
        let asked = config.members_asked(set) as usize;
        let stay = change.members.iter().filter(|m| m.set() == gone.set() && m.state.in_sync()).count();
        assert!(stay >= asked, "component {} goes, and {stay} of {asked} copies in sync stay", gone.component);
    }
}
