//! Which release a program is: its version, and the commit that it was built from.
//!
//! Promises    a checkout gives the commit, and `-dirty` where tracked files differ from it; a tarball gives neither
//!             only what says `release!()` or `commit!()` is compiled anew when the checkout moves, not its whole package
//! Assumes     the workspace is the whole repository, and its crates are three folders below
//! Not here    whether the commit is a release: tags are not asked
//!
//! A build script could do this too. But each commit would then compile the daemon's library again, which takes minutes.
#![forbid(unsafe_code)]
// It runs in the compiler, never in a program or a simulation: the bans of this tier are on those.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use proc_macro::TokenStream;

/// A `&'static str` such as `0.1.0 (0123456789ab-dirty)`, or the version alone.
#[proc_macro]
pub fn release(_: TokenStream) -> TokenStream {
    let checkout = Checkout::find();
    let commit = checkout.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    checkout.block(&format!("concat!(env!(\"CARGO_PKG_VERSION\"), {commit:?})"))
}

/// An `Option<&'static str>` such as `Some("0123456789ab-dirty")`.
#[proc_macro]
pub fn commit(_: TokenStream) -> TokenStream {
    let checkout = Checkout::find();
    checkout.block(&format!("::core::option::Option::<&'static str>::{:?}", checkout.commit))
}

/// What git told of the workspace; nothing where it is no checkout, or there is no git.
#[derive(Default)]
struct Checkout {
    commit: Option<String>,
    /// Files that change when the checkout moves.
    watched: Vec<PathBuf>,
}

impl Checkout {
    fn find() -> Self {
        let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        // Only a repository that begins here: a tarball may have been unpacked inside another one.
        here.as_deref().and_then(|here| here.ancestors().nth(3)).filter(|root| root.join(".git").exists()).map_or_else(
            Self::default,
            |root| Self {
                commit: git(root, &["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]),
                watched: watched(root),
            },
        )
    }

    /// An expression that the compiler evaluates again when a watched file has changed.
    fn block(&self, expression: &str) -> TokenStream {
        let watched: String = self
            .watched
            .iter()
            .filter_map(|file| file.to_str())
            .map(|file| format!("const _: &[u8] = include_bytes!({file:?});"))
            .collect();
        format!("{{ {watched} {expression} }}").parse().expect("an expression of this file's own making")
    }
}

/// HEAD, its log, and the branch that it names, wherever a worktree has them.
fn watched(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    let files = names.filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    files.map(|file| root.join(file)).filter(|file| file.is_file()).collect()
}

/// The one line that git answers.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // Without locks: whoever works in the checkout meanwhile is not to be disturbed.
    let output = Command::new("git").arg("--no-optional-locks").arg("-C").arg(root).args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !said.trim().is_empty()).then(|| said.trim().to_owned())
}
