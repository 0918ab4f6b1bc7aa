//! What is wrong with a file, and where.

use std::fmt;

/// A line that is not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// An included file; none for the one that was given.
    pub file: Option<String>,
    /// Its line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The keyword, or the section.
    pub keyword: String,
    /// Why, and what to do.
    pub why: String,
}

impl FileError {
    /// Of a keyword in a line of the file that was given.
    pub(crate) fn new(line: usize, keyword: impl Into<String>, why: impl Into<String>) -> Self {
        Self { file: None, line, keyword: keyword.into(), why: why.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        match self.line {
            0 => write!(f, "{}: {}", self.keyword, self.why),
            line => write!(f, "line {line}: {}: {}", self.keyword, self.why),
        }
    }
}

impl std::error::Error for FileError {}

/// " (did you mean X?)" where one of `known` is close, otherwise nothing.
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    let near = known.iter().map(|k| (distance(word, k), *k)).min();
    match near {
        Some((distance, k)) if distance <= 2 && distance < word.len() => format!(" (did you mean {k}?)"),
        _ => String::new(),
    }
}

/// Letters to insert, leave out, change or swap with their neighbour, until one is the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(40).collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested() {
        let known = ["xfersize", "rdpct", "seekpct"];
        assert_eq!(suggestion("xfresize", &known), " (did you mean xfersize?)");
        assert_eq!(suggestion("rdpc", &known), " (did you mean rdpct?)");
        assert_eq!(suggestion("colour", &known), "");
        assert_eq!(suggestion("x", &known), "");
    }
}
