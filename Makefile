# The front door: what one types. Everything is an ordinary cargo or script call that can be typed by hand.
#
#   make demo      a four-host cluster in one process, a disk, fio, a death and a return: two minutes
#   make test      sets up the machine, then every test
#   make verify    what a change must pass; writes nothing but target/
#   make fix       formats, and applies what clippy can fix
#   make dist      cairnd, cairn and cairn-bench as users run them, in target/dist
#   make packages  Debian packages of those, in target/packages (docs/operating/packages.md)
#   make sim       the stories and 1,000 seeds of the whole cluster in the simulator (docs/sim)
#   make canaries  the same with deliberate bugs, one after the other: seeds until each is caught; fails while some are not
#   make fuzz      every fuzz target for ten minutes, two at a time: half an hour (docs/fuzz.md)
#   make test-upgrade  the release before this one, built from its tag, and an upgrade of four hosts from it, under load: a build and ten minutes
#   make last-batches  2,000 times all hosts die and a bit of the end of one log is flipped (docs/adr/0022); an hour beside other work
#   make snapshots-of-guests  a minute of snapshots of ext4 and xfs in a guest, each second, while hosts die; guests look at each
#   make bench     docs/bench/speed-floor.md, of those: half an hour; ARGS="--help" tells how to have less of it
#   make bench-failures  docs/bench/failures.md, of those: stalls and rebuilds when hosts die; seven minutes
#   make bench-sizes  docs/bench/sizes.md: devices of up to 4 TiB, ten of them at once, as files that are mostly holes; an hour; ARGS=--quick: three minutes
#   make bench-openings  docs/bench/openings.md: a full write buffer of 100 GiB and maps of terabytes, opened; ten minutes
#   make bench-layouts  docs/bench/layouts.md, of those: a disk under load goes to 3+1, 4+2 and back; a build and eight minutes
#   make bench-rows  docs/bench/rows.md: mirrors beside 3+1 and 4+2 on the same hosts, in turns; fifteen minutes
#   make bench-snapshots  docs/bench/snapshots.md: disks with 1, 64 and 256 snapshots beside one without, in turns
#   make bench-content  docs/bench/content.md: what files come to where they are packed (ARGS="--kind NAME=PATH ...")
#   make bench-mix  docs/bench/mix.md: mirrors and RAID-5 on disk groups that pack and store equal blocks once
#   make bench-packing  docs/bench/packing.md: disk groups that pack beside disk groups that do not, in turns
#   make bench-copies  docs/bench/copies.md: copies of one image, on disk groups that store equal blocks once and on such that do not
#   make bench-clones  docs/bench/clones.md: a thousand clones of 40 GiB, and machines that boot of them beside own copies
#   make bench-scaling   the tables of docs/bench/scaling.md: hosts (simulated), disks in use, disks at rest, shards, calls; twenty minutes

export PATH := $(HOME)/.cargo/bin:$(PATH)
CARGO ?= cargo

.PHONY: help setup build dist packages test test-unit test-e2e test-upgrade last-batches snapshots-of-guests demo sim canaries fuzz bench bench-changes bench-clones bench-content bench-copies bench-failures bench-layouts bench-mix bench-openings bench-packing bench-rows bench-scaling bench-sizes bench-snapshots verify fix
help:
	@sed -n 's/^#   //p' Makefile

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --workspace

# Where they were built stands in no program that anyone is given: neither Rust's part nor C's.
TARGET = $(or $(CARGO_TARGET_DIR),target)
homes = $(foreach home,$(CURDIR)=cairn $(or $(CARGO_HOME),$(HOME)/.cargo)=cargo $(abspath $(TARGET))=target,$(1)=$(home))
dist: setup
	RUSTFLAGS="$(RUSTFLAGS) $(call homes,--remap-path-prefix)" CFLAGS="$(CFLAGS) $(call homes,-ffile-prefix-map)" \
		$(CARGO) build --profile dist --locked -p cairnd -p cairn-cli -p cairn-bench

packages: dist
	@! grep -laF -e "$(CURDIR)/" -e "$(or $(CARGO_HOME),$(HOME)/.cargo)/" $(foreach name,cairnd cairn cairn-bench,$(TARGET)/dist/$(name)) || \
		{ echo "packages: these programs tell where they were built: see dist in Makefile" >&2; exit 1; }
	@scripts/packages/make.sh $(TARGET)/dist $(TARGET)/packages

test: setup
	@scripts/test.sh

test-unit: setup
	@scripts/test.sh --workspace --exclude cairn-e2e

test-e2e: setup
	@scripts/test.sh -p cairn-e2e

test-upgrade: setup
	@scripts/test-upgrade.sh

last-batches: setup
	$(CARGO) build --release --locked -p cairnd -p cairn-cli
	CAIRN_E2E_TRIALS=2000 $(CARGO) test --release --locked -p cairn-e2e --test last_batches -- --nocapture

snapshots-of-guests: setup
	$(CARGO) build --release --locked -p cairnd -p cairn-cli
	CAIRN_E2E_SECONDS=60 $(CARGO) test --release --locked -p cairn-e2e --test snapshots_guests -- --nocapture

bench-changes: setup
	$(CARGO) build --release --locked --workspace --bins
	CAIRN_E2E_FILL_MIB=$(or $(MIB),2048) CAIRN_E2E_TURNS=$(or $(TURNS),21) $(CARGO) test --release --locked --workspace --test week -- --nocapture

demo: setup
	@scripts/demo.sh

bench: setup
	@python3 scripts/bench $(ARGS)

bench-failures: setup
	@python3 scripts/bench/failures.py $(ARGS)

bench-sizes: setup
	@python3 scripts/bench/sizes.py $(ARGS)

bench-clones: setup
	@python3 scripts/bench/clones.py $(ARGS)

bench-rows: setup
	@python3 scripts/bench/redundancy.py $(ARGS)

bench-content: setup
	@python3 scripts/bench/content.py $(ARGS)

bench-copies: setup
	@python3 scripts/bench/copies.py $(ARGS)

bench-mix: setup
	@python3 scripts/bench/mix.py $(ARGS)

bench-packing: setup
	@python3 scripts/bench/packing.py $(ARGS)

bench-snapshots: setup
	@python3 scripts/bench/snapshots.py $(ARGS)

bench-layouts: setup
	$(CARGO) build --release --locked -p cairnd -p cairn-cli -p cairn-e2e --bin cairnd --bin cairn --bin layouts
	CAIRN_E2E_SECONDS=$(or $(SECONDS),420) target/release/layouts

bench-openings: setup
	@python3 scripts/bench/openings.py $(ARGS)

bench-scaling: setup
	$(CARGO) build --release --locked -p cairn-cluster
	target/release/sim curves
	@python3 scripts/bench --rows disks-1,disks-8,disks-64,disk-qd64 --systems nbdkit,cairn
	@python3 scripts/bench/objects.py
	@python3 scripts/bench/shards.py
	@python3 scripts/bench/calls.py

# Runs take and free much memory: the allocator keeps it for the next one.
sim: setup
	$(CARGO) build --release --locked -p cairn-cluster
	target/release/sim scenarios
	MIMALLOC_PURGE_DELAY=-1 target/release/sim run --seeds 1..1000

# In a folder of its own, so that no program that anyone uses is ever built with them.
canaries: setup
	$(CARGO) build --release --locked -p cairn-cluster --features canaries --target-dir target/canaries
	MIMALLOC_PURGE_DELAY=-1 target/canaries/release/sim canaries
	@scripts/store-canaries.sh

fuzz: setup
	@scripts/fuzz.sh 600

verify:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings
	@scripts/bans-bite.sh
	@scripts/test.sh --workspace --exclude cairn-e2e

fix:
	$(CARGO) fmt --all
	$(CARGO) clippy --release --workspace --all-targets --fix --allow-dirty --allow-staged
	$(CARGO) fmt --all
	$(CARGO) run --release --quiet -p cairn-arch -- lower
