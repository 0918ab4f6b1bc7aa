//! What becomes of a keyword of another tool's file.
//!
//! Promises    a keyword is taken, told in a note because it changes no number, or refused with a reason: there is no fourth

/// What becomes of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is read.
    Taken,
    /// It changes no number: the note says why, or what is done instead.
    Noted(&'static str),
    /// There is no such thing here: why, or what to do.
    Refused(&'static str),
}

/// Keywords of one kind, with what becomes of each.
pub(crate) type Table = &'static [(&'static str, Use)];

/// The keywords of one kind as lines of Markdown: those that are taken, then notes and refusals, one line for each reason.
pub(crate) fn told(title: &str, table: Table) -> String {
    let mut taken: Vec<&str> = Vec::new();
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for (name, used) in table {
        let (what, why) = match used {
            Use::Taken => {
                taken.push(name);
                continue;
            }
            Use::Noted(why) => ("noted", *why),
            Use::Refused(why) => ("refused", *why),
        };
        match reasons.iter_mut().find(|(w, y, _)| (*w, *y) == (what, why)) {
            Some((_, _, names)) => names.push(name),
            None => reasons.push((what, why, vec![name])),
        }
    }
    reasons.sort_by_key(|(what, _, _)| *what);
    let row =
        |what: &str, names: &[&str], why: &str| format!("| {title} | {what} | `{}` | {why} |\n", names.join("` `"));
    let mut text = row("taken", &taken, "");
    for (what, why, names) in reasons {
        text += &row(what, &names, why);
    }
    text
}
