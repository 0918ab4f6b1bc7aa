//! Results as IOMeter 1.1 has them: its table with one line for all and one for each stream, and the 21 latency bins.
//!
//! Promises    the header is IOMeter's, column by column; what is not measured here is left empty
//! Not here    raw counters in ticks of a processor, transactions, connections, interrupts

use cairn_measure::{EDGES_US, LABELS};

use crate::job::{Job, Measured, Side};

const HEADER: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,\
    Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),\
    Write MBps (Decimal),Transactions per Second,Connections per Second,Average Response Time,Average Read Response Time,\
    Average Write Response Time,Average Transaction Time,Average Connection Time,Maximum Response Time,\
    Maximum Read Response Time,Maximum Write Response Time,Maximum Transaction Time,Maximum Connection Time,Errors,\
    Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,Transactions per Connection,\
    Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,Total Raw Connection Time,\
    Maximum Raw Read Response Time,Maximum Raw Write Response Time,Maximum Raw Transaction Time,\
    Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,Maximum Size,Queue Depth,% CPU Utilization,\
    % User Time,% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,\
    Packets/Second,Packet Errors,Segments Retransmitted/Second";
const BINS: &str = "0 to 50 uS,50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,\
    10 to 15 mS,15 to 20 mS,20 to 30 mS,30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,\
    4.7 to 5 s,5 to 10 s, >= 10 s";
/// Columns between the counts of I/Os and the starting sector that are not measured here.
const RAW_COLUMNS: usize = 11;
/// Columns behind the processor's use that are not measured here.
const CPU_COLUMNS: usize = 10;

/// The table of one measurement that is called `name`.
pub fn iometer(name: &str, job: &Job, measured: &Measured) -> String {
    let mut disks: Vec<String> = job.streams.iter().map(|stream| stream.target.to_string()).collect();
    disks.sort();
    disks.dedup();
    let all = Line {
        kind: "ALL",
        target: "All",
        workers: job.streams.len().to_string(),
        disks: disks.len(),
        reads: &measured.reads,
        writes: &measured.writes,
        outstanding: job.outstanding(),
        cpu: format!("{:.2}", measured.harness_cpu * 100.0),
    };
    let mut text = format!("'Results\n{HEADER},{BINS}\n{}", all.text(name, measured));
    for (stream, of_stream) in job.streams.iter().zip(&measured.streams) {
        let line = Line {
            kind: "DISK",
            target: &stream.name,
            workers: String::new(),
            disks: 1,
            reads: &of_stream.reads,
            writes: &of_stream.writes,
            outstanding: stream.outstanding.into(),
            cpu: String::new(),
        };
        text.push_str(&line.text(name, measured));
    }
    text
}

/// A line of the table.
struct Line<'a> {
    kind: &'a str,
    target: &'a str,
    workers: String,
    disks: usize,
    reads: &'a Side,
    writes: &'a Side,
    outstanding: u64,
    cpu: String,
}

impl Line<'_> {
    fn text(&self, name: &str, measured: &Measured) -> String {
        let both = self.reads.with(self.writes);
        let sides = [&both, self.reads, self.writes];
        let plain = |text: &str| text.replace([',', '\n', '\''], " ");
        let number = |value: f64| format!("{value:.6}");
        let ms = |ns: Option<f64>| number(ns.unwrap_or(0.0) / 1e6);
        let broken = u8::from(measured.broken.is_some() && self.kind == "ALL").to_string();
        let managers = if self.kind == "ALL" { "1" } else { "" };
        let head = [self.kind, &plain(self.target), &plain(name), managers, &self.workers].map(str::to_owned);
        let mut fields: Vec<String> = head.into_iter().chain([self.disks.to_string()]).collect();
        fields.extend(sides.map(|side| number(measured.per_s(side))));
        fields.extend(sides.map(|side| number(measured.bytes_per_s(side) / f64::from(1 << 20))));
        fields.extend(sides.map(|side| number(measured.bytes_per_s(side) / 1e6)));
        fields.extend(["", ""].map(str::to_owned));
        fields.extend(sides.map(|side| ms(side.latency.mean_ns())));
        fields.extend(["", ""].map(str::to_owned));
        fields.extend(sides.map(|side| ms(side.latency.max_ns().map(|ns| ns as f64))));
        fields.extend(["", ""].map(str::to_owned));
        fields.extend([broken, String::new(), String::new()]);
        let counts = [self.reads.bytes, self.writes.bytes, self.reads.latency.count(), self.writes.latency.count()];
        fields.extend(counts.map(|count| count.to_string()));
        fields.extend(vec![String::new(); RAW_COLUMNS]);
        fields.extend(["".to_owned(), "".to_owned(), self.outstanding.to_string(), self.cpu.clone()]);
        fields.extend(vec![String::new(); CPU_COLUMNS]);
        fields.extend(both.latency.iometer().map(|count| count.to_string()));
        fields.join(",") + "\n"
    }
}

/// The 21 bins with counts and cumulative shares, a line for each.
pub fn bins(measured: &Measured) -> String {
    let both = measured.both().latency;
    let (counts, mut seen) = (both.iometer(), 0);
    let mut text = String::from("latency bin,requests,cumulative %\n");
    for (label, count) in LABELS.iter().zip(counts) {
        seen += count;
        let share = if both.count() == 0 { 0.0 } else { seen as f64 * 100.0 / both.count() as f64 };
        text.push_str(&format!("{label},{count},{share:.4}\n"));
    }
    debug_assert_eq!(EDGES_US.len() + 1, LABELS.len());
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_line_has_the_columns_of_the_header() {
        let job = Job { measure: Duration::from_secs(1), ..Job::nothing() };
        let measured = Measured::nothing(job.measure, 0);
        let text = iometer("a, b", &job, &measured);
        let columns: Vec<usize> = text.lines().skip(1).map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [59 + 21, 59 + 21]);
        let header: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        let line: Vec<&str> = text.lines().nth(2).unwrap().split(',').collect();
        let of = |name: &str| line[header.iter().position(|column| *column == name).unwrap()];
        assert_eq!(
            (of("Queue Depth"), of("% CPU Utilization"), of("Read I/Os"), of("0 to 50 uS")),
            ("0", "0.00", "0", "0")
        );
        assert_eq!(of("Access Specification Name"), "a  b");
    }
}
