#!/usr/bin/env bash
# make test, test-unit, test-e2e: builds the programs and every test in the release profile, once, and runs the tests.
#
# Promises  ends with the programs that took longest and one line that sums up all; exit code 0 only where none failed
#           (what does not compile ends it before that, with the compiler's words)
#           shows what tests measured and counted: stalls, states, crash points
#           tests that start real processes (check/e2e) take turns among themselves
# Usage     scripts/test.sh [CARGO TEST ARGUMENTS]     default --workspace
#           CAIRN_TEST_LANES=1: one program after the other, by cargo; else those that need no clock run two at a time (test-programs.py)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
cargo=${CARGO:-cargo} target=${CARGO_TARGET_DIR:-target}
(($#)) || set -- --workspace

# The programs under test too: cargo builds no binary of another package for a test.
"$cargo" build --release --locked --workspace --bins --tests
built=$SECONDS
log=$target/test.log
code=0
case ${CAIRN_TEST_LANES:-2} in
    1) "$cargo" test --release --locked --no-fail-fast "$@" -- --show-output 2>&1 | tee "$log" || code=$? ;;
    2) CARGO=$cargo scripts/test-programs.py "$@" 2>&1 | tee "$log" || code=$? ;;
    *) echo "test.sh: CAIRN_TEST_LANES is 1 or 2" >&2 && exit 2 ;;
esac
# The benchmark's arithmetic, which is Python: it ends with a line like that of cargo's test programs.
python3 -B scripts/bench/tests.py 2>&1 | tee -a "$log" || code=$?
awk -v built="$built" -f scripts/test-summary.awk "$log"
exit "$code"
