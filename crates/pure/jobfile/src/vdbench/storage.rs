//! `sd=`: targets, and what is written to them.

use cairn_workload::{Content, UNIT_BYTES};

use super::{
    keywords::Fields,
    text::{Definition, Word},
    values::{self, Area},
};
use crate::{error::FileError, number, plan::Note};

/// A storage definition.
#[derive(Debug, Clone)]
pub(super) struct Sd {
    pub(super) name: String,
    pub(super) lun: Option<String>,
    pub(super) threads: u64,
    /// Bytes from `offset` on that are used; none for the rest of the disk.
    pub(super) size: Option<u64>,
    pub(super) offset: u64,
    pub(super) area: Option<Area>,
    pub(super) align: Option<u64>,
    pub(super) content: Content,
    pub(super) duplicates_share: Option<f64>,
}

/// Where a workload goes on a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) begin: u64,
    /// 0 for the rest.
    pub(super) bytes: u64,
    /// Per cent of the disk, from and to, instead of bytes.
    pub(super) part: Option<(f64, f64)>,
}

/// Vdbench's own number.
const THREADS: u64 = 8;
/// Vdbench's own share of sets, per cent.
const DEDUP_SETS_PERCENT: f64 = 5.0;
/// Requests outstanding at one target, at most.
pub(super) const THREADS_MAX: u64 = 4096;

impl Sd {
    pub(super) fn new(
        definition: &Definition,
        defaults: &[Word],
        general: &Fields<'_>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, FileError> {
        let fields = Fields::new(definition, defaults, notes)?;
        fields.get("openflags").map_or(Ok(()), values::open_flags)?;
        fields.get("host").map_or(Ok(()), values::host)?;
        // Without hits (rhpct, whpct) the hit area is not used, whatever its size.
        fields.read("hitarea", 0, number::bytes)?;
        let (content, duplicates_share) = content(&fields, general)?;
        Ok(Self {
            name: definition.name.clone(),
            lun: fields.get("lun").map(|word| word.one().map(str::to_owned)).transpose()?,
            threads: fields.read("threads", THREADS, |text| number::at_most(text, THREADS_MAX))?.max(1),
            size: fields.read("size", None, |text| number::bytes(text).map(Some))?,
            offset: fields.read("offset", 0, number::bytes)?,
            area: fields.get("range").map(values::area).transpose()?,
            align: fields.read("align", None, |text| number::bytes(text).map(Some))?,
            content,
            duplicates_share,
        })
    }

    /// The span of a workload that asks for `area`, or else for this disk's.
    ///
    /// # Errors
    /// Per cent of a disk whose offset is told, but not its size.
    pub(super) fn span(&self, area: Option<Area>) -> Result<Span, String> {
        let bytes = |begin: u64, bytes: u64| Ok(Span { begin, bytes, part: None });
        match (area.or(self.area), self.size) {
            (None, size) => bytes(self.offset, size.unwrap_or(0)),
            (Some(Area::Bytes(from, to)), _) => bytes(self.offset + from, to - from),
            (Some(Area::Percent(from, to)), Some(size)) => {
                let at = |percent: f64| (size as f64 * percent / 100.0) as u64 / 4096 * 4096;
                bytes(self.offset + at(from), at(to) - at(from))
            }
            (Some(Area::Percent(0.0, 100.0)), None) => bytes(self.offset, 0),
            (Some(Area::Percent(from, to)), None) if self.offset == 0 => {
                Ok(Span { begin: 0, bytes: 0, part: Some((from, to)) })
            }
            (Some(Area::Percent(..)), None) => {
                Err(format!("per cent of sd={}, which has an offset= and no size=: give its size=", self.name))
            }
        }
    }
}

/// What is written: of the disk's own words, and where it has none, of the general ones.
fn content(fields: &Fields<'_>, general: &Fields<'_>) -> Result<(Content, Option<f64>), FileError> {
    let get = |key: &str| fields.get(key).or_else(|| general.get(key));
    let ratio = |key: &str| get(key).map_or(Ok(1.0), |word| word.read(ratio));
    let mut content = Content { random_share: 1.0 / ratio("compratio")?, ..Content::random(1, 0) };
    if let Some(word) = get("dedupflipflop")
        && !["no", "off"].contains(&word.one()?)
    {
        return Err(word.error("duplicates that change between two contents are not made here: say no"));
    }
    let (Some(word), unit) = (get("dedupratio"), get("dedupunit")) else {
        return Ok((content, None));
    };
    let dedup = word.read(self::ratio)?;
    if dedup == 1.0 {
        return Ok((content, None));
    }
    let unit = unit.ok_or_else(|| word.error("needs dedupunit="))?;
    if unit.read(number::bytes)? != UNIT_BYTES as u64 {
        return Err(unit.error("duplicates go by units of 4k here: say dedupunit=4k"));
    }
    let sets = get("dedupsets");
    let percent = match sets.map(|sets| sets.one().map(|text| (sets, text))).transpose()? {
        None => Some(DEDUP_SETS_PERCENT),
        Some((sets, text)) if text.ends_with('%') => Some(sets.read(number::percent)?),
        Some((sets, text)) => {
            content.duplicates = number::whole(text).map_err(|why| sets.error(why))?.max(1);
            None
        }
    };
    // Of each hundred units `unique` are like no other, and the rest are drawn from the sets. What is stored is unique units and
    // sets: 1 / ratio of all.
    let unique = 1.0 / dedup - percent.unwrap_or(0.0) / 100.0;
    if unique < 0.0 {
        let why = format!(
            "{} per cent of sets are more than the 1/{dedup} of all blocks that are stored",
            percent.unwrap_or(0.0)
        );
        return Err(sets.unwrap_or(word).error(format!("{why}: take fewer dedupsets")));
    }
    content.duplicate_share = 1.0 - unique;
    Ok((content, percent.map(|percent| percent / 100.0)))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = number::number(text)?;
    match (1.0..=10_000.0).contains(&ratio) {
        true => Ok(ratio),
        false => Err(format!("{text}:1: take 1 (nothing is alike) up to 10000")),
    }
}

/// Requests outstanding at a disk, divided among workloads by weight: each has at least one, and together they have `threads`
/// where there are as many.
pub(super) fn divided(threads: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let share = |weight: f64| if sum > 0.0 { threads as f64 * weight / sum } else { 0.0 };
    let mut parts: Vec<u64> = weights.iter().map(|weight| (share(*weight) as u64).max(1)).collect();
    // What is left goes to the largest remainders.
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| share(weights[*b]).fract().total_cmp(&share(weights[*a]).fract()));
    let left = threads.saturating_sub(parts.iter().sum());
    for at in order.into_iter().cycle().take(if weights.is_empty() { 0 } else { left as usize }) {
        parts[at] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::divided;

    #[test]
    fn threads_are_divided_by_weight() {
        assert_eq!(divided(8, &[1.0]), [8]);
        assert_eq!(divided(8, &[75.0, 25.0]), [6, 2]);
        assert_eq!(divided(10, &[1.0, 1.0, 1.0]).iter().sum::<u64>(), 10);
        assert_eq!(divided(8, &[99.0, 1.0]), [7, 1]);
        assert_eq!(divided(1, &[1.0, 1.0]), [1, 1]);
    }
}
