# The front door: what one types. Everything is an ordinary cargo or script call that can be typed by hand.
#
#   make demo      a four-host cluster in one process, a disk, fio, a death and a return: two minutes
#   make test      sets up the machine, then every test
#   make verify    what a change must pass; writes nothing but target/
#   make fix       formats, and applies what clippy can fix
#   make bench     the table of docs/bench

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
export PATH := $(HOME)/.cargo/bin:$(PATH)
CARGO ?= cargo
SUM := awk -f scripts/test-summary.awk

.PHONY: help setup build test test-unit test-e2e demo bench verify fix
help:
	@sed -n 's/^#   //p' Makefile

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --workspace

# Unit, property, model and simulator tests run in the dev profile: its overflow checks are part of the test.
# What drives real processes (check/e2e) runs in release, as users do; both sum up in one last line.
test: setup
	@{ $(MAKE) --no-print-directory test-unit-raw && $(MAKE) --no-print-directory test-e2e-raw; } 2>&1 | $(SUM)

test-unit: setup
	@$(MAKE) --no-print-directory test-unit-raw 2>&1 | $(SUM)

test-e2e: setup
	@$(MAKE) --no-print-directory test-e2e-raw 2>&1 | $(SUM)

.PHONY: test-unit-raw test-e2e-raw
test-unit-raw:
	$(CARGO) test --workspace --exclude cairn-e2e --no-fail-fast

# The programs under test are built first: cargo builds no binary of another package for a test.
test-e2e-raw:
	$(CARGO) build --release --workspace
	$(CARGO) test --release -p cairn-e2e --no-fail-fast -- --test-threads=1

demo: setup
	@scripts/demo.sh

bench: setup
	@scripts/bench.sh

verify:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@scripts/bans-bite.sh
	$(CARGO) test --workspace --exclude cairn-e2e --locked --no-fail-fast 2>&1 | $(SUM)

fix:
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	$(CARGO) run --quiet -p cairn-arch -- lower
