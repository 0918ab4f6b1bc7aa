//! Pictures as SVG: lines over numbers, bars over words.
//!
//! Promises    P1  every picture has a title, axes with units in parentheses, a legend that names each series, and the stamp of its
//!                 media, inside the picture
//!             P2  series differ in dashes, marks or hatching besides colour; text is at least 11 px
//!             P3  whatever the numbers are (none, NaN, all equal), a picture comes out
//! Assumes     fonts are the reader's: room is made for wide ones ([`canvas::width_of`])
//! Not here    which numbers are drawn

mod axis;
mod bars;
mod canvas;
mod frame;
mod lines;

pub use axis::Axis;
pub use bars::{Bar, BarPlot, Bars};
pub use lines::{Kind, LinePlot, Mark, Series};
