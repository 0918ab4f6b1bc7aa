//! What nobody else looks after: components of objects that have no owner, or that went on without this host.
//!
//! Promises    a component is removed only on a tombstone or a closed config without it; never because the directory
//!             or a peer does not know it                                                            (scenario 24)
//!             a disk without an owner that lacks redundancy is seized by a host that has a copy, to repair it

use std::time::Duration;

use cairn_directory::CreateIntent;
use cairn_env::Env;
use cairn_types::{Accepted, ComponentState, DiskGroupId, SeatRecord};
use cairn_wire::Request;

use crate::node::Node;

/// How often seats are looked at.
const RECONCILE_EVERY: Duration = Duration::from_secs(2);
/// Nascent components without an intent are kept this long: the intent may be on its way.
const NASCENT_KEEP_MS: u64 = 60_000;

impl<E: Env> Node<E> {
    pub(crate) async fn reconcile(&self) {
        let inner = &self.inner;
        while !inner.stopping.get() {
            let jitter = Duration::from_millis(inner.env.random_u64() % 1000);
            inner.env.sleep(RECONCILE_EVERY + jitter).await;
            for store in inner.seats.stores() {
                let group = store.group();
                let damaged = !matches!(group.log_health(), cairn_store::LogHealth::Sound);
                if damaged && inner.seats.all_refilled(group.id()) {
                    // Otherwise the next opening would distrust copies that are whole again.
                    let _ = group.accept_damage().await;
                }
            }
            for (disk_group, record) in inner.seats.records() {
                if inner.shard.owned(record.object).is_none()
                    && inner.leases.holder(disk_group, record.object).is_none()
                {
                    self.reconcile_seat(disk_group, record).await;
                }
            }
        }
    }

    /// A seat that no owner holds: is it current, is it still wanted, does its object need repair?
    async fn reconcile_seat(&self, disk_group: DiskGroupId, record: SeatRecord) {
        let inner = &self.inner;
        let object = record.object;
        let Some(own) = &record.accepted else { return self.reconcile_nascent(disk_group, &record).await };
        if inner.reconciled.borrow().contains(&object) && !needs_repair(own) {
            return;
        }
        let mut hosts: Vec<_> = own.config.members.iter().map(|m| m.host).collect();
        hosts.dedup();
        let Some((known, owner)) = inner.shard.look_up(object, &hosts).await else { return };
        if self.remove_if_gone(disk_group, &record, &known).await {
            return;
        }
        if owner.is_none() && needs_repair(&known) && !known.config.deleted {
            // Failing is usual: another host was first, or votes are missing. It is tried again.
            let _ = inner.shard.take_over(&known).await;
            return;
        }
        inner.reconciled.borrow_mut().insert(object);
    }

    /// True: what this seat held was removed.
    async fn remove_if_gone(&self, disk_group: DiskGroupId, record: &SeatRecord, known: &Accepted) -> bool {
        let Some(store) = self.inner.seats.store(disk_group) else { return true };
        let mut gone = false;
        for component in cairn_object::LocalStore::components_of(&store, record.object) {
            let named = known.config.member(component.component).is_some();
            let gone_now = known.config.deleted || (known.base.is_none() && !named);
            if !gone_now {
                continue;
            }
            gone = true;
            // The seat has to see the record that allows the removal; it accepts it like from any owner.
            let accepted = Box::new(known.clone());
            let me = (self.me(), self.inner.env.incarnation());
            let accept = Request::Accept { disk_group, accepted };
            if self.inner.seats.serve(me.0, me.1, accept, Default::default()).await.is_err() {
                continue;
            }
            let (component, object) = (component.component, record.object);
            let delete = Request::DeleteComponent { disk_group, component, object };
            let _ = self.inner.seats.serve(me.0, me.1, delete, Default::default()).await;
        }
        if gone && !known.config.deleted {
            let _ = self.inner.seats.forget(disk_group, record.object).await;
        }
        gone
    }

    /// A component of a creation that never came to its end.
    async fn reconcile_nascent(&self, disk_group: DiskGroupId, record: &SeatRecord) {
        let inner = &self.inner;
        let Ok(intent) = inner.registry.get::<CreateIntent>(&record.object).await else { return };
        let now = inner.env.unix_ms();
        if intent.is_some_and(|i| now < i.entry.expires_unix_ms + NASCENT_KEEP_MS) {
            return;
        }
        if inner.shard.look_up(record.object, &[]).await.is_some() {
            return;
        }
        let Some(store) = inner.seats.store(disk_group) else { return };
        for component in cairn_object::LocalStore::components_of(&store, record.object) {
            let (component, object) = (component.component, record.object);
            let delete = Request::DeleteComponent { disk_group, component, object };
            let me = (self.me(), inner.env.incarnation());
            let _ = inner.seats.serve(me.0, me.1, delete, Default::default()).await;
        }
        let _ = inner.seats.forget(disk_group, record.object).await;
    }
}

fn needs_repair(known: &Accepted) -> bool {
    known.base.is_some() || known.config.members.iter().any(|m| m.state != ComponentState::Active)
}
