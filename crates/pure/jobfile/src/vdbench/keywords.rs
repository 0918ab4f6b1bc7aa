//! Which keywords there are, and what becomes of each.
//!
//! Promises    a short form is taken when only one keyword of the section begins with it
//! Not here    values

use std::collections::BTreeMap;

use super::{
    section::Section,
    tables::table,
    text::{Definition, Word},
};
use crate::{
    error::{FileError, suggestion},
    keyword::Use::{self, Noted, Refused, Taken},
    plan::Note,
};

/// The words of a definition by their full keywords, the last of each, with those of its section's defaults.
pub(super) struct Fields<'a> {
    by_key: BTreeMap<&'static str, &'a Word>,
    /// In the order in which they stand.
    pub(super) order: Vec<(&'static str, &'a Word)>,
}

impl<'a> Fields<'a> {
    /// Reads the words of `defaults`, then those of `own`; notes go to `notes`, once for each line.
    ///
    /// # Errors
    /// A keyword that the section does not have, or that is not done here.
    pub(super) fn new(own: &'a Definition, defaults: &'a [Word], notes: &mut Vec<Note>) -> Result<Self, FileError> {
        let mut fields = Self { by_key: BTreeMap::new(), order: Vec::new() };
        for word in defaults.iter().chain(&own.words) {
            let (key, what) = known(own.section, word)?;
            match what {
                Taken => {
                    fields.by_key.insert(key, word);
                    fields.order.retain(|(other, _)| *other != key);
                    fields.order.push((key, word));
                }
                Noted(why) => {
                    let note = Note { line: word.place.line, text: format!("{key}= is not used: {why}") };
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                }
                Refused(why) => return Err(word.place.error(key, format!("is not done here: {why}"))),
            }
        }
        Ok(fields)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Word> {
        self.by_key.get(key).copied()
    }

    /// The only value of a keyword as `read` takes it, or `otherwise`.
    pub(super) fn read<T>(
        &self,
        key: &str,
        otherwise: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, FileError> {
        self.get(key).map_or(Ok(otherwise), |word| word.read(read))
    }
}

/// The keyword that a word means: the one of its name, or the only one that begins with it.
fn known(section: Section, word: &Word) -> Result<(&'static str, Use), FileError> {
    let table = table(section);
    if let Some(found) = table.iter().find(|(name, _)| *name == word.key) {
        return Ok(*found);
    }
    if word.key.starts_with("fsd") || word.key.starts_with("fwd") || word.key == "rg" {
        return Err(word.error("is for file systems or replays; targets here are disks, with sd=, wd= and rd="));
    }
    let begins: Vec<&(&str, Use)> = table.iter().filter(|(name, _)| name.starts_with(&word.key)).collect();
    match &begins[..] {
        [found] if word.key.len() > 1 => Ok(**found),
        [] | [_] => {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            let near = suggestion(&word.key, &names);
            Err(word.error(format!("is no keyword of {}={near}", section.name())))
        }
        many => {
            let names: Vec<&str> = many.iter().map(|(name, _)| *name).collect();
            Err(word.error(format!("may be any of {}: write it out", names.join(", "))))
        }
    }
}
