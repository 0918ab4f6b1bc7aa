//! Disk groups of this host that are too full give components away, one at a time.
//!
//! Promises    nothing is begun while something of this host's disks is being resynced: what is lost comes first
//!             a host that joins is used, without anyone asking for it
//! Not here    which component goes, and where (`placement`); the move (`object`), which yields to guests as every resync does
//!
//! The host of the group decides: it knows what its components hold. The disk's owner moves.

use std::time::Duration;

use cairn_directory::{CatalogueEntry, REBALANCE_POINTS};
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_placement::Resident;
use cairn_types::{BLOCK_BYTES, ComponentId, DiskGroupId, Feature, HostId, ObjectConfig, ObjectId, Seat};
use cairn_wire::OwnerCommand;

use crate::node::Node;

/// How often a host looks, and up to how much later, so that hosts look apart from each other: a look goes through the host's components.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const LATER_MAX_MS: u64 = 5000;
/// How often it looks how a move is.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// How long a move that was asked for may take to begin: the owner moves few at a time, and a change of owners ends it.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// A component that is to go.
struct Going {
    object: ObjectId,
    component: ComponentId,
    disk_group: DiskGroupId,
    to: HostId,
}

impl<E: Env> Node<E> {
    /// Rebalances for as long as the node lives.
    pub(crate) async fn rebalance(&self) {
        let env = &self.inner.env;
        while !self.inner.stopping.get() {
            env.sleep(LOOK_EVERY + Duration::from_millis(env.random_u64() % LATER_MAX_MS)).await;
            let Some(going) = self.what_goes() else { continue };
            let hints = self.inner.copy.borrow().get::<CatalogueEntry>(&going.object);
            let hints = hints.map(|entry| entry.hint_hosts).unwrap_or_default();
            let command = OwnerCommand::Move { component: going.component, to: vec![going.to] };
            if self.to_owner(going.object, &hints, command).await.is_ok() {
                self.follow_move(&going).await;
            }
        }
    }

    /// The next component that goes from a disk group of this host; none where nothing should.
    fn what_goes(&self) -> Option<Going> {
        let inner = &self.inner;
        let points = self.settings()?.rebalance_points.unwrap_or(REBALANCE_POINTS);
        let resyncs = inner.objects.all_owned().iter().any(|owned| !owned.resync_status().is_empty());
        if points == 0 || resyncs || !self.level().has(Feature::Moves) {
            return None;
        }
        let picture = self.picture();
        inner.seats.stores().iter().find_map(|store| {
            let disk_group = store.disk_group();
            let held = store.group().components();
            let data = held.iter().filter(|c| c.size_blocks > 0 && !c.lost);
            let bytes = |blocks: u64| blocks * u64::from(BLOCK_BYTES);
            let residents = data.map(|c| Resident { component: c.id, bytes: bytes(c.allocated_blocks) }).collect();
            let object_of = |id| held.iter().find(|c| c.id == id).map(|c| c.object);
            let config_of = |id| self.config_here(disk_group, object_of(id)?);
            let from = Seat { host: self.me(), disk_group };
            let (component, to) = cairn_placement::rebalance(&picture, from, points, residents, &config_of)?;
            Some(Going { object: object_of(component)?, component, disk_group, to })
        })
    }

    /// A disk's configuration as the seat here has it.
    fn config_here(&self, disk_group: DiskGroupId, object: ObjectId) -> Option<ObjectConfig> {
        Some(self.inner.seats.record(disk_group, object)?.accepted?.config)
    }

    /// Waits until the component is gone, or is not being moved any more.
    async fn follow_move(&self, going: &Going) {
        let env = &self.inner.env;
        let mut moved = env.now();
        while !self.inner.stopping.get() {
            env.sleep(FOLLOW_EVERY).await;
            let config = self.config_here(going.disk_group, going.object);
            let Some(config) = config.filter(|config| config.member(going.component).is_some()) else { return };
            if config.twin_of(going.component).is_some() {
                moved = env.now();
            } else if env.now().since(moved) > BEGINS_WITHIN {
                return;
            }
        }
    }
}
