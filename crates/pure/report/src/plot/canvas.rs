//! Elements of an SVG file, and how much room text takes.

use std::fmt::Write as _;

use crate::escape::escape;

/// Size of ordinary text.
pub const TEXT: f64 = 12.0;
/// Of the smallest text there is: the stamp below a picture.
pub const SMALL: f64 = 11.0;
/// Of a title.
pub const LARGE: f64 = 14.0;

/// Colours that differ in lightness too, and for colour-blind eyes (those of Okabe and Ito, darker where they are too pale for lines).
const COLOURS: [&str; 8] = ["#0060a8", "#c94f00", "#008a63", "#a8467f", "#8a6a00", "#2f8fc4", "#5b3fa0", "#555555"];
const DASHES: [&str; 8] = ["", "7 4", "2 3", "10 3 2 3", "14 4", "4 2", "8 3 2 3 2 3", "1 4"];

/// The room that text takes at most: of the fonts that are everywhere, DejaVu Sans is the widest.
pub fn width_of(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | '\'' | '|' | ' ' | ':' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' => 0.98,
        'A'..='Z' | '<' | '>' | '=' | '+' => 0.8,
        _ => 0.65,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// Words in lines that are no wider than `room`. A word that is wider stands alone.
pub fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + size * 0.4 <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Where text stands relative to its place.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Elements, one after the other.
#[derive(Debug, Default)]
pub struct Canvas {
    elements: String,
}

impl Canvas {
    /// Text of a class ("tick", "axis-title", "legend", ...).
    pub fn text(&mut self, class: &str, at: (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let (x, y) = at;
        let _ = writeln!(
            self.elements,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{}\">{}</text>",
            anchor.name(),
            escape(text)
        );
    }

    /// Text from below to above, or the other way round.
    pub fn upright(&mut self, at: (f64, f64), downwards: bool, text: &str) {
        let (x, y) = at;
        let turn = if downwards { 90 } else { -90 };
        let _ = writeln!(
            self.elements,
            "<text class=\"axis-title\" transform=\"translate({x:.1} {y:.1}) rotate({turn})\" font-size=\"{TEXT}\" \
             text-anchor=\"middle\">{}</text>",
            escape(text)
        );
    }

    /// A thin line of a class ("grid", "axis", "mark", ...).
    pub fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (grey, dash) = match class {
            "grid" => ("#cccccc", ""),
            "fine" => ("#e8e8e8", ""),
            "mark" => ("#333333", " stroke-dasharray=\"3 3\""),
            _ => ("#333333", ""),
        };
        let _ = writeln!(
            self.elements,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{grey}\"{dash}/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// The line of a series.
    pub fn line(&mut self, style: usize, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let dash = match DASHES[style % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let _ = writeln!(
            self.elements,
            "<polyline class=\"{}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{dash}/>",
            class(style),
            path.trim_end(),
            colour(style)
        );
    }

    /// The mark of a series at one of its points; hollow for what somebody else printed.
    pub fn mark(&mut self, style: usize, at: (f64, f64), hollow: bool) {
        let (x, y) = at;
        let shape = |size: f64| match style % 6 {
            0 => {
                format!("M{:.1} {y:.1}a{size} {size} 0 1 0 {d} 0a{size} {size} 0 1 0 -{d} 0z", x - size, d = size * 2.0)
            }
            1 => format!("M{:.1} {:.1}h{d}v{d}h-{d}z", x - size, y - size, d = size * 2.0),
            2 => format!("M{x:.1} {:.1}l{size} {d}h-{d}z", y - size, d = size * 2.0),
            3 => format!("M{x:.1} {:.1}l{size} {size}l-{size} {size}l-{size} -{size}z", y - size),
            4 => format!("M{x:.1} {:.1}l{size} -{d}h-{d}z", y + size, d = size * 2.0),
            _ => {
                let (long, short) = (size * 2.0, size * 0.7);
                let corner = size - short / 2.0;
                format!(
                    "M{:.1} {:.1}h{short}v{corner}h{corner}v{short}h-{corner}v{corner}h-{short}v-{corner}h-{corner}v-{short}h{corner}z",
                    x - short / 2.0,
                    y - long / 2.0,
                )
            }
        };
        let (size, paint) = match hollow {
            true => (5.0, "fill=\"#ffffff\" fill-opacity=\"0\""),
            false => (3.5, "fill=\"#ffffff\""),
        };
        let _ = writeln!(
            self.elements,
            "<path class=\"{} dot\" d=\"{}\" {paint} stroke=\"{}\" stroke-width=\"1.5\"/>",
            class(style),
            shape(size),
            colour(style)
        );
    }

    /// A bar, hatched by its style.
    pub fn bar(&mut self, style: usize, corner: (f64, f64), size: (f64, f64)) {
        let ((x, y), (width, height)) = (corner, (size.0.max(0.0), size.1.max(0.0)));
        let (class, colour) = (class(style), colour(style));
        let _ = writeln!(
            self.elements,
            "<rect class=\"{class} bar\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" \
             fill-opacity=\"0.35\" stroke=\"{colour}\"/>"
        );
        let hatch = hatching(style, (x, y), (width, height));
        if !hatch.is_empty() {
            let _ = writeln!(
                self.elements,
                "<path class=\"{class}\" d=\"{hatch}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"0.8\"/>"
            );
        }
    }

    /// A vertical line with caps.
    pub fn whisker(&mut self, x: f64, top: f64, bottom: f64) {
        self.rule("whisker", (x, top), (x, bottom));
        self.rule("whisker", (x - 4.0, top), (x + 4.0, top));
        self.rule("whisker", (x - 4.0, bottom), (x + 4.0, bottom));
    }

    /// Whatever `draw` draws, cut off outside of a rectangle.
    pub fn clipped(&mut self, corner: (f64, f64), size: (f64, f64), draw: impl FnOnce(&mut Self)) {
        let ((x, y), (width, height)) = (corner, size);
        // An inner svg element cuts off without an id that would have to differ from those of all other pictures.
        let _ = writeln!(
            self.elements,
            "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" viewBox=\"{x:.1} {y:.1} {width:.1} \
             {height:.1}\" overflow=\"hidden\">"
        );
        draw(self);
        self.elements.push_str("</svg>\n");
    }

    /// The element, of so many pixels at 100 %.
    pub fn finish(self, title: &str, size: (f64, f64), series: usize) -> String {
        let (width, height) = size;
        format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" data-series=\"{series}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" fill=\"currentColor\" \
             font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n{}</svg>\n",
            escape(title),
            self.elements
        )
    }
}

fn class(style: usize) -> String {
    format!("s{}", style % COLOURS.len())
}

fn colour(style: usize) -> &'static str {
    COLOURS[style % COLOURS.len()]
}

/// Lines within a rectangle: none, level, upright, or both, by style.
fn hatching(style: usize, corner: (f64, f64), size: (f64, f64)) -> String {
    const STEP: f64 = 6.0;
    let ((x, y), (width, height)) = (corner, size);
    let steps = |length: f64| (1..).map(|n| f64::from(n) * STEP).take_while(move |at| *at < length);
    let level = || steps(height).map(|at| format!("M{x:.1} {:.1}h{width:.1}", y + height - at)).collect::<String>();
    let upright = || steps(width).map(|at| format!("M{:.1} {y:.1}v{height:.1}", x + at)).collect::<String>();
    match style % 4 {
        0 => String::new(),
        1 => level(),
        2 => upright(),
        _ => level() + &upright(),
    }
}
