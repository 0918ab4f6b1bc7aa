//! Bars in groups, with whiskers, and lines over them on an axis of their own.

use super::{
    axis::Axis,
    canvas::{Anchor, Canvas, TEXT, width_of},
    frame::{Area, Entry, Frame},
};

/// A number of which there may be several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// How high the bar is.
    pub mean: f64,
    /// Where its whisker begins.
    pub least: f64,
    /// And ends.
    pub most: f64,
}

/// One bar of each group.
#[derive(Debug, Clone)]
pub struct Bars {
    /// As the legend has it.
    pub name: String,
    /// Which colour and hatching.
    pub style: usize,
    /// Of each group; none where it is not known.
    pub values: Vec<Option<Bar>>,
}

/// A picture of bars.
#[derive(Debug, Clone)]
pub struct BarPlot {
    /// What it shows.
    pub title: String,
    /// What was measured on which media.
    pub caption: String,
    /// What the groups are, with a unit in parentheses.
    pub x_title: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Of the bars.
    pub left: Axis,
    /// Of the lines.
    pub right: Option<Axis>,
    /// What is drawn.
    pub bars: Vec<Bars>,
    /// One value of each group, of the right axis.
    pub lines: Vec<Bars>,
}

/// Of a group's room, between groups.
const GAP: f64 = 0.3;
/// Pixels that a bar is wide at most.
const BAR_WIDTH_MAX: f64 = 60.0;

impl BarPlot {
    /// As an `svg` element.
    pub fn svg(&self) -> String {
        let frame = Frame {
            title: &self.title,
            caption: &self.caption,
            left: &self.left,
            right: self.right.as_ref(),
            lines_above: 0,
            lines_below: 0,
        };
        let room = self.room(frame.area()) - 6.0;
        let names: Vec<Vec<String>> = self.groups.iter().map(|name| broken(name, room)).collect();
        let lines_below = names.iter().map(Vec::len).max().unwrap_or(1).saturating_sub(1);
        let frame = Frame { lines_below, ..frame };
        let area = frame.area();
        let mut canvas = Canvas::default();
        frame.draw(&mut canvas);
        for (group, lines) in names.iter().enumerate() {
            for (number, line) in lines.iter().enumerate() {
                let at = (self.middle(area, group), area.bottom() + 18.0 + 15.0 * number as f64);
                canvas.text("tick", at, TEXT, Anchor::Middle, line);
            }
        }
        for (number, bars) in self.bars.iter().enumerate() {
            self.bars(&mut canvas, area, number, bars);
        }
        if let Some(right) = &self.right {
            for line in &self.lines {
                self.line(&mut canvas, area, right, line);
            }
        }
        let entries: Vec<Entry<'_>> =
            self.bars.iter().map(bar_entry).chain(self.lines.iter().map(line_entry)).collect();
        frame.finish(canvas, &self.x_title, &entries)
    }

    fn room(&self, area: Area) -> f64 {
        area.width / self.groups.len().max(1) as f64
    }

    fn middle(&self, area: Area, group: usize) -> f64 {
        area.left + self.room(area) * (group as f64 + 0.5)
    }

    fn bars(&self, canvas: &mut Canvas, area: Area, number: usize, bars: &Bars) {
        let count = self.bars.len() as f64;
        let width = (self.room(area) * (1.0 - GAP) / count).min(BAR_WIDTH_MAX);
        for (group, value) in bars.values.iter().enumerate().take(self.groups.len()) {
            let x = self.middle(area, group) + (number as f64 - count / 2.0) * width;
            match value {
                Some(Bar { mean, least, most }) => {
                    let top = area.y(self.left.share(*mean).clamp(0.0, 1.0));
                    canvas.bar(bars.style, (x, top), (width - 2.0, area.bottom() - top));
                    if least < most {
                        let place = |value: f64| area.y(self.left.share(value).clamp(0.0, 1.0));
                        canvas.whisker(x + width / 2.0 - 1.0, place(*most), place(*least));
                    }
                }
                None => canvas.text("tick", (x + width / 2.0, area.bottom() - 6.0), TEXT, Anchor::Middle, "n/a"),
            }
        }
    }

    fn line(&self, canvas: &mut Canvas, area: Area, axis: &Axis, line: &Bars) {
        let place = |(group, value): (usize, &Option<Bar>)| {
            let mean = (*value)?.mean;
            Some((self.middle(area, group), area.y(axis.share(mean).clamp(0.0, 1.0))))
        };
        let places: Vec<(f64, f64)> = line.values.iter().enumerate().filter_map(place).collect();
        canvas.line(line.style, &places);
        places.iter().for_each(|at| canvas.mark(line.style, *at, false));
    }
}

/// A name in lines that have room, cut after dashes.
fn broken(name: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split_inclusive('-') {
        match lines.last_mut() {
            Some(line) if width_of(line, TEXT) + width_of(part, TEXT) <= room => line.push_str(part),
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

fn bar_entry(bars: &Bars) -> Entry<'_> {
    let sample = |canvas: &mut Canvas, (x, y): (f64, f64)| canvas.bar(bars.style, (x - 14.0, y - 7.0), (28.0, 14.0));
    Entry { name: &bars.name, sample: Box::new(sample) }
}

fn line_entry(line: &Bars) -> Entry<'_> {
    let sample = |canvas: &mut Canvas, (x, y): (f64, f64)| {
        canvas.line(line.style, &[(x - 17.0, y), (x + 17.0, y)]);
        canvas.mark(line.style, (x, y), false);
    };
    Entry { name: &line.name, sample: Box::new(sample) }
}
