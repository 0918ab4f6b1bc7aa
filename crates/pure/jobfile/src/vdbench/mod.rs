//! Vdbench's parameter files for disks: general, `hd=`, `sd=`, `wd=`, `rd=`.
//!
//! Promises    defaults are Vdbench's: 8 threads, 4 KiB, reads, random, 30 s, exponential arrivals
//!             workloads of one run share the threads of a target by their skew, so that all threads together are what it says
//! Not here    file systems, replay, journals, validation, several hosts: refused by name

mod keywords;
mod runs;
mod section;
mod storage;
mod tables;
mod text;
mod values;
mod workload;

use std::collections::BTreeMap;

use crate::{
    error::FileError,
    keyword,
    plan::{Dialect, NamedTarget, Note, Plan},
};
use keywords::Fields;
use section::Section;
use storage::Sd;
use text::{Definition, Word};
use workload::Wd;

/// Reads a parameter file. `variables` are what `$name` stands for; `include` gives the text of a file that is included.
///
/// # Errors
/// The first line that is not taken.
pub fn parse(
    text: &str,
    variables: &BTreeMap<String, String>,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Plan, FileError> {
    let all = text::definitions(text, variables, include)?;
    let mut notes = Vec::new();
    let (general, others) = all.split_first().expect("the general one is always there");
    let general = Fields::new(general, &[], &mut notes)?;
    let (mut sds, mut wds, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let mut defaults: Vec<Word> = Vec::new();
    let mut section = Section::General;
    for definition in others {
        if definition.section != section {
            section = definition.section;
            defaults.clear();
        }
        if definition.name == "default" {
            // Read for its mistakes, even where nothing follows that would take it up.
            Fields::new(definition, &[], &mut notes)?;
            defaults.extend(definition.words.iter().cloned());
            continue;
        }
        match section {
            Section::General => {}
            Section::Hd => host(definition, &defaults, &mut notes)?,
            Section::Sd => sds.push(Sd::new(definition, &defaults, &general, &mut notes)?),
            Section::Wd => wds.push(Wd::new(definition, &defaults, &sds, &mut notes)?),
            Section::Rd => runs::append(&mut runs, definition, &defaults, &sds, &wds, &mut notes)?,
        }
    }
    if runs.is_empty() {
        return Err(FileError::new(0, "rd", "the file has no run: it ends without any rd="));
    }
    tell_content(&sds, &mut notes);
    let target = |sd: Sd| NamedTarget { name: sd.name, address: sd.lun };
    Ok(Plan { dialect: Dialect::Vdbench, targets: sds.into_iter().map(target).collect(), runs, notes })
}

/// What becomes of each keyword, as rows of a Markdown table.
pub(crate) fn told() -> String {
    tables::SECTIONS.iter().map(|(title, table)| keyword::told(&format!("Vdbench, {title}"), table)).collect()
}

/// `hd=`: only this host.
fn host(definition: &Definition, defaults: &[Word], notes: &mut Vec<Note>) -> Result<(), FileError> {
    let fields = Fields::new(definition, defaults, notes)?;
    let system = fields.get("system").map(Word::one).transpose()?.unwrap_or("localhost");
    match definition.name == "localhost" || system == "localhost" {
        true => Ok(()),
        false => {
            let why = "one process drives all targets here: take localhost, and give each other host its own file";
            Err(definition.place.error("hd", format!("{}: {why}", definition.name)))
        }
    }
}

fn tell_content(sds: &[Sd], notes: &mut Vec<Note>) {
    if sds.iter().any(|sd| sd.content.duplicate_share > 0.0) {
        let text =
            "duplicates are drawn anew at each write, from the same sets on all targets; the share of duplicates stays";
        notes.push(Note { line: 0, text: text.into() });
    }
}
