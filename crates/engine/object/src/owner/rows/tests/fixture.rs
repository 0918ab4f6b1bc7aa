//! One host that owns a disk of rows, each member in a disk group of its own, and what its blocks may hold.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_geometry::{Area, Rows, layout_of};
use cairn_owner::{RowImage, Strip};
use cairn_sim::{Rng, SimEnv, World};
use cairn_types::{
    Accepted, BlockRange, ClientTag, ComponentId, ComponentState, Crcs, Csn, DiskGroupId, Epoch, Member, ObjectConfig,
    ObjectId, OpId, Policy, Redundancy, Role, SeatRecord,
};
use cairn_wire::{Answer, Request, SeizeAnswer, block_crc};
use futures::future::join_all;

use super::super::Locked;
use crate::{
    context::Context,
    leases::{LeaseOptions, Leases},
    local_store::{
        LocalStore,
        memory::{Block, Memory},
    },
    options::ObjectOptions,
    owner::{OpError, Origin, Owned, Won},
    rpc::Rpc,
    seats::Seats,
};

const OBJECT: ObjectId = ObjectId(1);
const STRIP_BLOCKS: u16 = 4;
const BLOCK: usize = 4096;

/// The form of a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) data: u8,
    pub(super) parity: u8,
    pub(super) width: u8,
}

impl Shape {
    pub(super) const fn of(data: u8, parity: u8, width: u8) -> Self {
        Self { data, parity, width }
    }

    pub(super) fn members(self) -> usize {
        usize::from(self.data + self.parity)
    }
}

pub(super) struct Disk {
    pub(super) owned: Rc<Owned<SimEnv, Memory>>,
    pub(super) rows: Rows,
    /// By member.
    pub(super) stores: Vec<Memory>,
    sets: u32,
    env: SimEnv,
    /// What each block may hold: writes of one time, of which any may have been the last.
    may_hold: RefCell<Vec<BTreeSet<u32>>>,
    next: RefCell<u32>,
    events: Rc<RefCell<Vec<String>>>,
}

fn component(set: u32, member: usize) -> ComponentId {
    ComponentId(u128::from(set) * 100 + member as u128 + 1)
}

fn config(env: &SimEnv, shape: Shape, away: &[usize]) -> ObjectConfig {
    let redundancy = Redundancy::Parity { data: shape.data, parity: shape.parity, strip_blocks: STRIP_BLOCKS };
    let layout = layout_of(redundancy, shape.width, 64 << 20);
    let outer = u64::from(layout.strip_bytes);
    // The last row is not whole.
    let size_bytes = outer * u64::from(shape.width) + 5 * BLOCK as u64;
    let member = |set, n: usize| Member {
        component: component(set, n),
        host: env.host(),
        disk_group: DiskGroupId(n as u128 + 1),
        votes: u32::from(set == 0),
        role: Role::Data { set, copy: n as u32 },
        state: match away.contains(&n) {
            true => ComponentState::Absent { stale_since: OpId::ZERO },
            false => ComponentState::Active,
        },
    };
    let sets = cairn_geometry::replica_sets(&layout, size_bytes);
    ObjectConfig {
        object: OBJECT,
        name: "d".into(),
        size_bytes,
        policy: Policy::default(),
        policy_name: "default".into(),
        addresses: layout.into(),
        members: (0..sets).flat_map(|set| (0..shape.members()).map(move |n| member(set, n))).collect(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// Runs `test` on a disk of which these members are away.
pub(super) fn on_a_disk(shape: Shape, away: &[usize], seed: u64, test: impl AsyncFnOnce(&Disk, &mut Rng) + 'static) {
    let world = World::new(seed);
    let host = world.add_host("h1");
    let (env, away) = (host.env(), away.to_vec());
    let ran = host.run(async move {
        let disk = Disk::new(env, shape, &away).await;
        test(&disk, &mut Rng::new(seed + 1)).await;
    });
    ran.expect("nothing crashes here");
}

impl Disk {
    async fn new(env: SimEnv, shape: Shape, away: &[usize]) -> Self {
        let config = config(&env, shape, away);
        let sets = config.members.len() as u32 / shape.members() as u32;
        let before = Epoch { number: 1, ..Epoch::default() };
        let accepted = Accepted { epoch: before, csn: Csn(1), base: None, config: config.clone() };
        let record = SeatRecord { object: OBJECT, promised: before, accepted: Some(accepted) };
        let bytes: Bytes = cairn_format::encode_seat_record(&record).into();
        let rpc = Rpc::new(env.clone());
        let leases = Leases::new(env.clone(), rpc.clone(), LeaseOptions::default());
        let seats = Seats::new(env.clone(), leases.clone());
        let store = |n: usize| {
            let components: Vec<_> = (0..sets).map(|set| component(set, n)).collect();
            let group = DiskGroupId(n as u128 + 1);
            Memory::new(env.clone(), group, OBJECT, &components).with_record(bytes.clone())
        };
        let stores: Vec<Memory> = (0..shape.members()).map(store).collect();
        stores.iter().for_each(|store| drop(seats.add_disk_group(store.clone())));
        let context = Context::new(env.clone(), rpc, seats, leases, ObjectOptions::default());
        let events: Rc<RefCell<Vec<String>>> = Rc::default();
        let told = events.clone();
        *context.events.borrow_mut() = Some(Rc::new(move |event| told.borrow_mut().push(format!("{event:?}"))));
        let epoch = Epoch { number: 2, host: env.host(), incarnation: env.incarnation() };
        let mut sessions = BTreeMap::new();
        for (n, store) in stores.iter().enumerate() {
            if away.contains(&n) {
                store.set_broken(true);
                continue;
            }
            let (disk_group, only) = (store.disk_group(), Vec::new());
            let seize = Request::Seize { disk_group, object: OBJECT, epoch, only, overrule: true };
            let answer = context.request(env.host(), disk_group, seize, None).await;
            let Ok((Answer::Seize(SeizeAnswer::Promised { components, .. }), _)) = answer else {
                panic!("{answer:?}");
            };
            sessions.extend(components.into_iter().map(|c| (c.component, c.session)));
        }
        let rows = Rows::of(config.addresses.redundancy(0)).expect("rows");
        let blocks = config.size_bytes / BLOCK as u64;
        let (csn, committed, proven, laggards) = (Csn(1), Vec::new(), BTreeMap::new(), Vec::new());
        let won = Won { epoch, csn, config, sessions, committed, proven, laggards };
        let owned = Owned::begin(&context, &Rc::default(), won);
        let may_hold = RefCell::new(vec![BTreeSet::from([0]); blocks as usize]);
        Self { owned, rows, stores, sets, env, may_hold, next: RefCell::new(1), events }
    }

    pub(super) fn blocks(&self) -> u64 {
        self.may_hold.borrow().len() as u64
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.events.borrow().clone()
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.env.sleep(time).await;
    }

    pub(super) fn is_in_sync(&self, member: usize) -> bool {
        let config = self.owned.config();
        (0..self.sets).all(|set| config.member(component(set, member)).is_some_and(|m| m.state.in_sync()))
    }

    pub(super) async fn wait_in_sync(&self, member: usize) {
        for _ in 0..2000 {
            if self.is_in_sync(member) {
                return;
            }
            self.sleep(Duration::from_millis(20)).await;
        }
        panic!("member {member} is not filled: {:?}, {:?}", self.owned.config().members, self.events());
    }

    pub(super) fn spoil(&self, member: usize, block: u64, version: Block) {
        self.stores[member].spoil(component(0, member), block, version);
    }

    pub(super) fn block(&self, member: usize, block: u64) -> Block {
        self.stores[member].block(component(0, member), block)
    }

    fn next(&self) -> u32 {
        self.next.replace_with(|next| *next + 1)
    }

    /// Writes these blocks, and nobody else meanwhile.
    pub(super) async fn write(&self, range: BlockRange) {
        self.write_as(range, ClientTag::default(), false).await;
    }

    pub(super) async fn write_as(&self, range: BlockRange, client: ClientTag, retry: bool) {
        let tag = self.next();
        let origin = Origin { client, retry, began: None };
        let data = bytes_of(tag, range.count);
        self.owned.guest_write(range.first * BLOCK as u64, data, origin).await.expect("it is written");
        if !retry {
            (range.first..range.end()).for_each(|at| self.may_hold.borrow_mut()[at as usize] = BTreeSet::from([tag]));
        }
    }

    /// Three requests at once and a read beside them, then reads all.
    pub(super) async fn change_some(&self, rng: &mut Rng) {
        let blocks = self.blocks();
        let mut changes = Vec::new();
        for _ in 0..3 {
            let row = self.rows.row_blocks();
            let most = if rng.one_in(2) { 3 } else { 3 * row };
            let count = 1 + rng.below(most).min(blocks - 1);
            // Often in the same rows, and on their edges.
            let first = match rng.below(3) {
                0 => rng.below(blocks),
                1 => rng.below(6) * row,
                _ => rng.below(3 * row),
            };
            let first = first.min(blocks - count);
            changes.push((BlockRange::new(first, count as u32), rng.below(4), self.next()));
        }
        let first = rng.below(blocks);
        let read = BlockRange::new(first, (blocks - first).min(2 * self.rows.row_blocks()) as u32);
        let changed = join_all(changes.iter().map(|(range, kind, tag)| self.change(*range, *kind, *tag)));
        let (read, _) = futures::join!(self.read_beside(read), changed);
        // Each block is of one write, whichever.
        read.chunks_exact(BLOCK).enumerate().for_each(|(at, block)| _ = tag_of(block, at));
        for (range, kind, tag) in &changes {
            let value = if *kind < 2 { *tag } else { 0 };
            for at in range.first..range.end() {
                let mut may_hold = self.may_hold.borrow_mut();
                let here = |(of, ..): &&(BlockRange, u64, u32)| of.overlaps(BlockRange::new(at, 1));
                // The first of those that were here at once: what stood before is over.
                if changes.iter().find(here).is_some_and(|(.., first)| first == tag) {
                    may_hold[at as usize].clear();
                }
                may_hold[at as usize].insert(value);
            }
        }
        self.read_all().await;
    }

    async fn change(&self, range: BlockRange, kind: u64, tag: u32) {
        let (offset, origin) = (range.first * BLOCK as u64, Origin::default());
        let done = match kind {
            0 | 1 => self.owned.guest_write(offset, bytes_of(tag, range.count), origin).await,
            _ => self.owned.guest_zero(offset, range.bytes(), kind == 3, origin).await,
        };
        done.expect("it is carried out");
    }

    pub(super) async fn read(&self, range: BlockRange, locked: Locked) -> Result<Vec<u8>, OpError> {
        let area = self.owned.area_at(range.first);
        let _lock = self.owned.locks.lock(locked.blocks(area, range), false).await;
        let read = self.owned.read_rows((area, self.rows), (range, locked), crate::copies::For::Guest, None).await;
        read.map(|parts| parts.concat())
    }

    /// Reads as guests do.
    async fn read_beside(&self, range: BlockRange) -> Vec<u8> {
        let read = match self.read(range, Locked::Blocks).await {
            Err(OpError::NeedsRows) => self.read(range, Locked::Rows).await,
            read => read,
        };
        read.expect("it is read")
    }

    /// Reads the disk, as guests do, and knows from then on what each block holds.
    pub(super) async fn read_all(&self) {
        let all = BlockRange::new(0, self.blocks() as u32);
        let read = self.read_beside(all).await;
        for (at, block) in read.chunks_exact(BLOCK).enumerate() {
            let tag = tag_of(block, at);
            let may_hold = &mut self.may_hold.borrow_mut()[at];
            assert!(may_hold.contains(&tag), "block {at} is of {tag}, and may be of {may_hold:?}");
            *may_hold = BTreeSet::from([tag]);
        }
    }

    /// Whichever members in sync give a row, they give what guests read.
    pub(super) async fn check_members(&self) {
        self.read_all().await;
        self.sleep(Duration::from_millis(50)).await;
        let config = self.owned.config();
        for set in 0..self.sets {
            let blocks = Area::of_set(&config, set).expect("a set").component_blocks(set);
            for row in 0..blocks / self.rows.strip_blocks() {
                let in_sync = (0..self.stores.len())
                    .filter(|n| config.member(component(set, *n)).is_some_and(|member| member.state.in_sync()));
                let all: BTreeMap<u32, Strip> = in_sync.map(|n| (n as u32, self.strip(set, n, row))).collect();
                let whole = RowImage::of(self.rows, row, &all).unwrap_or_else(|why| panic!("row {row}: {why:?}"));
                self.check_row(set, row, &whole);
                for choice in 0u32..1 << self.stores.len() {
                    let mut given = all.clone();
                    given.retain(|member, _| choice >> member & 1 == 1);
                    if given.len() == self.rows.data() as usize {
                        let made = RowImage::of(self.rows, row, &given);
                        let made = made.unwrap_or_else(|why| panic!("row {row} of {choice:b}: {why:?}"));
                        for column in 0..self.rows.data() {
                            let role = cairn_geometry::RowRole::Column(column);
                            assert_eq!(made.strip(role).crcs(), whole.strip(role).crcs(), "row {row} of {choice:b}");
                        }
                    }
                }
            }
        }
    }

    /// The columns of a row are what guests read.
    fn check_row(&self, set: u32, row: u64, image: &RowImage) {
        let area = Area::of_set(&self.owned.config(), set).expect("a set");
        for object in area.to_object(set, self.rows.row_range(row)) {
            for n in 0..u64::from(object.count) {
                let (column, at) = (n / self.rows.strip_blocks(), n % self.rows.strip_blocks());
                let Some(holds) = self.may_hold.borrow().get((object.first + n) as usize).cloned() else { continue };
                let strip = image.strip(cairn_geometry::RowRole::Column(column as u32));
                let bytes = strip.bytes().map_or(vec![0; BLOCK], |b| b[at as usize * BLOCK..][..BLOCK].to_vec());
                assert_eq!(holds, BTreeSet::from([tag_of(&bytes, n as usize)]), "row {row} of set {set}, block {n}");
            }
        }
    }

    fn strip(&self, set: u32, member: usize, row: u64) -> Strip {
        let range = self.rows.strip_range(row);
        let (mut bytes, mut checks) = (Vec::new(), Crcs::new());
        for at in range.first..range.end() {
            let (block, check) = match self.stores[member].block(component(set, member), at) {
                Block::Zero => (vec![0; BLOCK], 0),
                Block::Data(data) => (data.to_vec(), 0),
                Block::Parity(data, check) => (data.to_vec(), check),
                Block::Bad => panic!("member {member} of set {set}: block {at} is bad"),
            };
            bytes.extend(block);
            checks.push(check);
        }
        let crcs = bytes.chunks_exact(BLOCK).map(block_crc).collect();
        Strip::parity(bytes.into(), crcs, checks)
    }
}

/// Blocks that are of a write.
fn bytes_of(tag: u32, blocks: u32) -> Bytes {
    let word = |n: usize| tag.wrapping_mul(n as u32 * 2 + 1).to_le_bytes();
    let block: Vec<u8> = (0..BLOCK / 4).flat_map(word).collect();
    block.repeat(blocks as usize).into()
}

/// The write that a block is of; 0: of none, or zeroes.
fn tag_of(block: &[u8], at: usize) -> u32 {
    let tag = u32::from_le_bytes(block[..4].try_into().expect("four"));
    assert_eq!(bytes_of(tag, 1), block, "block {at} is of one write");
    tag
}
