//! Whether hosts agree on the time of day.
//!
//! Delays are counted by each host's own running clock. People and logs go by the clock of the day; schedules and locks of snapshots by the middle one
//! of all hosts.

use cairn_api::v1::Severity;

use super::check::{Check, Looked, Picture, finding};

/// Difference from the middle clock from which a clock is called wrong. A heartbeat that waited behind large messages makes
/// a right clock look a few seconds behind; ten seconds are more than a lease, after which its host would not count as up.
const WRONG_MS: u64 = 10_000;

/// Clocks agree.
pub(crate) const CLOCKS: Check = Check {
    name: "clocks",
    looks_at: "the clock of the day of every host that answers, beside the middle one",
    finds: "each clock that is wrong by more than 10 s: a warning",
    look,
};

fn look(picture: &Picture) -> Looked {
    let mut all: Vec<i64> = picture.clocks.iter().map(|clock| clock.ahead_ms).collect();
    all.sort_unstable();
    // Of two the later one: a clock that lost its battery is behind. With three or more, most are right.
    let middle = all.get(all.len() / 2).copied().unwrap_or(0);
    let wrong = picture.clocks.iter().filter_map(|clock| {
        let off_ms = clock.ahead_ms.saturating_sub(middle);
        (off_ms.unsigned_abs() > WRONG_MS).then(|| {
            let way = if off_ms > 0 { "ahead of" } else { "behind" };
            finding(
                Severity::Warning,
                format!(
                    "the clock of host {} is {} {way} the others'",
                    clock.host,
                    duration((off_ms.unsigned_abs() + 500) / 1000)
                ),
                "times in its log and in what it reports are wrong; no delay and no data depend on it. Where most clocks are wrong, schedules of snapshots run at wrong times, and locks end at wrong ones",
                "set the clock and keep it right (chrony, systemd-timesyncd)",
            )
        })
    });
    Looked { well: format!("the clocks of {} hosts agree", picture.clocks.len()), findings: wrong.collect() }
}

/// Seconds in words, one unit.
fn duration(s: u64) -> String {
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{ClockSeen, tests::causes};
    use super::*;

    fn found(clocks: &[i64]) -> Vec<String> {
        let clock = |(n, ahead_ms): (usize, &i64)| ClockSeen { host: format!("h{n}"), ahead_ms: *ahead_ms };
        let clocks = clocks.iter().enumerate().map(clock).collect();
        causes(&CLOCKS, &Picture { clocks, ..Default::default() })
    }

    /// Goal: the one that is wrong is named, also where it is the one that looks. Method: offsets as such a host hears them.
    #[test]
    fn the_wrong_clock_is_named_and_not_the_others() {
        const MONTH_MS: i64 = 30 * 86_400_000;
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&[0, 40, -900]), [""; 0]);
        assert_eq!(found(&[0, MONTH_MS, 30]), ["the clock of host h1 is 30 d ahead of the others'"]);
        // Host 0 looks, and its own clock is a month ahead: it hears all others a month behind.
        assert_eq!(found(&[0, -MONTH_MS, -MONTH_MS + 5]), ["the clock of host h0 is 30 d ahead of the others'"]);
        assert_eq!(found(&[0, 0, -90_000]), ["the clock of host h2 is 90 s behind the others'"]);
        assert_eq!(found(&[0, -MONTH_MS]), ["the clock of host h1 is 30 d behind the others'"]);
    }
}
