//! A table, as Markdown and as HTML.

use std::fmt::Write as _;

use crate::escape::escape;

/// A word that is no longer stays on one line: ids have dashes at which it would be cut.
const NAME: usize = 28;

/// Head and rows. Rows may be shorter than the head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// What it shows; empty where the heading above says it.
    pub title: String,
    /// How to read it; empty where that is plain.
    pub note: String,
    /// Columns, with units.
    pub head: Vec<String>,
    /// So many columns from the left are words; the others are numbers, to the right.
    pub words: usize,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows.
    pub fn new(title: impl Into<String>, words: usize, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Self { title: title.into(), words, head, ..Self::default() }
    }

    /// With a note below its title.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// One row more.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As Markdown whose columns also stand below each other in a terminal.
    pub fn markdown(&self) -> String {
        let rows: Vec<Vec<String>> = std::iter::once(&self.head).chain(&self.rows).map(|row| self.cells(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = match (self.title.as_str(), self.note.trim()) {
            ("", "") => String::new(),
            ("", note) => format!("{note}\n\n"),
            (title, "") => format!("**{title}**\n\n"),
            (title, note) => format!("**{title}.** {note}\n\n"),
        };
        for (number, row) in rows.iter().enumerate() {
            let cell = |(column, cell): (usize, &String)| match column < self.words {
                true => format!(" {cell:<width$} |", width = widths[column]),
                false => format!(" {cell:>width$} |", width = widths[column]),
            };
            let _ = writeln!(text, "|{}", row.iter().enumerate().map(cell).collect::<String>());
            if number == 0 {
                let rule = |(column, width): (usize, &usize)| match column < self.words {
                    true => format!("{}|", "-".repeat(width + 2)),
                    false => format!("{}:|", "-".repeat(width + 1)),
                };
                let _ = writeln!(text, "|{}", widths.iter().enumerate().map(rule).collect::<String>());
            }
        }
        text
    }

    /// As many cells as the head has, safe within a row of Markdown.
    fn cells(&self, row: &[String]) -> Vec<String> {
        let safe = |cell: &String| cell.replace('|', "\\|").replace(['\n', '\r'], " ");
        let mut cells: Vec<String> = row.iter().take(self.head.len()).map(safe).collect();
        cells.resize(self.head.len(), String::new());
        cells
    }

    /// As an HTML table.
    pub fn html(&self) -> String {
        let class = |column: usize| if column < self.words { " class=\"word\"" } else { "" };
        let mut text = String::from("<div class=\"table\"><table>");
        if !(self.title.is_empty() && self.note.is_empty()) {
            let stop = if self.title.is_empty() || self.note.is_empty() { "" } else { "." };
            let _ = write!(text, "<caption><b>{}{stop}</b> {}</caption>", escape(&self.title), escape(&self.note));
        }
        if self.head.iter().any(|name| !name.is_empty()) {
            text.push_str("<thead><tr>");
            for (column, name) in self.head.iter().enumerate() {
                let _ = write!(text, "<th{}>{}</th>", class(column), escape(name));
            }
            text.push_str("</tr></thead>");
        }
        text.push_str("<tbody>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for column in 0..self.head.len() {
                let cell = row.get(column).map_or("", String::as_str);
                let is_name = column < self.words && !cell.contains(' ') && cell.chars().count() <= NAME;
                let class = if is_name { " class=\"word name\"" } else { class(column) };
                let _ = write!(text, "<td{class}>{}</td>", escape(cell));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }
}
