//! What a report of which study has, in which order.

mod arms;
mod buffer;
mod counted;
mod desktops;
mod facts;
mod iops;
mod outage;
mod printed;
mod qos;
mod time;

use cairn_study::{Manifest, PARTS_OF_OTHERS, Part, Results, Study};

use crate::{
    document::{Block, Document, Picture},
    group::{Arm, Config, arms},
    plot::{BarPlot, LinePlot},
};

/// What all parts are made from.
pub struct Source<'a> {
    manifest: &'a Manifest,
    results: &'a Results,
    arms: Vec<Arm<'a>>,
}

impl Source<'_> {
    /// What stands below a picture of these arms.
    fn caption<'b>(&self, arms: impl IntoIterator<Item = &'b Arm<'b>>) -> String {
        let mut parts = vec![self.results.caption.clone()];
        for arm in arms {
            let stamp = arm.stamp();
            if !stamp.is_empty() && !parts.iter().any(|part| part.contains(&stamp)) {
                parts.push(stamp);
            }
        }
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }

    /// As [`Self::caption`], of all arms.
    fn caption_of_all(&self) -> String {
        self.caption(&self.arms)
    }

    /// The same as the last sentence of a table's note.
    fn note<'b>(&self, arms: impl IntoIterator<Item = &'b Arm<'b>>) -> String {
        match self.caption(arms) {
            caption if caption.is_empty() => caption,
            caption => format!("Measured: {caption}."),
        }
    }

    /// What the x axis of a study counts.
    fn x_title(&self) -> &'static str {
        match self.arms.iter().all(|arm| arm.by_vms) {
            true => "virtual machines (count)",
            false => "outstanding requests (count)",
        }
    }

    /// Whether every configuration of an arm has a place of its own on it.
    fn has_one_axis(&self) -> bool {
        let alone = |arm: &Arm<'_>, config: &Config<'_>| {
            config.x > 0 && arm.configs.iter().filter(|other| other.x == config.x).count() == 1
        };
        self.arms.iter().all(|arm| arm.configs.iter().all(|config| alone(arm, config)))
    }

    /// All numbers on it, ascending.
    fn xs(&self) -> Vec<u64> {
        let mut xs: Vec<u64> = self.arms.iter().flat_map(|arm| &arm.configs).map(|config| config.x).collect();
        xs.sort_unstable();
        xs.dedup();
        xs
    }
}

/// The whole report.
pub fn document(manifest: &Manifest, results: &Results) -> Document {
    let source = Source { manifest, results, arms: arms(manifest, results) };
    let study = if results.study.is_empty() { &manifest.study } else { &results.study };
    let known = Study::of(study).ok();
    let bars = known.is_none_or(|study| study.iops_as_bars);
    let mut sections = vec![facts::measured(&source), facts::verdicts(&source), iops::section(&source, bars)];
    sections.extend(known.map_or(PARTS_OF_OTHERS, |study| study.parts).iter().map(|part| match part {
        Part::Qos => qos::section(&source),
        Part::Arms => arms::section(&source, false),
        Part::ArmsAsBars => arms::section(&source, true),
        Part::Buffer => buffer::section(&source),
        Part::Outage => outage::section(&source),
        Part::Desktops => desktops::section(&source),
        Part::Time => time::section(&source),
    }));
    sections.extend([
        facts::checks(&source),
        counted::section(&source),
        facts::steps(&source),
        printed::section(study),
    ]);
    Document {
        title: format!("{}, scale {}", or_unnamed(study), or_unnamed(&results.scale)),
        caption: source.caption_of_all(),
        warnings: facts::warnings(&source),
        sections: sections.into_iter().flatten().collect(),
    }
}

fn or_unnamed(name: &str) -> &str {
    if name.is_empty() { "unnamed" } else { name }
}

fn picture(plot: &LinePlot) -> Block {
    Block::Picture(Picture { title: plot.title.clone(), svg: plot.svg() })
}

fn bar_picture(plot: &BarPlot) -> Block {
    Block::Picture(Picture { title: plot.title.clone(), svg: plot.svg() })
}
