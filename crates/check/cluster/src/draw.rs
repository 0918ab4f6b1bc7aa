//! Draws what happens in a run, menu by menu.
//!
//! Promises    what is drawn depends on the generator and the shape alone
//! Not here    what a plan is (`plan`), how it is carried out (`inject`)

use cairn_faults::{At, Blow, CLOCK_PPM_MAX, Directory, Event, Moment, Phase, Place, What};
use cairn_sim::Rng;
use cairn_types::MaintenanceMode;

use crate::{
    menu::Menu,
    shape::{LOG_SEGMENT_BYTES, REPAIR_DELAY_MS, Shape},
};

/// Draws what happens.
struct Draw<'a> {
    rng: &'a mut Rng,
    shape: &'a Shape,
    extra_disks: usize,
}

/// What happens in a run of `menu` on `shape`, in no order.
pub fn events(rng: &mut Rng, shape: &Shape, menu: Menu) -> Vec<Event> {
    let mut draw = Draw { rng, shape, extra_disks: 0 };
    match menu {
        Menu::Turmoil => draw.turmoil(),
        Menu::Single => draw.single(),
        Menu::Damage => draw.damage(),
        Menu::Loss => draw.loss(),
        Menu::Owner => draw.owner(),
        Menu::Beyond => draw.beyond(),
    }
}

/// In one run of four a host whose clock of the day is wrong by up to 30 days, for some time or for the whole run.
pub(crate) fn wrong_clock(rng: &mut Rng, hosts: usize) -> Option<Event> {
    if !rng.one_in(4) {
        return None;
    }
    let host = rng.below(hosts as u64) as usize;
    let off_ms = rng.between(10_000, 30 * 86_400_000) as i64;
    let off_ms = if rng.one_in(2) { off_ms } else { -off_ms };
    let (at_ms, for_ms) = (rng.below(4000), rng.between(1000, 40_000));
    Some(Event { at_ms, for_ms, what: What::WallClock { host, off_ms } })
}

/// Growths past a chunk in a run that lasts so long, most of them with logs so slow that guests come between their steps.
pub fn growths(rng: &mut Rng, shape: &Shape, ends_ms: u64) -> Vec<Event> {
    let mut draw = Draw { rng, shape, extra_disks: 0 };
    let mut events = Vec::new();
    for _ in 0..draw.rng.between(1, 3) {
        let (at_ms, disk, host) = (draw.rng.below(ends_ms + 1), draw.disk(), draw.host());
        let by_bytes = shape.chunk_bytes_max * u64::from(shape.disks[disk].stripe_width) + draw.rng.below(512) * 4096;
        events.push(Event { at_ms, for_ms: 0, what: What::Resize { disk, host, by_bytes } });
        if !draw.rng.one_in(4) {
            let (times, for_ms) = (draw.rng.between(100, 600) as u32, draw.rng.between(200, 1000));
            for host in 0..shape.hosts {
                let at = At { host, group: 0, capacity: None };
                let what = What::SlowDevice { at, times };
                events.push(Event { at_ms: at_ms.saturating_sub(20), for_ms, what });
            }
        }
    }
    events
}

/// In one run of three a host is in maintenance for a time, or one of its disk groups is emptied, and sometimes another one.
pub(crate) fn maintenance(rng: &mut Rng, shape: &Shape, menu: Menu, ends_ms: u64) -> Vec<Event> {
    // What takes hosts away for long, or spoils more than disks survive, leaves no room for moves.
    if matches!(menu, Menu::Beyond | Menu::Loss) || !rng.one_in(3) {
        return Vec::new();
    }
    let times = rng.between(1, 2);
    let one = |_| {
        let host = rng.below(shape.hosts as u64) as usize;
        let any = MaintenanceMode::ALL[rng.below(3) as usize];
        let mode = if rng.one_in(2) { MaintenanceMode::FullEvacuation } else { any };
        let (at_ms, for_ms) = (rng.below(ends_ms + 1), rng.between(500, 20_000));
        let what = match rng.one_in(4) {
            true => What::Drain { host, group: rng.below(shape.groups as u64) as usize },
            false => What::Maintenance { host, mode },
        };
        Event { at_ms, for_ms, what }
    };
    (0..times).map(one).collect()
}

/// In one run of four a disk has a copy or two more for a time, or goes to another host, up to three times.
pub(crate) fn changes(rng: &mut Rng, shape: &Shape, menu: Menu, ends_ms: u64) -> Vec<Event> {
    // As for maintenance: what takes hosts away for long leaves no room.
    if matches!(menu, Menu::Beyond | Menu::Loss) || !rng.one_in(4) {
        return Vec::new();
    }
    let times = rng.between(1, 3);
    let one = |_| {
        let host = rng.below(shape.hosts as u64) as usize;
        let disk = rng.below(shape.disks.len() as u64) as usize;
        let (at_ms, for_ms) = (rng.below(ends_ms + 1), rng.between(200, 15_000));
        let what = match rng.one_in(2) {
            true => What::Policy { disk, host, more: rng.between(1, 2) as u8 },
            false => What::Move { disk, from: host },
        };
        Event { at_ms, for_ms, what }
    };
    (0..times).map(one).collect()
}

/// In one run of four a disk that survives a failure goes over to another layout for a time, up to twice. As for other policies: what takes hosts
/// away for long leaves no room.
pub(crate) fn layouts(rng: &mut Rng, shape: &Shape, menu: Menu, spare_host: bool, ends_ms: u64) -> Vec<Event> {
    if matches!(menu, Menu::Beyond | Menu::Loss) || !rng.one_in(4) {
        return Vec::new();
    }
    let domains = (shape.hosts - usize::from(spare_host)) as u64;
    let mut events = Vec::new();
    for _ in 0..rng.between(1, 2) {
        let host = rng.below(shape.hosts as u64) as usize;
        let disk = rng.below(shape.disks.len() as u64) as usize;
        let (at_ms, for_ms) = (rng.below(ends_ms + 1), rng.between(1000, 20_000));
        let (ftt, rows, stripe_width) = (shape.disks[disk].ftt.min(2), rng.one_in(2), rng.between(1, 3) as u8);
        let widest = DATA_STRIPS_MAX.min(domains.saturating_sub(ftt.into()));
        if ftt == 0 {
            continue;
        }
        let data_strips = match rows && widest >= 2 {
            true => rng.between(2, widest) as u8,
            false => 0,
        };
        events.push(Event { at_ms, for_ms, what: What::Layout { disk, host, ftt, data_strips, stripe_width } });
    }
    events
}

/// In one run of two up to six snapshots are taken, some of all disks together; most are deleted while the run lasts. What spoils more than disks
/// survive is left as it is: nothing is promised of them there. Where blocks are spoiled no disk goes back, and no
/// clone is flattened: what cannot be read holds that up.
pub(crate) fn snapshots(rng: &mut Rng, shape: &Shape, (menu, spoils): (Menu, bool), ends_ms: u64) -> Vec<Event> {
    if menu == Menu::Beyond || !rng.one_in(2) {
        return Vec::new();
    }
    let times = rng.between(1, 6);
    let one = |_| {
        let host = rng.below(shape.hosts as u64) as usize;
        let disk = rng.below(shape.disks.len() as u64) as usize;
        let (at_ms, for_ms) = (rng.below(ends_ms + 1), rng.between(100, 20_000));
        let (all, back, stays) = (rng.one_in(4), rng.one_in(3) && !spoils, rng.one_in(3));
        let (clones, flattens) = (rng.one_in(3), rng.one_in(2) && !spoils);
        Event { at_ms, for_ms, what: What::Snapshot { disk, host, all, back, stays, clones, flattens } }
    };
    (0..times).map(one).collect()
}

/// In one run of four disks have a schedule of snapshots. Where a disk goes over to another layout there is none: it takes no snapshot on its way, and
/// does not go while it has one.
pub(crate) fn schedule(rng: &mut Rng, shape: &Shape, (menu, events): (Menu, &[Event]), ends_ms: u64) -> Option<Event> {
    let goes_over = events.iter().any(|event| matches!(event.what, What::Layout { .. }));
    if menu == Menu::Beyond || goes_over || !rng.one_in(4) {
        return None;
    }
    let host = rng.below(shape.hosts as u64) as usize;
    let (keep, locked) = (rng.between(1, 3) as u8, rng.one_in(2));
    let (at_ms, for_ms) = (rng.below(ends_ms / 2 + 1), rng.between(8000, 25_000));
    Some(Event { at_ms, for_ms, what: What::Schedule { host, keep, locked } })
}

/// Strips of data of the widest rows that a disk goes over to.
const DATA_STRIPS_MAX: u64 = 4;

/// In one run of four a host leaves the cluster, dead or empty, and is taken in again.
pub(crate) fn membership(rng: &mut Rng, shape: &Shape, menu: Menu, ends_ms: u64) -> Option<Event> {
    // Where devices are spoiled, or hosts are away for long one after the other, a host that leaves is one failure too many.
    if matches!(menu, Menu::Beyond | Menu::Loss | Menu::Damage) || !rng.one_in(4) {
        return None;
    }
    let (host, loss) = (rng.below(shape.hosts as u64) as usize, rng.next_u64());
    let (at_ms, for_ms) = (rng.below(ends_ms + 1), rng.between(3000, 20_000));
    let what = if rng.one_in(2) { What::Remove { host } } else { What::Forget { host, loss } };
    Some(Event { at_ms, for_ms, what })
}

/// In one run of eight the directory takes no changes for some seconds.
pub(crate) fn full_directory(rng: &mut Rng, hosts: usize) -> Option<Event> {
    let what = What::Directory { how: Directory::TakesNoChanges, hosts: (0..hosts).collect() };
    let (at_ms, for_ms) = (rng.below(8000), rng.between(500, 8000));
    rng.one_in(8).then_some(Event { at_ms, for_ms, what })
}

/// In one run of three, single blocks of the only copy in sync become unreadable, up to three times; often another copy's host is
/// made to fail just before. What spoils devices by itself, and what takes hosts away one after the other, is left as it is.
pub(crate) fn only_source(rng: &mut Rng, shape: &Shape, menu: Menu, ends_ms: u64) -> Vec<Event> {
    let mut events = Vec::new();
    if matches!(menu, Menu::Damage | Menu::Beyond) || !rng.one_in(3) {
        return events;
    }
    let mut draw = Draw { rng, shape, extra_disks: 0 };
    for _ in 0..draw.rng.between(1, 3) {
        let (disk, blocks, pick) = (draw.disk(), draw.rng.between(1, 8) as u32, draw.rng.next_u64());
        let (at_ms, for_ms) = (draw.rng.between(1000, ends_ms.max(1000) + 1000), draw.rng.between(1000, 9000));
        events.push(Event { at_ms, for_ms, what: What::OnlySource { disk, blocks, pick } });
        if matches!(menu, Menu::Turmoil | Menu::Owner) && draw.rng.one_in(2) {
            let host = draw.host();
            let what = draw.gone(host);
            let before_ms = draw.rng.below(1000);
            events.push(Event { at_ms: at_ms - before_ms, for_ms: draw.rng.between(1500, 9000), what });
        }
    }
    events
}

/// In every other run all disk groups are scrubbed, once or twice.
pub(crate) fn scrubs(rng: &mut Rng, hosts: usize, ends_ms: u64) -> Vec<Event> {
    let times = if rng.one_in(2) { rng.between(1, 2) } else { 0 };
    let one = |_| {
        let (host, at_ms) = (rng.below(hosts as u64) as usize, rng.below(ends_ms + 1000));
        Event { at_ms, for_ms: 0, what: What::Scrub { host } }
    };
    (0..times).map(one).collect()
}

/// In two of three runs something is chosen of disk groups, for a time or from then on: one to four times of any of them.
pub(crate) fn choices(
    rng: &mut Rng,
    shape: &Shape,
    ends_ms: u64,
    what: impl Fn(usize, usize, bool) -> What,
) -> Vec<Event> {
    let times = if rng.one_in(3) { 0 } else { rng.between(1, 4) };
    let one = |_| {
        let (host, group) = (rng.below(shape.hosts as u64) as usize, rng.below(shape.groups as u64) as usize);
        let (at_ms, for_ms) = (rng.below(ends_ms / 2 + 1), rng.between(500, 20_000));
        Event { at_ms, for_ms, what: what(host, group, rng.one_in(2)) }
    };
    (0..times).map(one).collect()
}

impl Draw<'_> {
    fn host(&mut self) -> usize {
        self.rng.below(self.shape.hosts as u64) as usize
    }

    fn other(&mut self, than: usize) -> usize {
        (than + 1 + self.rng.below(self.shape.hosts as u64 - 1) as usize) % self.shape.hosts
    }

    fn disk(&mut self) -> usize {
        self.rng.below(self.shape.disks.len() as u64) as usize
    }

    fn capacity_of(&mut self, host: usize) -> At {
        let group = self.rng.below(self.shape.groups as u64) as usize;
        At { host, group, capacity: Some(self.rng.below(self.shape.capacity_devices as u64) as usize) }
    }

    fn device_of(&mut self, host: usize) -> At {
        let at = self.capacity_of(host);
        if self.rng.one_in(2) { At { capacity: None, ..at } } else { at }
    }

    fn turmoil(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(4, 14) {
            at_ms += self.rng.below(2500);
            let what = self.any_harmless();
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    fn single(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(2, 4) {
            at_ms += self.rng.between(300, 2000);
            let what = self.any_harmless();
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
            at_ms += for_ms + 6000;
        }
        events
    }

    fn damage(&mut self) -> Vec<Event> {
        let victim = self.host();
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(3, 10) {
            at_ms += self.rng.below(3000);
            let what = match self.rng.below(4) {
                0 => self.background(),
                _ => self.damage_of(victim),
            };
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
        }
        // An image that is taken while devices have changed places would bring them back that way, for good.
        if events.iter().any(|event| matches!(event.what, What::RollBack { .. })) {
            events.retain(|event| !matches!(event.what, What::DevicesSwapped { .. }));
        } else {
            // What an image lacks peers remember, and they must not die with it.
            events.extend(self.flipped_end(victim, at_ms));
        }
        events
    }

    /// Once in three plans, by chance of its own: all else is what it was before there were such events.
    fn flipped_end(&self, host: usize, within_ms: u64) -> Option<Event> {
        let mut rng = Rng::new(self.rng.clone().next_u64() ^ 0x656e_6473);
        let at = At { host, group: rng.below(self.shape.groups as u64) as usize, capacity: None };
        let what = What::FlippedEnd { at, bit: rng.next_u64(), loss: rng.next_u64(), gap_ms: rng.below(1500) };
        let (at_ms, for_ms) = (300 + rng.below(within_ms + 1000), rng.between(10, 1000));
        rng.one_in(3).then_some(Event { at_ms, for_ms, what })
    }

    fn loss(&mut self) -> Vec<Event> {
        let first = self.host();
        let second = self.other(first);
        let at_ms = self.rng.between(300, 3000);
        let away_ms = REPAIR_DELAY_MS + self.rng.between(12_000, 20_000);
        let (loss, again) = (self.rng.next_u64(), self.rng.next_u64());
        let second_ms = self.rng.between(3000, 8000);
        let mut events = vec![
            Event { at_ms, for_ms: away_ms + second_ms + 2000, what: What::Crash { host: first, loss } },
            Event { at_ms: at_ms + away_ms, for_ms: second_ms, what: What::Crash { host: second, loss: again } },
        ];
        for _ in 0..self.rng.below(4) {
            let what = self.background();
            let (at_ms, for_ms) = (self.rng.below(away_ms), self.lasts(&what));
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    fn beyond(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (0, Vec::new());
        for _ in 0..self.rng.between(4, 12) {
            at_ms += self.rng.below(2000);
            let host = self.host();
            let what = match self.rng.below(8) {
                0 => What::Crash { host, loss: self.rng.next_u64() },
                1 => What::DeviceGone { at: self.capacity_of(host) },
                2 => What::FlushError { at: self.device_of(host) },
                3 => What::WriteError { at: self.device_of(host) },
                4 => What::LatentSectors { at: self.capacity_of(host), place: self.place(), len_bytes: 512 * 64 },
                _ => What::BitRot { at: self.capacity_of(host), place: self.place(), bits: 40 },
            };
            let for_ms = self.lasts(&what);
            events.push(Event { at_ms, for_ms, what });
        }
        events
    }

    /// Rounds in which some things happen together, with time to recover between them.
    fn owner(&mut self) -> Vec<Event> {
        let (mut at_ms, mut events) = (self.rng.below(500), Vec::new());
        for _ in 0..self.rng.between(2, 4) {
            let (owner, disk) = (self.host(), self.disk());
            events.push(Event { at_ms, for_ms: 0, what: What::HandOver { disk, host: owner } });
            at_ms += self.rng.between(150, 1200);
            match self.rng.below(12) {
                0 => self.cut_off_owner(at_ms, owner, &mut events),
                1 | 2 => self.forgetful_grantors(at_ms, owner, &mut events),
                3 => self.relay(at_ms, owner, &mut events),
                4 => self.owner_dies_in_resync(at_ms, owner, &mut events),
                5..=8 => self.blow_after_absence(at_ms, owner, &mut events),
                _ => self.torn_tails(at_ms, owner, &mut events),
            }
            let ended = events.iter().map(|event| event.at_ms + event.for_ms).max().unwrap_or(at_ms);
            at_ms = ended + self.rng.between(500, 6000);
        }
        events
    }

    /// The owner does not know that it is none any more.
    fn cut_off_owner(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let what = if self.rng.one_in(2) { What::Pause { host: owner } } else { What::Isolate { host: owner } };
        events.push(Event { at_ms, for_ms: self.rng.between(2200, 9000), what });
    }

    /// Most others start anew just after they granted the owner its lease.
    fn forgetful_grantors(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let for_ms = self.rng.between(2500, 6000);
        events.push(Event { at_ms, for_ms, what: What::Isolate { host: owner } });
        // Who is not struck takes over, once it knows that the owner is gone.
        let at_ms = at_ms + self.rng.below(300);
        for host in (0..self.shape.hosts).filter(|host| *host != owner) {
            match self.rng.one_in(3) {
                true => events.push(Event { at_ms, for_ms: 0, what: What::HalfOpen { knows: host, other: owner } }),
                false => events.push(Event { at_ms, for_ms: self.rng.between(5, 150), what: What::Kill { host } }),
            }
        }
    }

    /// One host is away while a change is made, and back when those who made it are away.
    fn relay(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let other = self.other(owner);
        let away_ms = self.rng.between(1200, 6000);
        let what = self.gone(other);
        events.push(Event { at_ms, for_ms: away_ms, what });
        let at_ms = at_ms + away_ms - self.rng.below(900).min(away_ms);
        let what = self.gone(owner);
        events.push(Event { at_ms, for_ms: self.rng.between(2500, 8000), what });
    }

    /// The owner dies while another host is filled, or just after, and what it sends that host is late.
    fn owner_dies_in_resync(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let other = self.other(owner);
        let away_ms = self.rng.between(400, 5000);
        let what = self.gone(other);
        events.push(Event { at_ms, for_ms: away_ms, what });
        let slow = What::SlowLink { from: owner, to: other, by_ms: self.rng.between(10, 250) };
        events.push(Event { at_ms: at_ms + away_ms, for_ms: 5000, what: slow });
        let at_ms = at_ms + away_ms + self.rng.below(2500);
        let what = self.gone(owner);
        events.push(Event { at_ms, for_ms: self.rng.between(2500, 7000), what });
    }

    /// A copy is away and comes back; its owner is struck at one of the changes that this makes.
    fn blow_after_absence(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let other = self.other(owner);
        let away_ms = self.rng.between(600, 5000);
        let what = self.gone(other);
        events.push(Event { at_ms, for_ms: away_ms, what });
        let what = self.at_moment();
        if matches!(what, What::AtMoment { moment: Moment::Active, .. }) || self.rng.one_in(3) {
            let slow = What::SlowLink { from: owner, to: other, by_ms: self.rng.between(10, 250) };
            events.push(Event { at_ms: at_ms + away_ms, for_ms: 6000, what: slow });
        }
        events.push(Event { at_ms, for_ms: self.rng.between(2500, 9000), what });
    }

    fn at_moment(&mut self) -> What {
        let moment = match self.rng.below(8) {
            0 => Moment::Owned,
            1 | 2 => Moment::Absent,
            3 => Moment::Resyncing,
            _ => Moment::Active,
        };
        let blow = match self.rng.below(4) {
            0 => Blow::Pause,
            1 => Blow::Crash { loss: self.rng.next_u64() },
            _ => Blow::Isolate,
        };
        // At once, or some milliseconds later.
        let after_us = if self.rng.one_in(2) { self.rng.below(300) } else { self.rng.below(60_000) };
        What::AtMoment { moment, blow, after_us }
    }

    /// Power goes within a write of the log, and comes back before anyone is taken for gone.
    fn torn_tails(&mut self, at_ms: u64, owner: usize, events: &mut Vec<Event>) {
        let all = self.rng.one_in(2);
        for host in 0..self.shape.hosts {
            if all || host == owner {
                let (after, loss) = (self.rng.below(8), self.rng.next_u64());
                let what = What::CrashAtOperation { host, after, phase: Phase::During, loss };
                events.push(Event { at_ms, for_ms: self.rng.between(5, 600), what });
            }
        }
    }

    /// A host is gone, one way or another, for as long as the event lasts.
    fn gone(&mut self, host: usize) -> What {
        match self.rng.below(4) {
            0 => What::Kill { host },
            1 => What::Isolate { host },
            _ => What::Crash { host, loss: self.rng.next_u64() },
        }
    }

    /// Two devices of a host, the nearest that it has.
    fn swapped(&mut self, host: usize) -> What {
        let at = |group, capacity| At { host, group, capacity };
        match (self.shape.capacity_devices, self.shape.groups) {
            (1, 1) => What::DeviceGone { at: at(0, Some(0)) },
            (1, _) => What::DevicesSwapped { a: at(0, Some(0)), b: at(1, Some(0)) },
            _ => What::DevicesSwapped { a: at(0, Some(0)), b: at(0, Some(1)) },
        }
    }

    /// A part of the log that cannot be read.
    fn log_damage(&mut self, host: usize) -> What {
        let at = At { capacity: None, ..self.capacity_of(host) };
        let offset = self.shape.log_begins() + self.rng.below(self.shape.log_segments * LOG_SEGMENT_BYTES) / 512 * 512;
        What::LatentSectors { at, place: Place::Offset(offset), len_bytes: 512 * self.rng.between(1, 64) }
    }

    /// Where data are.
    fn place(&mut self) -> Place {
        Place::Written(self.rng.below(1 << 20))
    }

    fn phase(&mut self) -> Phase {
        match self.rng.below(3) {
            0 => Phase::Before,
            1 => Phase::During,
            _ => Phase::After,
        }
    }

    fn lasts(&mut self, what: &What) -> u64 {
        let (low, high) = match what {
            What::Crash { .. } | What::Kill { .. } | What::CrashAtOperation { .. } => (10, 6000),
            What::Pause { .. } => (300, 12_000),
            What::CrashInRecovery { .. } | What::KillOthers { .. } => (10, 3000),
            What::DevicesSwapped { .. } => (500, 6000),
            What::Full { .. } => (500, 8000),
            What::HalfOpen { .. } => (0, 0),
            What::Disconnect { .. } | What::HandOver { .. } | What::Resize { .. } => (0, 0),
            What::LatentSectors { .. } | What::OnlySource { .. } | What::BitRot { .. } | What::ReadErrors { .. } => {
                (0, 0)
            }
            What::LostWrite { .. } | What::MisdirectedWrite { .. } => (0, 0),
            What::CrashAll { .. } | What::FlippedEnd { .. } => (10, 1000),
            What::DeviceGone { .. } | What::WriteError { .. } | What::FlushError { .. } => (2000, 20_000),
            What::RollBack { .. } => (500, 6000),
            _ => (100, 8000),
        };
        // Often short: half of all faults end before anyone has given up waiting.
        let high = if self.rng.one_in(2) { high } else { low + (high - low) / 8 };
        self.rng.between(low, high)
    }

    /// Anything that loses no data.
    fn any_harmless(&mut self) -> What {
        let host = self.host();
        let other = self.other(host);
        let loss = self.rng.next_u64();
        match self.rng.below(25) {
            20 => What::HalfOpen { knows: host, other },
            21 => What::CrashInRecovery { host, after: self.rng.below(40), phase: self.phase(), loss },
            22 => What::KillOthers { host },
            23 => self.at_moment(),
            24 => What::ChangedBlocks { from: host, to: other, every: self.rng.between(2, 40) },
            0 | 1 => What::Kill { host },
            2 | 3 => What::Crash { host, loss },
            4 | 5 => What::CrashAtOperation { host, after: self.rng.below(60), phase: self.phase(), loss },
            6 => {
                What::RestartLoop { host, times: self.rng.between(2, 5) as u32, gap_ms: self.rng.between(5, 900), loss }
            }
            7 => What::CrashAll { loss, gap_ms: self.rng.below(3000) },
            8 | 9 => What::Pause { host },
            10 => What::Isolate { host },
            11 | 12 => What::Cut { a: host, b: other },
            13 => What::CutOneWay { from: host, to: other },
            14 => What::Disconnect { a: host, b: other },
            _ => self.background(),
        }
    }

    /// What neither loses data nor makes a copy stale.
    fn background(&mut self) -> What {
        let host = self.host();
        let other = self.other(host);
        match self.rng.below(13) {
            0 | 1 => {
                let how = match self.rng.below(5) {
                    0 | 1 => Directory::Away,
                    2 => Directory::Slow { by_ms: self.rng.between(20, 1500) },
                    3 => Directory::AnswersLost,
                    _ => Directory::WatchGap,
                };
                let all = self.rng.one_in(2);
                What::Directory { how, hosts: if all { (0..self.shape.hosts).collect() } else { vec![host, other] } }
            }
            9 => What::SlowCpu { host, step_us: self.rng.between(20, 400) },
            10 if self.rng.one_in(2) => What::Full { host },
            11 => What::Resize { disk: self.disk(), host, by_bytes: self.rng.between(1, 512) * 4096 },
            12 => What::ClockRate { host, ppm: self.rng.between(0, 2 * CLOCK_PPM_MAX) as i64 - CLOCK_PPM_MAX as i64 },
            2 => What::SlowLink { from: host, to: other, by_ms: self.rng.between(1, 200) },
            3 => What::SlowDevice { at: self.device_of(host), times: self.rng.between(2, 60) as u32 },
            4 | 5 => What::HandOver { disk: self.disk(), host },
            6 => What::Resize { disk: self.disk(), host, by_bytes: self.rng.between(1, 2048) * 512 },
            7 => What::ReadErrors { at: self.capacity_of(host), count: self.rng.between(1, 3) as u32 },
            _ => {
                self.extra_disks += 1;
                What::CreateAndDelete {
                    number: self.extra_disks,
                    size_bytes: self.rng.between(1, 4096) * 512,
                    maker: host,
                    deleter: other,
                }
            }
        }
    }

    /// What spoils the devices of one host, or takes it away.
    fn damage_of(&mut self, host: usize) -> What {
        let loss = self.rng.next_u64();
        let at = self.capacity_of(host);
        match self.rng.below(14) {
            0 => What::WriteError { at: self.device_of(host) },
            1 => What::FlushError { at: self.device_of(host) },
            2 => What::LatentSectors { at, place: self.place(), len_bytes: 512 * self.rng.between(1, 64) },
            3 | 4 => What::BitRot { at, place: self.place(), bits: self.rng.between(1, 400) as u32 },
            5 => What::LostWrite { at },
            6 => What::MisdirectedWrite { at, by_bytes: self.rng.between(1, 40_000) * 512 },
            7 => What::DeviceGone { at },
            12 => self.swapped(host),
            13 => self.log_damage(host),
            8 => What::RollBack { host, loss },
            9 => What::Crash { host, loss },
            10 => What::Kill { host },
            _ => What::Pause { host },
        }
    }
}
