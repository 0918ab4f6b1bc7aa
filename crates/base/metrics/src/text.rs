//! The numbers as text: for Prometheus, and as a page of the documentation.
//!
//! Source      Prometheus' text format 0.0.4: a family's lines stand together, after its HELP and TYPE

use std::fmt::Write as _;

use crate::{Kind, Measure, REQUEST_SECONDS, RequestTimes, Scope, Unit, all};

/// Lines for Prometheus, gathered family by family: whose they are comes in any order.
#[derive(Debug, Default)]
pub struct Exposition {
    by_measure: Vec<(&'static Measure, String)>,
}

impl Exposition {
    /// Adds the numbers of one host, disk or disk group; `labels` are the values of the scope's labels, in order.
    pub fn add(&mut self, labels: &[&str], values: impl Iterator<Item = (&'static Measure, u64)>) {
        for (measure, value) in values {
            let pairs = pairs(measure.scope, labels);
            let line = format!("{}{{{pairs}}} {}\n", measure.in_prometheus(), measure.scaled(value));
            self.lines_of(measure).push_str(&line);
        }
    }

    /// Adds how long one disk's requests of one kind took.
    pub fn add_times(&mut self, labels: &[&str], operation: &str, times: &RequestTimes) {
        let name = REQUEST_SECONDS.in_prometheus();
        let pairs = format!("{},operation=\"{operation}\"", pairs(REQUEST_SECONDS.scope, labels));
        let lines = self.lines_of(&REQUEST_SECONDS);
        for (end_us, below) in times.below() {
            let _ = writeln!(lines, "{name}_bucket{{{pairs},le=\"{}\"}} {below}", end_us as f64 / 1e6);
        }
        let _ = writeln!(lines, "{name}_bucket{{{pairs},le=\"+Inf\"}} {}", times.count);
        let _ = writeln!(lines, "{name}_sum{{{pairs}}} {}", REQUEST_SECONDS.scaled(times.sum_ns));
        let _ = writeln!(lines, "{name}_count{{{pairs}}} {}", times.count);
    }

    fn lines_of(&mut self, measure: &'static Measure) -> &mut String {
        let at = self.by_measure.iter().position(|(known, _)| *known == measure).unwrap_or_else(|| {
            self.by_measure.push((measure, String::new()));
            self.by_measure.len() - 1
        });
        &mut self.by_measure[at].1
    }

    /// All of it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (measure, lines) in &self.by_measure {
            let name = measure.in_prometheus();
            let _ =
                write!(text, "# HELP {name} {}\n# TYPE {name} {}\n{lines}", measure.help.trim(), measure.kind.name());
        }
        text
    }
}

fn pairs(scope: Scope, values: &[&str]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pair = |(label, value): (&&str, &&str)| format!("{label}=\"{}\"", escaped(value));
    scope.labels().iter().zip(values).map(pair).collect::<Vec<_>>().join(",")
}

/// `docs/operating/metrics.md`.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for (scope, title) in TITLES {
        let _ = write!(page, "\n## {title}\n\nLabels: `{}`.\n\n", scope.labels().join("`, `"));
        page.push_str("| in Prometheus | in the API | unit there | type | what it says |\n|---|---|---|---|---|\n");
        for measure in all().filter(|measure| measure.scope == scope) {
            let (name, unit) = match (measure.kind, measure.unit) {
                (Kind::Histogram, _) => ("`reads`, `writes`".to_owned(), "microseconds; `sum_ns` in nanoseconds"),
                (_, Unit::Count) => (format!("`{}`", measure.name), "-"),
                (_, unit) => (format!("`{}`", measure.name), unit.name()),
            };
            let (theirs, kind, help) = (measure.in_prometheus(), measure.kind.name(), measure.help.trim());
            let _ = writeln!(page, "| `{theirs}` | {name} | {unit} | {kind} | {help} |");
        }
    }
    page
}

const TITLES: [(Scope, &str); 3] =
    [(Scope::Host, "Of a host"), (Scope::Disk, "Of a disk in use"), (Scope::DiskGroup, "Of a disk group")];

const HEAD: &str = "\
# Metrics

This page is made from the declarations in `crates/base/metrics`: `cairnd --print-metrics > docs/operating/metrics.md`.

`GET /metrics` has the numbers of one server in Prometheus' text format. `GET /api/v1/counters` has those of all hosts that
answer, under the names of the second column; `cairn counters` shows them as a table, and `--output json` in full. A server
with several shards has a line for each: the label `host` says which, as `host-1` and `host-1.shard-2`.

Counters begin at 0 when the host's process starts, those of a disk group when it is opened. A disk has numbers at each host
that guests used it through, until it is deleted or the host restarts. Prometheus has seconds where the API has microseconds
or nanoseconds, and a ratio where it has per cent or thousandths.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{GuestCounters, StoreGauges};

    #[test]
    fn a_number_has_one_name_and_its_name_has_its_unit() {
        let names: BTreeSet<String> = all().map(Measure::in_prometheus).collect();
        assert_eq!(names.len(), all().count());
        for measure in all() {
            let end = match measure.unit {
                Unit::Count => continue,
                Unit::Bytes => "_bytes",
                Unit::Microseconds => "_us",
                Unit::Nanoseconds => "_ns",
                Unit::Percent => "_percent",
                Unit::Permille => "_permille",
            };
            assert!(measure.name.ends_with(end), "{}", measure.name);
        }
    }

    #[test]
    fn families_stand_together_and_odd_names_are_escaped() {
        let mut text = Exposition::default();
        let guests = GuestCounters { read_bytes: 7, ..GuestCounters::default() };
        text.add(&["host-1", "a"], guests.values());
        text.add(&["host-1", "b\"\\"], guests.values());
        let gauges = StoreGauges { congestion_delay_us: 1500, log_fill_permille: 250, ..StoreGauges::default() };
        text.add(&["host-1", "0f"], gauges.values());
        let text = text.text();
        let family = "# HELP cairn_disk_read_bytes_total Bytes of these reads.\n# TYPE cairn_disk_read_bytes_total counter\n\
            cairn_disk_read_bytes_total{host=\"host-1\",disk=\"a\"} 7\n\
            cairn_disk_read_bytes_total{host=\"host-1\",disk=\"b\\\"\\\\\"} 7\n# HELP";
        assert!(text.contains(family), "{text}");
        assert!(text.contains("cairn_disk_group_congestion_delay_seconds{host=\"host-1\",disk_group=\"0f\"} 0.0015\n"));
        assert!(text.contains("cairn_disk_group_log_fill_ratio{host=\"host-1\",disk_group=\"0f\"} 0.25\n"));
    }

    #[test]
    fn a_histogram_ends_with_all_of_them() {
        let mut text = Exposition::default();
        text.add_times(&["host-1", "a"], "read", &RequestTimes::new(3, 2_000_000_000, [(64, 2)].into_iter()));
        let text = text.text();
        let of = "host=\"host-1\",disk=\"a\",operation=\"read\"";
        assert!(text.contains(&format!("cairn_disk_request_seconds_bucket{{{of},le=\"0.000064\"}} 2\n")), "{text}");
        let end = format!(
            "le=\"+Inf\"}} 3\ncairn_disk_request_seconds_sum{{{of}}} 2\ncairn_disk_request_seconds_count{{{of}}} 3\n"
        );
        assert!(text.ends_with(&end), "{text}");
    }
}
