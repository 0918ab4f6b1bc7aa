//! Lines over a numeric axis.

use super::{
    axis::Axis,
    canvas::{Anchor, Canvas, TEXT, width_of},
    frame::{Area, Entry, Frame, SAMPLE_HALF},
};

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A line with a few marks on it.
    Line,
    /// Hollow marks, one for each point: what somebody else printed.
    Hollow,
}

/// Points with a name.
#[derive(Debug, Clone)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// Which colour, dash and mark.
    pub style: usize,
    /// How it is drawn.
    pub kind: Kind,
    /// Whether its numbers are those of the right axis.
    pub on_right: bool,
}

/// Something that happened at a place of the x axis.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What.
    pub name: String,
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub struct LinePlot {
    /// What it shows.
    pub title: String,
    /// What was measured on which media.
    pub caption: String,
    /// Below.
    pub x: Axis,
    /// On the left.
    pub left: Axis,
    /// On the right, where two things are drawn.
    pub right: Option<Axis>,
    /// What is drawn.
    pub series: Vec<Series>,
    /// What happened.
    pub marks: Vec<Mark>,
}

/// Lines are drawn to half a pixel.
const APART_MIN: f64 = 0.5;
/// Marks of one line, each as far from the next.
const MARKS: usize = 6;

impl LinePlot {
    /// As an `svg` element.
    pub fn svg(&self) -> String {
        let rows = self.mark_rows();
        let frame = Frame {
            title: &self.title,
            caption: &self.caption,
            left: &self.left,
            right: self.right.as_ref(),
            lines_above: rows.iter().map(|row| row + 1).max().unwrap_or(0),
            lines_below: 0,
        };
        let area = frame.area();
        let mut canvas = Canvas::default();
        self.x_lines(&mut canvas, area);
        frame.draw(&mut canvas);
        self.marks_of_events(&mut canvas, area, &rows);
        let margin = 6.0;
        let corner = (area.left - margin, area.top - margin);
        canvas.clipped(corner, (area.width + 2.0 * margin, area.height + 2.0 * margin), |canvas| {
            for (number, series) in self.series.iter().enumerate() {
                self.series(canvas, area, number, series);
            }
        });
        let entries: Vec<Entry<'_>> = self.series.iter().map(entry).collect();
        frame.finish(canvas, &self.x.title, &entries)
    }

    fn x_lines(&self, canvas: &mut Canvas, area: Area) {
        for tick in self.x.ticks() {
            let x = area.x(self.x.share(tick.at));
            let class = if tick.label.is_empty() { "fine" } else { "grid" };
            canvas.rule(class, (x, area.top), (x, area.bottom()));
            if !tick.label.is_empty() {
                canvas.text("tick", (x, area.bottom() + 18.0), TEXT, Anchor::Middle, &tick.label);
            }
        }
    }

    /// The row above the numbers in which the name of each mark has room, from below.
    fn mark_rows(&self) -> Vec<usize> {
        // All that is needed of the frame is its width, which no title changes.
        let right = self.right.as_ref();
        let area = Frame { title: "", caption: "", left: &self.left, right, lines_above: 0, lines_below: 0 }.area();
        let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut rows = Vec::new();
        for mark in &self.marks {
            let (begin, end) = self.mark_room(area, mark);
            let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| end + 6.0 < *from || begin > *to + 6.0);
            let row = taken.iter().position(free).unwrap_or(taken.len());
            if row == taken.len() {
                taken.push(Vec::new());
            }
            taken[row].push((begin, end));
            rows.push(row);
        }
        rows
    }

    fn mark_room(&self, area: Area, mark: &Mark) -> (f64, f64) {
        let (x, width) = (area.x(self.x.share(mark.at)), width_of(&mark.name, TEXT));
        let begin = (x - 2.0).min(area.right() - width).max(area.left - 40.0);
        (begin, begin + width)
    }

    fn marks_of_events(&self, canvas: &mut Canvas, area: Area, rows: &[usize]) {
        for (mark, row) in self.marks.iter().zip(rows) {
            let x = area.x(self.x.share(mark.at));
            let y = area.top - 6.0 - 18.0 * *row as f64;
            canvas.rule("mark", (x, y + 3.0), (x, area.bottom()));
            canvas.text("event", (self.mark_room(area, mark).0, y), TEXT, Anchor::Start, &mark.name);
        }
    }

    fn series(&self, canvas: &mut Canvas, area: Area, number: usize, series: &Series) {
        let axis = match (&self.right, series.on_right) {
            (Some(right), true) => right,
            _ => &self.left,
        };
        let place = |(x, y): &(f64, f64)| (area.x(self.x.share(*x)), area.y(axis.share(*y)));
        let is_known = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let places: Vec<(f64, f64)> = series.points.iter().filter(|point| is_known(point)).map(place).collect();
        match series.kind {
            Kind::Hollow => places.iter().for_each(|at| canvas.mark(series.style, *at, true)),
            Kind::Line => {
                let among = (number as f64 + 0.5) / self.series.len().max(1) as f64;
                // What is not known is a gap.
                for part in series.points.split(|point| !is_known(point)).filter(|part| !part.is_empty()) {
                    let part: Vec<(f64, f64)> = part.iter().map(place).collect();
                    canvas.line(series.style, &thinned(&ended(&part, area.right())));
                    for mark in marks_along(&part, area, among) {
                        canvas.mark(series.style, mark, false);
                    }
                }
            }
        }
    }
}

/// Up to `right`: a line that goes on is cut off there.
fn ended(places: &[(f64, f64)], right: f64) -> Vec<(f64, f64)> {
    match places.iter().position(|(x, _)| *x > right) {
        None => places.to_vec(),
        Some(beyond) => places[..beyond].iter().copied().chain(between(places, right)).collect(),
    }
}

/// Without the points that lie within half a pixel of the one before.
fn thinned(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let far = kept.last().is_none_or(|last| (place.0 - last.0).abs().max((place.1 - last.1).abs()) >= APART_MIN);
        if far || number + 1 == places.len() {
            kept.push(*place);
        }
    }
    kept
}

/// Where a line has its marks: at some places of the x axis that differ from line to line (`among`, 0..1), or at every point where
/// there are few.
fn marks_along(places: &[(f64, f64)], area: Area, among: f64) -> Vec<(f64, f64)> {
    if places.len() <= 2 * MARKS {
        return places.to_vec();
    }
    let at = |n: usize| area.x((n as f64 + among) / MARKS as f64);
    (0..MARKS).filter_map(|n| between(places, at(n))).collect()
}

/// The point of a line at `x`.
fn between(places: &[(f64, f64)], x: f64) -> Option<(f64, f64)> {
    let pair = places.windows(2).find(|pair| pair[0].0 <= x && x < pair[1].0)?;
    let share = (x - pair[0].0) / (pair[1].0 - pair[0].0);
    Some((x, pair[0].1 + share * (pair[1].1 - pair[0].1)))
}

fn entry(series: &Series) -> Entry<'_> {
    let sample = |canvas: &mut Canvas, (x, y): (f64, f64)| {
        if series.kind == Kind::Line {
            canvas.line(series.style, &[(x - SAMPLE_HALF, y), (x + SAMPLE_HALF, y)]);
        }
        canvas.mark(series.style, (x, y), series.kind == Kind::Hollow);
    };
    Entry { name: &series.name, sample: Box::new(sample) }
}
