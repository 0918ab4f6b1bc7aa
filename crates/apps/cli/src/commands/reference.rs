//! The page of all commands, made from the command line's own declarations.
//!
//! Promises    a command that exists is on the page, with its arguments and what it does
//! Not here    every flag: a command's `--help` has them

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::{args::Args, fail::Fail, output};

/// Prints the page: `docs/operating/commands.md` is a copy.
pub fn print() -> Result<(), Fail> {
    output::line(&page())
}

fn page() -> String {
    let mut page = String::from(
        "# All commands of `cairn`\n\n\
         Each has `--help`, with every flag and its default. Made from the program: `cairn reference > docs/operating/commands.md`.\n",
    );
    let mut root = Args::command();
    root.build();
    for noun in shown(&root) {
        let _ = write!(page, "\n## `cairn {}`\n\n", noun.get_name());
        if noun.has_subcommands() {
            let _ = write!(page, "{}\n\n", about(noun));
        }
        page.push_str("| command | what it does |\n|---|---|\n");
        rows(noun, &mut page);
    }
    page
}

/// A line for each command that does something: those below a noun, at any depth, or the noun itself.
fn rows(command: &Command, page: &mut String) {
    if command.has_subcommands() {
        shown(command).for_each(|verb| rows(verb, page));
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace(" [OPTIONS]", "").replace('|', "\\|");
    let usage: Vec<&str> = usage.split_whitespace().collect();
    let _ = writeln!(page, "| `{}` | {} |", usage.join(" "), about(command).replace('|', "\\|"));
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}
