//! A part of a row that is written over what is there: to its data member first, which tells what it replaces, and what changes then to
//! parity members.
//!
//! Promises    nothing goes to parity before it is known what is replaced; without that the operation is taken back
//! Assumes     the caller holds the locks of the part's blocks and positions
//! Not here    what follows from answers (`cairn-owner`), when it may be acknowledged (`write`)

use std::rc::Rc;

use cairn_env::{Env, PageBuf};
use cairn_geometry::{RowRole, Rows, StripPart};
use cairn_owner::{Leg, MemberMask, Strip, difference};
use cairn_parity::{Factor, factor};
use cairn_types::{BlockOp, BlockRange, Canary, ClientTag, ComponentId, Contents, Crcs, ReplicaSetIndex};
use cairn_wire::Answer;

use super::bodies::New;
use crate::{
    arrived::check,
    context::PartsReply,
    local_store::LocalStore,
    owner::{
        Owned,
        write::{Body, Held, Numbers, Operation, UnderWay},
    },
    stages::Watch,
};

/// What goes to parity members once it is known what stood there.
pub(in crate::owner) struct Follow {
    /// Who tells it, and whether that comes from another host.
    from: ComponentId,
    travels: bool,
    /// To whom it goes, and what the difference is multiplied by there.
    parity: Vec<(Leg, Factor)>,
    members: MemberMask,
    range: BlockRange,
    column: u32,
    new: New,
}

impl Follow {
    /// What was there, if this is the answer that says so; within, none: it could not be told.
    pub(in crate::owner) fn told(&self, leg: &Leg, reply: &PartsReply) -> Option<Option<Strip>> {
        (leg.component == self.from).then(|| {
            let Ok((Answer::Data { runs }, data)) = reply else { return None };
            let data = data.iter().filter(|part| !part.is_empty()).cloned().collect();
            let contents = Contents { runs: runs.clone(), data };
            check(&contents, self.range.count, self.travels).ok()?;
            Strip::of(contents, self.range.count)
        })
    }

    /// What each parity member gets.
    fn bodies(self, old: &Strip) -> impl Iterator<Item = (Leg, Body)> {
        let new = self.new.strip();
        let zeroes = Strip::zeroes(self.range.count);
        let is_trim = matches!(self.new, New::Zeroes { .. });
        let old = if is_trim && Canary::TrimKeepsParity.sings() { &zeroes } else { old };
        let data = match (old.bytes(), new.bytes()) {
            (None, Some(only)) | (Some(only), None) => only.clone(),
            _ => {
                let mut sum = PageBuf::dirty(self.range.bytes() as usize);
                difference(old, &new, &mut sum);
                sum.freeze()
            }
        };
        let (old, new): (Crcs, Crcs) = (old.crcs().clone(), new.crcs().clone());
        let (members, first_block, column) = (self.members, self.range.first, self.column as u8);
        self.parity.into_iter().map(move |(leg, factor)| {
            let (factor, old, new) = (factor.get(), old.clone(), new.clone());
            let told = cairn_types::Difference { members, first_block, column, factor, old, new };
            let blocks = BlockOp::Difference(Box::new(told));
            (leg, Body { blocks, data: data.clone() })
        })
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Writes a part whose data member is in sync and can be read, and whose row has parity that takes writes.
    ///
    /// # Panics
    /// It is not so: the caller has just asked.
    pub(super) fn start_difference(
        self: &Rc<Self>,
        (rows, set, part): (Rows, ReplicaSetIndex, &StripPart),
        (client, new): (ClientTag, New),
        held: Held,
        watch: Option<&Watch<E>>,
    ) -> Operation<E> {
        let members = rows.relevant(&cairn_geometry::Unit::Part(*part));
        let (op, settled, legs) = self.state.borrow_mut().begin(set, members);
        let (data, parity): (Vec<Leg>, Vec<Leg>) = legs.iter().partition(|leg| leg.link.copy == part.member);
        let readable = self.state.borrow().readable(set);
        let tells = |leg: &&Leg| readable.iter().any(|r| r.component == leg.component);
        let teller = *data.iter().find(tells).expect("its data member can be read");
        let from = teller.component;
        let of = |leg: Leg| match rows.role(part.row, leg.link.copy) {
            RowRole::Parity(number) => (leg, factor(part.column, number)),
            RowRole::Column(_) => unreachable!("a part concerns one column"),
        };
        let parity = parity.into_iter().map(of).collect();
        let body = new.body(members, part.range);
        let travels = teller.link.host != self.context.env.host();
        let follow = Follow { from, travels, parity, members, range: part.range, column: part.column, new };
        let waits = (self.must_hold(set, members), watch.map(Watch::copies));
        let numbers = Numbers { op, settled, client };
        self.send_with_difference((numbers, data.into()), &body, (from, follow), held, waits)
    }

    /// The data member has told what was there, or cannot: the differences go out, or the operation is taken back.
    pub(in crate::owner) fn on_old_data(&self, way: &mut UnderWay<E>, old: Option<Strip>) {
        let Some(follow) = way.follow.take() else { return };
        let Some(old) = old else { return way.outcome.on_old_data_lost() };
        if !way.outcome.on_old_data() {
            return;
        }
        let mut legs = way.legs.to_vec();
        for (leg, body) in follow.bodies(&old) {
            way.answers.push(leg, self.ask(&leg, way.numbers, &body, false));
            legs.push(leg);
        }
        way.legs = legs.into();
    }
}
