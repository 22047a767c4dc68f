# `make help` says what there is. Everything that is made lies in target/ and build/.

CARGO ?= cargo
RUSTC ?= rustc
PYTHON ?= python3
PREFIX ?= /usr/local

TARGET := $(or $(CARGO_TARGET_DIR),target)
MALLOW := $(TARGET)/release/mallow

EXAMPLES := leak stacks words
BENCH_HELPERS := timed pair libempty_hook.so libatomic_count.so
WARNINGS := -Wall -Wextra -Werror

.PHONY: build help examples demo test bench install clean
.DEFAULT_GOAL := build

build: ## the mallow command, with libmallow.so inside, in target/release/mallow
	$(CARGO) build --release --locked

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

examples: $(EXAMPLES:%=build/examples/%) ## the programs of examples/, in build/examples

demo: build ## record a real program (the sqlite3 shell, or python3) and print the report
	@examples/demo $(MALLOW)

test: ## everything that must hold: formatting, lints, unit tests, end-to-end tests
	tests/all

bench: build build/examples/stacks $(BENCH_HELPERS:%=build/bench/%) ## Mallow beside its peers; see CONTRIBUTING.md
	BENCH_MALLOW=$(abspath $(MALLOW)) $(PYTHON) bench/bench.py $(BENCH_OPTIONS)

install: build ## one binary into $(DESTDIR)$(PREFIX)/bin
	install -D -m 755 $(MALLOW) $(DESTDIR)$(PREFIX)/bin/mallow

clean: ## remove build/ and cargo's output
	rm -rf build
	$(CARGO) clean

build/examples build/bench:
	mkdir -p $@

build/examples/%: examples/c/%.c | build/examples
	$(CC) -std=c11 -O2 -g $(WARNINGS) -o $@ $<

build/examples/%: examples/cpp/%.cpp | build/examples
	$(CXX) -std=c++17 -O2 -g $(WARNINGS) -o $@ $<

build/examples/%: examples/rust/%.rs | build/examples
	$(RUSTC) --edition 2024 -C opt-level=2 -g -o $@ $<

# Static: no preloaded library may reach it.
build/bench/timed: bench/timed.c | build/bench
	$(CC) -std=c11 -O2 -g $(WARNINGS) -static -o $@ $<

build/bench/pair: bench/pair.c | build/bench
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) -pthread -o $@ $<

build/bench/lib%.so: bench/peers/%.c bench/peers/next.h | build/bench
	$(CC) -std=gnu11 -O2 -g $(WARNINGS) -fPIC -shared -fvisibility=hidden -o $@ $<
