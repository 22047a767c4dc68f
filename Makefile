# `make help` says what there is. Everything that is made lies in target/ and build/.

CARGO ?= cargo
RUSTC ?= rustc
PYTHON ?= python3
PREFIX ?= /usr/local

HOST = $(shell $(RUSTC) -vV | sed -n 's/^host: //p')
TARGET := $(or $(CARGO_TARGET_DIR),target)
MALLOW := $(TARGET)/release/mallow
# Unoptimised.
DEMO_MALLOW := $(TARGET)/demo/mallow

SHARE = $(DESTDIR)$(PREFIX)/share
# Where each shell looks for them; the shell's name is the first word of the path.
COMPLETIONS := bash-completion/completions/mallow zsh/site-functions/_mallow fish/vendor_completions.d/mallow.fish
shell_of = $(firstword $(subst -, ,$(subst /, ,$(1))))

# The command has its C library inside, and starts on each Linux. Its linker (lld, rustc's own) makes one of functions with equal code, 0.4 MB,
# and packs relocations, 0.8 MB: what starts a static program knows these since glibc 2.36.
PACKED = $(shell getconf GNU_LIBC_VERSION | awk -F '[ .]' '$$2 > 2 || $$3 >= 36 { print "-C link-arg=-Wl,-z,pack-relative-relocs" }')
STATIC = -C target-feature=+crt-static -C link-arg=-Wl,--icf=all $(PACKED)

EXAMPLES := leak allocations stacks words
BENCH_HELPERS := timed pair libempty_hook.so libatomic_count.so libresident_at_exit.so
SOURCES := Cargo.toml Cargo.lock $(shell find crates preload -type f)
C_SOURCES = $(shell find preload bench examples tests -name '*.[ch]' -o -name '*.cpp')
WARNINGS := -Wall -Wextra -Werror

# Clippy's compiler makes the tests: it compiles what it has looked at. `cargo clippy` would look at all dependencies anew,
# and make nothing of them. By a flag, as programs that tests build inherit the environment.
TEST = MALLOW_BIN=$(abspath $(MALLOW)) CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ \
	$(CARGO) test --config 'build.rustc-workspace-wrapper="clippy-driver"' --workspace --locked
# More than processors: what a recording leaves to do is of the idle class, and a test that waits for it would leave its
# processor to nothing else.
THREADS = $(shell expr $$(nproc) + 1)
SMOKE = $(shell grep -v '^\#' tests/smoke.txt)

.PHONY: architecture preload-test test-binaries nightly all-rounds soak coverage detection smoke foreign predictions strangers distros
.PHONY: build help examples bench-helpers demo test format-check bench bench-fleet bench-views install dist clean
.DEFAULT_GOAL := build

build: $(MALLOW) ## the mallow command, with libmallow.so inside, in target/release

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

examples: $(EXAMPLES:%=build/examples/%) ## the programs of examples/, in build/examples

demo: ## record a real program (the sqlite3 shell, or python3) and print the report; builds mallow unoptimised, unless it is built
	@if $(MAKE) --question --silent $(MALLOW); then examples/demo $(MALLOW); \
	else $(MAKE) --silent $(DEMO_MALLOW) && examples/demo $(DEMO_MALLOW); fi

test: ## everything that must hold; brings what it needs through apt and rustup
	tests/prerequisites
	$(MAKE) -j2 --output-sync=target architecture format-check preload-test
	$(MAKE) -j2 test-binaries build
	$(MAKE) examples bench-helpers
	$(TEST) --no-fail-fast -- --test-threads $(THREADS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/test.py
	$(PYTHON) tests/strangers/test.py

# Beside the command: the last of them, all end-to-end tests, is one crate that keeps one processor busy for minutes.
test-binaries:
	$(TEST) --no-run

architecture: ## only the walls between the rooms, and what documents say of the tree
	tests/architecture

preload-test: ## only the tests of what runs in a target
	preload/test/run

smoke: build examples ## the telling tests of each room, which tests/smoke.txt lists, in some minutes once all is built
	$(MAKE) -j2 --output-sync=target architecture preload-test
	$(TEST) --test end_to_end -- --exact $(SMOKE)

nightly: ## what takes hours: all tests with all rounds, soak, coverage, detection, predictions; goes on after one that fails
	$(MAKE) --keep-going all-rounds soak coverage detection predictions

# As in CONTRIBUTING.md: tests that repeat what one run cannot settle make a part of their rounds in `make test`.
all-rounds: build examples bench-helpers
	MALLOW_TEST_ROUNDS=100 $(TEST) --no-fail-fast

foreign: build examples ## the part of test with programs that nobody here wrote
	$(TEST) --test end_to_end -- \
		foreign:: programs:: other_tools:: custom_allocators:: swift_names:: go_

format-check: ## only whether the sources are formatted
	$(CARGO) fmt --all --check
	rustfmt --check --edition 2024 examples/rust/*.rs examples/benches/*/*.rs
	clang-format --dry-run -Werror $(C_SOURCES)

bench: build build/examples/stacks bench-helpers ## Mallow beside its peers; CONTRIBUTING.md names the settings
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/bench.py $(BENCH_OPTIONS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/inside.py $(BENCH_OPTIONS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/guard.py $(BENCH_OPTIONS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/attach.py $(BENCH_OPTIONS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/formats.py $(BENCH_OPTIONS)
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/go.py $(BENCH_OPTIONS)

bench-views: build build/examples/stacks ## views of large recordings; BENCH_EVENTS=10,100 for millions of events
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/views.py $(BENCH_OPTIONS)

soak: build ## attach SOAK_CYCLES (2500) times with each of four allocators; watch a program that churns for SOAK_MINUTES (30): joins, leaves, kills of mallow
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/soak/attach.py
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/soak/soak.py

bench-fleet: build build/bench/fleet_process ## what one mallow that watches FLEET_PROCESSES=200 processes for FLEET_MINUTES=10 costs
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/fleet.py

coverage: build ## how often watch's intervals cover the truth, in COVERAGE_RUNS (200) runs of a built program
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/soak/coverage.py

detection: build ## how often guard --sample finds an error: a wrong program, DETECTION_RUNS (1000) times
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/soak/detection.py

predictions: build bench-helpers ## whether the first remedy of mallow rss releases what it says, on third-party programs
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) bench/predictions.py

SEED ?= 7
COUNT ?= 20
strangers: build ## third-party programs that SEED (7) picks, COUNT (20) of them, judged by oracles that are not Mallow's; installs them
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/strangers/strangers.py $(SEED) $(COUNT)

distros: build ## what works in the roots of other Debian releases, with glibc and musl: DISTROS names them; downloads them, as root
	MALLOW_BIN=$(abspath $(MALLOW)) $(PYTHON) tests/distros/distros.py

bench-helpers: $(BENCH_HELPERS:%=build/bench/%)

install: $(MALLOW) ## one binary into $(DESTDIR)$(PREFIX)/bin, and what it prints of itself for man, shells and readers of its JSON
	install -D -m 755 '$(MALLOW)' '$(DESTDIR)$(PREFIX)/bin/mallow'
	objcopy -w --strip-all --keep-symbol='*mallow*' '$(DESTDIR)$(PREFIX)/bin/mallow'
	install -d '$(SHARE)/man/man1' $(foreach path,$(COMPLETIONS),'$(SHARE)/$(dir $(path))')
	'$(MALLOW)' man --into '$(SHARE)/man/man1'
	'$(MALLOW)' help json --into '$(SHARE)/mallow/schemas'
	$(foreach path,$(COMPLETIONS),'$(MALLOW)' completions $(call shell_of,$(path)) > '$(SHARE)/$(path)' &&) true

dist: $(MALLOW) ## an archive for any Linux, a .deb, an .rpm, a wheel, an image, with checksums and a bill of materials, in build/dist
	packaging/dist $(MALLOW) build/dist

clean: ## remove build/ and cargo's output
	rm -rf build
	$(CARGO) clean

# Flags for a target leave alone what runs at build time, which cannot be static. A new time, so that `make` and then `make install` by
# somebody without cargo works.
$(MALLOW): $(SOURCES)
	RUSTFLAGS="$$RUSTFLAGS $(STATIC)" $(CARGO) build --release --locked -p mallow --target $(HOST)
	@mkdir -p $(@D)
	@cp $(TARGET)/$(HOST)/release/mallow $@.new && mv $@.new $@

$(DEMO_MALLOW): $(SOURCES)
	$(CARGO) build --profile demo --locked -p mallow
	@touch $@

build/examples build/bench:
	mkdir -p $@

build/examples/%: examples/c/%.c | build/examples
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) -Ipreload/include -o $@ $<

build/examples/%: examples/cpp/%.cpp | build/examples
	$(CXX) -std=c++17 -O2 -g $(WARNINGS) -o $@ $<

build/examples/%: examples/rust/%.rs | build/examples
	$(RUSTC) --edition 2024 -C opt-level=2 -g -o $@ $<

# Static: no preloaded library may reach it.
build/bench/timed: bench/timed.c | build/bench
	$(CC) -std=c11 -O2 -g $(WARNINGS) -static -o $@ $<

build/bench/pair: bench/pair.c | build/bench
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) -pthread -o $@ $<

build/bench/fleet_process: bench/fleet_process.c | build/bench
	$(CC) -std=gnu11 -O1 -g $(WARNINGS) -o $@ $<

build/bench/lib%.so: bench/peers/%.c bench/peers/next.h | build/bench
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) -fPIC -shared -fvisibility=hidden -o $@ $<
