//! What of a round the map takes over, what becomes a pending row, and what died meanwhile. Plain functions.
//!
//! Promises    each item is decided from the state of one moment (I6): undo, settling and overwrites go on until then. What they change
//!             later is as if it had come while the transaction was being written
//!             an unsettled operation is never folded into the map, it becomes a pending row that undo or `settled` decides later
//! Not here    reading, writing and the order of rounds (`destage.rs`), what a transaction is (`transaction.rs`)

use cairn_types::{BlockRange, Canary, ComponentId, Crcs};

use crate::{
    capacity::{Item, Spots},
    components::Components,
    leaf::{Entry, LEAF_BLOCKS, LeafKey, Spot},
    map::Map,
    pending_number::PendingNumber,
    records::{Body, Place, Record, RecordId},
    transaction::{By, Folded, MadePending, Transaction},
};

/// The settled zeroes among the items and the pending rows: what they cover leaves the map first, in bounded steps.
pub(crate) fn settled_zeroes(components: &Components, items: &[Item]) -> Vec<Item> {
    let zero = |item: &&Item| {
        let record = components.records.get(item.record);
        !item.pending && record.is_some_and(|record| matches!(record.body, Body::Zero { .. }))
    };
    let mut zeroes: Vec<Item> = items.iter().filter(zero).cloned().collect();
    for id in resolvable(components) {
        let record = components.records.of(id);
        if let Body::Zero { keep_allocated: false } = record.body {
            let device = components.of(record.component).device;
            let (component, range) = (record.component, record.range);
            zeroes.push(Item { record: id, component, device, range, pending: false, data: None, spots_from: 0 });
        }
    }
    zeroes
}

/// What of a round is decided in one moment.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Pending rows that were settled since.
    Pending,
    Items(&'a [Item]),
}

/// Leaves that the transaction will change for this part and does not have.
pub(crate) fn leaves_missing(components: &Components, part: Part, transaction: &Transaction) -> Vec<LeafKey> {
    let mut keys = Vec::new();
    let mut want = |component: ComponentId, range: BlockRange| {
        for leaf in range.first / LEAF_BLOCKS..=(range.end() - 1) / LEAF_BLOCKS {
            // Items come in order: most name the leaf of the one before.
            if keys.last() != Some(&(component, leaf)) {
                keys.push((component, leaf));
            }
        }
    };
    let of_row = |id: RecordId| (id, components.records.of(id).component, components.records.of(id).range);
    let ranges: Vec<(RecordId, ComponentId, BlockRange)> = match part {
        Part::Pending => resolvable(components).into_iter().map(of_row).collect(),
        Part::Items(items) => items.iter().map(|item| (item.record, item.component, item.range)).collect(),
    };
    for (id, component, range) in ranges {
        let (Some(record), Some(known)) = (components.records.get(id), components.get(component)) else {
            continue;
        };
        match record.allocates() {
            true => want(component, range),
            // What is mapped under a zero was trimmed before, unless it was settled only now.
            false if record.op <= known.settled => {
                known.base.runs(range).into_iter().for_each(|run| want(component, run));
            }
            false => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| !transaction.has_leaf(*key));
    keys
}

/// Pending records that were settled since, earlier operations first.
fn resolvable(components: &Components) -> Vec<RecordId> {
    let settled = |id: &RecordId| {
        let record = components.records.of(*id);
        components.get(record.component).is_some_and(|c| record.op <= c.settled)
    };
    let mut ids: Vec<RecordId> = components.records.pending.iter().copied().filter(settled).collect();
    ids.sort_by_key(|id| components.records.of(*id).op);
    ids
}

/// Puts items in the order in which they are decided: what a snapshot views comes before what was written after it.
pub(crate) fn in_order_of_cuts(components: &Components, items: &mut [Item]) {
    let cuts_below = |item: &Item| {
        let cuts = components.get(item.component).map(|component| &component.cuts).filter(|cuts| !cuts.is_empty());
        let record = cuts.and_then(|_| components.records.get(item.record));
        cuts.zip(record).map_or(0, |(cuts, record)| cuts.count_below(record.cut_op()))
    };
    if components.all().any(|component| !component.cuts.is_empty()) {
        items.sort_by_cached_key(cuts_below);
    }
}

/// Decides, from the state of this moment, what of this part is folded, kept pending, or dead.
pub(crate) fn plan_part(
    (components, map): (&mut Components, &mut Map),
    part: Part,
    spots: &Spots,
    transaction: &mut Transaction,
) {
    match part {
        Part::Pending => {
            resolvable(components).into_iter().for_each(|id| plan_resolve(components, id, transaction));
        }
        Part::Items(items) => {
            items.iter().for_each(|item| plan_item(components, map, item, spots, transaction));
        }
    }
}

fn plan_resolve(components: &mut Components, id: RecordId, transaction: &mut Transaction) {
    let record = components.records.of(id).clone();
    let (spans, past) = live_spans(components, id, record.component, record.range);
    drop_past(id, record.component, past, transaction);
    let live = |block: u64| spans.iter().any(|s| s.first <= block && block < s.end());
    transaction.resolve(components, id, live);
    let spot_of = |block: u64| match &record.body {
        Body::Data { place: Place::Spots(spots), .. } => spots[(block - record.range.first) as usize],
        Body::Zero { keep_allocated: true } => Spot::ZERO,
        _ => Spot::NONE,
    };
    for span in &spans {
        plan_fold(components, &record, id, *span, &spot_of, false, transaction);
    }
}

/// Where `id` still stands among the versions: where it is live, and where only a snapshot viewed it that went.
fn live_spans(
    components: &Components,
    id: RecordId,
    component: ComponentId,
    range: BlockRange,
) -> (Vec<BlockRange>, Vec<BlockRange>) {
    let (mut live, mut past) = (Vec::new(), Vec::new());
    let Some(component) = components.get(component) else {
        return (live, past);
    };
    let cut_op = components.records.of(id).cut_op();
    component.extents.each(range, |part, versions| {
        let Some(at) = versions.iter().position(|version| *version == id) else { return };
        let newer = at.checked_sub(1).map(|at| components.records.of(versions[at]));
        match newer.is_some_and(|newer| newer.op <= component.settled && !component.cuts.parts(cut_op, newer.cut_op()))
        {
            true => past.push(part),
            false => live.push(part),
        }
    });
    (live, past)
}

/// What no snapshot views any more leaves the index, and nothing else.
fn drop_past(record: RecordId, component: ComponentId, past: Vec<BlockRange>, transaction: &mut Transaction) {
    past.into_iter().for_each(|range| transaction.fold(Folded { record, component, range }));
}

fn plan_item(components: &Components, map: &mut Map, item: &Item, spots: &Spots, transaction: &mut Transaction) {
    let Some(record) = components.records.get(item.record) else {
        return;
    };
    let Some(component) = components.get(item.component) else {
        return;
    };
    let spot_of = |block: u64| {
        let spot = match &record.body {
            Body::Zero { keep_allocated: true } => return Spot::ZERO,
            Body::Zero { keep_allocated: false } => return Spot::NONE,
            // Written before it was logged.
            Body::Data { place: Place::Spots(own), .. } => own[(block - record.range.first) as usize],
            Body::Data { .. } => spots[item.spots_from + (block - item.range.first) as usize],
        };
        assert_ne!(spot, Spot::NONE, "what is live was written");
        spot
    };
    let (spans, past) = live_spans(components, item.record, item.component, item.range);
    drop_past(item.record, item.component, past, transaction);
    if record.op <= component.settled || Canary::UnsettledFolded.sings() {
        for span in spans {
            plan_fold(components, record, item.record, span, &spot_of, true, transaction);
        }
        return;
    }
    let known = component.window.get(record.op).map(|unsettled| unsettled.info);
    let record = record.clone();
    for span in spans {
        let body = match &record.body {
            Body::Data { crcs, row_checks, .. } => {
                let list: Box<[Spot]> = (span.first..span.end()).map(spot_of).collect();
                assert!(!list.iter().any(|spot| spot.is_shared()), "what is not settled shares nothing");
                list.iter().for_each(|&spot| transaction.add_spot(item.device, spot));
                let from = (span.first - record.range.first) as usize;
                let (count, place) = (span.count as usize, Place::Spots(list));
                let crcs = Crcs::from_slice(&crcs[from..from + count]);
                Body::Data { place, crcs, row_checks: row_checks.part(from, count) }
            }
            zero => zero.clone(),
        };
        let number = map.take_pending_number();
        let made = Record { range: span, body, live: 0, row: Some(PendingNumber::new(number)), ..record.clone() };
        let made = MadePending { old: item.record, number, record: made };
        transaction.make_pending(made, known.as_ref(), !component.cuts.is_empty());
    }
}

/// Puts a settled run into the map. `new` spots have no reference yet.
fn plan_fold(
    components: &Components,
    record: &Record,
    id: RecordId,
    span: BlockRange,
    spot_of: &dyn Fn(u64) -> Spot,
    new: bool,
    transaction: &mut Transaction,
) {
    let component = components.of(record.component);
    // A zero may span a whole disk: only what is mapped changes, or will be by what was decided before it was settled.
    let runs = match record.allocates() {
        true => vec![span],
        false => component.base.runs(span).into_iter().chain(transaction.newly_mapped(component.id, span)).collect(),
    };
    for block in runs.into_iter().flat_map(|run| run.first..run.end()) {
        let spot = spot_of(block);
        let entry = (spot != Spot::NONE).then(|| Entry {
            spot,
            crc: record.crc(block),
            row_check: record.row_check(block),
            op: record.op,
        });
        match transaction.set_entry_of(component, block, By::record(record), entry) {
            true if new => transaction.add_spot(component.device, spot),
            false if !new => transaction.drop_spot(component.device, spot),
            _ => {}
        }
    }
    transaction.fold(Folded { record: id, component: record.component, range: span });
}
