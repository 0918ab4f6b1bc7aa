//! When a keeper looks after its object again where nothing wakes it: plain arithmetic.
//!
//! Promises    K1  looks at objects at rest are [`QUIET_LOOKS_PER_S`] a second and host at most, spread evenly, however many it owns
//!             K2  an object that something is wrong with is looked at again before that has lasted twice as long, and no
//!                 later than one at rest
//!             K3  of many that wait for something, each has its turn, also where the first can never have it
//! Not here    what a look does, and what wakes a keeper before its time (`keeper`)

use std::time::Duration;

use cairn_types::{ObjectId, Time};

/// How often an object at rest is looked at where a host owns few. Nothing waits for that: a signal wakes the keeper for all that it
/// has to do, and this is the belt to those braces. It bounds how late a place for a replacement is found.
const QUIET_PERIOD_MIN: Duration = Duration::from_secs(5);

/// Looks at objects at rest, a second and host, at most; from 250 objects on each waits longer instead.
///
/// Napkin: a look takes some 7 microseconds, so these take 21 ms of a processor a minute, of 70 that a host at rest takes in all.
/// The last of 10,000 objects is looked at after 200 s. More would show in the processor time of a host with many disks.
const QUIET_LOOKS_PER_S: u32 = 50;

/// Looks at objects at rest are put off to a multiple of this: they wake the thread ten times a second at most.
pub(crate) const TOGETHER: Duration = Duration::from_millis(100);

/// How often an object at rest is looked at, of so many that a host owns: a multiple of [`TOGETHER`].
fn quiet_period(owned: usize) -> Duration {
    let paced = Duration::from_secs(owned as u64) / QUIET_LOOKS_PER_S;
    let together = TOGETHER.as_nanos() as u64;
    Duration::from_nanos((paced.as_nanos() as u64).next_multiple_of(together)).max(QUIET_PERIOD_MIN)
}

/// When an object at rest is looked at next: after `now`, and within a period. Each object has its own place in the period, so that
/// a signal that wakes all of them does not leave them in step: together they would be a stop of the thread.
pub(super) fn next_quiet(now: Time, object: ObjectId, owned: usize) -> Time {
    let together = TOGETHER.as_nanos() as u64;
    let places = quiet_period(owned).as_nanos() as u64 / together;
    let own = (object.0 % u128::from(places)) as u64;
    let next = now.0 / together + 1;
    let wait = (own + places - next % places) % places;
    Time((next + wait) * together)
}

/// How long the next look waits at an object that something has been wrong with for so long: ten thousand disks may wait for one
/// host that is gone.
pub(super) fn again_after(first: Duration, lasted: Duration) -> Duration {
    first.max(lasted)
}

/// All of `due`, from the one after `last` on.
pub(super) fn in_turn<T: Ord>(mut due: Vec<T>, last: Option<T>) -> Vec<T> {
    due.sort_unstable();
    let first = last.map_or(0, |last| due.partition_point(|one| *one <= last));
    due.rotate_left(first);
    due
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_period_grows_with_what_is_owned() {
        for (owned, period_ms) in
            [(0, 5_000), (1, 5_000), (250, 5_000), (251, 5_100), (500, 10_000), (3_334, 66_700), (100_000, 2_000_000)]
        {
            assert_eq!(quiet_period(owned), Duration::from_millis(period_ms), "{owned} owned");
        }
    }

    /// K1. Goal: looks do not grow with objects, nor come in bursts. Method: all objects are woken at one moment and left alone for ten
    /// minutes; every look is counted, by the tenth of a second that it is in.
    #[test]
    fn looks_at_objects_at_rest_are_bounded_and_spread() {
        for (owned, most_in_a_tenth) in [(10, 3), (250, 20), (1_000, 20), (10_000, 20)] {
            let (begin, end) = (Time(12_345_678_901), Time(612_345_678_901));
            let mut looks: BTreeMap<u64, u64> = BTreeMap::new();
            for n in 0..owned {
                // Ids are drawn at random; a fixed draw here.
                let object = ObjectId(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835_u128.wrapping_mul(n as u128 + 1) >> 32);
                let mut now = begin;
                loop {
                    let next = next_quiet(now, object, owned);
                    assert!(next > now && next <= now + quiet_period(owned), "{owned}: {now:?}, then {next:?}");
                    assert_eq!(next.0 % TOGETHER.as_nanos() as u64, 0);
                    now = next;
                    if now > end {
                        break;
                    }
                    *looks.entry(now.0).or_default() += 1;
                }
            }
            let all: u64 = looks.values().sum();
            let period = quiet_period(owned).as_secs_f64();
            assert!(all as f64 <= owned as f64 * (600.0 / period).ceil(), "{owned}: {all} looks");
            assert!(all <= 600 * u64::from(QUIET_LOOKS_PER_S) * 11 / 10, "{owned}: {all} looks");
            let most = looks.values().max().copied().unwrap_or_default();
            assert!(most <= most_in_a_tenth, "{owned}: {most} looks at once");
        }
    }

    /// K3. Goal: nobody starves. Method: some of nine can never be helped; looks help one, and try three at most.
    #[test]
    fn each_has_its_turn() {
        for never in 0..1u32 << 9 {
            let can = |n: &u32| never >> n & 1 == 0;
            let (mut due, mut last): (Vec<u32>, Option<u32>) = ((0..9).rev().collect(), None);
            for _ in 0..9 + 9 {
                for one in in_turn(due.clone(), last).into_iter().take(3) {
                    last = Some(one);
                    if can(&one) {
                        due.retain(|other| *other != one);
                        break;
                    }
                }
            }
            assert!(!due.iter().any(can), "{due:?} of {never:b}");
        }
        assert_eq!(in_turn(vec![3, 1, 2], Some(1)), [2, 3, 1]);
        assert!(in_turn(Vec::new(), Some(1)).is_empty());
    }

    #[test]
    fn what_lasts_is_looked_at_ever_less_often() {
        let (first, mut now, mut looks) = (Duration::from_millis(250), Duration::ZERO, Vec::new());
        while now < Duration::from_secs(10) {
            now += again_after(first, now);
            looks.push(now.as_millis());
        }
        assert_eq!(looks, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000]);
    }
}
