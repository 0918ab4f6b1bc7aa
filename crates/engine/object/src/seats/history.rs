//! What components held at snapshots: told to whoever reads one, and brought to copies that are filled.
//!
//! Promises    S8  a view is told where the seat's own closed record names the snapshot and has the component in sync, and its log is sound:
//!             what it holds of that moment is whole then, and stays so while the component is away or filled anew
//! Not here    who may fill (`with_admitted`), in which order (`owner::history`)

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{BlockRange, ComponentId, Contents, DiskGroupId, SnapshotId};
use cairn_wire::{Answer, Refusal, Request, ViewAsk};
use futures::future::LocalBoxFuture;

use super::{Group, Seats, Served, not_open, refuse};
use crate::local_store::LocalStore;

impl<S: LocalStore> Group<S> {
    /// Whether a component has all of these snapshots: S8.
    fn has_snapshots(&self, component: ComponentId, snapshots: &[SnapshotId]) -> bool {
        let Some(local) = self.store.component(component).filter(|local| !local.lost) else { return false };
        let accepted = self.seats.get(&local.object).and_then(|record| record.accepted.as_ref());
        let Some(accepted) = accepted.filter(|accepted| accepted.base.is_none() && !accepted.config.deleted) else {
            return false;
        };
        let names = |id| accepted.config.past.as_ref().is_some_and(|past| past.snapshot(id).is_some());
        let in_sync = accepted.config.member(component).is_some_and(|member| member.state.in_sync());
        let is_sound = !self.store.log_damaged() || self.refilled.contains(&component);
        in_sync && is_sound && snapshots.iter().all(|id| names(*id))
    }
}

impl<E: Env, S: LocalStore> Seats<E, S> {
    fn view_of(&self, disk_group: DiskGroupId, component: ComponentId, of: &[SnapshotId]) -> Result<S, Refusal> {
        let groups = self.inner.groups.borrow();
        let group = groups.get(&disk_group).ok_or_else(not_open)?;
        match group.has_snapshots(component, of) {
            true => Ok(group.store.clone()),
            false => Err(Refusal::NotFound),
        }
    }

    /// Requests that concern snapshots.
    pub(super) fn serve_history(&self, request: Request, payload: Bytes) -> LocalBoxFuture<'static, Served> {
        match request {
            Request::View { disk_group, component, snapshot, range, ask } => {
                let named = [Some(snapshot), if let ViewAsk::ChangedUpTo(later) = ask { Some(later) } else { None }];
                let named: Vec<SnapshotId> = named.into_iter().flatten().collect();
                let store = match self.view_of(disk_group, component, &named) {
                    Ok(store) => store,
                    Err(refusal) => return refuse(refusal),
                };
                Box::pin(async move {
                    Ok(match ask {
                        ViewAsk::Read => {
                            let Contents { runs, data } = store.read_view(component, snapshot, range).await?;
                            (Answer::Data { runs }, data)
                        }
                        ViewAsk::Allocated => {
                            let pieces = store.allocated_at(component, snapshot, range).await?;
                            (Answer::Allocated(pieces), Vec::new())
                        }
                        ViewAsk::ChangedUpTo(later) => {
                            let changed = store.changed(component, (snapshot, Some(later)), range).await?;
                            (Answer::Changed(vec![changed]), Vec::new())
                        }
                    })
                })
            }
            Request::ReadAt { to, snapshot, range, marks } => self.with_admitted(to, |store| {
                Box::pin(async move {
                    let Contents { runs, data } = match marks {
                        true => store.read_view_marked(to.component, snapshot, range).await?,
                        false => store.read_view(to.component, snapshot, range).await?,
                    };
                    Ok((Answer::Data { runs }, data))
                })
            }),
            Request::History { to, snapshots, range } => self.with_admitted(to, |store| {
                Box::pin(async move {
                    Ok((Answer::Changed(changed_between(&store, to.component, &snapshots, range).await?), Vec::new()))
                })
            }),
            Request::FillHistory { to, snapshot, first_block, runs } => self.with_admitted(to, |store| {
                let filled = store.fill_history(to.component, snapshot, first_block, (runs, payload));
                Box::pin(async move { filled.await.map(|()| (Answer::Done, Vec::new())) })
            }),
            _ => refuse(Refusal::Invalid("not a request to a seat".into())),
        }
    }
}

/// What changed from each of these snapshots to the next, and from the last to now. Where nothing did between two that lie far apart, none
/// between them is looked at: of a disk with many snapshots most blocks have not changed since the first.
async fn changed_between<S: LocalStore>(
    store: &S,
    component: ComponentId,
    snapshots: &[SnapshotId],
    range: BlockRange,
) -> Result<Vec<Vec<BlockRange>>, Refusal> {
    let mut all = vec![Vec::new(); snapshots.len()];
    let mut spans: Vec<(usize, usize)> = Vec::from_iter((!snapshots.is_empty()).then_some((0, snapshots.len())));
    while let Some((from, to)) = spans.pop() {
        let changed = store.changed(component, (snapshots[from], snapshots.get(to).copied()), range).await?;
        if changed.is_empty() {
            continue;
        }
        if to - from == 1 {
            all[from] = changed;
            continue;
        }
        let middle = from.midpoint(to);
        spans.extend([(from, middle), (middle, to)]);
    }
    Ok(all)
}
