//! What goes to stdout: a table for people, or the API's answer as JSON.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::fail::Fail;

/// The form of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: the API's answer.
    Json,
}

/// Prints `data`: as JSON, or as the text that `table` makes of it.
pub fn show<T: Serialize + ?Sized>(format: Format, data: &T, table: impl FnOnce(&T) -> String) -> Result<(), Fail> {
    let text = match format {
        Format::Table => table(data),
        Format::Json => serde_json::to_string_pretty(data)
            .map_err(|error| Fail::refused(format!("the answer has no JSON form: {error}")))?,
    };
    line(&text)
}

/// Prints one JSON object on one line: for watching.
pub fn json_line(data: &impl Serialize) -> Result<(), Fail> {
    let text =
        serde_json::to_string(data).map_err(|error| Fail::refused(format!("the answer has no JSON form: {error}")))?;
    line(&text)
}

/// Prints a line, or several.
pub fn line(text: &str) -> Result<(), Fail> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader has seen enough (`| head`): that is no failure of ours, and there is nobody left to tell.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Fail::refused(format!("cannot write to stdout: {error}"))),
    }
}

/// Says something beside the data.
pub fn note(format: Format, text: &str) {
    if format == Format::Table {
        eprintln!("{text}");
    }
}

/// Rows under a head line. Not wrapped where no terminal reads it, so that lines stay whole for `grep`.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = bare();
    table.set_header(head.iter().map(|name| name.to_uppercase()));
    table.add_rows(rows);
    flush_left(table)
}

/// Pairs of name and value, one a line; pairs with an empty value are left out.
pub fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = bare();
    for (name, value) in pairs {
        if !value.is_empty() {
            table.add_row(vec![format!("{name}:"), value]);
        }
    }
    flush_left(table)
}

/// The text without the blank that would stand before the first column.
fn flush_left(mut table: Table) -> String {
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    table.trim_fmt()
}

fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(match io::stdout().is_terminal() {
        true => ContentArrangement::Dynamic,
        false => ContentArrangement::Disabled,
    });
    table
}
