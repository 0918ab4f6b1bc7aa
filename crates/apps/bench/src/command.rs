//! What a request to a server does, whatever the server speaks.

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    Write,
    Flush,
    Trim,
}
