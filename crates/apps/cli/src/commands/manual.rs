//! The man pages, made from the command line's own declarations.
//!
//! Promises    a page for each noun and each verb, but for verbs that another program carries out: that has pages of its own
//! Not here    when pages are made: packages are, and nobody else needs this

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _};

use crate::{args::Args, fail::Fail};

/// Writes the pages into `folder`, which must be there.
pub fn write(folder: &Path) -> Result<(), Fail> {
    let mut root = Args::command().disable_help_subcommand(true);
    root.build();
    pages(&root, folder)
}

fn pages(command: &Command, folder: &Path) -> Result<(), Fail> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| pages(verb, folder))?;
    // A noun that has such verbs has that program's name, and its page.
    if elsewhere(command) || command.get_subcommands().any(elsewhere) {
        return Ok(());
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text).expect("memory takes all that is written");
    let path = folder.join(page.get_filename());
    fs::write(&path, text).map_err(|error| Fail::refused(format!("cannot write {}: {error}", path.display())))
}

/// Whether another program carries a verb out. It answers `--help` too.
fn elsewhere(command: &Command) -> bool {
    command.is_disable_help_flag_set()
}
