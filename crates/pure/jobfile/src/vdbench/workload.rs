//! `wd=`: what is asked of which targets.

use cairn_workload::{KINDS_MAX, Kind};

use super::{
    keywords::Fields,
    storage::{Sd, THREADS_MAX},
    text::{Definition, Place, Word},
    values::{self, Area},
};
use crate::{error::FileError, number, plan::Note};

/// A workload definition.
#[derive(Debug, Clone)]
pub(super) struct Wd {
    pub(super) name: String,
    pub(super) place: Place,
    /// Places of its storage definitions.
    pub(super) sds: Vec<usize>,
    pub(super) sizes: Vec<Size>,
    pub(super) read_percent: u8,
    pub(super) seek: Seek,
    pub(super) skew: Option<f64>,
    pub(super) area: Option<Area>,
    pub(super) threads: Option<u64>,
    pub(super) rate: Option<f64>,
}

/// A size of requests, and how often it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) weight: u32,
    pub(super) bytes: u32,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seek {
    pub(super) random_percent: u8,
    /// Once through, and no more.
    pub(super) to_end: bool,
}

impl Wd {
    pub(super) fn new(
        definition: &Definition,
        defaults: &[Word],
        sds: &[Sd],
        notes: &mut Vec<Note>,
    ) -> Result<Self, FileError> {
        let fields = Fields::new(definition, defaults, notes)?;
        fields.get("openflags").map_or(Ok(()), values::open_flags)?;
        fields.get("host").map_or(Ok(()), values::host)?;
        for hits in ["rhpct", "whpct"] {
            if fields.read(hits, 0.0, number::percent)? > 0.0 {
                let word = fields.get(hits).expect("it was read");
                return Err(word.error("there is no hit area here: say 0, or range= on a workload of its own"));
            }
        }
        let names: Vec<String> = sds.iter().map(|sd| sd.name.clone()).collect();
        let sd = fields.get("sd").ok_or_else(|| definition.place.error("wd", "has no sd="))?;
        let wd = Self {
            name: definition.name.clone(),
            place: definition.place.clone(),
            sds: values::named(sd, "sd", &names)?,
            sizes: fields.get("xfersize").map_or(Ok(vec![Size { weight: 1, bytes: 4096 }]), sizes)?,
            read_percent: fields.read("rdpct", 100, number::percent_whole)?,
            seek: fields.read("seekpct", Seek { random_percent: 100, to_end: false }, seek)?,
            skew: fields.read("skew", None, |text| number::percent(text).map(Some))?,
            area: fields.get("range").map(values::area).transpose()?,
            threads: fields.read("threads", None, |text| number::at_most(text, THREADS_MAX).map(|n| Some(n.max(1))))?,
            rate: fields.read("iorate", None, |text| number::number(text).map(Some))?.filter(|rate| *rate > 0.0),
        };
        wd.check_align(sds)?;
        Ok(wd)
    }

    /// The workload of a run without one: random reads of 4 KiB, or what the run says of them.
    pub(super) fn of_run(definition: &Definition, sds: Vec<usize>) -> Self {
        Self {
            name: definition.name.clone(),
            place: definition.place.clone(),
            sds,
            sizes: vec![Size { weight: 1, bytes: 4096 }],
            read_percent: 100,
            seek: Seek { random_percent: 100, to_end: false },
            skew: None,
            area: None,
            threads: None,
            rate: None,
        }
    }

    /// Requests here begin at multiples of their own size, which must then be multiples of what was asked for.
    pub(super) fn check_align(&self, sds: &[Sd]) -> Result<(), FileError> {
        for sd in self.sds.iter().map(|at| &sds[*at]) {
            let fits = |align: u64| self.sizes.iter().all(|size| u64::from(size.bytes).is_multiple_of(align));
            if let Some(align) = sd.align.filter(|align| *align == 0 || !fits(*align)) {
                let why =
                    format!("sd={} has align={align}: requests here begin at multiples of their own size", sd.name);
                return Err(self.place.error("wd", why));
            }
        }
        Ok(())
    }
}

/// The kinds of requests of sizes, reads and seeks.
pub(super) fn kinds(sizes: &[Size], read_percent: u8, seek: Seek) -> Vec<Kind> {
    let kind = |size: &Size| Kind { weight: size.weight, ..Kind::new(size.bytes, read_percent, seek.random_percent) };
    sizes.iter().map(kind).collect()
}

/// `seekpct=`: a percentage, `rand`, `seq`, or `eof` (once through, in sequence).
pub(super) fn seek(text: &str) -> Result<Seek, String> {
    let sequential = |to_end| Ok(Seek { random_percent: 0, to_end });
    match text.to_ascii_lowercase().as_str() {
        "rand" | "random" => Ok(Seek { random_percent: 100, to_end: false }),
        "seq" | "sequential" => sequential(false),
        "eof" => sequential(true),
        "seqnz" => Err("seqnz is not done here: take seq, which begins at the begin of the range".into()),
        other => Ok(Seek { random_percent: number::percent_whole(other)?, to_end: false }),
    }
}

/// `4k`, `(4k,50,8k,50)` in per cent, or `(4k,64k,4k)` as least, most and step.
fn sizes(word: &Word) -> Result<Vec<Size>, FileError> {
    let bytes = |text: &str| number::request_bytes(text).map_err(|why| word.error(why));
    match &word.values[..] {
        [one] => Ok(vec![Size { weight: 1, bytes: bytes(one)? }]),
        [least, most, step] => {
            let (least, most, step) = (bytes(least)?, bytes(most)?, bytes(step)?);
            let all: Vec<Size> = (least..=most)
                .step_by(step as usize)
                .take(KINDS_MAX + 1)
                .map(|bytes| Size { weight: 1, bytes })
                .collect();
            match all.len() {
                0 => Err(word.error("the most is below the least")),
                n if n > KINDS_MAX => {
                    Err(word.error(format!("comes to more than {KINDS_MAX} sizes: take a larger step")))
                }
                _ => Ok(all),
            }
        }
        pairs if pairs.len() % 2 == 0 => {
            let mut all = Vec::new();
            let mut sum = 0;
            for pair in pairs.chunks(2) {
                let percent = number::percent(&pair[1]).map_err(|why| word.error(why))?;
                let weight = (percent * 1000.0).round() as u32;
                sum += weight;
                if weight > 0 {
                    all.push(Size { weight, bytes: bytes(&pair[0])? });
                }
            }
            // Thirds and the like are written with two digits or so.
            if !(99_900..=100_100).contains(&sum) || all.len() > KINDS_MAX {
                return Err(word.error(format!("percentages add up to {}, not to 100", f64::from(sum) / 1000.0)));
            }
            Ok(all)
        }
        _ => Err(word.error("write 4k, (4k,50,8k,50) in per cent, or (4k,64k,4k) as least, most and step")),
    }
}
