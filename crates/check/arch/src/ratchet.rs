//! The ratchet: files over 800 lines and functions over 70 are recorded, and the numbers may only fall.
//!
//! Why so: a limit that fails old code is switched off, a limit with exceptions for ever is none. This one lets what is
//! long stay, and grow no further; a new long thing is a line in `ratchet.txt`, which a reviewer sees.

use std::{collections::BTreeMap, fmt};

/// Lines of a file, at most, before it is recorded.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a function, at most, before it is recorded.
pub const FUNCTION_LINES_MAX: usize = 70;

/// What is measured: a file, or a function of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A file, by its path from the root.
    File(String),
    /// A function: path and name. Of functions with one name in a file, the longest counts.
    Function(String, String),
}

impl Subject {
    /// Lines that it may have without being recorded.
    pub fn lines_max(&self) -> usize {
        match self {
            Self::File(_) => FILE_LINES_MAX,
            Self::Function(..) => FUNCTION_LINES_MAX,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {path}"),
            Self::Function(path, name) => write!(f, "function {path} {name}"),
        }
    }
}

/// Lines by subject.
pub type Lengths = BTreeMap<Subject, usize>;

/// Notes a length; of several for one subject the longest stays.
pub fn note(lengths: &mut Lengths, subject: Subject, lines: usize) {
    let longest = lengths.entry(subject).or_default();
    *longest = lines.max(*longest);
}

/// Reads `ratchet.txt`: one `lines file path` or `lines function path name` a line, `#` for comments.
///
/// # Errors
/// The line that is not so.
pub fn parse(text: &str) -> Result<Lengths, String> {
    let mut lengths = Lengths::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (lines, subject) = match words[..] {
            [lines, "file", path] => (lines, Subject::File(path.into())),
            [lines, "function", path, name] => (lines, Subject::Function(path.into(), name.into())),
            _ => return Err(format!("not a line of the ratchet: {line}")),
        };
        let lines = lines.parse().map_err(|_| format!("not a number of lines: {line}"))?;
        note(&mut lengths, subject, lines);
    }
    Ok(lengths)
}

/// What grew past its mark, each as a sentence.
pub fn grown(recorded: &Lengths, now: &Lengths) -> Vec<String> {
    let mut grown = Vec::new();
    for (subject, &lines) in now {
        let mark = recorded.get(subject).copied();
        let most = mark.unwrap_or(0).max(subject.lines_max());
        if lines > most {
            grown.push(match mark {
                Some(mark) => format!("{subject} has {lines} lines, its mark is {mark}: split it"),
                None => format!("{subject} has {lines} lines, the most is {}: split it", subject.lines_max()),
            });
        }
    }
    grown
}

/// The ratchet one turn on: marks lowered to what is measured, and dropped where they are no longer needed.
pub fn lowered(recorded: &Lengths, now: &Lengths) -> Lengths {
    recorded
        .iter()
        .filter_map(|(subject, &mark)| {
            let lines = now.get(subject).copied().unwrap_or(0);
            (lines > subject.lines_max()).then(|| (subject.clone(), mark.min(lines)))
        })
        .collect()
}

/// The ratchet with what is too long today and has no mark yet.
pub fn with_new(mut recorded: Lengths, now: &Lengths) -> Lengths {
    for (subject, &lines) in now.iter().filter(|(s, lines)| **lines > s.lines_max()) {
        recorded.entry(subject.clone()).or_insert(lines);
    }
    recorded
}

/// Writes what [`parse`] reads.
pub fn render(lengths: &Lengths) -> String {
    let mut text = String::from(
        "# Files over 800 lines and functions over 70, with the lines that they had when they were recorded.\n\
         # The numbers may only fall: `make fix` lowers them. A new line here is a decision for a review.\n",
    );
    for (subject, lines) in lengths {
        text += &format!("{lines} {subject}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(&str, usize)]) -> Lengths {
        entries.iter().map(|(path, lines)| (Subject::File((*path).into()), *lines)).collect()
    }

    #[test]
    fn marks_only_fall() {
        let recorded = of(&[("a", 900), ("b", 1000), ("c", 850)]);
        let now = of(&[("a", 901), ("b", 950), ("c", 700), ("d", 801), ("e", 800)]);
        let grown = grown(&recorded, &now);
        assert_eq!(grown.len(), 2);
        assert!(grown[0].contains("file a has 901") && grown[1].contains("file d has 801"));
        let turned = lowered(&recorded, &now);
        assert_eq!(turned, of(&[("a", 900), ("b", 950)]));
        let all = with_new(turned, &now);
        assert_eq!(all, of(&[("a", 900), ("b", 950), ("d", 801)]));
    }

    #[test]
    fn it_reads_what_it_writes() {
        let mut lengths = of(&[("a/b.rs", 900)]);
        note(&mut lengths, Subject::Function("a/b.rs".into(), "f".into()), 71);
        note(&mut lengths, Subject::Function("a/b.rs".into(), "f".into()), 75);
        note(&mut lengths, Subject::Function("a/b.rs".into(), "f".into()), 72);
        assert_eq!(parse(&render(&lengths)), Ok(lengths));
        assert!(parse("many file a").is_err());
        assert!(parse("7 folder a").is_err());
    }
}
