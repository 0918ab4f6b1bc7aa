//! A seat with its one component: what it holds durably, and what it answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_geometry::{RowRole, Rows};
use cairn_record::{AcceptRefused, Grants, accept, decided_in_sync, learn, promise};
use cairn_types::{
    Accepted, BlockRange, ClientTag, ComponentId, Csn, Epoch, Incarnation, OpId, SeatRecord, SessionId, Time,
    UnsettledOp,
};
use cairn_wire::{ComponentAnswer, Heartbeat, HeartbeatAnswer, PeerSession, SeizeAnswer};
use serde::Serialize;

use super::{
    Canary, Held, OBJECT, Piece, Place, id_of,
    message::{Accepting, Body},
    rows::{self, Strip},
    seat_of,
};

/// The data of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Component {
    /// Visible operations.
    pub ops: BTreeMap<OpId, Held>,
    /// Those that came as writes and are not known to be settled.
    pub window: BTreeMap<OpId, Place>,
    /// The last of those that came as writes, stand and are settled.
    pub last_written: OpId,
    /// The same by member index, of those that concerned that member; empty at a mirror.
    pub last_written_with: Vec<OpId>,
    /// Undone: refused for ever.
    pub undone: BTreeSet<OpId>,
    /// Per block, the highest operation that touched it, undone ones too.
    pub touched: BTreeMap<u64, OpId>,
    /// Everything up to here is decided.
    pub settled: OpId,
    /// The log is damaged.
    pub damaged: bool,
    /// The end of the log is gone, and nobody was told.
    pub young: bool,
    /// The device failed.
    pub lost: bool,
}

/// A batch of the log that changed something.
#[derive(Debug, Clone)]
pub struct Batch {
    /// What was durable before it.
    before: (Option<SeatRecord>, Component),
    /// What was answered when it was durable.
    answers: Vec<Body>,
    /// Whether one of them arrived: then the batch is durable for good.
    heard: bool,
}

/// Batches of the log whose loss is modelled: those that no later one calls durable.
const LAST_BATCHES: usize = 2;

/// A seat.
#[derive(Debug, Clone, Serialize)]
pub struct SeatNode {
    pub letter: char,
    pub canary: Canary,
    /// Durable; none: it was never created, or is forgotten.
    pub record: Option<SeatRecord>,
    /// Durable once: what a log that loses its end comes back with.
    #[serde(skip)]
    pub older: Option<SeatRecord>,
    /// Durable.
    pub component: Component,
    /// The last batches of the log, oldest first; in models with time.
    #[serde(skip)]
    pub last: Vec<Batch>,
    /// Volatile: who may write.
    pub admitted: Option<(Epoch, SessionId)>,
    pub next_session: u64,
    /// Volatile; none in models without time.
    #[serde(skip)]
    pub grants: Option<Grants>,
}

/// What an observer learns.
#[derive(Debug, Clone)]
pub enum Seen {
    Accepted(Accepted),
}

impl SeatNode {
    /// A seat that accepted `record`, or a nascent one.
    pub fn new(letter: char, canary: Canary, accepted: Option<Accepted>) -> Self {
        let promised = accepted.as_ref().map_or(Epoch::default(), |a| a.epoch);
        Self {
            letter,
            canary,
            record: Some(SeatRecord { object: OBJECT, promised, accepted }),
            older: None,
            component: Component::default(),
            last: Vec::new(),
            admitted: None,
            next_session: 1,
            grants: None,
        }
    }

    /// The process dies and starts again. Sessions of another life must not be mistaken for this one's.
    pub fn restart(&mut self, now: Time, lease: Duration) {
        self.admitted = None;
        if self.grants.is_some() {
            let first = (self.next_session + 1) << 20;
            self.next_session = first;
            // The canary is a grantor that believes it has run for ever.
            let started = if self.canary == Canary::NoGrace { Time(0) } else { now };
            self.grants = Some(Grants::new(started, lease, first));
        }
    }

    /// Handles a request; the answer, if there is one, and what it did.
    pub fn handle(&mut self, owner: usize, body: &Body, now: Time) -> (Option<Body>, Option<Seen>) {
        let before = self.grants.is_some().then(|| (self.record.clone(), self.component.clone()));
        let (answer, seen) = self.carry_out(owner, body, now);
        let changed = |(record, component): &(_, _)| (record, component) != (&self.record, &self.component);
        if let Some(before) = before.filter(changed) {
            self.log(Batch { before, answers: answer.iter().cloned().collect(), heard: false });
        } else if let (Some(answer), Some(last), Some(_)) = (&answer, self.last.last_mut(), body.epoch_and_session()) {
            // It waits for what is before it.
            last.answers.push(answer.clone());
        }
        (answer, seen)
    }

    /// The number of the record that it accepted last.
    pub fn accepted(&self) -> Option<(Epoch, Csn)> {
        self.record.as_ref().and_then(|r| r.accepted.as_ref()).map(|a| (a.epoch, a.csn))
    }

    fn log(&mut self, batch: Batch) {
        self.last.push(batch);
        if self.last.len() > LAST_BATCHES {
            self.last.remove(0);
        }
    }

    /// The sender has its answer: what it was answered for is durable, and all before it.
    pub fn heard(&mut self, answer: &Body) {
        if let Some(place) = self.last.iter().rposition(|batch| batch.answers.contains(answer)) {
            self.last[..=place].iter_mut().for_each(|batch| batch.heard = true);
        }
    }

    /// All that it has is removed, durably: it is no seat of the object any more, and never will be again.
    pub fn leave(&mut self) {
        let before = (self.record.take(), std::mem::take(&mut self.component));
        self.admitted = None;
        self.older = None;
        if let Some(grants) = &mut self.grants {
            grants.forget(seat_of(self.letter).disk_group, OBJECT);
        }
        self.log(Batch { before, answers: Vec::new(), heard: true });
    }

    /// Becomes `filled`, durably: a copy that was waited for.
    pub fn become_filled(&mut self, filled: Self) {
        let before = (self.record.clone(), self.component.clone());
        *self = filled;
        self.log(Batch { before, answers: Vec::new(), heard: true });
    }

    /// Power cuts the last batch short, if nobody knows that it was durable. Whether one was.
    pub fn tear(&mut self) -> bool {
        let Some(batch) = self.last.pop_if(|batch| !batch.heard) else { return false };
        (self.record, self.component) = batch.before;
        true
    }

    /// A bit of the last batch but `behind` is flipped: it is gone, with all behind it. Whether there was one.
    pub fn flip(&mut self, behind: usize) -> bool {
        let Some(place) = self.last.len().checked_sub(behind + 1) else { return false };
        let batch = self.last.drain(place..).next().expect("a place within");
        (self.record, self.component) = batch.before;
        // Either way a fault of its own, and no witness of what the others have.
        match self.canary == Canary::FlipTakenForTorn {
            true => self.component.young = true,
            false => self.component.damaged = true,
        }
        true
    }

    fn carry_out(&mut self, owner: usize, body: &Body, now: Time) -> (Option<Body>, Option<Seen>) {
        match body {
            Body::Seize { epoch, overrule, anew } => {
                let answer = self.seize(*epoch, *overrule, *anew, now);
                (Some(Body::SeizeAnswer { epoch: *epoch, anew: *anew, answer }), None)
            }
            Body::Accept(record) => self.accept(record),
            Body::Tell(record) => (None, self.told(record)),
            Body::Undo { epoch, session, ops } => {
                let done = self.may_write(*epoch, *session);
                if done.is_ok() {
                    ops.iter().for_each(|op| self.undo(*op));
                }
                (Some(Body::UndoAnswer { epoch: *epoch, session: *session, done }), None)
            }
            Body::Write { epoch, session, op, settled, place, piece, asks_old } => {
                let mut done = self.may_write(*epoch, *session);
                if done.is_ok() && (self.component.undone.contains(op) || self.is_late(*op, place, piece)) {
                    done = Err(None);
                }
                if done.is_ok() {
                    if self.canary == Canary::NoSession {
                        // A log in which the last arrival wins.
                        self.component.ops.retain(|o, held| o < op || !held.place.overlaps(place));
                    }
                    let piece = self.piece_of(*op, place, piece);
                    self.write(*op, *settled, Held { place: *place, piece, copied: false });
                }
                let below = if self.canary == Canary::OldNotBelow { None } else { Some(*op) };
                let old = (*asks_old && done.is_ok()).then(|| self.component.data(place.row, below));
                (Some(Body::WriteAnswer { epoch: *epoch, session: *session, op: *op, done, old }), None)
            }
            Body::Heartbeat(heartbeat) => (self.heartbeat(owner, heartbeat, now), None),
            Body::Confirm { epoch, token } => {
                let promised = self.promised();
                let seat = seat_of(self.letter);
                let granted = !self.component.damaged
                    && self
                        .grants
                        .as_mut()
                        .is_some_and(|g| g.on_confirm(seat.disk_group, OBJECT, *epoch, promised, now));
                (Some(Body::ConfirmAnswer { token: *token, granted, promised }), None)
            }
            Body::Release { epoch } => {
                if let Some(grants) = &mut self.grants {
                    grants.on_release(seat_of(self.letter).disk_group, OBJECT, *epoch);
                }
                (None, None)
            }
            _ => panic!("not a request: {body:?}"),
        }
    }

    /// The highest epoch that it promised; it never falls.
    pub fn promised(&self) -> Epoch {
        self.record.as_ref().map_or(Epoch::default(), |r| r.promised)
    }

    fn heartbeat(&mut self, owner: usize, heartbeat: &Heartbeat, now: Time) -> Option<Body> {
        let from = super::epoch(0, owner);
        let grants = self.grants.as_mut().expect("a model with time");
        let mut heartbeat = heartbeat.clone();
        let known = heartbeat.session;
        let mut session = grants.on_heartbeat((from.host, from.incarnation), &heartbeat, now)?;
        if self.canary == Canary::ReviveSession && known != PeerSession::default() {
            // What a grantor does that only looks whether it knows the session.
            session = known;
            heartbeat.session = known;
        }
        let grantor = (seat_of(self.letter).host, Incarnation(1));
        Some(Body::HeartbeatAnswer(HeartbeatAnswer { number: heartbeat.number, session, grantor }))
    }

    fn seize(&mut self, epoch: Epoch, overrule: bool, anew: bool, now: Time) -> SeizeAnswer {
        let disk_group = seat_of(self.letter).disk_group;
        let Some(record) = &mut self.record else {
            return SeizeAnswer::NoSeat;
        };
        if record.promised > epoch {
            return SeizeAnswer::Promisee { promised: record.promised };
        }
        if let Some(grants) = &mut self.grants {
            if let Err(held) = grants.may_promise(disk_group, record, epoch, overrule, now) {
                return held;
            }
            grants.on_promised(disk_group, OBJECT, epoch, now);
        }
        if let Err(refused) = promise(record, epoch) {
            return SeizeAnswer::Promisee { promised: refused.promised };
        }
        let admitted_already = self.admitted.filter(|(e, _)| *e == epoch && !anew);
        let (_, session) = admitted_already.unwrap_or((epoch, SessionId(self.next_session)));
        self.next_session = self.next_session.max(session.0 + 1);
        self.admitted = Some((epoch, session));
        let accepted = self.record.as_ref().and_then(|r| r.accepted.clone()).map(Box::new);
        SeizeAnswer::Promised { accepted, components: vec![self.answer(session)] }
    }

    /// What the seat tells of its component.
    pub fn answer(&self, session: SessionId) -> ComponentAnswer {
        let unsettled = |(op, place): (&OpId, &Place)| UnsettledOp {
            op: *op,
            range: BlockRange::new(place.row, 1),
            client: ClientTag::default(),
            members: match (self.canary, place.column) {
                (Canary::AllConcerned, _) => 0,
                (Canary::ParityIgnored, Some(column)) => self.data_member(place.row, column),
                _ => place.members,
            },
        };
        let component = ComponentId(id_of(self.letter));
        let decided = self.record.as_ref().map_or(OpId::ZERO, |record| decided_in_sync(record, component));
        ComponentAnswer {
            component,
            present: true,
            lost: self.component.lost,
            session,
            settled: self.component.settled.max(decided),
            last_written: self.component.last_written,
            last_written_with: match self.canary {
                Canary::ProofUnmasked => Vec::new(),
                _ => self.component.last_written_with.clone(),
            },
            window: self.component.window.iter().map(unsettled).collect(),
            log_damaged: self.component.damaged,
        }
    }

    /// The mask of the member that holds a column.
    fn data_member(&self, row: u64, column: u32) -> u16 {
        let config = self.record.as_ref().and_then(|r| r.accepted.as_ref()).map(|a| &a.config);
        let rows = config.and_then(rows::rows_of);
        rows.map_or(0, |rows| 1 << rows.member(row, RowRole::Column(column)))
    }

    fn accept(&mut self, proposal: &Accepted) -> (Option<Body>, Option<Seen>) {
        let Some(record) = &mut self.record else {
            return (None, None);
        };
        if self.canary == Canary::NoPromise {
            record.promised = Epoch::default();
        }
        // What takes it away needs no vote.
        let named = proposal.config.member(ComponentId(id_of(self.letter))).is_some();
        // It may have forgotten a promise, or a record: it has no vote.
        if self.component.damaged && named {
            return (None, None);
        }
        let before = record.clone();
        let result = match named && self.canary != Canary::NoPromise {
            true => accept(record, proposal.clone()),
            false => learn(record, proposal.clone()),
        };
        if result.is_ok() {
            self.older = Some(before);
        }
        let seen = result.is_ok().then(|| Seen::Accepted(proposal.clone()));
        let answer = match result {
            Ok(_) => Accepting::Done,
            Err(AcceptRefused::Promised(epoch)) => Accepting::Promised(epoch),
            Err(AcceptRefused::Csn(csn)) => Accepting::Csn(csn),
        };
        (Some(Body::AcceptAnswer { epoch: proposal.epoch, csn: proposal.csn, answer }), seen)
    }

    /// Others have decided the record since this seat promised its epoch: whatever was forgotten matters no more.
    fn told(&mut self, record: &Accepted) -> Option<Seen> {
        let promised = self.admitted.is_some_and(|(epoch, _)| epoch == record.epoch);
        if !promised || accept(self.record.as_mut()?, record.clone()).is_err() {
            return None;
        }
        self.component.damaged = false;
        Some(Seen::Accepted(record.clone()))
    }

    fn may_write(&self, epoch: Epoch, session: SessionId) -> Result<(), Option<Epoch>> {
        if self.canary == Canary::NoPromise {
            return Ok(());
        }
        let promised = self.promised();
        if promised > epoch {
            return Err(Some(promised));
        }
        match self.admitted {
            Some((e, s)) if e == epoch && (s == session || self.canary == Canary::NoSession) => Ok(()),
            _ => Err(None),
        }
    }

    /// Parity takes operations in order: one that comes below what is there would not be in it.
    fn is_late(&self, op: OpId, place: &Place, piece: &Piece) -> bool {
        let is_data = matches!(piece, Piece::Data(_)) || self.canary == Canary::ParityTakenLate;
        let later = |(other, held): (&OpId, &Held)| *other > op && held.place.row == place.row;
        !is_data && !self.component.ops.contains_key(&op) && self.component.ops.iter().any(later)
    }

    /// What is logged of a piece: of a difference the parity that comes of it. One that comes twice changes nothing.
    fn piece_of(&self, op: OpId, place: &Place, piece: &Piece) -> Piece {
        let Piece::Difference { column, old, parity, columns } = *piece else { return piece.clone() };
        if let Some(known) = self.component.ops.get(&op) {
            return known.piece.clone();
        }
        let chain = self.component.chain(place.row, None).map(|(_, held)| held);
        Piece::Parity(rows::parity(chain, columns, parity).after(parity, column, (old, op)))
    }

    fn write(&mut self, op: OpId, settled: OpId, held: Held) {
        let component = &mut self.component;
        let place = held.place;
        component.ops.insert(op, held);
        component.window.insert(op, place);
        let touched = component.touched.entry(place.row).or_default();
        *touched = (*touched).max(op);
        component.settled = component.settled.max(settled);
        let settled = component.settled;
        for (op, place) in component.window.iter().filter(|(op, _)| **op <= settled) {
            component.last_written = component.last_written.max(*op);
            let with = &mut component.last_written_with;
            let indexes = u16::BITS - place.members.leading_zeros();
            with.resize(with.len().max(indexes as usize), OpId::ZERO);
            for (index, last) in with.iter_mut().enumerate().filter(|(index, _)| place.members >> index & 1 == 1) {
                debug_assert!(place.concerns(index as u32));
                *last = (*last).max(*op);
            }
        }
        component.window.retain(|op, _| *op > settled);
    }

    /// Once: an undo that comes twice must not take what a copy has brought back meanwhile (found by seed 79258 of
    /// the random runs: a stuck second undo arrived after the component had been filled and made active).
    fn undo(&mut self, op: OpId) {
        if self.component.undone.insert(op) {
            self.component.ops.remove(&op);
            self.component.window.remove(&op);
        }
    }

    /// The newest visible operation of a block.
    pub fn read(&self, block: u64) -> OpId {
        self.component.data(block, None)
    }

    /// A copy of a block, from the resync source.
    pub fn copy(&mut self, block: u64, from: &Component) {
        self.component.ops.retain(|_, held| held.place.row != block);
        let theirs = from.ops.iter().filter(|(_, held)| held.place.row == block);
        self.component.ops.extend(theirs.map(|(op, held)| (*op, held.clone())));
        self.component.touch_like(block, from);
    }

    /// What the row comes to, as an operation of its own: it hides what stands below. `touched` as by the sources.
    pub fn copy_row<'a>(&mut self, op: OpId, held: Held, sources: impl Iterator<Item = &'a Component>) {
        let row = held.place.row;
        self.component.ops.retain(|_, known| known.place.row != row);
        self.component.ops.insert(op, held);
        sources.for_each(|from| self.component.touch_like(row, from));
    }
}

impl Component {
    fn touch_like(&mut self, row: u64, from: &Self) {
        if let Some(theirs) = from.touched.get(&row) {
            let touched = self.touched.entry(row).or_default();
            *touched = (*touched).max(*theirs);
        }
    }

    /// What it holds of a row, oldest first; of what is older than `below` only.
    fn chain(&self, row: u64, below: Option<OpId>) -> impl Iterator<Item = (OpId, &Held)> {
        let older = self.ops.iter().filter(move |(op, _)| below.is_none_or(|below| **op < below));
        older.filter(move |(_, held)| held.place.row == row).map(|(op, held)| (*op, held))
    }

    /// The operation whose data a block has.
    pub fn data(&self, row: u64, below: Option<OpId>) -> OpId {
        rows::data(self.chain(row, below).map(|(_, held)| held))
    }

    /// What the member with this index holds of a row.
    pub fn strip(&self, rows: Rows, row: u64, index: u32, below: Option<OpId>) -> Strip {
        match rows.role(row, index) {
            RowRole::Column(_) => Strip::Data(self.data(row, below)),
            RowRole::Parity(parity) => {
                Strip::Parity(rows::parity(self.chain(row, below).map(|(_, held)| held), rows.data(), parity))
            }
        }
    }

    /// Whether it has what an operation wrote, or what came of that.
    pub fn holds(&self, op: OpId, place: &Place) -> bool {
        let copied = |(later, held): (&OpId, &Held)| held.copied && *later > op && held.place.row == place.row;
        self.ops.contains_key(&op) || self.ops.iter().any(copied)
    }
}
