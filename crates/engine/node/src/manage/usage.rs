//! What a disk takes: each of its components is asked, and what they say is added up.
//!
//! Promises    a number has every component that answered; those that did not are named
//! Assumes     copies of a replica set hold the same, and members of rows hold equal shares of it
//!             what a clone has and its copies have not is its parents': its owner tells what it has
//! Not here    what a component keeps for which snapshot (`store`)

use std::{collections::BTreeMap, pin::pin, time::Duration};

use cairn_api::{ApiError, ApiResult, v1};
use cairn_env::Env;
use cairn_types::{BLOCK_BYTES, ComponentId, DiskGroupId, Feature, Member, ObjectConfig, ReplicaSetIndex, Seat};
use cairn_volume::Volume as _;
use cairn_wire::{ComponentSpace, HostAnswer, HostCommand};
use futures::future::{Either, join_all, select};

use crate::{
    manage::disks::{policy_words, role_of},
    node::Node,
};

/// Bytes of a clone of which its owner is asked at once what it has.
const STATUS_BYTES: u64 = 1 << 30;
/// How long that may take, of all of it.
const STATUS_WITHIN: Duration = Duration::from_secs(10);

impl<E: Env> Node<E> {
    pub(crate) async fn disk_usage(&self, disk: String) -> ApiResult<v1::DiskUsage> {
        self.check_is_on(Feature::Snapshots, "to tell what a disk takes")?;
        let (object, entry) = self.known_disk(&disk).await?;
        let config = self.config_of(object, &entry).await?;
        let mut by_seat: BTreeMap<Seat, Vec<&Member>> = BTreeMap::new();
        for member in config.members.iter().filter(|member| member.set().is_some()) {
            by_seat.entry(member.seat()).or_default().push(member);
        }
        let (mut told, mut not_counted) = (BTreeMap::new(), Vec::new());
        for (member, answer) in join_all(by_seat.into_values().map(|here| self.spaces_of(here))).await.concat() {
            match answer {
                Ok(space) => drop(told.insert(member.component, space)),
                Err(problem) => not_counted.push(v1::NotCounted {
                    role: role_of(member),
                    host_name: self.server_name(member.host),
                    problem,
                }),
            }
        }
        let own = usage(entry.name.as_str(), &config, &told, not_counted);
        if config.parents().is_empty() {
            return Ok(own);
        }
        let has = match select(pin!(self.data_bytes(entry.name.as_str())), self.inner.env.sleep(STATUS_WITHIN)).await {
            Either::Left((has, _)) => has,
            Either::Right(_) => None,
        };
        let of_parents_bytes = has.map(|has| has.saturating_sub(own.head.logical_bytes));
        Ok(v1::DiskUsage { of_parents_bytes, clone_of: self.clone_of(&config).await, ..own })
    }

    /// Bytes that are no hole to a guest; none where the disk's owner does not tell.
    async fn data_bytes(&self, name: &str) -> Option<u64> {
        let disk = self.open_disk(name).await.ok()??;
        let (size_bytes, mut at, mut data) = (disk.info().size_bytes, 0, 0);
        while at < size_bytes {
            let extents = disk.block_status(at, STATUS_BYTES.min(size_bytes - at)).await.ok()?;
            let told: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
            data += extents.iter().filter(|extent| extent.allocated).map(|extent| extent.len_bytes).sum::<u64>();
            at += told;
            if told == 0 {
                return None;
            }
        }
        Some(data)
    }

    /// What components of one disk group take. One after the other: guests use it meanwhile, and a large disk may have hundreds there.
    async fn spaces_of<'a>(&self, here: Vec<&'a Member>) -> Vec<(&'a Member, Result<ComponentSpace, String>)> {
        let mut told = Vec::with_capacity(here.len());
        for member in here {
            told.push((member, self.space_of(member).await));
        }
        told
    }

    /// What a component takes, or why nobody says.
    async fn space_of(&self, member: &Member) -> Result<ComponentSpace, String> {
        if let Some(why) = self.why_away(member.seat()) {
            return Err(why.to_owned());
        }
        let (disk_group, component) = (member.disk_group, member.component);
        let mut all = ComponentSpace::default();
        loop {
            let from_block = all.next_block.unwrap_or(0);
            let command = HostCommand::Space { disk_group, component, from_block };
            let answer = self.on_host(member.host, command).await.map_err(|error| error.message)?;
            let HostAnswer::Space(part) = answer else { return Err("it answered something else".into()) };
            (all.head_blocks, all.reserved_blocks, all.next_block) =
                (part.head_blocks, part.reserved_blocks, part.next_block);
            all.kept.add(part.kept);
            if all.next_block.is_none_or(|next| next <= from_block) {
                return Ok(all);
            }
        }
    }

    /// A part of that, of a component of this host.
    pub(crate) async fn space_here(
        &self,
        disk_group: DiskGroupId,
        component: ComponentId,
        from_block: u64,
    ) -> ApiResult<ComponentSpace> {
        let closed = || ApiError::unavailable("its disk group is not open there");
        let store = self.inner.seats.store(disk_group).ok_or_else(closed)?;
        let kept = store.group().kept_blocks(component, from_block).await;
        let (kept, next_block) = kept.map_err(|error| ApiError::unavailable(error.text))?;
        let gone = || ApiError::unavailable("it went meanwhile");
        let info = store.group().component(component).ok_or_else(gone)?;
        let (head_blocks, reserved_blocks) = (info.allocated_blocks, info.reserved_blocks);
        Ok(ComponentSpace { head_blocks, reserved_blocks, kept, next_block })
    }
}

/// What components told.
type Told = BTreeMap<ComponentId, ComponentSpace>;

fn usage(disk: &str, config: &ObjectConfig, told: &Told, not_counted: Vec<v1::NotCounted>) -> v1::DiskUsage {
    let sum = |of: &dyn Fn(&ComponentSpace) -> u64| space(config, told, of);
    let raw = |of: &dyn Fn(&ComponentSpace) -> u64| sum(of).raw_bytes;
    let snapshots = config.past.iter().flat_map(|past| &past.snapshots).map(|snapshot| v1::SnapshotUsage {
        name: snapshot.name.clone(),
        created_unix_ms: snapshot.created_unix_ms,
        alone: sum(&|space| space.kept.by_one.get(&snapshot.id).copied().unwrap_or(0)),
    });
    v1::DiskUsage {
        disk: disk.to_owned(),
        size_bytes: config.size_bytes,
        policy: policy_words(config),
        head: sum(&|space| space.head_blocks),
        of_parents_bytes: None,
        clone_of: None,
        kept: sum(&|space| space.kept.needed),
        leaving: sum(&|space| space.kept.unneeded),
        reserved_bytes: raw(&|space| space.reserved_blocks),
        reserved_unwritten_bytes: raw(&|space| space.reserved_blocks.saturating_sub(space.head_blocks)),
        snapshots: snapshots.collect(),
        not_counted,
    }
}

/// Adds up what components told. Of each set those in sync tell how much of it a guest would count; where none of them answers, others do.
fn space(config: &ObjectConfig, told: &Told, of: &dyn Fn(&ComponentSpace) -> u64) -> v1::SpaceBytes {
    let mut sets: BTreeMap<ReplicaSetIndex, Vec<(bool, u64)>> = BTreeMap::new();
    let mut raw = 0;
    for member in &config.members {
        let (Some(set), Some(space)) = (member.set(), told.get(&member.component)) else { continue };
        let blocks = of(space);
        raw += blocks;
        // What is on its way to another layout is there a second time.
        if config.addresses.serves(set) {
            sets.entry(set).or_default().push((member.state.in_sync(), blocks));
        }
    }
    let logical = sets.into_iter().map(|(set, mut members)| {
        if members.iter().any(|(in_sync, _)| *in_sync) {
            members.retain(|(in_sync, _)| *in_sync);
        }
        let sum: u64 = members.iter().map(|(_, blocks)| blocks).sum();
        sum * u64::from(config.needed(set)) / members.len() as u64
    });
    let block = u64::from(BLOCK_BYTES);
    v1::SpaceBytes { logical_bytes: logical.sum::<u64>() * block, raw_bytes: raw * block }
}

#[cfg(test)]
mod tests {
    use cairn_types::{
        ComponentState, HostId, KeptBlocks, Layout, ObjectId, OpId, Past, Policy, Redundancy, Role, Snapshot,
        SnapshotId,
    };

    use super::*;

    fn config(redundancy: Redundancy, states: &[ComponentState]) -> ObjectConfig {
        let layout = Layout { redundancy, stripe_width: 1, strip_bytes: 1 << 20, chunk_bytes: 1 << 30 };
        let member = |(copy, state): (u32, &ComponentState)| Member {
            component: ComponentId(u128::from(copy)),
            host: HostId(u128::from(copy)),
            disk_group: DiskGroupId(u128::from(copy)),
            role: Role::Data { set: 0, copy },
            votes: 1,
            state: *state,
        };
        let snapshot = Snapshot {
            id: SnapshotId(1),
            name: "a".into(),
            created_unix_ms: 7,
            size_bytes: 1 << 20,
            cut: OpId::ZERO,
            pinned: false,
            locked_until_unix_ms: 0,
            slot_unix_s: None,
        };
        ObjectConfig {
            object: ObjectId(1),
            name: "vm-1".into(),
            size_bytes: 1 << 20,
            policy: Policy::default(),
            policy_name: "default".into(),
            addresses: layout.into(),
            members: (0..).zip(states).map(member).collect(),
            decided: OpId::ZERO,
            deleted: false,
            past: Some(Past { snapshots: vec![snapshot], ..Past::default() }),
            ancestry: None,
        }
    }

    /// Beside its data each keeps the same: also of a snapshot that the record does not name any more.
    fn told(blocks: &[Option<u64>]) -> Told {
        let by_one = BTreeMap::from([(SnapshotId(1), 3), (SnapshotId(9), 1)]);
        let kept = KeptBlocks { needed: 5, by_one, unneeded: 2 };
        let one = |(id, head): (u128, &Option<u64>)| {
            let space = ComponentSpace {
                head_blocks: (*head)?,
                reserved_blocks: 100,
                kept: kept.clone(),
                ..ComponentSpace::default()
            };
            Some((ComponentId(id), space))
        };
        (0..).zip(blocks).filter_map(one).collect()
    }

    fn blocks(space: v1::SpaceBytes) -> (u64, u64) {
        (space.logical_bytes / 4096, space.raw_bytes / 4096)
    }

    /// Goal: copies count once for a guest and all of them on the hosts, whoever is away. Method: tables of members.
    #[test]
    fn copies_and_rows_are_added_up() {
        const IN_SYNC: ComponentState = ComponentState::Active;
        let away = ComponentState::Absent { stale_since: OpId::ZERO };
        let filled = ComponentState::Resyncing { stale_since: OpId::ZERO };
        let mirror = Redundancy::Mirror { copies: 2 };
        let rows = Redundancy::Parity { data: 2, parity: 1, strip_blocks: 16 };
        for (redundancy, states, answers, expected) in [
            (mirror, vec![IN_SYNC; 2], vec![Some(40), Some(40)], (40, 80)),
            (mirror, vec![IN_SYNC; 2], vec![Some(40), None], (40, 40)),
            // A copy that lacks something says nothing of the disk, and takes its space all the same.
            (mirror, vec![IN_SYNC, filled], vec![Some(40), Some(10)], (40, 50)),
            (mirror, vec![IN_SYNC, away], vec![None, Some(10)], (10, 10)),
            (mirror, vec![IN_SYNC; 2], vec![None, None], (0, 0)),
            (rows, vec![IN_SYNC; 3], vec![Some(20), Some(20), Some(20)], (40, 60)),
            (rows, vec![IN_SYNC; 3], vec![Some(20), None, Some(20)], (40, 40)),
        ] {
            let told = usage("vm-1", &config(redundancy, &states), &told(&answers), Vec::new());
            assert_eq!(blocks(told.head), expected, "{states:?} {answers:?}");
        }
        let told = usage("vm-1", &config(mirror, &[IN_SYNC; 2]), &told(&[Some(40), Some(40)]), Vec::new());
        assert_eq!((blocks(told.kept), blocks(told.leaving)), ((5, 10), (2, 4)));
        assert_eq!((told.reserved_bytes / 4096, told.reserved_unwritten_bytes / 4096), (200, 120));
        let snapshots: Vec<_> = told.snapshots.iter().map(|one| (one.name.as_str(), blocks(one.alone))).collect();
        assert_eq!(snapshots, [("a", (3, 6))]);
    }
}
