//! Circles between the files of a crate: files that import each other, directly or through others.
//!
//! Promises    every `crate::`, `super::` and `self::` path outside tests counts, in a `use` and inline alike
//!             the files in circles of a crate, and its largest circle, may only become fewer (`circles.txt`)
//! Not here    what a parent says of its children by their bare names: `mod` and `pub use` are its list of contents
//!
//! Why so: a circle is one file that is stored in several. Nobody can read, test or replace one of them alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{files::File, lexer::Source, text::without_tests};

/// The marks, from the root.
pub const CIRCLES: &str = "crates/check/arch/circles.txt";

/// Circles by the folder of their crate, the largest first; each is its files in order.
pub type Circles = BTreeMap<String, Vec<Vec<String>>>;

/// How many files the circles of a crate have, the largest first. A crate without circles has no entry.
pub type Sizes = BTreeMap<String, Vec<usize>>;

/// The circles of every crate's product code.
pub fn circles(files: &[File]) -> Circles {
    let mut packages: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|f| f.product()) {
        packages.entry(file.package()).or_default().push(file);
    }
    let found = packages.into_iter().map(|(package, files)| {
        let sources = files.iter().map(|f| (module_of(&f.path), (f.path.clone(), &f.source))).collect();
        (package, circles_of(&imports(&sources)))
    });
    found.filter(|(_, circles)| !circles.is_empty()).collect()
}

/// The sizes of circles.
pub fn sizes(circles: &Circles) -> Sizes {
    circles.iter().map(|(package, circles)| (package.clone(), circles.iter().map(Vec::len).collect())).collect()
}

/// What a person reads: each crate with circles, and the files of each.
pub fn print(circles: &Circles) -> String {
    let mut text = String::new();
    for (package, circles) in circles {
        for circle in circles {
            let names: Vec<_> =
                circle.iter().map(|path| path.split_once("/src/").map_or(&**path, |(_, n)| n)).collect();
            let _ = writeln!(text, "{package}: {} files: {}", circle.len(), names.join(" "));
        }
    }
    let count: usize = circles.values().map(Vec::len).sum();
    let _ = writeln!(text, "{count} circles in all");
    text
}

/// Path of a file's module within its crate; the root's is empty.
fn module_of(path: &str) -> Vec<String> {
    let within = path.split_once("/src/").map_or(path, |(_, within)| within);
    let mut module: Vec<String> = within.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || matches!(within, "lib.rs" | "main.rs") {
        module.pop();
    }
    module
}

type Modules<'a> = BTreeMap<Vec<String>, (String, &'a Source)>;
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Who imports whom, by path. Files that are for tests only are left out.
fn imports(modules: &Modules<'_>) -> Imports {
    let tests: BTreeSet<Vec<String>> =
        modules.iter().flat_map(|(module, (_, source))| test_modules(module, source)).collect();
    let tested = |module: &[String]| tests.iter().any(|test| module.starts_with(test));
    let modules: Modules<'_> =
        modules.iter().filter(|(m, _)| !tested(m)).map(|(m, file)| (m.clone(), file.clone())).collect();
    let mut imports = Imports::new();
    for (module, (path, source)) in &modules {
        let to = imports.entry(path.clone()).or_default();
        for named in paths(&without_tests(&source.code)) {
            let target = absolute(module, &named).and_then(|full| nearest(&modules, &full));
            to.extend(target.filter(|target| target != path));
        }
    }
    imports
}

/// Modules that are declared for tests only, in files of their own.
fn test_modules(module: &[String], source: &Source) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, mark) in source.code.match_indices("#[cfg(test)]") {
        let words: Vec<&str> = source.code[at + mark.len()..].split_whitespace().take(2).collect();
        if let ["mod", name] = words[..]
            && let Some(name) = name.strip_suffix(';')
        {
            found.push(module.iter().cloned().chain([name.to_owned()]).collect());
        }
    }
    found
}

/// A path from the root of the crate; none where it leads out of it.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut full = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        _ => module.split_last()?.1.to_vec(),
    };
    for part in rest {
        if part == "super" {
            full.pop()?;
        } else {
            full.push(part.clone());
        }
    }
    Some(full)
}

/// The file of the innermost module on the way.
fn nearest(modules: &Modules<'_>, path: &[String]) -> Option<String> {
    (0..=path.len()).rev().find_map(|depth| modules.get(&path[..depth])).map(|(path, _)| path.clone())
}

/// Every path of the code that begins with `crate`, `super` or `self`, groups taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let begins = matches!(*token, "crate" | "super" | "self") && tokens.get(at + 1) == Some(&"::");
        let goes_on = at > 0 && matches!(tokens[at - 1], "::" | "in");
        if begins && !goes_on {
            tree(&tokens, at, &[], &mut found);
        }
    }
    found
}

/// Reads one path, or tree of paths, at `at`; where it ends.
fn tree(tokens: &[&str], mut at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while let Some(token) = tokens.get(at) {
                    match *token {
                        "}" => return at + 1,
                        "," => at += 1,
                        _ => at = tree(tokens, at, &path, found).max(at + 1),
                    }
                }
                return at;
            }
            // Of a group's own module, as in `crate::log::{self, Class}`.
            Some(&"self") if !path.is_empty() => {}
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => path.push((*word).to_owned()),
            _ => {}
        }
        if tokens.get(at + 1) != Some(&"::") {
            found.push(path);
            at += 1;
            // The new name of `as` is no path.
            return if tokens.get(at) == Some(&"as") { at + 2 } else { at };
        }
        at += 2;
    }
}

/// Words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Sets of files that reach each other, the largest first.
fn circles_of(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reach(imports, file))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (file, from_it) in &reached {
        let circle: Vec<String> =
            from_it.iter().filter(|other| reached[*other].contains(file)).map(|other| (*other).clone()).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// All files that this one imports, directly or through others.
fn reach<'a>(imports: &'a Imports, file: &String) -> BTreeSet<&'a String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![file]);
    while let Some(next) = open.pop() {
        for to in imports.get(next).into_iter().flatten() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

/// Reads `circles.txt`: one `sizes crate` a line, sizes as `4+2`, `#` for comments.
///
/// # Errors
/// The line that is not so.
pub fn parse(text: &str) -> Result<Sizes, String> {
    let mut all = Sizes::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((sizes, package)) = line.split_once(' ') else {
            return Err(format!("not a line of circles: {line}"));
        };
        let sizes = sizes.split('+').map(str::parse).collect::<Result<_, _>>();
        all.insert(package.to_owned(), sizes.map_err(|_| format!("not sizes of circles: {line}"))?);
    }
    Ok(all)
}

/// Writes what [`parse`] reads.
pub fn render(all: &Sizes) -> String {
    let mut text = String::from(
        "# Circles between files: how many files each has, by crate. `cargo run -p cairn-arch -- circles` names them.\n\
         # The numbers may only fall: `make fix` lowers them. A new line here is a decision for a review.\n",
    );
    for (package, sizes) in all {
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{} {package}", sizes.join("+"));
    }
    text
}

fn no_more(now: &[usize], mark: &[usize]) -> bool {
    let total = |sizes: &[usize]| sizes.iter().sum::<usize>();
    total(now) <= total(mark) && now.iter().max() <= mark.iter().max()
}

/// The crates whose circles grew past their marks, each as a sentence. A circle that is opened may leave two smaller ones.
pub fn grown(recorded: &Sizes, now: &Circles) -> Vec<String> {
    let mut grown = Vec::new();
    for (package, circles) in now {
        let mark = recorded.get(package).map_or(&[][..], Vec::as_slice);
        let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
        if !no_more(&sizes, mark) {
            let marked = if mark.is_empty() { "none".to_owned() } else { format!("{mark:?}") };
            grown.push(format!(
                "{package}: circles of {sizes:?} files, marked are {marked}: move what both sides need to a file below both.\n{}",
                print(&Circles::from([(package.clone(), circles.clone())])).trim_end()
            ));
        }
    }
    grown
}

/// The marks one turn on: never up.
pub fn lowered(recorded: &Sizes, now: &Sizes) -> Sizes {
    let turn = |(package, mark): (&String, &Vec<usize>)| {
        let sizes = now.get(package).cloned().unwrap_or_default();
        let turned = if no_more(&sizes, mark) { sizes } else { mark.clone() };
        (!turned.is_empty()).then(|| (package.clone(), turned))
    };
    recorded.iter().filter_map(turn).collect()
}

/// The marks with those of crates that have none yet.
pub fn with_new(mut recorded: Sizes, now: &Sizes) -> Sizes {
    for (package, sizes) in now {
        recorded.entry(package.clone()).or_insert_with(|| sizes.clone());
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::split;

    fn files(entries: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("crates/tier/room/src/{path}"),
            text: (*text).to_owned(),
            source: split(text),
        };
        entries.iter().map(file).collect()
    }

    fn found(entries: &[(&str, &str)]) -> Vec<String> {
        let found = circles(&files(entries));
        let names = |circle: &Vec<String>| {
            circle.iter().map(|path| path.rsplit_once("src/").expect("in src").1).collect::<Vec<_>>().join(" ")
        };
        found.values().flatten().map(names).collect()
    }

    #[test]
    fn circles_are_found_through_uses_groups_and_inline_paths() {
        let lib = ("lib.rs", "mod a; mod b; mod c; pub use a::A;");
        let c = ("c.rs", "fn f() { crate::a::sub::g(); }");
        let sub = ("a/sub.rs", "use super::super::b::{self as other, B};");
        let b = ("b.rs", "use crate::{\n  a::A, // crate::d\n  c::{self, C},\n};");
        assert_eq!(found(&[lib, ("a.rs", "struct A;"), sub, b, c]), ["a/sub.rs b.rs c.rs"]);
        // The parent is another file than its child.
        assert_eq!(found(&[("a/mod.rs", "use self::sub::X;"), ("a/sub.rs", "use super::A;")]), ["a/mod.rs a/sub.rs"]);
    }

    #[test]
    fn what_is_no_import_makes_no_circle() {
        let a = ("a.rs", "pub(in crate::b) fn f() {} // crate::b\n#[cfg(test)]\nmod tests { use crate::b::B; }");
        let b = ("b.rs", "use crate::a::f; pub(crate) fn g(&self) { self.x; \"crate::a\"; }");
        assert!(found(&[a, b]).is_empty());
        let tested = ("a.rs", "fn f() {} #[cfg(test)] mod checks;");
        assert!(found(&[tested, ("a/checks.rs", "use crate::b::B;"), ("b.rs", "use crate::a::checks::X;")]).is_empty());
        let used = ("a.rs", "#[cfg(test)]\nuse crate::b::B;");
        assert!(found(&[used, b]).is_empty());
    }

    #[test]
    fn marks_only_fall() {
        let of = |entries: &[(&str, &[usize])]| -> Sizes {
            entries.iter().map(|(package, sizes)| ((*package).to_owned(), sizes.to_vec())).collect()
        };
        let recorded = of(&[("a", &[6]), ("b", &[2, 2]), ("c", &[3])]);
        assert_eq!(parse(&render(&recorded)), Ok(recorded.clone()));
        let now = of(&[("a", &[3, 2]), ("b", &[3]), ("d", &[2])]);
        assert_eq!(lowered(&recorded, &now), of(&[("a", &[3, 2]), ("b", &[2, 2])]));
        assert_eq!(with_new(recorded.clone(), &now)["d"], [2]);
        let circle = |n: usize| (0..n).map(|i| format!("{i}.rs")).collect::<Vec<_>>();
        let now = Circles::from([
            ("a".to_owned(), vec![circle(3), circle(3)]),
            ("b".to_owned(), vec![circle(3)]),
            ("d".to_owned(), vec![circle(2)]),
        ]);
        let grown = grown(&recorded, &now);
        assert_eq!(grown.len(), 2, "{grown:?}");
        assert!(grown[0].starts_with("b: ") && grown[1].starts_with("d: "));
        assert!(parse("2+x a").is_err() && parse("2").is_err());
    }
}
