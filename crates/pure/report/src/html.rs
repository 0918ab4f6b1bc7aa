//! `report.html`: one file, without script and without network, that also prints.

use std::fmt::Write as _;

use crate::{
    document::{Block, Document},
    escape::escape,
};

/// The whole page.
pub fn page(document: &Document) -> String {
    let title = escape(&document.title);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"stamp\">{}</p>\n",
        include_str!("report.css"),
        escape(&document.caption)
    );
    for warning in &document.warnings {
        let _ = writeln!(text, "<p class=\"warning\"><strong>{}</strong></p>", escape(warning));
    }
    text.push_str("<nav><ul>\n");
    for (number, section) in document.sections.iter().enumerate() {
        let _ = writeln!(text, "<li><a href=\"#part-{number}\">{}</a></li>", escape(&section.title));
    }
    text.push_str("</ul></nav>\n");
    for (number, section) in document.sections.iter().enumerate() {
        let _ = writeln!(text, "<section id=\"part-{number}\">\n<h2>{}</h2>", escape(&section.title));
        for block in &section.blocks {
            match block {
                Block::Text(words) => {
                    let _ = writeln!(text, "<p>{}</p>", escape(words));
                }
                Block::Table(table) => text.push_str(&table.html()),
                Block::Picture(picture) => {
                    let _ = writeln!(text, "<figure>\n{}</figure>", picture.svg);
                }
            }
        }
        text.push_str("</section>\n");
    }
    text.push_str("</body>\n</html>\n");
    text
}
