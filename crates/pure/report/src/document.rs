//! What a report is made of, before it is Markdown or HTML.

use std::fmt::Write as _;

use crate::table::Table;

/// The whole report.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Its heading.
    pub title: String,
    /// What was measured on which media.
    pub caption: String,
    /// What a reader has to know first.
    pub warnings: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part with a heading.
#[derive(Debug, Clone)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What stands below it.
    pub blocks: Vec<Block>,
}

/// A piece of a part.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A picture.
    Picture(Picture),
}

/// A picture that was drawn.
#[derive(Debug, Clone)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// An `svg` element.
    pub svg: String,
}

impl Section {
    /// One that has something to say.
    pub fn of(title: impl Into<String>, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self { title: title.into(), blocks })
    }
}

/// As Markdown: tables, and the names of the pictures.
pub fn markdown(document: &Document) -> String {
    let one_line = |text: &str| text.replace(['\n', '\r'], " ");
    let mut text = format!("# {}\n\n{}\n", one_line(&document.title), one_line(&document.caption));
    for warning in &document.warnings {
        let _ = write!(text, "\n> **{}**\n", one_line(warning));
    }
    for section in &document.sections {
        let _ = write!(text, "\n## {}\n", one_line(&section.title));
        for block in &section.blocks {
            let _ = match block {
                Block::Text(words) => write!(text, "\n{}\n", one_line(words)),
                Block::Table(table) => write!(text, "\n{}", table.markdown()),
                Block::Picture(picture) => write!(text, "\nPicture in report.html: {}\n", one_line(&picture.title)),
            };
        }
    }
    text
}
