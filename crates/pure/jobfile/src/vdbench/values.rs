//! Values of parameter files: lists, ranges, names, areas of a disk.

use super::text::Word;
use crate::{error::FileError, number};

/// Values that a list or a range may come to.
const VALUES_MAX: usize = 1000;

/// The numbers of `5`, `(1,2,5)`, `(1-64,d)` and `(100-1000,100)`, read by `read`.
pub(super) fn numbers(word: &Word, read: fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, FileError> {
    let told = |text: &str| read(text).map_err(|why| word.error(why));
    let [range, step] = &word.values[..] else {
        return word.values.iter().map(|value| told(value)).collect();
    };
    let Some((low, high)) = range.split_once('-') else { return Ok(vec![told(range)?, told(step)?]) };
    let (low, high) = (told(low)?, told(high)?);
    let step = if step == "d" { None } else { Some(told(step)?) };
    if low > high || low == 0 || step == Some(0) {
        return Err(word.error(format!("{range} is no range that goes up: write (1-64,d) or (100-1000,100)")));
    }
    let next = |n: &u64| step.map_or(n.checked_mul(2), |step| n.checked_add(step)).filter(|n| *n <= high);
    let all: Vec<u64> = std::iter::successors(Some(low), next).take(VALUES_MAX + 1).collect();
    if all.len() > VALUES_MAX {
        return Err(word.error(format!("comes to more than {VALUES_MAX} values")));
    }
    Ok(all)
}

/// Places in `names` of `sd1`, `(sd1,sd2)`, `sd*` and `(sd1-sd8)` or `(sd1-8)`, each once, in the order of the list.
pub(super) fn named(word: &Word, what: &str, names: &[String]) -> Result<Vec<usize>, FileError> {
    let mut found = Vec::new();
    for wanted in &word.values {
        let mut here: Vec<usize> = match (wanted.strip_suffix('*'), names.iter().position(|name| name == wanted)) {
            (_, Some(at)) => vec![at],
            (Some(begin), None) => (0..names.len()).filter(|at| names[*at].starts_with(begin)).collect(),
            (None, None) => range_of_names(wanted, names).unwrap_or_default(),
        };
        if here.is_empty() {
            return Err(word.error(format!("there is no {what}={wanted} before this line")));
        }
        here.retain(|at| !found.contains(at));
        found.extend(here);
    }
    Ok(found)
}

/// `sd1-sd8`, `sd1-8`: all of them must be there.
fn range_of_names(wanted: &str, names: &[String]) -> Option<Vec<usize>> {
    let (low, high) = wanted.split_once('-')?;
    let begin = low.trim_end_matches(|c: char| c.is_ascii_digit());
    let from: u64 = low[begin.len()..].parse().ok()?;
    let to: u64 = high.strip_prefix(begin).unwrap_or(high).parse().ok()?;
    if from > to || to - from > VALUES_MAX as u64 {
        return None;
    }
    (from..=to).map(|n| names.iter().position(|name| *name == format!("{begin}{n}"))).collect()
}

/// A part of a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Area {
    /// From and to, in per cent.
    Percent(f64, f64),
    /// From and to, in bytes.
    Bytes(u64, u64),
}

/// `range=(low,high)`: per cent where both are numbers up to 100, otherwise bytes.
pub(super) fn area(word: &Word) -> Result<Area, FileError> {
    let [low, high] = &word.values[..] else {
        return Err(word.error("takes two values, such as (0,100) in per cent or (0,10g)"));
    };
    let area = match (number::percent(low), number::percent(high)) {
        (Ok(low), Ok(high)) => Area::Percent(low, high),
        _ => {
            let read = |text: &str| number::bytes(text).map_err(|why| word.error(why));
            Area::Bytes(read(low)?, read(high)?)
        }
    };
    match area {
        Area::Percent(low, high) if low >= high => Err(word.error(format!("{low} to {high} % is nothing"))),
        Area::Bytes(low, high) if low >= high => Err(word.error(format!("{low} to {high} is nothing"))),
        area => Ok(area),
    }
}

/// `openflags=`: what is done here in any case is taken, everything else refused.
pub(super) fn open_flags(word: &Word) -> Result<(), FileError> {
    for flag in &word.values {
        let is_known =
            ["o_direct", "directio", "o_dsync", "o_sync", "fsync"].contains(&flag.to_ascii_lowercase().as_str());
        if !is_known {
            let why =
                format!("{flag} is not done here: paths are opened with direct I/O, and writes to them are durable");
            return Err(word.error(why));
        }
    }
    Ok(())
}

/// `host=`: only this one.
pub(super) fn host(word: &Word) -> Result<(), FileError> {
    match word.values.iter().all(|host| host == "localhost" || host == "*") {
        true => Ok(()),
        false => Err(word.error("one process drives all targets here: take localhost, or leave it out")),
    }
}
