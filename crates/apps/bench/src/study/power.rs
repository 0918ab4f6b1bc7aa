//! What the target draws: counters of the processor package, a command, or a declared constant. No source, no number.
//!
//! Promises    a source that stops answering makes the value unknown, never 0

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    time::{Duration, Instant},
};

use cairn_study::Power;

/// Where watts are from.
#[derive(Debug, Clone, PartialEq)]
pub enum PowerSource {
    /// RAPL's energy counters of all packages of this machine.
    Rapl,
    /// A command that prints watts on its standard output; asked before and after, and the mean taken.
    Command(String),
    /// What the user says that it draws.
    Declared(f64),
}

impl FromStr for PowerSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "rapl" {
            return match packages().is_empty() {
                false => Ok(Self::Rapl),
                true => Err(format!("this machine has no RAPL counters that can be read in {RAPL}")),
            };
        }
        if let Some(command) = text.strip_prefix("command:").filter(|command| !command.is_empty()) {
            return Ok(Self::Command(command.to_owned()));
        }
        match text.strip_suffix('W').unwrap_or(text).trim().parse::<f64>() {
            Ok(watts) if watts > 0.0 && watts.is_finite() => Ok(Self::Declared(watts)),
            _ => Err(format!("{text:?} is no power source: take rapl, command:CMD, or watts such as 350W")),
        }
    }
}

const RAPL: &str = "/sys/class/powercap";

/// Counters in microjoules, each with where it wraps.
fn packages() -> Vec<(PathBuf, u64)> {
    let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let entries = fs::read_dir(RAPL).into_iter().flatten().flatten().map(|entry| entry.path());
    // intel-rapl:0 is a package, intel-rapl:0:1 a part of it.
    let package = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().matches(':').count() == 1);
    let counter = |path: PathBuf| {
        read(&path.join("energy_uj"))?;
        Some((path.join("energy_uj"), read(&path.join("max_energy_range_uj")).unwrap_or(u64::MAX)))
    };
    entries.filter(package).filter_map(counter).collect()
}

/// A reading that has begun.
pub(crate) struct Reading {
    source: PowerSource,
    began: Instant,
    joules: Vec<(PathBuf, u64, u64)>,
    watts: Option<f64>,
}

impl PowerSource {
    /// Begins to read.
    pub(crate) fn begin(&self) -> Reading {
        let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let joules = match self {
            Self::Rapl => {
                packages().into_iter().filter_map(|(path, wrap)| Some((path.clone(), wrap, read(&path)?))).collect()
            }
            _ => Vec::new(),
        };
        let watts = match self {
            Self::Command(command) => ask(command),
            _ => None,
        };
        Reading { source: self.clone(), began: Instant::now(), joules, watts }
    }
}

impl Reading {
    /// The mean since it began; none where the source did not answer.
    pub(crate) fn end(self) -> Option<Power> {
        let (watts, source) = match &self.source {
            PowerSource::Declared(watts) => (*watts, "declared".to_owned()),
            PowerSource::Command(command) => ((self.watts? + ask(command)?) / 2.0, format!("command {command}")),
            PowerSource::Rapl => (self.rapl(self.began.elapsed())?, "RAPL, processor packages only".to_owned()),
        };
        (watts > 0.0).then_some(Power { watts, source })
    }

    fn rapl(&self, took: Duration) -> Option<f64> {
        let mut microjoules = 0u64;
        for (path, wrap, before) in &self.joules {
            let now = fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()?;
            microjoules += if now >= *before { now - before } else { now + (wrap - before) };
        }
        (!self.joules.is_empty()).then(|| microjoules as f64 / 1e6 / took.as_secs_f64())
    }
}

fn ask(command: &str) -> Option<f64> {
    let out = Command::new("sh").args(["-c", command]).output().ok()?;
    let watts = String::from_utf8_lossy(&out.stdout).trim().parse::<f64>().ok()?;
    (out.status.success() && watts > 0.0).then_some(watts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_no_number() {
        assert_eq!("350W".parse(), Ok(PowerSource::Declared(350.0)));
        assert_eq!("12.5".parse(), Ok(PowerSource::Declared(12.5)));
        for wrong in ["0", "-3W", "NaN", "", "ipmi", "command:"] {
            assert!(wrong.parse::<PowerSource>().is_err(), "{wrong}");
        }
        let read = |text: &str| text.parse::<PowerSource>().unwrap().begin().end();
        assert_eq!(read("350W").unwrap().watts, 350.0);
        assert_eq!(read("command:echo 42.5").unwrap().watts, 42.5);
        assert_eq!(read("command:echo many"), None);
        assert_eq!(read("command:false"), None);
    }
}
