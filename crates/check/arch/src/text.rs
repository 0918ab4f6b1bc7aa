//! What is read from one source file: lengths, its head, words that no file may say.
//!
//! Not here    which lengths are allowed (ratchet.rs)

use crate::lexer::Source;

/// A function and how many lines it has, from `fn` to its last brace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines.
    pub lines: usize,
}

/// The functions of a source file, those of `#[cfg(test)]` modules left out, in order.
pub fn functions(source: &Source) -> Vec<Function> {
    let code = without_tests(&source.code);
    let bytes = code.as_bytes();
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if at > 0 && word(bytes[at - 1]) {
            continue;
        }
        let name: String =
            code[at + 3..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // `fn (` is a type.
        if name.is_empty() {
            continue;
        }
        let Some(end) = body_end(bytes, at) else {
            continue;
        };
        functions.push(Function {
            name,
            line: code[..at].matches('\n').count() + 1,
            lines: code[at..end].matches('\n').count() + 1,
        });
    }
    functions
}

/// Where the body of the function at `at` ends; none for a declaration.
fn body_end(code: &[u8], at: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (i, &b) in code.iter().enumerate().skip(at) {
        match b {
            b'(' | b'[' if braces == 0 => brackets += 1,
            b')' | b']' if braces == 0 => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' if brackets == 0 => braces += 1,
            b'}' if brackets == 0 => {
                braces = braces.saturating_sub(1);
                if braces == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The code with its `#[cfg(test)]` modules and imports blanked out.
pub fn without_tests(code: &str) -> String {
    let mut code = code.to_owned();
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(test)]").map(|i| from + i) {
        let rest = code[at + "#[cfg(test)]".len()..].trim_start();
        from = at + 1;
        let end = if rest.starts_with("mod ") || rest.starts_with("pub mod ") {
            body_end(code.as_bytes(), at + "#[cfg(test)]".len())
        } else if rest.starts_with("use ") {
            code[at..].find(';').map(|i| at + i + 1)
        } else {
            None
        };
        let Some(end) = end else {
            continue;
        };
        let blank: String = code[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(at..end, &blank);
    }
    code
}

/// Macros and attributes that stand for work not done, or for looking around.
const CODE_BANNED: [(&str, &str); 4] = [
    ("todo!", "what is not there is refused with a sentence"),
    ("unimplemented!", "what is not there is refused with a sentence"),
    ("dbg!", "left over from debugging"),
    ("#[ignore", "a test that does not run proves nothing"),
];

/// Words in comments that mean the same.
const COMMENT_BANNED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// What a file says that none may, as "line: what, why".
pub fn banned(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (n, line) in source.code.lines().enumerate() {
        for (word, why) in CODE_BANNED {
            if line.contains(word) {
                found.push(format!("{}: {word}: {why}", n + 1));
            }
        }
    }
    for (n, line) in source.comments.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric()) {
            if COMMENT_BANNED.contains(&word) {
                found.push(format!("{}: {word}: do it, or write down why it is not done", n + 1));
            }
        }
    }
    found
}

/// Whether the file opens with a head that says what it is for.
pub fn has_head(text: &str) -> bool {
    text.lines().next().is_some_and(|l| l.starts_with("//!") && l.len() > "//! ".len())
}

/// Whether a line opens a part of a head that has a label.
fn labelled(line: &str) -> bool {
    ["Promises ", "Assumes ", "Not here ", "Source ", "Memory "].iter().any(|label| line.starts_with(label))
}

/// Words of a sentence in a file's head, at most.
pub const SENTENCE_WORDS_MAX: usize = 25;

/// Sentences of the head that have more words, each with how many.
///
/// A sentence ends at a stop, a colon or a semicolon before a space; at an empty line; at an item of a list or a row of a table;
/// and in an indented part (promises, drawings) with its line.
pub fn long_sentences(text: &str) -> Vec<String> {
    let mut sentences: Vec<Vec<&str>> = vec![Vec::new()];
    let mut drawing = false;
    for line in text.lines().map_while(|line| line.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if line.starts_with("```") {
            drawing = !drawing;
            sentences.push(Vec::new());
            continue;
        }
        if drawing {
            continue;
        }
        if line.trim().is_empty() || line.starts_with([' ', '-', '*', '|']) || labelled(line) {
            sentences.push(Vec::new());
        }
        // Three spaces and more: a label and what it stands for.
        for (n, part) in line.split("   ").map(str::trim).filter(|part| !part.is_empty()).enumerate() {
            if n > 0 {
                sentences.push(Vec::new());
            }
            for word in part.split_whitespace() {
                sentences.last_mut().expect("there is one from the start").push(word);
                if word.ends_with(['.', ';', ':']) {
                    sentences.push(Vec::new());
                }
            }
        }
    }
    let long = sentences.into_iter().filter(|words| words.len() > SENTENCE_WORDS_MAX);
    long.map(|words| format!("{} words: {}", words.len(), words.join(" "))).collect()
}

/// Lines that have `unsafe` in code and no comment with SAFETY within the lines just above, from 1.
///
/// "Just above": in the same run of lines without a blank one between.
pub fn unsafe_unexplained(source: &Source, text: &str) -> Vec<usize> {
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let lines: Vec<&str> = text.lines().collect();
    let opens = |line: &str| ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|word| line.contains(word));
    (0..code.len())
        .filter(|&n| opens(code[n]))
        .filter(|&n| {
            let mut above = (0..=n).rev().take_while(|&m| !lines[m].trim().is_empty());
            !above.any(|m| comments[m].contains("SAFETY"))
        })
        .map(|n| n + 1)
        .collect()
}

/// Whether code of the file has the word `unsafe`.
pub fn uses_unsafe(source: &Source) -> bool {
    source.code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::split;

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = "fn a() {}\n\
                    trait T { fn declared(x: [u8; 4]) -> [u8; 4]; }\n\
                    fn b(x: [u8; 4],\n  f: fn(u8) -> u8) -> u8\n{\n  if x[0] == b'}' { \"{\"; }\n  fn inner() {\n  }\n  1\n}\n\
                    #[cfg(test)]\nmod tests {\n  fn long() {\n\n\n  }\n}\n\
                    fn after() {}\n";
        let found: Vec<_> = functions(&split(text)).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        let expected = [("a", 1, 1), ("b", 3, 8), ("inner", 7, 2), ("after", 18, 1)];
        assert_eq!(found, expected.map(|(n, l, c)| (n.to_owned(), l, c)));
    }

    #[test]
    fn heads_and_words() {
        assert!(has_head("//! The log.\n"));
        assert!(!has_head("use std;\n//! late"));
        assert!(!has_head("//!\n"));
        let many = |words: usize| vec!["word"; words].join(" ");
        assert!(long_sentences(&format!("//! {}:\n//! {}.\n//! {}\n", many(25), many(20), many(25))).is_empty());
        assert_eq!(long_sentences(&format!("//! {}\n//! {}.\nuse std;\n// {}", many(13), many(13), many(40))).len(), 1);
        assert!(long_sentences(&format!("//! Promises    {}\n//!             {}\n", many(20), many(20))).is_empty());
        let text = format!("fn f() {{ {}!() }} // {} later\n\"{}!()\"\n", "todo", "TODO", "dbg");
        assert_eq!(banned(&split(&text)).len(), 2);
        assert!(banned(&split("fn todo() {} // XXXL")).is_empty());
    }

    #[test]
    fn unsafe_needs_its_reason_just_above() {
        let text = "// SAFETY: it is.\nlet a = unsafe { x };\n\nlet b = unsafe { y };\n// unsafe { z }\n";
        let source = split(text);
        assert_eq!(unsafe_unexplained(&source, text), [4]);
        assert!(uses_unsafe(&source));
        assert!(!uses_unsafe(&split("#![forbid(unsafe_code)] // unsafe")));
    }
}
