//! The simulated network: one connection per pair of hosts, in order within it, ended only by cuts and deaths.
//!
//! Promises    N1  what one connection delivers comes in the order sent, with nothing left out, until a `PeerDown`
//!             N2  a cut stalls: messages wait, are delivered late if it heals in time, else both ends see `PeerDown`,
//!                 each at a time of its own, and what waited is lost
//!             N3  a process that dies is reported as gone by its kernel; a host without power is just silent
//!             N4  after `PeerDown` nothing of the old connection arrives
//!             N5  of two machines with one host id a host holds a connection with one: with the process of the higher
//!                 number, and with the first that came where numbers are equal (as `env-linux` has it)
//!             N6  hosts that do not speak one level are not connected; each refusal is kept, in words
//! Assumes     bodies arrive whole or not at all (real transports checksum them); block data may be made to change on its way
//! Not here    routes within a process: one process is one shard here

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{BUFFER_ALIGN, InMessage, NetEvent, OutMessage, PageBuf};
use cairn_types::{HostId, Incarnation};
use cairn_upgrade::{Party, meet};

use crate::{executor::Core, rng::Rng, trace::hash_bytes, world::World};

const STEP_SEND: u64 = 40;
const STEP_LINK: u64 = 41;

/// How long things take on the network, lowest and highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetTimes {
    /// A message's way.
    pub delay: (Duration, Duration),
    /// From the moment when both ends could until they are connected.
    pub connect: (Duration, Duration),
    /// From a cut (or a silent death) until one end gives the connection up.
    pub give_up: (Duration, Duration),
}

impl Default for NetTimes {
    fn default() -> Self {
        Self {
            delay: (Duration::from_micros(30), Duration::from_micros(800)),
            connect: (Duration::from_millis(1), Duration::from_millis(60)),
            give_up: (Duration::from_millis(800), Duration::from_millis(3000)),
        }
    }
}

/// What waits to be received by one process.
#[derive(Default)]
pub(crate) struct Inbox {
    events: VecDeque<NetEvent>,
    waker: Option<Waker>,
}

impl Inbox {
    fn push(&mut self, event: NetEvent) {
        self.events.push_back(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn take_into(&mut self, events: &mut Vec<NetEvent>, context: &Context<'_>) -> Poll<()> {
        if self.events.is_empty() {
            self.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        events.extend(self.events.drain(..));
        Poll::Ready(())
    }
}

/// One end's view of a connection.
#[derive(Default)]
struct End {
    /// False once this end was told `PeerDown`, or died.
    open: bool,
    /// What this end sent and a cut holds back.
    stalled: VecDeque<InMessage>,
    /// When the last message of this end arrives at the other.
    last_arrival: u64,
}

struct Connection {
    number: u64,
    /// By host id: the lower first.
    ends: [End; 2],
}

#[derive(Default, Clone, Copy)]
struct Link {
    cut: bool,
    slower_by: u64,
    /// Flips a bit in every n-th message that carries blocks; 0 is never.
    changes_every: u64,
    /// Of those, how many there were.
    with_blocks: u64,
    /// Counts cuts, so that a timer of an earlier one does nothing.
    cuts: u64,
}

type Pair = (HostId, HostId);

/// Links and connections of a world.
pub(crate) struct Network {
    rng: Rng,
    times: NetTimes,
    links: BTreeMap<Pair, Link>,
    connections: BTreeMap<Pair, Connection>,
    connecting: BTreeSet<Pair>,
    traffic: Traffic,
    listener: Option<OnMessage>,
    /// Why two machines are not connected, the newest last; each reason once.
    refusals: Vec<String>,
}

/// Hears of every message between hosts: its body and the bytes of its payload.
type OnMessage = Rc<dyn Fn(&[u8], usize)>;

/// Messages between hosts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Given to the network.
    pub sent: u64,
    /// Bytes of those, block data included.
    pub sent_bytes: u64,
    /// That a cut held back at least once.
    pub stalled: u64,
    /// Whose blocks were changed on their way.
    pub changed: u64,
    /// Received.
    pub delivered: u64,
}

fn pair(a: HostId, b: HostId) -> Pair {
    (a.min(b), a.max(b))
}

/// Which end of its connections with `peer` a host is.
fn end_of(host: HostId, peer: HostId) -> usize {
    usize::from(host > peer)
}

impl Network {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            times: NetTimes::default(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            connecting: BTreeSet::new(),
            traffic: Traffic::default(),
            listener: None,
            refusals: Vec::new(),
        }
    }

    fn link(&self, from: HostId, to: HostId) -> Link {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    fn cut_either_way(&self, a: HostId, b: HostId) -> bool {
        self.link(a, b).cut || self.link(b, a).cut
    }

    fn draw(&mut self, range: impl Fn(&NetTimes) -> (Duration, Duration)) -> u64 {
        let range = range(&self.times);
        self.rng.between(range.0.as_nanos() as u64, range.1.as_nanos() as u64)
    }

    /// Whether this message with blocks is one that they change in: its number.
    fn is_to_change(&mut self, from: HostId, to: HostId) -> Option<u64> {
        let link = self.links.get_mut(&(from, to)).filter(|link| link.changes_every > 0)?;
        link.with_blocks += 1;
        link.with_blocks.is_multiple_of(link.changes_every).then_some(link.with_blocks)
    }

    /// When a message that leaves now arrives: after all that left before it on this connection.
    fn arrival(&mut self, now: u64, from: HostId, to: HostId) -> u64 {
        let way = self.draw(|t| t.delay) + self.link(from, to).slower_by;
        let Some(connection) = self.connections.get_mut(&pair(from, to)) else {
            return now + way;
        };
        let end = &mut connection.ends[end_of(from, to)];
        end.last_arrival = (now + way).max(end.last_arrival + 1);
        end.last_arrival
    }
}

/// How long a machine waits that was refused because another one with its host id is connected.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The host that a machine says it is.
fn spoken_id(core: &Core, machine: HostId) -> HostId {
    match core.cloned_hosts.get() {
        true => core.hosts.borrow().get(&machine).map_or(machine, |host| host.spoken_id),
        false => machine,
    }
}

/// The machine that `from` reaches under a host id: of two, the one that it is connected with.
fn machine_of(core: &Core, network: &Network, from: HostId, to: HostId) -> HostId {
    if !core.cloned_hosts.get() {
        return to;
    }
    let hosts = core.hosts.borrow();
    let open = |machine: &HostId| {
        let connection = network.connections.get(&pair(from, *machine));
        connection.is_some_and(|connection| connection.ends[end_of(from, *machine)].open)
    };
    let of_that_id = hosts.iter().filter(|(machine, host)| host.spoken_id == to && **machine != from);
    of_that_id.map(|(machine, _)| *machine).find(open).unwrap_or(to)
}

/// Another machine with the host id of `peer` that `host` is connected with.
fn rival(core: &Core, host: HostId, peer: HostId) -> Option<HostId> {
    let to = spoken_id(core, peer);
    let machine = machine_of(core, &core.network.borrow(), host, to);
    let network = core.network.borrow();
    (machine != peer && network.connections.contains_key(&pair(host, machine))).then_some(machine)
}

fn push_event(core: &Core, to: HostId, mut event: NetEvent) {
    let host = core.hosts.borrow().get(&to).cloned();
    if let Some(host) = host
        && host.is_up()
    {
        if let NetEvent::Message(message) = &mut event
            && !host.reads(&message.body)
        {
            // What is no message to any program is none to an older one.
            message.body = Bytes::from_static(b"\xff");
        }
        host.inbox.borrow_mut().push(event);
    }
}

/// The block data in one aligned piece, as a real receiver would have it.
fn one_piece(payload: &[Bytes]) -> Bytes {
    match payload {
        [] => Bytes::new(),
        [one] if (one.as_ptr() as usize).is_multiple_of(BUFFER_ALIGN) => one.clone(),
        parts => {
            let mut whole = PageBuf::dirty(parts.iter().map(Bytes::len).sum());
            let mut at = 0;
            for part in parts {
                whole[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            whole.freeze()
        }
    }
}

/// The block data with one bit turned over; which one, the number tells.
fn changed(payload: &[u8], number: u64) -> Bytes {
    let mut changed = PageBuf::copy_of(payload);
    let bit = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (8 * payload.len() as u64);
    changed[(bit / 8) as usize] ^= 1 << (bit % 8);
    changed.freeze()
}

/// Sends, or loses the message when there is no connection. `from` is a machine, `to` a host.
pub(crate) fn send(core: &Rc<Core>, from: HostId, process: u64, to: HostId, message: OutMessage) {
    core.fold(STEP_SEND, &[from.0 as u64, to.0 as u64, hash_bytes(&[&message.body]), message.payload.len() as u64]);
    let spoken = spoken_id(core, from);
    let mut message = InMessage {
        from: spoken,
        incarnation: Incarnation(process),
        payload: one_piece(&message.payload),
        body: message.body,
    };
    if spoken == to {
        // A queue within the process: in order, and gone with it.
        return core.call_at(core.now(), move |core| {
            let host = core.hosts.borrow().get(&from).cloned();
            if host.is_some_and(|host| host.runs(process)) {
                push_event(core, from, NetEvent::Message(message));
            }
        });
    }
    let to = machine_of(core, &core.network.borrow(), from, to);
    let mut network = core.network.borrow_mut();
    network.traffic.sent += 1;
    network.traffic.sent_bytes += (message.body.len() + message.payload.len()) as u64;
    if let Some(listener) = &network.listener {
        listener(&message.body, message.payload.len());
    }
    if !message.payload.is_empty()
        && let Some(number) = network.is_to_change(from, to)
    {
        message.payload = changed(&message.payload, number);
        network.traffic.changed += 1;
    }
    let cut = network.link(from, to).cut;
    let Some(connection) = network.connections.get_mut(&pair(from, to)) else {
        return;
    };
    let number = connection.number;
    let end = &mut connection.ends[end_of(from, to)];
    if !end.open {
        return;
    }
    if cut || !end.stalled.is_empty() {
        end.stalled.push_back(message);
        network.traffic.stalled += 1;
        return;
    }
    let at = network.arrival(core.now(), from, to);
    drop(network);
    core.call_at(at, move |core| deliver(core, (from, to), number, message));
}

fn deliver(core: &Rc<Core>, (from, to): Pair, number: u64, message: InMessage) {
    let mut network = core.network.borrow_mut();
    let cut = network.link(from, to).cut;
    let Some(connection) = network.connections.get_mut(&pair(from, to)) else {
        return;
    };
    if connection.number != number || !connection.ends[end_of(to, from)].open {
        return;
    }
    let sender = &mut connection.ends[end_of(from, to)];
    if cut || !sender.stalled.is_empty() {
        sender.stalled.push_back(message);
        network.traffic.stalled += 1;
        return;
    }
    network.traffic.delivered += 1;
    drop(network);
    push_event(core, to, NetEvent::Message(message));
}

/// Tells `host` that its connection with `peer` ended, if it is still that connection and still open there.
fn close_end(core: &Rc<Core>, host: HostId, peer: HostId, number: u64, process_gone: bool) {
    let mut network = core.network.borrow_mut();
    let Some(connection) = network.connections.get_mut(&pair(host, peer)) else {
        return;
    };
    if connection.number != number || !connection.ends[end_of(host, peer)].open {
        return;
    }
    connection.ends[end_of(host, peer)].open = false;
    let other_open = connection.ends[end_of(peer, host)].open;
    if !other_open {
        network.connections.remove(&pair(host, peer));
    }
    drop(network);
    core.line(|| format!("{}: peer {} down", name(core, host), name(core, peer)));
    push_event(core, host, NetEvent::PeerDown { host: spoken_id(core, peer), process_gone });
    if other_open {
        // This end's kernel resets whatever the other still sends; through a cut that is heard after the heal.
        reset_if_reachable(core, peer, host, number);
    }
    try_connect(core, host, peer);
}

/// A host's process ends its connection with whoever speaks as `peer`; they connect anew.
pub(crate) fn hang_up(core: &Rc<Core>, host: HostId, peer: HostId) {
    let network = core.network.borrow();
    let machine = machine_of(core, &network, host, peer);
    let number = network.connections.get(&pair(host, machine)).map(|connection| connection.number);
    drop(network);
    if let Some(number) = number {
        close_end(core, host, machine, number, false);
    }
}

/// `host` hears, a way later, that `peer` holds the connection no more; what was on its way may still come first.
fn reset_if_reachable(core: &Rc<Core>, host: HostId, peer: HostId, number: u64) {
    let mut network = core.network.borrow_mut();
    if network.cut_either_way(host, peer) {
        return;
    }
    let late = network.rng.one_in(2);
    let mut at = core.now() + network.draw(|t| t.delay);
    if late {
        at = network.arrival(core.now(), peer, host);
    }
    drop(network);
    core.call_at(at, move |core| {
        let cut = core.network.borrow().cut_either_way(host, peer);
        if !cut {
            close_end(core, host, peer, number, true);
        }
    });
}

/// `host` gives the connection up some time from now, unless something changes before.
fn give_up_later(core: &Rc<Core>, host: HostId, peer: HostId) {
    let mut network = core.network.borrow_mut();
    let Some(number) = network.connections.get(&pair(host, peer)).map(|c| c.number) else {
        return;
    };
    let at = core.now() + network.draw(|t| t.give_up);
    let cuts = (network.link(host, peer).cuts, network.link(peer, host).cuts);
    drop(network);
    core.call_at(at, move |core| {
        let network = core.network.borrow();
        let now = (network.link(host, peer).cuts, network.link(peer, host).cuts);
        let still_cut = network.cut_either_way(host, peer) && cuts == now;
        drop(network);
        let silent = core.hosts.borrow().get(&peer).is_none_or(|peer| !peer.is_up());
        if still_cut || silent {
            close_end(core, host, peer, number, false);
        }
    });
}

/// Connects the two, some time from now, if both are up, the way is free and no connection stands.
fn try_connect(core: &Rc<Core>, a: HostId, b: HostId) {
    let pair = pair(a, b);
    let mut network = core.network.borrow_mut();
    if network.connections.contains_key(&pair) || network.connecting.contains(&pair) {
        return;
    }
    let way = network.draw(|t| t.connect);
    drop(network);
    connect_in(core, pair, way);
}

fn connect_in(core: &Rc<Core>, pair: Pair, way: u64) {
    core.network.borrow_mut().connecting.insert(pair);
    let at = core.now() + way;
    core.call_at(at, move |core| {
        core.network.borrow_mut().connecting.remove(&pair);
        connect(core, pair);
    });
}

fn incarnation(core: &Core, host: HostId) -> Option<Incarnation> {
    let hosts = core.hosts.borrow();
    let host = hosts.get(&host).filter(|host| host.is_up())?;
    Some(Incarnation(host.incarnation()))
}

fn connect(core: &Rc<Core>, pair: Pair) {
    let number = core.number();
    let (Some(a), Some(b)) = (incarnation(core, pair.0), incarnation(core, pair.1)) else {
        return;
    };
    if core.network.borrow().cut_either_way(pair.0, pair.1) || core.network.borrow().connections.contains_key(&pair) {
        return;
    }
    if let Err(why) = may_meet(core, pair) {
        core.line(|| why.clone());
        let mut network = core.network.borrow_mut();
        if !network.refusals.contains(&why) {
            network.refusals.push(why);
        }
        drop(network);
        return connect_in(core, pair, REFUSED_PAUSE.as_nanos() as u64);
    }
    if core.cloned_hosts.get() && !outlives_rivals(core, pair) {
        return connect_in(core, pair, REFUSED_PAUSE.as_nanos() as u64);
    }
    let end = || End { open: true, ..End::default() };
    core.network.borrow_mut().connections.insert(pair, Connection { number, ends: [end(), end()] });
    core.fold(STEP_LINK, &[number]);
    core.line(|| format!("{} and {} connected", name(core, pair.0), name(core, pair.1)));
    for (to, peer, incarnation) in [(pair.0, pair.1, b), (pair.1, pair.0, a)] {
        let Some(machine) = core.hosts.borrow().get(&peer).cloned() else { continue };
        let (build, level) = (machine.build.borrow().clone(), machine.level.get());
        push_event(core, to, NetEvent::PeerUp { host: spoken_id(core, peer), incarnation, build, level });
    }
}

/// Whether both sides of a greeting take the other.
fn may_meet(core: &Core, pair: Pair) -> Result<(), String> {
    let hosts = core.hosts.borrow();
    let (Some(a), Some(b)) = (hosts.get(&pair.0), hosts.get(&pair.1)) else { return Ok(()) };
    let (of_a, of_b) = (a.build.borrow(), b.build.borrow());
    let a = Party { name: &a.name, build: &of_a, level: a.level.get() };
    meet(a, Party { name: &b.name, build: &of_b, level: b.level.get() }).map(drop)
}

/// A process takes the cluster for another level: who does not speak it is left.
pub(crate) fn level_changed(core: &Rc<Core>, host: HostId) {
    for peer in peers_of(core, host) {
        let number = core.network.borrow().connections.get(&pair(host, peer)).map(|connection| connection.number);
        if let Some(number) = number
            && may_meet(core, pair(host, peer)).is_err()
        {
            close_end(core, host, peer, number, false);
        }
    }
}

/// Whether neither refuses the other for another machine with its host id; connections with older ones end.
fn outlives_rivals(core: &Rc<Core>, pair: Pair) -> bool {
    for (host, peer) in [pair, (pair.1, pair.0)] {
        let Some(rival) = rival(core, host, peer) else { continue };
        if incarnation(core, rival) >= incarnation(core, peer) {
            return false;
        }
        let number = core.network.borrow().connections.get(&self::pair(host, rival)).map(|c| c.number);
        if let Some(number) = number {
            close_end(core, host, rival, number, false);
        }
    }
    true
}

fn name(core: &Core, host: HostId) -> String {
    let hosts = core.hosts.borrow();
    hosts.get(&host).map_or(String::new(), |h| h.name.clone())
}

/// All other machines, but those that say they are the same host: nobody connects with himself.
fn peers_of(core: &Core, host: HostId) -> Vec<HostId> {
    let hosts = core.hosts.borrow();
    let spoken = hosts.get(&host).map(|host| host.spoken_id);
    hosts.iter().filter(|(id, other)| **id != host && Some(other.spoken_id) != spoken).map(|(id, _)| *id).collect()
}

/// A process began: old connections of its host are reset, new ones made.
pub(crate) fn process_started(core: &Rc<Core>, host: HostId) {
    for peer in peers_of(core, host) {
        let number = core.network.borrow().connections.get(&pair(host, peer)).map(|connection| connection.number);
        match number {
            Some(number) => reset_if_reachable(core, peer, host, number),
            None => try_connect(core, host, peer),
        }
    }
}

/// A process ended. If its kernel lives, peers hear of it at once; else they find out by silence.
pub(crate) fn process_ended(core: &Rc<Core>, host: HostId, kernel_lives: bool) {
    for peer in peers_of(core, host) {
        let mut network = core.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&pair(host, peer)) else {
            continue;
        };
        let number = connection.number;
        let end = &mut connection.ends[end_of(host, peer)];
        end.open = false;
        if !kernel_lives {
            // Nobody is left to send again what a cut held back.
            end.stalled.clear();
        }
        let peer_open = connection.ends[end_of(peer, host)].open;
        if !peer_open {
            network.connections.remove(&pair(host, peer));
            continue;
        }
        drop(network);
        if kernel_lives {
            reset_if_reachable(core, peer, host, number);
        } else {
            give_up_later(core, peer, host);
        }
    }
}

impl World {
    /// Sets how long things take on the network from now on.
    pub fn set_net_times(&self, times: NetTimes) {
        self.core().network.borrow_mut().times = times;
    }

    /// Messages so far.
    pub fn traffic(&self) -> Traffic {
        self.core().network.borrow().traffic
    }

    /// Why machines were not connected so far, in words, each reason once.
    pub fn refusals(&self) -> Vec<String> {
        self.core().network.borrow().refusals.clone()
    }

    /// Tells `listener` of every message that is given to the network from now on: its body and the bytes of its payload. It may
    /// ask nothing of the network.
    pub fn on_message(&self, listener: impl Fn(&[u8], usize) + 'static) {
        self.core().network.borrow_mut().listener = Some(Rc::new(listener));
    }

    /// Cuts both ways between two hosts.
    pub fn cut(&self, a: HostId, b: HostId) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts the way of messages of `from` to `to`; the other way stays, until both ends give up.
    pub fn cut_one_way(&self, from: HostId, to: HostId) {
        let core = self.core();
        core.fold(STEP_LINK, &[core.now(), from.0 as u64, to.0 as u64]);
        core.line(|| format!("cut {} -> {}", name(core, from), name(core, to)));
        {
            let mut network = core.network.borrow_mut();
            let link = network.links.entry((from, to)).or_default();
            if link.cut {
                return;
            }
            link.cut = true;
            link.cuts += 1;
        }
        give_up_later(core, from, to);
        give_up_later(core, to, from);
    }

    /// Cuts a host off from all others.
    pub fn isolate(&self, host: HostId) {
        for peer in peers_of(self.core(), host) {
            self.cut(host, peer);
        }
    }

    /// Heals both ways between two hosts: what waited arrives late, or the connection is made anew.
    pub fn heal(&self, a: HostId, b: HostId) {
        let core = self.core();
        core.fold(STEP_LINK, &[core.now(), a.0 as u64, b.0 as u64, 1]);
        core.line(|| format!("heal {} <-> {}", name(core, a), name(core, b)));
        for way in [(a, b), (b, a)] {
            if let Some(link) = core.network.borrow_mut().links.get_mut(&way) {
                link.cut = false;
            }
        }
        for (from, to) in [(a, b), (b, a)] {
            release_stalled(core, from, to);
        }
        let half_open = {
            let network = core.network.borrow();
            network.connections.get(&pair(a, b)).map(|connection| {
                let open = |host, peer| connection.ends[end_of(host, peer)].open;
                (connection.number, open(a, b), open(b, a))
            })
        };
        match half_open {
            Some((number, true, false)) => self.after_heal_closed_by(b, a, number),
            Some((number, false, true)) => self.after_heal_closed_by(a, b, number),
            Some(_) => {}
            None => try_connect(core, a, b),
        }
    }

    /// `gone` no longer holds the connection: its kernel says so, or it has no power and stays silent.
    fn after_heal_closed_by(&self, gone: HostId, still: HostId, number: u64) {
        let up = self.host(gone).is_some_and(|host| host.is_up());
        if up {
            reset_if_reachable(self.core(), still, gone, number);
        } else {
            give_up_later(self.core(), still, gone);
        }
    }

    /// Heals every link, and makes every link fast and true again.
    pub fn heal_all(&self) {
        let links: Vec<Pair> = {
            let mut network = self.core().network.borrow_mut();
            for link in network.links.values_mut() {
                (link.slower_by, link.changes_every) = (0, 0);
            }
            let cut = network.links.iter().filter(|(_, link)| link.cut);
            cut.map(|(way, _)| *way).collect()
        };
        for (a, b) in links {
            self.heal(a, b);
        }
    }

    /// Makes messages of `from` to `to` slower by this much, from now on.
    pub fn slow_link(&self, from: HostId, to: HostId, slower_by: Duration) {
        let mut network = self.core().network.borrow_mut();
        let link = network.links.entry((from, to)).or_default();
        link.slower_by = slower_by.as_nanos() as u64;
    }

    /// Flips a bit of the blocks in every n-th message of `from` to `to` that carries any, from now on; 0 is never.
    pub fn change_blocks(&self, from: HostId, to: HostId, every: u64) {
        self.core().network.borrow_mut().links.entry((from, to)).or_default().changes_every = every;
    }

    /// Ends the connection of two hosts; what is on its way is lost, and they connect anew.
    pub fn disconnect(&self, a: HostId, b: HostId) {
        let core = self.core();
        let number = core.network.borrow().connections.get(&pair(a, b)).map(|connection| connection.number);
        if let Some(number) = number {
            core.fold(STEP_LINK, &[core.now(), number, 2]);
            close_end(core, a, b, number, false);
            close_end(core, b, a, number, false);
        }
    }
}

impl World {
    /// Ends the connection at one end only: what `other` goes on sending is lost, and it finds out by silence.
    pub fn half_open(&self, knows: HostId, other: HostId) {
        let core = self.core();
        let mut network = core.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&pair(knows, other)) else {
            return;
        };
        let number = connection.number;
        let ends = [end_of(knows, other), end_of(other, knows)];
        if !connection.ends[ends[0]].open || !connection.ends[ends[1]].open {
            return;
        }
        connection.ends[ends[0]].open = false;
        let at = core.now() + network.draw(|t| t.give_up);
        drop(network);
        core.fold(STEP_LINK, &[core.now(), number, 3]);
        core.line(|| format!("{}: peer {} down, which does not know", name(core, knows), name(core, other)));
        push_event(core, knows, NetEvent::PeerDown { host: spoken_id(core, other), process_gone: false });
        core.call_at(at, move |core| close_end(core, other, knows, number, false));
    }
}

/// What a cut held back sets out again, in order.
fn release_stalled(core: &Rc<Core>, from: HostId, to: HostId) {
    let mut network = core.network.borrow_mut();
    let Some(connection) = network.connections.get_mut(&pair(from, to)) else {
        return;
    };
    let number = connection.number;
    let end = &mut connection.ends[end_of(from, to)];
    let stalled = std::mem::take(&mut end.stalled);
    let arrivals: Vec<(u64, InMessage)> =
        stalled.into_iter().map(|message| (network.arrival(core.now(), from, to), message)).collect();
    drop(network);
    for (at, message) in arrivals {
        core.call_at(at, move |core| deliver(core, (from, to), number, message));
    }
}
