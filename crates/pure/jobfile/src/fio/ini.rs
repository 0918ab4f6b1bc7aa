//! A job file as sections of `option=value`.
//!
//! Promises    `[global]` holds for the jobs below it
//!             `include FILE` stands for the options of that file; it has no sections, as in fio
//! Source      fio's manual, "Job file format"

use std::collections::BTreeMap;

use crate::error::FileError;

/// One option of a job.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The included file that it stands in; none for the one that was given.
    pub(super) file: Option<String>,
    pub(super) line: usize,
    pub(super) key: String,
    /// Empty where the option stands alone.
    pub(super) value: String,
}

impl Item {
    pub(super) fn error(&self, why: impl Into<String>) -> FileError {
        FileError { file: self.file.clone(), ..FileError::new(self.line, &self.key, why) }
    }
}

/// A job, with what `[global]` gives it before its own.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) items: Vec<Item>,
}

/// Reads an included file, by the name that the line has.
pub(super) type Include<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// How deep files may include each other.
const INCLUDES_MAX: usize = 8;

/// What a file is read with.
pub(super) struct Reader<'a> {
    /// What `${NAME}` stands for.
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) include: Include<'a>,
}

impl Reader<'_> {
    /// All jobs of a file.
    pub(super) fn jobs(&self, text: &str) -> Result<Vec<Section>, FileError> {
        let (mut global, mut jobs): (Vec<Item>, Vec<Section>) = (Vec::new(), Vec::new());
        // None before the first section; then whether it is a global one.
        let mut in_global = None;
        for (number, line) in lines(text) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                in_global = Some(name == "global");
                if name != "global" {
                    jobs.push(Section { name: name.to_owned(), line: number, items: global.clone() });
                }
                continue;
            }
            let items = self.items(None, number, line, 0)?;
            match (in_global, jobs.last_mut()) {
                (Some(true), _) => global.extend(items),
                (Some(false), Some(job)) => job.items.extend(items),
                _ => {
                    let why = "stands before the first section: begin with [global] or [NAME]";
                    return Err(FileError::new(number, line.split('=').next().unwrap_or(line).trim(), why));
                }
            }
        }
        Ok(jobs)
    }

    /// The option of a line, or those of the file that it includes.
    fn items(&self, file: Option<&str>, line: usize, text: &str, depth: usize) -> Result<Vec<Item>, FileError> {
        let Some(name) = text.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) else {
            return Ok(vec![self.item(file, line, text)?]);
        };
        let told = |why: String| FileError { file: file.map(str::to_owned), ..FileError::new(line, "include", why) };
        if depth == INCLUDES_MAX {
            return Err(told(format!("files include each other more than {INCLUDES_MAX} deep")));
        }
        let name = name.trim();
        let included = (self.include)(name).map_err(told)?;
        let mut items = Vec::new();
        for (number, line) in lines(&included) {
            if line.starts_with('[') {
                let why = "included files have no sections: put this one into the file that includes it";
                return Err(FileError { file: Some(name.to_owned()), ..FileError::new(number, line, why) });
            }
            items.extend(self.items(Some(name), number, line, depth + 1)?);
        }
        Ok(items)
    }

    fn item(&self, file: Option<&str>, line: usize, text: &str) -> Result<Item, FileError> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let file = file.map(str::to_owned);
        let mut item = Item { file, line, key: key.trim().to_owned(), value: String::new() };
        let mut rest = value.trim();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, left) = after.split_once('}').ok_or_else(|| item.error("${ without a }"))?;
            let told = self.variables.get(name).ok_or_else(|| {
                item.error(format!(
                    "${{{name}}} stands for nothing: give it a value on the command line (--set NAME=VALUE)"
                ))
            })?;
            item.value.push_str(before);
            item.value.push_str(told);
            rest = left;
        }
        item.value.push_str(rest);
        Ok(item)
    }
}

/// The lines that say something, each with its number from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let trimmed = text.lines().map(|line| line.trim_start_matches('\u{feff}').trim());
    trimmed
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';']))
}
