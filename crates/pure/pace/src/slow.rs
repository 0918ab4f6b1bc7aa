//! Whether a device is slow: an outlier against its peers, span after span.
//!
//! Promises    S1  a device that is only busier than its peers is not slow: what it needs for a unit of work is compared, too
//!             S2  where all are as slow, none is: only others tell what is usual
//!             S3  one bad span names nobody, and one good span clears nobody
//! Assumes     peers are of one kind: cache devices or capacity devices, with moving parts or without, as far as that is known
//! Not here    who counts (`store`), what is done about it (`placement`, `node`)
//! Source      gray failures: Huang et al., HotOS 2017; slow devices found by their peers: Gunawi et al., FAST 2018, Lu et al. (Perseus),
//!             FAST 2023

use std::{collections::VecDeque, time::Duration};

use cairn_types::{DeviceTimes, RequestKind, Time};

/// How long a span is that is judged by itself.
pub const SLOW_SPAN: Duration = Duration::from_secs(5);
/// Spans that a verdict looks back on: 30 s. With the span that has begun a device is named within 35 s of becoming slow.
pub const SLOW_SPANS: usize = 6;
/// Of these, spans that must be slow. One that is not may have had a pause of the load.
const SLOW_SPANS_MIN: usize = 5;
/// Spans in a row that clear a device: two minutes. Devices that reset now and then are well in between.
const WELL_SPANS_MIN: usize = 24;
/// Times what its peers' requests take, at least.
///
/// Devices of one model that are well differ by less than 2 in the mean; a queue that is as deep, and garbage collection, may add as much
/// again. Those that fail slowly are 10 to 100 times slower for hours. 5 is between 4 and 10.
const TIMES_MIN: u64 = 5;
/// Times what its peers are busy for a unit of work, at least.
///
/// A queue makes requests wait, but it never makes the device need longer for each: that only falls, where a device serves several at once. 2 is
/// what devices that are well differ by.
const BUSY_TIMES_MIN: u64 = 2;
/// How much longer than its peers' a request must take, at least: less is lost among networks and processors.
const OVER_MIN: Duration = Duration::from_millis(2);
/// Requests of one kind that a span must have. The mean of 10 that differ by as much as their mean is true within a third.
const REQUESTS_MIN: u64 = 10;
/// Peers that must have had as many. Against two, a device must be slow beside both; with more, beside the middle one.
const PEERS_MIN: usize = 2;

/// What a slow device's requests took, and its peers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlier {
    /// Which requests.
    pub kind: RequestKind,
    /// Nanoseconds, in the mean.
    pub took_ns: u64,
    /// Of the middle one of its peers.
    pub peers_ns: u64,
    /// How many peers there were.
    pub peers: usize,
}

/// What a span says of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It had too few requests, or its peers had.
    Unknown,
    /// As its peers.
    Usual,
    /// An outlier.
    Slow(Outlier),
}

/// Judges what a device did within a span of this length by what its peers did of late.
pub fn judge(mine: &DeviceTimes, span: Duration, peers: &[DeviceTimes]) -> Pace {
    let is_like = |peer: &&DeviceTimes| {
        let rotations = mine.rotates.zip(peer.rotates);
        peer.is_cache == mine.is_cache && rotations.is_none_or(|(mine, peer)| mine == peer)
    };
    let like: Vec<&DeviceTimes> = peers.iter().filter(is_like).collect();
    let judged = RequestKind::ALL.into_iter().map(|kind| judge_kind(mine, span, &like, kind));
    judged.fold(Pace::Unknown, worse)
}

fn judge_kind(mine: &DeviceTimes, span: Duration, like: &[&DeviceTimes], kind: RequestKind) -> Pace {
    let served = mine.of(kind);
    // One that takes seconds for each has few.
    let enough = served.requests >= REQUESTS_MIN || u128::from(mine.busy_ns) * 2 >= span.as_nanos();
    let Some(took_ns) = served.mean_ns().filter(|_| enough) else { return Pace::Unknown };
    let known: Vec<&&DeviceTimes> = like.iter().filter(|peer| peer.of(kind).requests >= REQUESTS_MIN).collect();
    if known.len() < PEERS_MIN {
        return Pace::Unknown;
    }
    let peers_ns = middle(known.iter().filter_map(|peer| peer.of(kind).mean_ns()));
    let peers_busy = middle(known.iter().filter_map(|peer| peer.busy_ns_per_unit()));
    let busy = mine.busy_ns_per_unit().unwrap_or(0);
    let is_slow = took_ns >= peers_ns.saturating_mul(TIMES_MIN)
        && took_ns >= peers_ns.saturating_add(OVER_MIN.as_nanos() as u64)
        && busy >= peers_busy.saturating_mul(BUSY_TIMES_MIN);
    match is_slow {
        true => Pace::Slow(Outlier { kind, took_ns, peers_ns, peers: known.len() }),
        false => Pace::Usual,
    }
}

/// The middle one; the higher of two in the middle.
fn middle(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// What is slow counts before what is usual, and what is known before what is not; of two that are slow the one that is further off.
fn worse(a: Pace, b: Pace) -> Pace {
    match (a, b) {
        (Pace::Slow(x), Pace::Slow(y)) => {
            let [x_times, y_times] = [(x, y), (y, x)].map(|(a, b)| u128::from(a.took_ns) * u128::from(b.peers_ns));
            if y_times > x_times { b } else { a }
        }
        (Pace::Slow(_), _) | (_, Pace::Unknown) => a,
        (_, Pace::Slow(_)) | (Pace::Unknown, _) => b,
        (Pace::Usual, Pace::Usual) => a,
    }
}

/// Follows one device.
#[derive(Debug, Clone, Default)]
pub struct SlowWatch {
    spans: VecDeque<Pace>,
    /// When the spans began that lead to what is said of it.
    since: Option<Time>,
    named: Option<Outlier>,
    well_in_a_row: usize,
}

impl SlowWatch {
    /// A span has ended that began at `began`.
    pub fn see(&mut self, began: Time, pace: Pace) {
        if self.spans.len() == SLOW_SPANS {
            self.spans.pop_front();
        }
        self.spans.push_back(pace);
        match pace {
            Pace::Slow(outlier) => {
                self.well_in_a_row = 0;
                self.since.get_or_insert(began);
                if self.named.is_some() || self.slow_spans() >= SLOW_SPANS_MIN {
                    self.named = Some(outlier);
                }
            }
            Pace::Usual => self.well_in_a_row += 1,
            Pace::Unknown => {}
        }
        if self.is_well() {
            self.named = None;
        }
        if self.named.is_none() && self.slow_spans() == 0 {
            self.since = None;
        }
    }

    /// Since when it is slow, and how slow it was last; none while it is not.
    pub fn slow(&self) -> Option<(Time, Outlier)> {
        self.since.zip(self.named)
    }

    /// It was as fast as its peers for long.
    pub fn is_well(&self) -> bool {
        self.well_in_a_row >= WELL_SPANS_MIN
    }

    fn slow_spans(&self) -> usize {
        self.spans.iter().filter(|pace| matches!(pace, Pace::Slow(_))).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A device that serves `lanes` requests at once, each in `service_ns`, and always has `depth` of them for a part of the span.
    #[derive(Clone, Copy)]
    struct Model {
        service_ns: u64,
        lanes: u64,
        depth: u64,
        busy_percent: u64,
    }

    impl Model {
        fn times(self, span: Duration) -> DeviceTimes {
            let mut times = DeviceTimes::default();
            let busy_ns = span.as_nanos() as u64 * self.busy_percent / 100;
            let at_once = self.depth.min(self.lanes);
            let requests = busy_ns / self.service_ns * at_once;
            let took_ns = self.service_ns * self.depth / at_once;
            (0..requests.min(100_000)).for_each(|_| times.count(RequestKind::SmallRead, 4096, took_ns));
            // What is left out of so many leaves the means as they are.
            times.busy_ns = busy_ns * requests.min(100_000) / requests.max(1);
            times
        }
    }

    fn peers(model: Model, count: usize) -> Vec<DeviceTimes> {
        vec![model.times(SLOW_SPAN * SLOW_SPANS as u32); count]
    }

    /// S1, S2. Goal: no load makes a device that is well a slow one. Method: devices of one model, one of them with any other depth and any other
    /// part of the time in use, serial and parallel, fast and slow by themselves.
    #[test]
    fn a_device_that_is_only_busier_is_not_slow() {
        for service_ns in [20_000, 100_000, 3 * MS, 8 * MS, 200 * MS] {
            for lanes in [1, 2, 9, 64] {
                for (theirs, busy_theirs) in [(1, 5), (1, 100), (4, 50), (32, 100)] {
                    let peers = peers(Model { service_ns, lanes, depth: theirs, busy_percent: busy_theirs }, 5);
                    for (mine, busy_mine) in [(1, 1), (1, 100), (8, 30), (64, 100), (512, 100)] {
                        let model = Model { service_ns, lanes, depth: mine, busy_percent: busy_mine };
                        let pace = judge(&model.times(SLOW_SPAN), SLOW_SPAN, &peers);
                        assert!(!matches!(pace, Pace::Slow(_)), "{service_ns} {lanes}: {theirs} to {mine}: {pace:?}");
                    }
                }
            }
        }
    }

    /// Goal: a device that needs 20 times as long is slow, also with a queue that is some times as deep as its peers'. Method: as above.
    #[test]
    fn a_device_that_needs_longer_is_slow() {
        for (service_ns, lanes) in [(200_000, 1), (200_000, 9), (8 * MS, 1)] {
            let usual = Model { service_ns, lanes, depth: 1, busy_percent: 20 };
            for depth in [1, 2, 4, 8] {
                let slow = Model { service_ns: service_ns * 20, lanes, depth, busy_percent: 100 };
                let pace = judge(&slow.times(SLOW_SPAN), SLOW_SPAN, &peers(usual, 3));
                assert!(matches!(pace, Pace::Slow(Outlier { peers: 3, .. })), "{service_ns} {lanes} {depth}: {pace:?}");
            }
        }
    }

    #[test]
    fn only_peers_of_its_kind_that_did_enough_tell_what_is_usual() {
        let usual = Model { service_ns: MS, lanes: 1, depth: 1, busy_percent: 20 };
        let slow = Model { service_ns: 20 * MS, ..usual }.times(SLOW_SPAN);
        let is_slow = |peers: &[DeviceTimes]| matches!(judge(&slow, SLOW_SPAN, peers), Pace::Slow(_));
        let others = peers(usual, 2);
        assert!(is_slow(&others));
        assert_eq!(judge(&slow, SLOW_SPAN, &others[..1]), Pace::Unknown);
        let of = |change: fn(&mut DeviceTimes)| {
            let mut others = others.clone();
            others.iter_mut().for_each(change);
            others
        };
        assert_eq!(judge(&slow, SLOW_SPAN, &of(|peer| peer.is_cache = true)), Pace::Unknown);
        assert!(is_slow(&of(|peer| peer.rotates = Some(true))), "of one of them nothing is known");
        let rotates = DeviceTimes { rotates: Some(false), ..slow };
        assert_eq!(judge(&rotates, SLOW_SPAN, &of(|peer| peer.rotates = Some(true))), Pace::Unknown);
        let idle = of(|peer| peer.kinds[0].requests = REQUESTS_MIN - 1);
        assert_eq!(judge(&slow, SLOW_SPAN, &idle), Pace::Unknown);
        let mut few = DeviceTimes::default();
        few.count(RequestKind::SmallRead, 4096, 3000 * MS);
        assert_eq!(judge(&few, SLOW_SPAN, &others), Pace::Unknown, "one long request of an idle device");
        few.busy_ns = 5000 * MS;
        assert!(matches!(judge(&few, SLOW_SPAN, &others), Pace::Slow(_)), "one that needs seconds for each");
        // Against two, it has to be slow beside both; a second slow one hides it.
        assert!(!is_slow(&[others[0], Model { service_ns: 20 * MS, ..usual }.times(SLOW_SPAN * 6)]));
        // Microseconds are no matter for anyone, however many times.
        let quick = Model { service_ns: 10_000, ..usual };
        let pace = judge(&Model { service_ns: 1_900_000, ..usual }.times(SLOW_SPAN), SLOW_SPAN, &peers(quick, 3));
        assert_eq!(pace, Pace::Usual);
    }

    /// S3. Method: spans one after the other.
    #[test]
    fn a_device_is_named_after_half_a_minute_and_cleared_after_two() {
        let slow = Pace::Slow(Outlier { kind: RequestKind::SmallRead, took_ns: 9 * MS, peers_ns: MS, peers: 3 });
        let mut watch = SlowWatch::default();
        let mut now = Time(0);
        let mut see = |watch: &mut SlowWatch, pace: Pace| {
            watch.see(now, pace);
            now = now + SLOW_SPAN;
        };
        for _ in 0..4 {
            see(&mut watch, slow);
        }
        see(&mut watch, Pace::Usual);
        assert_eq!(watch.slow(), None);
        see(&mut watch, slow);
        assert_eq!(watch.slow().map(|(since, _)| since), Some(Time(0)), "five of six, within 30 s");
        for _ in 0..WELL_SPANS_MIN - 1 {
            see(&mut watch, Pace::Usual);
        }
        see(&mut watch, Pace::Unknown);
        assert!(watch.slow().is_some(), "nobody knows");
        see(&mut watch, slow);
        for _ in 0..WELL_SPANS_MIN {
            assert!(watch.slow().is_some());
            see(&mut watch, Pace::Usual);
        }
        assert!(watch.slow().is_none() && watch.is_well());
        see(&mut watch, slow);
        assert!(watch.slow().is_none() && !watch.is_well(), "it takes half a minute anew");
    }
}
