//! Plans in words.

use std::{fmt, time::Duration};

use cairn_types::format_bytes;
use cairn_workload::{Addresses, Kind, Spec};

use crate::plan::{Arrivals, Plan, Run, Stream, StreamPace, Total};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = if self.writes() { "writes" } else { "reads only" };
        let more = if self.runs.iter().any(Run::is_until_done) { " and until all bytes are done" } else { "" };
        writeln!(f, "{}: {} run(s), {}{more}, {writes}", self.dialect, self.runs.len(), time(self.time()))?;
        for target in &self.targets {
            let address = target.address.as_deref().unwrap_or("not told: name one");
            writeln!(f, "target {}: {address}", target.name)?;
        }
        for run in &self.runs {
            tell_run(f, run, &self.runs)?;
        }
        for note in &self.notes {
            match note.line {
                0 => writeln!(f, "note: {}", note.text)?,
                line => writeln!(f, "note, line {line}: {}", note.text)?,
            }
        }
        Ok(())
    }
}

fn tell_run(f: &mut fmt::Formatter<'_>, run: &Run, runs: &[Run]) -> fmt::Result {
    let arrivals = if run.arrivals == Arrivals::Poisson { ", Poisson" } else { "" };
    let rate = match run.total {
        Total::None => format!("{} outstanding", run.outstanding()),
        Total::Rate(per_s) => format!("{per_s} a second{arrivals}"),
        Total::Curve { of, percent } => {
            format!("{percent} % of the rate of {:?}{arrivals}", runs.get(of).map_or("", |run| &run.name))
        }
    };
    write!(f, "run {:?}: ", run.name)?;
    if !run.pause.is_zero() {
        write!(f, "{} of pause, ", time(run.pause))?;
    }
    let measured =
        if run.is_until_done() { "measured until done".into() } else { format!("{} measured", time(run.measure)) };
    writeln!(f, "{} of ramp, {measured}, rows of {}; {rate}", time(run.ramp), time(run.interval))?;
    let mut rest = &run.streams[..];
    while let Some(first) = rest.first() {
        let alike = rest.iter().take_while(|stream| tell_stream(stream, run) == tell_stream(first, run)).count();
        let (these, others) = rest.split_at(alike);
        let names = match these {
            [one] => one.name.clone(),
            [first, .., last] => format!("{} ... {} ({alike})", first.name, last.name),
            [] => String::new(),
        };
        writeln!(f, "  {names}: {}", tell_stream(first, run))?;
        rest = others;
    }
    if let Some(bytes) = written(run) {
        writeln!(f, "  about {} are written", format_bytes(bytes))?;
    }
    Ok(())
}

fn tell_stream(stream: &Stream, run: &Run) -> String {
    let mut text = tell_spec(&stream.spec);
    if let Some((from, to)) = stream.part {
        text += &format!("; from {from} to {to} % of the target");
    }
    text += &match stream.pace {
        StreamPace::Share(_) | StreamPace::Closed if run.total == Total::None => {
            format!("; {} outstanding", stream.outstanding)
        }
        StreamPace::Closed => format!("; {} outstanding", stream.outstanding),
        StreamPace::Rate(per_s) => format!("; {per_s:.1} a second, at most {} outstanding", stream.outstanding),
        StreamPace::Share(share) => {
            format!("; {} outstanding, {:.1} % of the run's rate", stream.outstanding, share * 100.0)
        }
    };
    if stream.spec.writes() {
        let content = &stream.content;
        if content.duplicate_share > 0.0 {
            let sets = match stream.duplicates_share {
                Some(share) => format!("as many as {:.1} % of all", share * 100.0),
                None => content.duplicates.to_string(),
            };
            text += &format!("; {:.1} % of its units are duplicates of {sets}", content.duplicate_share * 100.0);
        }
        if content.random_share < 1.0 {
            text += &format!("; {:.1} % of each unit is random", content.random_share * 100.0);
        }
    }
    if let Some(bytes) = stream.bytes_max {
        text += &format!("; ends after {}", format_bytes(bytes));
    }
    if let Some(spans) = stream.spans_max {
        text += &format!("; ends after {spans} time(s) its span");
    }
    text
}

fn tell_spec(spec: &Spec) -> String {
    let kind = |kind: &Kind| {
        let Kind { request_bytes, read_percent, random_percent, .. } = kind;
        format!("{}, {read_percent} % read, {random_percent} % random", format_bytes((*request_bytes).into()))
    };
    let sum: u64 = spec.kinds.iter().map(|kind| u64::from(kind.weight)).sum();
    let share = |kind: &Kind| f64::from(kind.weight) * 100.0 / sum.max(1) as f64;
    let mut text = match &spec.kinds[..] {
        [one] => kind(one),
        many => many.iter().map(|one| format!("{:.1} % of {}", share(one), kind(one))).collect::<Vec<_>>().join(" + "),
    };
    match spec.addresses {
        Addresses::Uniform => {}
        Addresses::Zipf { theta } => text += &format!(", Zipf {theta}"),
        Addresses::HotArea { requests_percent, area_percent } => {
            text += &format!(", {requests_percent} % of them to {area_percent} %");
        }
    }
    if spec.span_bytes > 0 {
        text += &format!("; {} from {} on", format_bytes(spec.span_bytes), format_bytes(spec.span_begin));
    } else if spec.span_begin > 0 {
        text += &format!("; from {} on", format_bytes(spec.span_begin));
    }
    text
}

/// Bytes that a run writes, ramp counted in; none where that depends on the targets.
fn written(run: &Run) -> Option<u64> {
    if !run.writes() {
        return None;
    }
    let seconds = (run.ramp + run.measure).as_secs_f64();
    let of_stream = |stream: &Stream| {
        let each = stream.spec.mean(|kind| f64::from(kind.request_bytes) * f64::from(100 - kind.read_percent) / 100.0);
        let by_rate = match (stream.pace, run.rate(&[])) {
            (StreamPace::Rate(per_s), _) => Some(per_s * seconds * each),
            (StreamPace::Share(share), Some(rate)) => Some(share * rate * seconds * each),
            _ => None,
        };
        let by_bytes =
            stream.bytes_max.map(|bytes| bytes as f64 * each / stream.spec.mean(|kind| kind.request_bytes.into()));
        by_rate.map_or(by_bytes, |rate| Some(by_bytes.map_or(rate, |bytes| bytes.min(rate))))
    };
    run.streams.iter().map(of_stream).sum::<Option<f64>>().map(|bytes| bytes as u64)
}

/// "2 h 5 min", "90 s".
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match duration.as_secs() {
        whole if whole >= 3600 && whole.is_multiple_of(60) => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        whole if whole >= 3600 => format!("{} h {} min {} s", whole / 3600, whole % 3600 / 60, whole % 60),
        _ => format!("{seconds} s"),
    }
}
