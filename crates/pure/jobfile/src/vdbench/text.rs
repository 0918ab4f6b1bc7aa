//! A parameter file as definitions of `keyword=value` words: comments, includes, variables, lists, continuation.
//!
//! Promises    each word keeps its file and line
//!             what follows a blank is a comment, as Vdbench has it, unless it looks as if it was meant: that is an error
//! Not here    which keywords there are (`tables`), what values mean

use std::collections::BTreeMap;

use super::{
    section::Section,
    tables::{is_any, is_of},
};
use crate::error::FileError;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Option<String>,
    pub(super) line: usize,
}

impl Place {
    pub(super) fn error(&self, keyword: &str, why: impl Into<String>) -> FileError {
        FileError { file: self.file.clone(), line: self.line, keyword: keyword.into(), why: why.into() }
    }
}

/// One `keyword=value`, or `keyword=(value,value)`.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) values: Vec<String>,
    /// It is the first of its line, and the line before does not go on with it.
    begins: bool,
}

impl Word {
    pub(super) fn error(&self, why: impl Into<String>) -> FileError {
        self.place.error(&self.key, why)
    }

    /// Its only value.
    pub(super) fn one(&self) -> Result<&str, FileError> {
        match &self.values[..] {
            [one] => Ok(one),
            many => Err(self.error(format!("{} values where one is meant", many.len()))),
        }
    }

    /// Its only value as `read` takes it.
    pub(super) fn read<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, FileError> {
        read(self.one()?).map_err(|why| self.error(why))
    }
}

/// `sd=name` and what belongs to it.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) section: Section,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) words: Vec<Word>,
}

/// Reads an included file, by the name that the line has.
pub(super) type Include<'a> = &'a dyn Fn(&str) -> Result<String, String>;

const INCLUDES_MAX: usize = 8;

/// All definitions: each begins with a line whose first word is `hd=`, `sd=`, `wd=` or `rd=`. The first is the general one, of whatever comes before all others.
pub(super) fn definitions(
    text: &str,
    variables: &BTreeMap<String, String>,
    include: Include<'_>,
) -> Result<Vec<Definition>, FileError> {
    let mut words = Vec::new();
    file(text, None, variables, include, 0, &mut words)?;
    let place = Place { file: None, line: 0 };
    let mut all = vec![Definition { section: Section::General, name: String::new(), place, words: Vec::new() }];
    for word in words {
        let last = all.len() - 1;
        if let Some(section) = Section::that_begins_with(&word.key).filter(|_| word.begins) {
            if section < all[last].section {
                let before = all[last].section.name();
                let why = format!("comes after {before}=: the order is general, hd, sd, wd, rd");
                return Err(word.error(why));
            }
            let name = word.one()?.to_owned();
            let twice = |other: &Definition| other.section == section && other.name == name && name != "default";
            if all.iter().any(twice) {
                return Err(word.error(format!("{name} is defined twice")));
            }
            all.push(Definition { section, name, place: word.place, words: Vec::new() });
        } else {
            all[last].words.push(word);
        }
    }
    Ok(all)
}

fn file(
    text: &str,
    name: Option<&str>,
    variables: &BTreeMap<String, String>,
    include: Include<'_>,
    depth: usize,
    words: &mut Vec<Word>,
) -> Result<(), FileError> {
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let place = Place { file: name.map(str::to_owned), line: number + 1 };
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.starts_with(['*', '#', '/']) || line.is_empty() {
            continue;
        }
        if line.starts_with("eof") {
            break;
        }
        let line = substituted(line, variables, &place)?;
        let mut found = words_of(&line, &place)?;
        found.first_mut().into_iter().for_each(|first| first.begins = !goes_on);
        goes_on = split_comment(&line).0.ends_with(',');
        for word in found {
            if word.key != "include" {
                words.push(word);
                continue;
            }
            if depth == INCLUDES_MAX {
                return Err(word.error(format!("files include each other more than {INCLUDES_MAX} deep")));
            }
            let wanted = word.one()?;
            let included = include(wanted).map_err(|why| word.error(why))?;
            file(&included, Some(wanted), variables, include, depth + 1, words)?;
        }
    }
    Ok(())
}

/// `$name` as what stands for it.
fn substituted(line: &str, variables: &BTreeMap<String, String>, place: &Place) -> Result<String, FileError> {
    let (mut told, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, left) = after.split_at(end);
        let value = variables.get(name).ok_or_else(|| {
            place.error(
                &format!("${name}"),
                "stands for nothing: give it a value on the command line (--set NAME=VALUE)",
            )
        })?;
        told.push_str(before);
        told.push_str(value);
        rest = left;
    }
    Ok(told + rest)
}

/// The words of a line. A line of the general section may have several with blanks between.
fn words_of(line: &str, place: &Place) -> Result<Vec<Word>, FileError> {
    let (parameters, comment) = split_comment(line);
    let mut words = Vec::new();
    for piece in pieces(parameters, place)? {
        words.push(word(&piece, place)?);
    }
    let meant = comment.split_whitespace().next().and_then(|first| first.split_once('='));
    let Some((key, _)) = meant.filter(|(key, _)| is_any(key)) else { return Ok(words) };
    let is_general = |key: &str| is_of(Section::General, key);
    if words.iter().all(|word| is_general(&word.key)) && is_general(key) {
        words.extend(words_of(comment, place)?);
        return Ok(words);
    }
    let why =
        "stands behind a blank, which makes it a comment: put a comma before it and no blank, or a * before a comment";
    Err(place.error(key, why))
}

/// What comes before the first blank that is not within quotes, and what comes after it.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => return (&line[..at], line[at..].trim()),
            _ => {}
        }
    }
    (line, "")
}

/// Parts between commas that are within neither brackets nor quotes; empty ones are left out, as a line may end with a comma.
fn pieces(text: &str, place: &Place) -> Result<Vec<String>, FileError> {
    let (mut pieces, mut piece, mut depth, mut quoted) = (Vec::new(), String::new(), 0, false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                continue;
            }
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                pieces.push(std::mem::take(&mut piece));
                continue;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return Err(place.error(text, "brackets that are not one pair"));
        }
        piece.push(c);
    }
    if depth != 0 || quoted {
        return Err(place.error(text, "a bracket or a quote that is not closed on this line"));
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    Ok(pieces)
}

fn word(piece: &str, place: &Place) -> Result<Word, FileError> {
    let (key, value) = piece.split_once('=').ok_or_else(|| place.error(piece, "is no keyword=value"))?;
    let inner = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let values: Vec<String> = match inner {
        Some(list) => list.split(',').map(|value| value.trim().to_owned()).collect(),
        None => vec![value.to_owned()],
    };
    if key.is_empty() || values.iter().any(String::is_empty) {
        return Err(place.error(piece, "has no value"));
    }
    Ok(Word { place: place.clone(), key: key.to_ascii_lowercase(), values, begins: false })
}
