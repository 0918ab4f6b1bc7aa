//! Against a slow oracle: a change that is legal leaves every block where it is read from as it was.
//!
//! The oracle knows nothing of rules. It writes down, block by block, what each component holds under the configuration that is
//! replaced. Then it reads every block of the new one from every component that is in sync there.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use cairn_geometry::{Area, by_area, moving_at};
use cairn_types::{
    BLOCK_BYTES, BlockRange, ComponentId, ComponentState, DiskGroupId, HostId, Layout, Member, ObjectConfig, ObjectId,
    OpId, Policy, Redundancy, Role,
};
use cairn_votes::check_change;
use proptest::prelude::*;

/// Where each block of the object is: replica set, and block there.
fn places(config: &ObjectConfig) -> Vec<(u32, u64)> {
    let all = BlockRange::new(0, config.size_blocks() as u32);
    let pieces = by_area(config, all).flat_map(|(area, range)| area.split(range));
    pieces.flat_map(|p| (0..u64::from(p.range.count)).map(move |n| (p.set, p.range.first + n))).collect()
}

fn all_sets(config: &ObjectConfig) -> impl Iterator<Item = u32> + '_ {
    cairn_geometry::sets(&config.addresses, config.size_bytes)
}

/// What a component holds at a block that was never written there.
const ZERO: u64 = 0;

/// Whether every block of `next` reads as it was acknowledged under `base`, from any copy that counts as in sync.
fn keeps_all(base: &ObjectConfig, next: &ObjectConfig) -> bool {
    let (before, after) = (places(base), places(next));
    if after.len() < before.len() {
        return false;
    }
    // The nth block was written with n + 1; a copy that is being filled has all of it once it is active.
    let mut held: BTreeMap<(u32, u64), u64> = before.iter().enumerate().map(|(n, at)| (*at, n as u64 + 1)).collect();
    // What is on its way to another layout is filled with the same.
    if let Some(moving) = base.addresses.moving() {
        let all = BlockRange::new(moving.to.first_block, (moving.end_block - moving.to.first_block) as u32);
        for piece in Area::new(moving.to, moving.end_block).split(all) {
            held.extend(
                (0..u64::from(piece.range.count))
                    .map(|n| ((piece.set, piece.range.first + n), piece.object_first + n + 1)),
            );
        }
    }
    let reads = |member: &Member, at: u64| match base.member(member.component) {
        Some(old) if matches!(old.state, ComponentState::Active | ComponentState::Resyncing { .. }) => {
            old.set().map(|set| held.get(&(set, at)).copied().unwrap_or(ZERO))
        }
        Some(_) => None,
        None => Some(ZERO),
    };
    after.iter().enumerate().all(|(n, (set, at))| {
        let wanted = if n < before.len() { n as u64 + 1 } else { ZERO };
        let copies: Vec<&Member> = next.replica_set(*set).filter(|m| m.state.in_sync()).collect();
        // Until the change is in force both count: somebody is in sync in the old one and the new.
        let comes = |old: &Member| {
            let apart = old.set().is_some_and(|set| !base.addresses.serves(set));
            apart && old.state == ComponentState::Resyncing { stale_since: OpId::ZERO }
        };
        let was = |m: &&Member| base.member(m.component).is_none_or(|old| old.state.in_sync() || comes(old));
        let one_stays = copies.iter().any(was);
        one_stays && copies.into_iter().all(|m| reads(m, *at) == Some(wanted))
    })
}

/// Whether no component is believed to have missed less than it did.
fn forgets_no_miss(base: &ObjectConfig, next: &ObjectConfig) -> bool {
    let written: BTreeSet<u32> = places(base).into_iter().map(|(set, _)| set).collect();
    let since = |state| match state {
        ComponentState::Absent { stale_since } | ComponentState::Resyncing { stale_since } => Some(stale_since),
        _ => None,
    };
    let copies = next.members.iter().filter_map(|m| Some((m, m.set()?)));
    copies.filter_map(|(m, set)| Some((m, set, since(m.state)?))).all(|(m, set, after)| {
        match base.member(m.component) {
            Some(old) => since(old.state).is_none_or(|before| after <= before) && old.state != ComponentState::Degraded,
            None => !written.contains(&set) || after == OpId::ZERO,
        }
    })
}

fn state() -> impl Strategy<Value = ComponentState> {
    let seq = |seq| OpId { seq, ..OpId::ZERO };
    prop_oneof![
        12 => Just(ComponentState::Active),
        1 => (0u64..3).prop_map(move |s| ComponentState::Resyncing { stale_since: seq(s) }),
        1 => (0u64..3).prop_map(move |s| ComponentState::Absent { stale_since: seq(s) }),
        1 => Just(ComponentState::Degraded),
    ]
}

/// Mostly as what is to be filled.
fn entering() -> impl Strategy<Value = ComponentState> {
    prop_oneof![20 => Just(ComponentState::Resyncing { stale_since: OpId::ZERO }), 1 => state()]
}

fn member(id: u128, set: u32, state: ComponentState) -> Member {
    let role = Role::Data { set, copy: id as u32 };
    Member { component: ComponentId(id), host: HostId(id), disk_group: DiskGroupId(id), votes: 1, role, state }
}

/// A disk whose sets have one or two copies each.
fn base() -> impl Strategy<Value = ObjectConfig> {
    let shape = (1u32..=2, 1u64..=2, 1u64..=60);
    (shape, prop::collection::vec((state(), state(), any::<bool>()), 40)).prop_map(
        |((width, rows, sectors), states)| {
            let strip_bytes = BLOCK_BYTES;
            let chunk_bytes = rows * u64::from(width) * u64::from(strip_bytes);
            let layout =
                Layout { chunk_bytes, stripe_width: width, strip_bytes, redundancy: Redundancy::Mirror { copies: 2 } };
            let size_bytes = sectors * 512;
            let sets = cairn_geometry::replica_sets(&layout, size_bytes);
            let copies = |set: u32| {
                let (first, second, two) = states[set as usize % states.len()];
                let id = 2 * u128::from(set);
                [Some(member(id, set, first)), two.then(|| member(id + 1, set, second))].into_iter().flatten()
            };
            ObjectConfig {
                object: ObjectId(1),
                name: String::new(),
                size_bytes,
                policy: Policy::default(),
                policy_name: String::new(),
                addresses: layout.into(),
                members: (0..sets).flat_map(copies).collect(),
                decided: OpId::ZERO,
                deleted: false,
                past: None,
                ancestry: None,
            }
        },
    )
}

#[derive(Debug, Clone)]
enum Edit {
    State(usize, ComponentState),
    Add(u32, ComponentState),
    /// New sets with these states, and a size of so many sectors more or less.
    Resize(i64, Vec<ComponentState>),
    Size(i64),
    Remove(usize),
    Rows(u64),
    Moved(usize, u32),
    /// Something begins to go over to another layout, with members in these states.
    Begun(u64, u8, Vec<ComponentState>),
    /// What is on its way takes the place of what was there; members are in these states.
    Done(Vec<ComponentState>),
    /// It is given up.
    GivenUp,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (any::<prop::sample::Index>(), state()).prop_map(|(n, s)| Edit::State(n.index(64), s)),
        2 => (0u32..20, state()).prop_map(|(set, s)| Edit::Add(set, s)),
        3 => (1i64..40, prop::collection::vec(state(), 20)).prop_map(|(by, s)| Edit::Resize(by, s)),
        1 => (-20i64..20).prop_map(Edit::Size),
        1 => (0usize..64).prop_map(Edit::Remove),
        1 => (1u64..3).prop_map(Edit::Rows),
        1 => (0usize..64, 0u32..8).prop_map(|(n, set)| Edit::Moved(n, set)),
        2 => (0u64..8, 1u8..3, prop::collection::vec(entering(), 20)).prop_map(|(at, width, s)| Edit::Begun(at, width, s)),
        3 => prop::collection::vec(state(), 20).prop_map(Edit::Done),
        1 => Just(Edit::GivenUp),
    ]
}

fn carry_out(config: &mut ObjectConfig, edit: Edit) {
    let (count, new) = (config.members.len().max(1), 1000 + config.members.len() as u128);
    let resized = |size: u64, by: i64| size.saturating_add_signed(by * 512).max(512);
    match edit {
        Edit::State(n, state) => config.members[n % count].state = state,
        Edit::Add(set, state) => config.members.push(member(new, set, state)),
        Edit::Resize(by, states) => {
            let before = all_sets(config).count() as u32;
            config.size_bytes = resized(config.size_bytes, by);
            let sets = before..all_sets(config).count() as u32;
            let added = sets.zip(states).enumerate();
            config.members.extend(added.map(|(n, (set, state))| member(new + n as u128, set, state)));
        }
        Edit::Size(by) => config.size_bytes = resized(config.size_bytes, by),
        Edit::Remove(n) => drop(config.members.remove(n % count)),
        Edit::Rows(rows) => {
            let layout = config.addresses.last().layout;
            let chunk_bytes = rows * u64::from(layout.stripe_width) * u64::from(layout.strip_bytes);
            config.addresses = Layout { chunk_bytes, ..layout }.into();
        }
        Edit::Moved(n, set) => config.members[n % count].role = Role::Data { set, copy: 0 },
        Edit::Begun(at, width, states) => {
            if config.addresses.moving().is_some() {
                return;
            }
            let redundancy = Redundancy::Mirror { copies: 1 };
            let (moving, sets) = moving_at(config, at % config.size_blocks(), redundancy, width);
            config.addresses = config.addresses.begun(moving, sets);
            let new = (moving.to.first_set..moving.to.first_set + sets).zip(states).enumerate();
            config.members.extend(new.map(|(n, (set, state))| member(5000 + n as u128, set, state)));
        }
        Edit::Done(states) => {
            let Some(addresses) = config.addresses.moved(config.size_blocks()) else { return };
            // A disk that another edit made shorter may end before it: no such disk is ever written down.
            if addresses.last().first_block >= config.size_blocks() {
                return;
            }
            let stay: BTreeSet<u32> = cairn_geometry::sets(&addresses, config.size_bytes).collect();
            let apart = |config: &ObjectConfig, m: &Member| m.set().is_some_and(|set| !config.addresses.serves(set));
            let before = config.clone();
            config.members.retain(|m| m.set().is_some_and(|set| stay.contains(&set)));
            let new = config.members.iter_mut().filter(|m| apart(&before, m));
            new.zip(states).for_each(|(member, state)| member.state = state);
            config.addresses = addresses;
        }
        Edit::GivenUp => {
            let before = config.clone();
            config.members.retain(|m| m.set().is_none_or(|set| before.addresses.serves(set)));
            config.addresses = before.addresses.given_up();
        }
    }
}

/// Goal: no legal change loses a byte, or the memory of a miss. Method: random edits of random configurations.
#[test]
fn what_is_legal_keeps_every_block() {
    let (legal, grown, harmless) = (Cell::new(0u32), Cell::new(0u32), Cell::new(0u32));
    let converted = Cell::new(0u32);
    let cases = ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(cases, |(base in base(), before in prop::option::of(edit()), edits in prop::collection::vec(edit(), 1..3))| {
        let mut base = base;
        // Something may be on its way already.
        if let Some(begun @ Edit::Begun(..)) = before {
            carry_out(&mut base, begun);
        }
        let mut next = base.clone();
        edits.into_iter().filter(|_| !base.members.is_empty()).for_each(|edit| {
            if !next.members.is_empty() {
                carry_out(&mut next, edit);
            }
        });
        let keeps = keeps_all(&base, &next) && forgets_no_miss(&base, &next);
        harmless.set(harmless.get() + u32::from(keeps));
        if check_change(&base, &next).is_ok() {
            prop_assert!(keeps, "legal, and loses something");
            legal.set(legal.get() + 1);
            grown.set(grown.get() + u32::from(next.size_bytes > base.size_bytes));
            let done = base.addresses.moving().is_some() && base.addresses.moved(base.size_blocks()).as_ref() == Some(&next.addresses);
            converted.set(converted.get() + u32::from(done));
        }
    });
    assert!(converted.get() > 20, "{} conversions", converted.get());
    println!("{} legal of {} harmless, {} of them growths", legal.get(), harmless.get(), grown.get());
    assert!(legal.get() > 500 && grown.get() > 50, "{} legal, {} growths", legal.get(), grown.get());
}
