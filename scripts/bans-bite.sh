#!/usr/bin/env bash
# Shows that the bans in clippy.toml of the simulated tiers bite: a crate that breaks each of them must be told so.
#
# Part of `make verify`. Needs clippy, as the rest of it does; writes below target/ only.
set -euo pipefail
cd "$(dirname "$0")/.."

cat_violations() {
    cat <<'RS'
//! Breaks the bans, one a line.
#![allow(unused)]
pub type A = std::collections::HashMap<u8, u8>;
pub type B = std::collections::HashSet<u8>;
pub fn c() { std::time::Instant::now(); }
pub fn d() { std::time::SystemTime::now(); }
pub fn e() { std::thread::spawn(|| ()); }
pub fn f() { std::thread::sleep(std::time::Duration::ZERO); }
pub fn g() { let _ = std::fs::File::open("x"); }
pub fn h() { let _ = std::fs::read("x"); }
pub fn i() { let _ = std::net::TcpStream::connect("x:1"); }
pub fn j() { let _ = std::net::UdpSocket::bind("x:1"); }
RS
}

failed=0
for tier in base pure engine; do
    crate=$PWD/target/bans-bite/$tier
    mkdir -p "$crate/src"
    printf '[package]\nname = "bans-bite-%s"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' "$tier" >"$crate/Cargo.toml"
    cat_violations >"$crate/src/lib.rs"
    said=$(CLIPPY_CONF_DIR=$PWD/crates/$tier CARGO_TARGET_DIR=$PWD/target/bans-bite/target \
        cargo clippy --offline --quiet --manifest-path "$crate/Cargo.toml" --message-format short 2>&1 || true)
    for line in 3 4 5 6 7 8 9 10 11 12; do
        if ! grep -q "lib.rs:$line:.*disallowed" <<<"$said"; then
            echo "bans-bite: crates/$tier/clippy.toml lets this pass: $(sed -n "${line}p" "$crate/src/lib.rs")" >&2
            failed=1
        fi
    done
done
((failed == 0)) && echo "bans-bite: 10 bans bite in each of base, pure and engine"
exit "$failed"
