//! Rust source, split into code, comments and the rest: enough of a lexer to count and to look for words.
//!
//! Promises    line numbers stay: both results have a line for each line of the source
//! Assumes     the source compiles
//! Not here    tokens, syntax: what needs them asks clippy

/// A source file taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The code; comments and what is within quotes are blanks.
    pub code: String,
    /// The comments; everything else is blanks.
    pub comments: String,
}

/// Takes `text` apart.
pub fn split(text: &str) -> Source {
    let chars: Vec<char> = text.chars().collect();
    let mut source = Source::default();
    let mut at = 0;
    while at < chars.len() {
        let (kind, end) = piece(&chars, at);
        for &c in &chars[at..end] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            source.code.push(if kind == Kind::Code { c } else { blank });
            source.comments.push(if kind == Kind::Comment { c } else { blank });
        }
        at = end;
    }
    source
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Quoted,
}

/// The kind of what starts at `at`, and where it ends.
fn piece(chars: &[char], at: usize) -> (Kind, usize) {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => (Kind::Comment, find(chars, at, |c| c == '\n')),
        '/' if next == Some('*') => (Kind::Comment, block_comment(chars, at)),
        '"' => (Kind::Quoted, quoted(chars, at + 1, '"')),
        '\'' => match character(chars, at) {
            Some(end) => (Kind::Quoted, end),
            None => (Kind::Code, at + 1),
        },
        c if c.is_alphabetic() || c == '_' => {
            let end = find(chars, at, |c| !c.is_alphanumeric() && c != '_');
            let word: String = chars[at..end].iter().collect();
            match (word.as_str(), raw_string(chars, end)) {
                ("r" | "br" | "cr", Some(end)) => (Kind::Quoted, end),
                _ => (Kind::Code, end),
            }
        }
        _ => (Kind::Code, at + 1),
    }
}

/// The first place from `at` on whose character is so, or the end.
fn find(chars: &[char], at: usize, is: impl Fn(char) -> bool) -> usize {
    (at..chars.len()).find(|&i| is(chars[i])).unwrap_or(chars.len())
}

/// The end of a block comment; they nest.
fn block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        let pair = (chars[i], chars.get(i + 1).copied());
        match pair {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// The end of a string or character whose contents start at `at`.
fn quoted(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a character literal at `at`; none for a lifetime.
fn character(chars: &[char], at: usize) -> Option<usize> {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => Some(quoted(chars, at + 1, '\'')),
        (Some(_), Some('\'')) => Some(at + 3),
        _ => None,
    }
}

/// The end of a raw string whose hashes or quote start at `at`.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let quote = find(chars, at, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - at;
    let closes =
        |i: usize| chars[i] == '"' && chars.len() - i > hashes && chars[i + 1..=i + hashes].iter().all(|c| *c == '#');
    let end = (quote + 1..chars.len()).find(|&i| closes(i));
    Some(end.map_or(chars.len(), |i| i + 1 + hashes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_comments_and_characters_are_told_apart() {
        let cases = [
            (r#"a "b { \" }" c"#, "a c", ""),
            ("a // {\nb", "a b", "// {"),
            ("a /* { /* } */ { */ b", "a b", "/* { /* } */ { */"),
            ("r#\"{ \" }\"# x", "x", ""),
            ("'{' 'a 'b' '\\'' '\\u{1}'", "'a", ""),
            ("b'{' br\"{\" x", "b x", ""),
            ("fn raw() { r#fn }", "fn raw() { r#fn }", ""),
        ];
        for (text, code, comment) in cases {
            let source = split(text);
            let words: Vec<&str> = source.code.split_whitespace().collect();
            assert_eq!(words.join(" "), code, "{text}");
            assert_eq!(source.comments.trim(), comment, "{text}");
        }
    }

    proptest! {
        #[test]
        fn lines_stay(text in "[a'\"/*#r\\\\{}\n ]{0,60}") {
            let source = split(&text);
            let lines = text.matches('\n').count();
            prop_assert_eq!(source.code.matches('\n').count(), lines);
            prop_assert_eq!(source.comments.matches('\n').count(), lines);
            prop_assert_eq!(source.code.chars().count(), text.chars().count());
        }
    }
}
