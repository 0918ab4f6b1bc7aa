//! One drive: lanes that requests occupy, a channel that their bytes go through.
//!
//! Promises    plain arithmetic on the times that it is given: no clock, no chance but its own seed

use std::time::Duration;

/// A medium, in numbers. Times are those of the real drive; `dilation` stretches them all.
#[derive(Debug, Clone, PartialEq)]
pub struct Medium {
    /// Its name: "optane".
    pub name: String,
    /// Where the numbers are from.
    pub source: String,
    /// What reads take.
    pub reads: Service,
    /// What writes take. They are on stable media when they end: a flush takes nothing more.
    pub writes: Service,
    /// One arm serves reads and writes in turns, with the lanes of reads.
    pub one_arm: bool,
    /// Every time is multiplied by this, at least 1.
    pub dilation: f64,
}

/// What requests of one direction take.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Access times as points of their distribution: share of the requests (0..=1, ascending, the first 0, the last 1), and
    /// nanoseconds that so many stay within. Between two points it is a line.
    pub access: Vec<(f64, u64)>,
    /// Requests in service at once; others wait.
    pub lanes: u32,
    /// What the channel to the drive carries.
    pub bytes_per_s: u64,
    /// The access time of a request that begins where the last one of its direction ended; as any other's where none.
    pub following_ns: Option<u64>,
}

/// Why numbers are no medium.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("medium {name}: {why}")]
pub struct MediumError {
    /// Which.
    pub name: String,
    /// What is wrong.
    pub why: String,
}

/// The longest access time of a medium; dilated by the most that is allowed it is still far from what a clock can hold.
const ACCESS_MAX_NS: u64 = 10_000_000_000;

impl Medium {
    /// Whether it can be calculated with.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), MediumError> {
        let refuse = |why: String| Err(MediumError { name: self.name.clone(), why });
        if !(self.dilation >= 1.0 && self.dilation <= 1e4) {
            return refuse(format!("a dilation of {}: take 1 to 10,000", self.dilation));
        }
        for (what, service) in [("reads", &self.reads), ("writes", &self.writes)] {
            let points = &service.access;
            let ends = (points.first().map(|p| p.0), points.last().map(|p| p.0));
            if ends != (Some(0.0), Some(1.0)) || points.len() < 2 {
                return refuse(format!("access times of {what} go from share 0 to share 1, in two points or more"));
            }
            if !points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
                return refuse(format!("access times of {what} ascend, shares and nanoseconds"));
            }
            let longest_ns = points.iter().map(|point| point.1).chain(service.following_ns).max();
            if longest_ns > Some(ACCESS_MAX_NS) {
                return refuse(format!("an access time of {what} of more than 10 s"));
            }
            if service.lanes == 0 || service.lanes > 4096 {
                return refuse(format!("{} lanes for {what}: take 1 to 4,096", service.lanes));
            }
            if service.bytes_per_s < 1_000_000 {
                return refuse(format!("{} bytes a second for {what}: take 1 MB/s or more", service.bytes_per_s));
            }
        }
        Ok(())
    }

    /// For people, beside everything that is measured on it: "modelled hdd10k", "modelled hdd10k, times x20".
    pub fn stamp(&self) -> String {
        match self.dilation {
            1.0 => format!("modelled {}", self.name),
            dilation => format!("modelled {}, times x{dilation}", self.name),
        }
    }
}

/// A request's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What is under way and what comes, at one drive.
pub(crate) struct Pending {
    medium: Medium,
    /// When each lane is free, by direction; with one arm only the first.
    lanes: [Vec<u64>; 2],
    /// Until when each channel is taken.
    channels: [u64; 2],
    /// Where the last request of each direction ended.
    ends: [u64; 2],
    random: u64,
}

impl Pending {
    pub fn new(medium: Medium, seed: u64) -> Self {
        let lanes = [vec![0; medium.reads.lanes as usize], vec![0; medium.writes.lanes as usize]];
        Self { medium, lanes, channels: [0; 2], ends: [u64::MAX; 2], random: seed }
    }

    /// How long from `now` on a request takes that begins now, what is before it included.
    pub fn admit(&mut self, now: Duration, access: Access, offset: u64, len_bytes: u64) -> Duration {
        let now_ns = now.as_nanos() as u64;
        let side = access as usize;
        let share = self.draw();
        let service = if access == Access::Read { &self.medium.reads } else { &self.medium.writes };
        let access_ns = match service.following_ns {
            Some(ns) if self.ends[side] == offset => ns,
            _ => service.at(share),
        };
        let transfer_ns = len_bytes as f64 * 1e9 / service.bytes_per_s as f64;
        let stretched = |ns: f64| (ns * self.medium.dilation) as u64;
        let (access_ns, transfer_ns) = (stretched(access_ns as f64), stretched(transfer_ns));
        let (lanes, channel) = if self.medium.one_arm { (0, 0) } else { (side, side) };
        let lane = self.lanes[lanes].iter_mut().min().expect("a medium has lanes");
        let begin = now_ns.max(*lane);
        // Bytes go through the channel in the order of requests, while others are accessed: who is slow to access holds up nobody.
        self.channels[channel] = self.channels[channel].max(begin) + transfer_ns;
        let done = (begin + access_ns + transfer_ns).max(self.channels[channel]);
        *lane = done;
        // With one arm whatever comes between moves it away.
        self.ends = if self.medium.one_arm { [u64::MAX; 2] } else { self.ends };
        self.ends[side] = offset + len_bytes;
        Duration::from_nanos(done - now_ns)
    }

    /// The next of a sequence in 0..1 (splitmix64, as in Steele, Lea and Flood 2014).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Service {
    /// The access time that `share` of the requests stay within.
    fn at(&self, share: f64) -> u64 {
        let after = self.access.partition_point(|point| point.0 <= share).clamp(1, self.access.len() - 1);
        let ((from, from_ns), (until, until_ns)) = (self.access[after - 1], self.access[after]);
        let part = ((share - from) / (until - from)).clamp(0.0, 1.0);
        from_ns + ((until_ns - from_ns) as f64 * part) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// 1 ms to access, 1 MB/s... so 1,000 bytes take a millisecond more.
    fn steady(lanes: u32, dilation: f64) -> Medium {
        let service = Service {
            access: vec![(0.0, 1_000_000), (1.0, 1_000_000)],
            lanes,
            bytes_per_s: 1_000_000,
            following_ns: None,
        };
        let (name, source) = ("steady".into(), "a test".into());
        Medium { name, source, reads: service.clone(), writes: service, one_arm: false, dilation }
    }

    #[test]
    fn access_then_transfer_and_dilation_stretches_both() {
        let took = |dilation| Pending::new(steady(4, dilation), 1).admit(ms(5), Access::Read, 0, 1000);
        assert_eq!(took(1.0), ms(2));
        assert_eq!(took(10.0), ms(20));
    }

    #[test]
    fn lanes_serve_at_once_and_the_channel_one_after_the_other() {
        let mut drive = Pending::new(steady(2, 1.0), 1);
        let took: Vec<_> = (0..3).map(|at| drive.admit(ms(0), Access::Read, at << 20, 1000)).collect();
        assert_eq!(took, [ms(2), ms(2), ms(4)], "the third waits for a lane");
        let mut drive = Pending::new(steady(8, 1.0), 1);
        let took: Vec<_> = (0..4).map(|at| drive.admit(ms(0), Access::Read, at << 20, 1000)).collect();
        assert_eq!(took, [ms(2), ms(2), ms(3), ms(4)], "the channel carries a thousand bytes in a millisecond");
        assert_eq!(drive.admit(ms(0), Access::Write, 0, 1000), ms(2), "writes have lanes and a channel of their own");
        assert_eq!(drive.admit(ms(9), Access::Read, 0, 1000), ms(2), "what was is over");
    }

    #[test]
    fn one_arm_serves_in_turns_and_what_follows_needs_no_access() {
        let mut medium = steady(1, 1.0);
        medium.one_arm = true;
        medium.reads.following_ns = Some(0);
        let mut drive = Pending::new(medium, 1);
        assert_eq!(drive.admit(ms(0), Access::Read, 0, 1000), ms(2));
        assert_eq!(drive.admit(ms(0), Access::Read, 1000, 1000), ms(3), "it follows");
        assert_eq!(drive.admit(ms(0), Access::Write, 0, 1000), ms(5), "the arm is busy until 3 ms");
        assert_eq!(drive.admit(ms(0), Access::Read, 2000, 1000), ms(7), "and was moved away");
    }

    #[test]
    fn access_times_are_distributed_as_told() {
        let mut medium = steady(4096, 1.0);
        medium.reads = Service {
            access: vec![(0.0, 0), (0.5, 100_000), (0.99, 200_000), (1.0, 1_000_000)],
            lanes: 4096,
            bytes_per_s: u64::MAX,
            following_ns: None,
        };
        let mut drive = Pending::new(medium, 7);
        let mut took: Vec<u64> =
            (0..100_000).map(|at| drive.admit(ms(at * 10), Access::Read, 0, 4096).as_nanos() as u64).collect();
        took.sort_unstable();
        let near = |at: usize, ns: f64| (took[at] as f64 / ns - 1.0).abs() < 0.02;
        assert!(near(50_000, 100_000.0) && near(25_000, 50_000.0) && near(99_000, 200_000.0), "{}", took[50_000]);
    }

    #[test]
    fn numbers_that_are_no_medium_are_refused() {
        steady(1, 1.0).check().unwrap();
        let wrong = |change: fn(&mut Medium)| {
            let mut medium = steady(1, 1.0);
            change(&mut medium);
            medium.check().unwrap_err().to_string()
        };
        assert!(wrong(|m| m.dilation = 0.5).contains("dilation"));
        assert!(wrong(|m| m.dilation = f64::NAN).contains("dilation"));
        assert!(wrong(|m| m.reads.lanes = 0).contains("lanes"));
        assert!(wrong(|m| m.writes.bytes_per_s = 0).contains("bytes a second"));
        assert!(wrong(|m| m.reads.access = vec![(0.0, 1)]).contains("share 0"));
        assert!(wrong(|m| m.reads.following_ns = Some(u64::MAX)).contains("more than 10 s"));
        assert!(wrong(|m| m.reads.access = vec![(0.0, 2), (1.0, 1)]).contains("ascend"));
    }
}
