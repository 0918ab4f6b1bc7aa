#!/usr/bin/env bash
# make test-upgrade: four real hosts under load go from the previous release to this one, back, and to the end.
#
# Promises  the previous release is built from its tag, in target/previous; nothing else is touched
# Usage     scripts/test-upgrade.sh
#           CAIRN_PREVIOUS=COMMIT     what the previous release is built from (v0.3.0)
#           CAIRN_PREVIOUS_BIN=FOLDER its programs, where they are built already
#           CAIRN_E2E_SECONDS=N       how long the load lasts, at least (300)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
cargo=${CARGO:-cargo} target=${CARGO_TARGET_DIR:-target}
export CAIRN_E2E_SECONDS=${CAIRN_E2E_SECONDS:-300}

previous=${CAIRN_PREVIOUS:-v0.3.0}
if [[ -z ${CAIRN_PREVIOUS_BIN:-} ]]; then
    source=target/previous/source
    rm -rf "$source"
    mkdir -p "$source"
    git archive "$previous" | tar -x -C "$source"
    (cd "$source" && CARGO_TARGET_DIR=../build "$cargo" build --release --locked -p cairnd -p cairn-cli)
    export CAIRN_PREVIOUS_BIN=$PWD/target/previous/build/release
fi
"$cargo" build --release --locked -p cairnd -p cairn-cli -p cairn-e2e --bin cairnd --bin cairn --bin upgrade
"$target/release/upgrade"
