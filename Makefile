SHELL := /bin/bash
.DEFAULT_GOAL := help

KNEEPOINT = $(or $(CARGO_TARGET_DIR),target)/release/kneepoint
# How long each fuzz target runs, and which; without names all of them.
FUZZ_SECONDS = 60
FUZZ_TARGETS =

.PHONY: help demo test build lint attack deny miri faults replay fuzz bench-load memory clean-lab deps cargo

help:
	@echo 'make demo       stand up a badly set Laravel stack, find what is wrong, fix it and prove the gain'
	@echo 'make test       every check: format, structure, lints, tests'
	@echo 'make build      the program, optimised: $(KNEEPOINT)'
	@echo 'make lint       format, structure and lints only'
	@echo 'make attack     try to get out of the lab, a line for each attempt; as root'
	@echo 'make deny       licences, advisories and sources of dependencies (cargo install --locked cargo-deny)'
	@echo 'make miri       undefined behaviour in crates with unsafe code (rustup +nightly component add miri)'
	@echo 'make faults     the fault bench; ARGS="--only NAME" for one fault'
	@echo 'make replay     the field reports, an hour; ARGS="S2" for one of them'
	@echo 'make fuzz       the fuzz targets, a minute each; FUZZ_SECONDS=600 for ten, FUZZ_TARGETS="NAME..." for some'
	@echo 'make bench-load the load engine beside wrk, oha, k6 and others that are installed; ARGS="--rounds 3"'
	@echo 'make memory     the memory of the load engine: 10 000 connections, and half an hour; ARGS="--only held"'
	@echo 'make clean-lab  remove what an interrupted run left: namespaces, mounts, cgroups, directories'
	@echo 'make deps       install the servers and extensions that the above need (Debian; as root)'

demo: deps build
	$(KNEEPOINT) demo $(ARGS) || [ $$? -eq 4 ] # 4: it ended, and could not judge every remedy

test: cargo
	scripts/run-tests

# The debug information goes into a file beside the program, where debuggers and profilers look for it. The program is
# replaced and not written to: Cargo keeps the same file under another name. One that is stripped already stays.
build: cargo
	cargo build --release -p kneepoint
	@if objdump -h $(KNEEPOINT) | grep -q ' \.debug_line '; then \
		objcopy --only-keep-debug $(KNEEPOINT) $(KNEEPOINT).debug && \
		objcopy --strip-all --add-gnu-debuglink=$(KNEEPOINT).debug $(KNEEPOINT) $(KNEEPOINT).stripped && \
		mv $(KNEEPOINT).stripped $(KNEEPOINT); \
	fi

lint: cargo
	cargo fmt --all --check
	cargo xtask tidy
	cargo clippy --workspace --all-targets -- -D warnings

attack: deps build
	cargo xtask attack $(ARGS)

deny: cargo
	cargo deny check

# Miri makes no system calls such as ptrace: the tests that parse run, those that touch the machine do not.
miri: cargo
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p kneepoint-linux --lib -- parse network cpu::tests sock_diag

faults: deps build
	cargo xtask faults $(ARGS)

replay: deps build
	$(KNEEPOINT) replay $(or $(ARGS),all)

fuzz: cargo
	scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

bench-load: deps build
	cargo xtask bench-load $(ARGS)

memory: deps build
	cargo xtask memory $(ARGS)

clean-lab: build
	$(KNEEPOINT) lab clean

deps:
	@scripts/install-deps

cargo:
	@command -v cargo >/dev/null || { \
		echo 'cargo is missing: install Rust from https://rustup.rs, then open a new shell' \
			'or run: source "$$HOME/.cargo/env"' >&2; exit 1; }
