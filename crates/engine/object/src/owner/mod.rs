//! An owned object: the one process that coordinates all I/O of an object at an epoch.
//!
//! Promises    O1  it answers only while it holds leases from more than half of the votes             (I1, P3)
//!             O2  protocol state changes in plain functions (`cairn-owner`); tasks fetch inputs and carry out effects
//! Not here    how it became owner (`takeover`), which host should (`client`)
//!
//! A request's way: `guest` (bytes to blocks, locks) -> `write` or `read` -> the components -> `write` -> ack.

mod command;
mod compare;
mod converting;
mod differences;
mod flatten;
mod forwarded;
mod guest;
mod history;
mod keeper;
mod looks;
mod manage;
mod marks;
mod moves;
mod policy;
mod read;
mod repair;
mod resync;
mod rollback;
mod rows;
mod snapshots;
mod takeover;
mod unreadable;
mod write;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use cairn_env::Env;
use cairn_geometry::{Area, Piece};
pub use cairn_owner::Ended;
use cairn_owner::{Absences, State};
use cairn_types::{BlockRange, Canary, ComponentId, Csn, Epoch, ObjectConfig, ObjectId, ReplicaSetIndex, Seat, Time};

use crate::{
    context::Context,
    event::ObjectEvent,
    local_store::LocalStore,
    locks::RangeLocks,
    pace::Pace,
    placer::AskedToMove,
    signal::Signal,
    stages::{IoKind, StagesCell, Watch},
};

use forwarded::Forwarded;
pub(crate) use guest::Origin;
pub(crate) use looks::TOGETHER;
pub use takeover::SeizeError;
pub(crate) use takeover::{Won, seize};
pub(crate) use write::OpError;

/// The objects that a host owns. Each is in it from the beginning of its ownership to its end.
pub(crate) type OwnedById<E, S> = RefCell<BTreeMap<ObjectId, Rc<Owned<E, S>>>>;

/// An object that this host owns.
pub struct Owned<E: Env, S: LocalStore> {
    pub(crate) context: Rc<Context<E, S>>,
    /// All that this host owns, this one among them.
    all: Rc<OwnedById<E, S>>,
    pub(crate) id: ObjectId,
    pub(crate) locks: RangeLocks,
    /// Of rows: positions that are being written.
    positions: rows::Positions,
    pub(crate) state: RefCell<State>,
    /// Operations ended or configurations took effect: whoever waits for either looks again.
    pub(crate) progressed: Signal,
    /// There is something for the keeper to do.
    pub(crate) work: Signal,
    /// Resyncs under way.
    pub(crate) resyncs: RefCell<BTreeMap<ComponentId, resync::Progress>>,
    /// Seats whose copies are to be asked whether they are still there: their host's process, or a device, is another than it was.
    doubted: RefCell<BTreeSet<Seat>>,
    /// Components whose seats are to be told what was decided without them: they may have forgotten what they promised.
    untold: RefCell<BTreeSet<ComponentId>>,
    /// Components that are being made and that no config in effect names yet.
    pub(crate) admitting: RefCell<BTreeSet<ComponentId>>,
    /// Changes that guests of other hosts asked for.
    pub(crate) forwarded: Forwarded,
    /// How long the stages of its requests took.
    pub(crate) stages: StagesCell,
    /// For how long its components have been absent.
    absences: RefCell<Absences>,
    /// Something of it is to be moved, and is not yet.
    move_waits: Cell<bool>,
    /// Copies were to come or go, and could not.
    policy_waits: Cell<bool>,
    /// What is on its way to another layout, if this owner has begun it.
    converting: RefCell<Option<Rc<converting::Converting>>>,
    /// Some of it is to go over to another layout, and has not begun to.
    conversion_waits: Cell<bool>,
    /// Nothing begins to go over to another layout before then.
    not_before: Cell<Time>,
    /// When parts of it went over, by their first blocks. Those that went over before this owner began did so just then, for all it knows.
    went_over: RefCell<BTreeMap<u64, Time>>,
    /// Components may have other cuts than the record has snapshots.
    unlevelled: Cell<bool>,
    /// The disk is going back to a snapshot.
    going_back: Cell<Option<rollback::GoingBack>>,
    /// What the disk has of its parents is being copied.
    flattening: Cell<Option<flatten::Flattening>>,
    /// Changes are held for a snapshot of several disks.
    held: RefCell<Option<snapshots::Held>>,
    /// When this owner began.
    began: Time,
    /// Components that administrators want elsewhere, and to which of these hosts; to any where none is named.
    asked_to_move: RefCell<AskedToMove>,
    /// When they did so last.
    asked_last: Cell<Time>,
    /// The component that was to be replaced last.
    repaired_last: Cell<Option<ComponentId>>,
    /// Blocks that no copy could give.
    unreadable: RefCell<unreadable::Unreadable>,
    /// Blocks of sets' components whose row does not fit its parity: what is written there next makes that anew.
    unlike: RefCell<BTreeSet<(ReplicaSetIndex, u64)>>,
    /// What its limits have let pass.
    pace: Cell<Pace>,
    /// Commands of administrators that the keeper carries out between config changes.
    commands: RefCell<Vec<command::Queued>>,
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Begins to serve what was won.
    pub(crate) fn begin(context: &Rc<Context<E, S>>, all: &Rc<OwnedById<E, S>>, won: Won) -> Rc<Self> {
        // The owner before may have cut some of them, and died before the record said so.
        let unlevelled = Cell::new(won.config.past.is_some());
        let back_to = won.config.past.as_ref().and_then(|past| past.goes_back_to);
        let started = context.env.now();
        let going_back = Cell::new(back_to.map(|to| rollback::GoingBack { to, blocks_done: 0, started }));
        let flattens = won.config.ancestry.as_ref().is_some_and(|ancestry| ancestry.flattens);
        let state = State::new(won.config, won.csn, won.epoch, &won.sessions, won.proven);
        let owned = Rc::new(Self {
            context: context.clone(),
            all: all.clone(),
            id: state.config().object,
            locks: RangeLocks::default(),
            positions: rows::Positions::default(),
            state: RefCell::new(state),
            progressed: Signal::default(),
            work: Signal::default(),
            resyncs: RefCell::default(),
            doubted: RefCell::default(),
            untold: RefCell::default(),
            admitting: RefCell::default(),
            forwarded: Forwarded::default(),
            stages: StagesCell::default(),
            absences: RefCell::default(),
            move_waits: Cell::default(),
            policy_waits: Cell::default(),
            converting: RefCell::default(),
            conversion_waits: Cell::default(),
            not_before: Cell::default(),
            went_over: RefCell::default(),
            unlevelled,
            going_back,
            flattening: Cell::default(),
            held: RefCell::default(),
            began: context.env.now(),
            asked_to_move: RefCell::default(),
            asked_last: Cell::default(),
            repaired_last: Cell::default(),
            unreadable: RefCell::default(),
            unlike: RefCell::default(),
            pace: Cell::default(),
            commands: RefCell::default(),
        });
        let before = all.borrow_mut().insert(owned.id, owned.clone());
        assert!(before.is_none(), "one host owns an object once");
        let (epoch, name) = (owned.epoch(), owned.name());
        context.tell(ObjectEvent::Owned { object: owned.id, name, epoch });
        let keeper = owned.clone();
        context.env.spawn(async move { keeper.keep().await });
        if back_to.is_some() {
            owned.go_back();
        }
        if flattens {
            owned.go_on_flattening();
        }
        owned.compare_in_background();
        owned
    }

    /// Ends the ownership: nothing more is acknowledged, everyone who waits is told. The first reason stands.
    pub(crate) fn finish_owner(&self, why: Ended) {
        if !self.state.borrow_mut().finish(why.clone()) {
            return;
        }
        // Its keeper comes to none of them any more: whoever waits is told by that.
        self.commands.borrow_mut().clear();
        self.all.borrow_mut().remove(&self.id);
        self.context.moving.borrow_mut().remove(&self.id);
        self.context.leases.release(self.id, self.epoch());
        self.progressed.notify();
        self.work.notify();
        let why = match why {
            Ended::Fenced(epoch) => format!("another owner has epoch {}", epoch.number),
            Ended::Inaccessible(text) => text,
            Ended::GivenUp => "handed over".into(),
            Ended::Deleted => "deleted".into(),
        };
        self.context.tell(ObjectEvent::GivenUp { object: self.id, name: self.name(), why });
    }

    /// Whether it holds leases of more than half of the votes at this moment: then it may answer, and nobody else.
    pub fn may_answer(&self) -> bool {
        let state = self.state.borrow();
        state.ended().is_none() && self.context.leases.holds(state.config(), state.epoch())
    }

    /// Waits for a lease; after one lease time without, the object is given up. True where it had to wait.
    pub(crate) async fn check_lease(&self) -> Result<bool, OpError> {
        let leases = &self.context.leases;
        let env = &self.context.env;
        let mut since = None;
        loop {
            if let Some(ended) = self.state.borrow().ended() {
                return Err(OpError::Ended(ended.clone()));
            }
            if self.may_answer() || Canary::LeaseUnchecked.sings() {
                return Ok(since.is_some());
            }
            let now = env.now();
            if now.since(*since.get_or_insert(now)) > leases.lease() {
                let why = Ended::Inaccessible("the leases of more than half of the votes are lost".into());
                self.finish_owner(why.clone());
                return Err(OpError::Ended(why));
            }
            self.work.notify();
            futures::future::select(self.progressed.wait(), env.sleep(Duration::from_millis(10))).await;
        }
    }

    /// Watches a request that came at `began`.
    pub(crate) fn watch(&self, kind: IoKind, began: Option<Time>) -> Option<Watch<E>> {
        let context = &self.context;
        began.map(|began| context.stages.watch(&context.env, (self.id, &self.stages), kind, began))
    }

    /// A request that another host forwarded is answered now.
    pub(crate) fn served(&self, kind: IoKind, began: Time) {
        let context = &self.context;
        context.stages.served((self.id, &self.stages), kind, began, context.env.now());
    }

    /// The configuration in effect.
    pub fn config(&self) -> Rc<ObjectConfig> {
        self.state.borrow().config().clone()
    }

    /// Its number.
    pub fn csn(&self) -> Csn {
        self.state.borrow().csn()
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.state.borrow().epoch()
    }

    /// The object.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    fn name(&self) -> String {
        self.state.borrow().config().name.clone()
    }

    /// Where a block of the disk is now.
    fn area_at(&self, block: u64) -> Area {
        Area::at(self.state.borrow().config(), block)
    }

    /// The part of the disk that a set is of, also one that is on its way; none where the set is no more.
    fn area_of(&self, set: ReplicaSetIndex) -> Option<Area> {
        Area::of_set(self.state.borrow().config(), set)
    }

    /// Whether a part of the disk is still where it was: whoever waited for a lock looks again.
    ///
    /// # Errors
    /// [`OpError::Elsewhere`].
    fn still_at(&self, area: Area) -> Result<(), OpError> {
        let (now, was) = (self.area_at(area.blocks().start), area);
        // The disk's end may have moved on.
        let same = now.blocks().start == was.blocks().start && now.sets().start == was.sets().start;
        if same && now.blocks().end >= was.blocks().end { Ok(()) } else { Err(OpError::Elsewhere) }
    }

    /// These blocks of the disk, which are one run of one set; none where they are in another set by now.
    fn piece_of(&self, set: ReplicaSetIndex, object_range: BlockRange) -> Option<Piece> {
        let area = self.area_at(object_range.first);
        (area.blocks().end >= object_range.end())
            .then(|| area.split(object_range).next())?
            .filter(|piece| piece.set == set)
    }

    /// Bytes of the disk.
    pub fn size_bytes(&self) -> u64 {
        self.state.borrow().config().size_bytes
    }
}
