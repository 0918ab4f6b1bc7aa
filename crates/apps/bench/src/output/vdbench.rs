//! Results as the rows of Vdbench's summary.
//!
//! Promises    intervals are numbered as there: those of the ramp are counted and not shown; the last line is avg_FIRST-LAST
//! Assumes     what is not known is NaN: the processors' use of an interval is not measured, that of this process is, on average
//! Not here    the time of day: rows have the time since the run began

use std::time::Duration;

use crate::job::{Job, Measured, Second, Tally};

/// The summary of one measurement that is called `name`, in rows of `interval`.
pub fn vdbench(name: &str, job: &Job, measured: &Measured, interval: Duration) -> String {
    let each = interval.as_secs().max(1);
    let first = job.ramp.as_secs_f64() / each as f64;
    let first = first.ceil() as u64 + 1;
    let mut text =
        format!("Starting RD={name}; elapsed={:.0}; streams={}\n", measured.measured.as_secs_f64(), job.streams.len());
    text.push_str(HEADER);
    let seconds = measured.measured.as_secs_f64();
    let rows = (seconds / each as f64).ceil().max(1.0) as u64;
    let mut all = Second::default();
    for row in 0..rows {
        let from = (row * each) as usize;
        let mut sum = Second::default();
        for second in measured.seconds.iter().skip(from).take(each as usize) {
            sum.reads.add(&second.reads);
            sum.writes.add(&second.writes);
        }
        all.reads.add(&sum.reads);
        all.writes.add(&sum.writes);
        let lasts = (seconds - from as f64).min(each as f64);
        let since = job.ramp.as_secs() + (from as f64 + lasts).round() as u64;
        text.push_str(&line(since, &(first + row).to_string(), &sum, lasts, None));
    }
    let since = job.ramp.as_secs() + seconds.round() as u64;
    let label = format!("avg_{first}-{}", first + rows - 1);
    text.push_str(&line(since, &label, &all, seconds, Some(measured.harness_cpu * 100.0)));
    text
}

const HEADER: &str = concat!(
    "               interval        i/o   MB/sec   bytes   read     resp     read    write     resp     resp queue  cpu%  cpu%\n",
    "                              rate  1024**2     i/o    pct     time     resp     resp      max   stddev depth sys+u   sys\n",
);

fn line(since_s: u64, interval: &str, second: &Second, lasts_s: f64, cpu: Option<f64>) -> String {
    let both = second.both();
    let a_second = |n: u64| if lasts_s > 0.0 { n as f64 / lasts_s } else { 0.0 };
    let ms = |tally: &Tally| tally.mean_ns().unwrap_or(0.0) / 1e6;
    let bytes = both.bytes.checked_div(both.requests).unwrap_or(0);
    let read_percent =
        if both.requests > 0 { second.reads.requests as f64 * 100.0 / both.requests as f64 } else { 0.0 };
    let queue = if lasts_s > 0.0 { both.sum_ns as f64 / 1e9 / lasts_s } else { 0.0 };
    let (hours, minutes, seconds) = (since_s / 3600, since_s % 3600 / 60, since_s % 60);
    let cpu = cpu.map_or("NaN".into(), |percent| format!("{percent:.1}"));
    format!(
        "{hours:02}:{minutes:02}:{seconds:02}.000 {interval:>10} {:>10.1} {:>8.2} {bytes:>7} {read_percent:>6.2} {:>8.3} {:>8.3} \
         {:>8.3} {:>8.3} {:>8.3} {queue:>5.1} {cpu:>5} {:>5}\n",
        a_second(both.requests),
        a_second(both.bytes) / f64::from(1 << 20),
        ms(&both),
        ms(&second.reads),
        ms(&second.writes),
        both.max_ns as f64 / 1e6,
        both.deviation_ns().unwrap_or(0.0) / 1e6,
        "NaN",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sums_of_seconds_and_are_numbered_from_the_ramp_on() {
        let ramp = Duration::from_secs(2);
        let job = Job { ramp, measure: Duration::from_secs(4), ..Job::nothing() };
        let mut measured = Measured::nothing(job.measure, 0);
        for n in 0..4 {
            let mut second = Second::default();
            second.reads.record(4096, (n + 1) * 1_000_000);
            second.writes.record(8192, 10_000_000);
            measured.seconds.push(second);
        }
        let text = vdbench("r", &job, &measured, Duration::from_secs(2));
        let rows: Vec<Vec<&str>> = text.lines().skip(3).map(|line| line.split_whitespace().collect()).collect();
        let [two, three, average] = &rows[..] else { panic!("{text}") };
        assert_eq!(two[..9], ["00:00:04.000", "2", "2.0", "0.01", "6144", "50.00", "5.750", "1.500", "10.000"]);
        assert_eq!(three[..9], ["00:00:06.000", "3", "2.0", "0.01", "6144", "50.00", "6.750", "3.500", "10.000"]);
        assert_eq!(average[1..9], ["avg_2-3", "2.0", "0.01", "6144", "50.00", "6.250", "2.500", "10.000"]);
        assert_eq!((average[9], average[13]), ("10.000", "NaN"), "the longest; no system time is known");
    }
}
