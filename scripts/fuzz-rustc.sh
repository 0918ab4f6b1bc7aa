#!/usr/bin/env bash
# Stands between cargo and rustc while scripts/fuzz.sh builds (RUSTC_WORKSPACE_WRAPPER): coverage for the crates of this workspace.
#
# Promises  build scripts and procedural macros, which run while others are built, stay as they are
#           other crates are not built anew: those of the release profile serve
# Assumes   no build script and no macro uses another crate of this workspace
# Usage     scripts/fuzz-rustc.sh RUSTC [ARGUMENTS]     what cargo passes; the flags are added behind it
set -euo pipefail

# What cargo-fuzz would pass, less the sanitizers, which need a nightly compiler.
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares)
# Little optimised, and the daemon not at all: its crate takes 52 s to build instead of 265 s. Fewer inputs are run in a second for
# it, of `nbd` and `api` perhaps half.
case " $* " in
    *" --crate-name build_script_"* | *" --crate-type proc-macro "*) flags=() ;;
    *" --crate-name cairnd "*) flags+=(-Copt-level=0) ;;
    *) flags+=(-Copt-level=1) ;;
esac
exec "$@" "${flags[@]}"
