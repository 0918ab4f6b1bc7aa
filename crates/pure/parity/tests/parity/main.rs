//! Parity against an oracle that counts byte by byte, and against what others made.

mod differences;
mod oracle;
mod rows;
