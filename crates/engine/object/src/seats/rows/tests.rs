//! What a seat makes of exchanges and differences, with a disk group in memory.

use std::{rc::Rc, time::Duration};

use cairn_parity::factor;
use cairn_sim::{SimEnv, World};
use cairn_types::{
    Accepted, BLOCK_BYTES, ClientTag, Crcs, DiskGroupId, Epoch, Incarnation, ObjectId, SeatRecord, SessionId,
};
use cairn_wire::{Request, SeizeAnswer, block_crc};
use futures::future::join_all;

use super::*;
use crate::{
    leases::{LeaseOptions, Leases},
    local_store::{
        counting::accepted,
        memory::{Block, Memory},
    },
    rpc::Rpc,
};

const OBJECT: ObjectId = ObjectId(1);
const COMPONENT: ComponentId = ComponentId(7);

struct Seat {
    env: SimEnv,
    seats: Seats<SimEnv, Memory>,
    store: Memory,
    to: Target,
}

fn data(byte: u8) -> Bytes {
    (0..BLOCK_BYTES).map(|at| (at as u8).wrapping_mul(byte)).collect::<Vec<u8>>().into()
}

fn crc(byte: u8) -> u32 {
    block_crc(&data(byte))
}

fn on_a_seat(test: impl AsyncFnOnce(Seat) + 'static) {
    let world = World::new(1);
    let host = world.add_host("h1");
    let env = host.env();
    let ran = host.run(async move {
        let Accepted { epoch, csn, base, config } = accepted(1, 3);
        let accepted = Some(Accepted { epoch, csn, base, config });
        let record = SeatRecord { object: OBJECT, promised: epoch, accepted };
        let bytes: Bytes = cairn_format::encode_seat_record(&record).into();
        let store = Memory::new(env.clone(), DiskGroupId(1), OBJECT, &[COMPONENT]).with_record(bytes);
        let seats = Seats::new(env.clone(), Leases::new(env.clone(), Rpc::new(env.clone()), LeaseOptions::default()));
        assert!(seats.add_disk_group(store.clone()).is_empty());
        let to = Target { disk_group: DiskGroupId(1), component: COMPONENT, epoch, session: SessionId(0) };
        let mut seat = Seat { env, seats, store, to };
        seat.seize(2).await;
        test(seat).await;
    });
    ran.expect("nothing crashes here");
}

impl Seat {
    async fn seize(&mut self, number: u64) {
        let (host, incarnation) = (self.env.host(), self.env.incarnation());
        let epoch = Epoch { number, host, incarnation };
        let seize =
            Request::Seize { disk_group: self.to.disk_group, object: OBJECT, epoch, only: Vec::new(), overrule: true };
        let answer = self.seats.serve(host, incarnation, seize, Bytes::new()).await;
        let Ok((Answer::Seize(SeizeAnswer::Promised { components, .. }), _)) = answer else { panic!("{answer:?}") };
        (self.to.epoch, self.to.session) = (epoch, components[0].session);
    }

    fn op(&self, seq: u64) -> OpId {
        OpId { epoch: self.to.epoch, seq }
    }

    fn ask(&self, seq: u64, blocks: BlockOp, data: Bytes, exchange: bool) -> LocalBoxFuture<'static, Served> {
        let (op, settled, client) = (self.op(seq), OpId::ZERO, ClientTag::default());
        let (to, op) = (self.to, ComponentOp::Apply { op, settled, client, blocks });
        let request = if exchange { Request::Exchange { to, op } } else { Request::Change { to, op } };
        self.seats.serve(self.env.host(), Incarnation(0), request, data)
    }

    /// Column `column` of a row becomes `new` where it was `old`; 0: zeroes.
    fn difference(&self, seq: u64, (column, old, new): (u32, u8, u8)) -> LocalBoxFuture<'static, Served> {
        let mut sum = data(old).to_vec();
        cairn_parity::xor_into(&mut sum, &data(new));
        let crcs = |byte| Crcs::from_slice(&[crc(byte)]);
        let blocks = BlockOp::Difference {
            members: 0b1111,
            first_block: 4,
            column: column as u8,
            factor: factor(column, 1).get(),
            old: crcs(old),
            new: crcs(new),
        };
        self.ask(seq, blocks, sum.into(), false)
    }

    /// What Q of these columns is.
    fn assert_is_q(&self, columns: [u8; 3]) {
        let mut sum = vec![0; BLOCK_BYTES as usize];
        (0..).zip(columns).for_each(|(c, byte)| cairn_parity::mul_into(&mut sum, &data(byte), factor(c, 1)));
        let check = cairn_parity::row_check(&columns.map(crc));
        assert_eq!(self.store.block(COMPONENT, 4), Block::Parity(sum.into(), check), "Q of {columns:?}");
    }
}

fn write(byte: u8) -> BlockOp {
    let crcs = Crcs::from_slice(&[crc(byte)]);
    BlockOp::Rows { members: 0b11, first_block: 4, runs: vec![Run::Data { crcs }] }
}

/// S6. Goal: each difference is added to what the one before left, though all come at once. Method: three columns of a row that was never
/// written, then one of them again, in one turn; then the row is zeroes again, and gives its space back.
#[test]
fn differences_are_added_one_after_another() {
    on_a_seat(async |seat| {
        let asked = [(0, 0, 3), (1, 0, 5), (2, 0, 9), (1, 5, 6)];
        let answers = join_all((1..).zip(asked).map(|(seq, what)| seat.difference(seq, what))).await;
        assert!(answers.iter().all(|answer| *answer == Ok((Answer::Done, Vec::new()))), "{answers:?}");
        seat.assert_is_q([3, 6, 9]);
        let asked = [(0, 3, 0), (1, 6, 0), (2, 9, 0)];
        join_all((5..).zip(asked).map(|(seq, what)| seat.difference(seq, what))).await;
        assert_eq!(seat.store.block(COMPONENT, 4), Block::Zero);
    });
}

/// S6. Goal: one that comes after a later operation changes nothing. Method: a copy, and whole rows, above a difference that is still to
/// come; what comes after them is added to what they left.
#[test]
fn one_that_comes_late_is_refused() {
    on_a_seat(async |seat| {
        let runs = vec![Run::Hole { blocks: 1 }];
        assert!(seat.ask(8, BlockOp::Copy { first_block: 4, runs }, Bytes::new(), false).await.is_ok());
        let late = seat.difference(5, (0, 0, 3)).await;
        assert!(matches!(&late, Err(Refusal::Invalid(why)) if why.contains("after a later one")), "{late:?}");
        let range = BlockRange::new(4, 1);
        let zero = || BlockOp::ZeroRows { members: 0b1111, range, keep_allocated: false };
        assert!(matches!(seat.ask(6, zero(), Bytes::new(), false).await, Err(Refusal::Invalid(_))));
        let (first, second) = (seat.difference(9, (0, 0, 3)), seat.ask(10, zero(), Bytes::new(), false));
        let third = seat.difference(11, (2, 0, 4));
        // Polled in any order, each has its turn.
        let (third, second, first) = futures::join!(third, second, first);
        assert_eq!([first.is_ok(), second.is_ok(), third.is_ok()], [true; 3]);
        seat.assert_is_q([0, 0, 4]);
    });
}

#[test]
fn parity_that_cannot_be_read_is_said_so() {
    on_a_seat(async |seat| {
        seat.store.spoil(COMPONENT, 4, Block::Bad);
        assert_eq!(seat.difference(1, (0, 0, 3)).await, Err(Refusal::BadBlocks(vec![BlockRange::new(4, 1)])));
        assert_eq!(seat.store.block(COMPONENT, 4), Block::Bad);
        // A difference that no row has changes nothing either.
        let (old, new) = (Crcs::from_slice(&[1]), Crcs::from_slice(&[2]));
        let odd = BlockOp::Difference { members: 1, first_block: 4, column: 0, factor: 0, old, new };
        assert!(matches!(seat.ask(2, odd, data(1), false).await, Err(Refusal::Invalid(_))));
    });
}

/// S5. Goal: an exchange tells what it replaces: nothing, data, and what cannot be read, when it changes nothing.
#[test]
fn an_exchange_tells_what_it_replaces() {
    on_a_seat(async |seat| {
        let old = |runs: Vec<Run>, data: Vec<Bytes>| Ok((Answer::Data { runs }, data));
        assert_eq!(seat.ask(1, write(3), data(3), true).await, old(vec![Run::Hole { blocks: 1 }], Vec::new()));
        let was = vec![Run::Data { crcs: Crcs::from_slice(&[crc(3)]) }];
        let zero = BlockOp::ZeroRows { members: 3, range: BlockRange::new(4, 1), keep_allocated: true };
        assert_eq!(seat.ask(2, zero, Bytes::new(), true).await, old(was, vec![data(3)]));
        assert_eq!(seat.store.block(COMPONENT, 4), Block::Zero);
        seat.store.spoil(COMPONENT, 4, Block::Bad);
        let bad = seat.ask(3, write(5), data(5), true).await;
        assert_eq!(bad, Err(Refusal::BadBlocks(vec![BlockRange::new(4, 1)])));
        assert_eq!(seat.store.block(COMPONENT, 4), Block::Bad);
        let copy = BlockOp::Copy { first_block: 4, runs: vec![Run::Hole { blocks: 1 }] };
        assert!(matches!(seat.ask(4, copy, Bytes::new(), true).await, Err(Refusal::Invalid(_))));
    });
}

/// S7. Goal: what an owner asked does not come to pass once another was promised, though it was admitted when it asked. Method: an exchange and
/// a difference are at their reads when the seat promises another.
#[test]
fn who_waits_for_a_device_is_asked_for_his_session_again() {
    on_a_seat(async |mut seat| {
        let asked = vec![seat.ask(1, write(3), data(3), true), seat.difference(2, (0, 0, 3))];
        let (answers, env) = (Rc::new(std::cell::RefCell::new(Vec::new())), seat.env.clone());
        let told = answers.clone();
        env.spawn(async move { *told.borrow_mut() = join_all(asked).await });
        env.sleep(Duration::from_micros(20)).await;
        seat.seize(3).await;
        env.sleep(Duration::from_millis(1)).await;
        let answers = answers.take();
        let fenced = |answer: &Served| matches!(answer, Err(Refusal::Fenced { promised }) if promised.number == 3);
        assert!(answers.len() == 2 && answers.iter().all(fenced), "{answers:?}");
        assert_eq!(seat.store.block(COMPONENT, 4), Block::Zero);
    });
}
