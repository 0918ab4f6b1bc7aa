//! What every picture has around its numbers: title, axes, legend, stamp.

use super::{
    axis::Axis,
    canvas::{Anchor, Canvas, LARGE, SMALL, TEXT, width_of, wrapped},
};

/// All pictures are so wide: what stands below each other can be compared.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 84.0;
const PLOT_HEIGHT: f64 = 280.0;
const LINE: f64 = 18.0;
/// The sample of a series in the legend.
const SAMPLE: f64 = 34.0;

/// What is around the numbers.
pub struct Frame<'a> {
    /// What the picture shows.
    pub title: &'a str,
    /// Below the legend.
    pub caption: &'a str,
    /// On the left.
    pub left: &'a Axis,
    /// On the right, where two things are drawn.
    pub right: Option<&'a Axis>,
    /// Lines kept free between title and numbers.
    pub lines_above: usize,
    /// Lines that the names below take more than one.
    pub lines_below: usize,
}

/// Draws a sample with its middle at a place.
pub type Sample<'a> = Box<dyn Fn(&mut Canvas, (f64, f64)) + 'a>;

/// An entry of the legend.
pub struct Entry<'a> {
    /// The name of the series.
    pub name: &'a str,
    /// Its sample, [`SAMPLE`] pixels wide.
    pub sample: Sample<'a>,
}

/// Where the numbers go.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    /// The place of a share of the width.
    pub fn x(self, share: f64) -> f64 {
        self.left + share * self.width
    }

    /// The place of a share of the height, from below.
    pub fn y(self, share: f64) -> f64 {
        self.top + self.height - share * self.height
    }

    /// Its right end.
    pub fn right(self) -> f64 {
        self.left + self.width
    }

    /// Its lower end.
    pub fn bottom(self) -> f64 {
        self.top + self.height
    }
}

impl Frame<'_> {
    /// Where the numbers go.
    pub fn area(&self) -> Area {
        let titles = wrapped(self.title, LARGE, WIDTH - 20.0).len().max(1);
        let top = 12.0 + LINE * (titles + self.lines_above) as f64 + 8.0;
        let right = if self.right.is_some() { RIGHT } else { 30.0 };
        Area { left: LEFT, top, width: WIDTH - LEFT - right, height: PLOT_HEIGHT }
    }

    /// Title, and the axes on both sides with their lines.
    pub fn draw(&self, canvas: &mut Canvas) {
        let area = self.area();
        for (number, line) in wrapped(self.title, LARGE, WIDTH - 20.0).iter().enumerate() {
            canvas.text("title", (10.0, 22.0 + LINE * number as f64), LARGE, Anchor::Start, line);
        }
        for tick in self.left.ticks() {
            let y = area.y(self.left.share(tick.at));
            let class = if tick.label.is_empty() { "fine" } else { "grid" };
            canvas.rule(class, (area.left, y), (area.right(), y));
            canvas.text("tick", (area.left - 7.0, y + 4.0), TEXT, Anchor::End, &tick.label);
        }
        let middle = area.top + area.height / 2.0;
        canvas.upright((18.0, middle), false, &self.left.title);
        canvas.rule("axis", (area.left, area.top), (area.left, area.bottom()));
        canvas.rule("axis", (area.left, area.bottom()), (area.right(), area.bottom()));
        if let Some(right) = self.right {
            canvas.rule("axis", (area.right(), area.top), (area.right(), area.bottom()));
            for tick in right.ticks() {
                let y = area.y(right.share(tick.at));
                canvas.rule("axis", (area.right(), y), (area.right() + 4.0, y));
                canvas.text("tick", (area.right() + 8.0, y + 4.0), TEXT, Anchor::Start, &tick.label);
            }
            canvas.upright((WIDTH - 18.0, middle), true, &right.title);
        }
    }

    /// The name of the x axis, the legend and the stamp; returns the picture.
    pub fn finish(&self, mut canvas: Canvas, x_title: &str, entries: &[Entry<'_>]) -> String {
        let area = self.area();
        let mut y = area.bottom() + 40.0 + 15.0 * self.lines_below as f64;
        canvas.text("axis-title", (area.left + area.width / 2.0, y), TEXT, Anchor::Middle, x_title);
        y += 24.0;
        let mut x = area.left;
        for (number, entry) in entries.iter().enumerate() {
            let room = SAMPLE + 8.0 + width_of(entry.name, TEXT) + 18.0;
            if number > 0 && x + room > WIDTH {
                (x, y) = (area.left, y + LINE);
            }
            (entry.sample)(&mut canvas, (x + SAMPLE / 2.0, y - 4.0));
            canvas.text("legend", (x + SAMPLE + 8.0, y), TEXT, Anchor::Start, entry.name);
            x += room;
        }
        y += 20.0;
        for line in wrapped(self.caption, SMALL, WIDTH - area.left - 10.0) {
            canvas.text("stamp", (area.left, y), SMALL, Anchor::Start, &line);
            y += 15.0;
        }
        canvas.finish(self.title, (WIDTH, y), entries.len())
    }
}

/// Half of the sample of a series in the legend.
pub const SAMPLE_HALF: f64 = SAMPLE / 2.0;
