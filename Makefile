SHELL := /bin/bash
.DEFAULT_GOAL := help

KNEEPOINT = $(or $(CARGO_TARGET_DIR),target)/release/kneepoint

.PHONY: help demo test build lint faults clean-lab deps cargo

help:
	@echo 'make demo       stand up a badly set Laravel stack, find what is wrong, fix it and prove the gain'
	@echo 'make test       every check: format, structure, lints, tests'
	@echo 'make build      the program, optimised: $(KNEEPOINT)'
	@echo 'make lint       format, structure and lints only'
	@echo 'make faults     the fault bench; ARGS="--only NAME" for one fault'
	@echo 'make clean-lab  remove what an interrupted run left: namespaces, mounts, cgroups, directories'
	@echo 'make deps       install the servers and extensions that the above need (Debian; as root)'

demo: deps build
	$(KNEEPOINT) demo $(ARGS)

test: deps cargo
	scripts/run-tests

build: cargo
	cargo build --release -p kneepoint

lint: cargo
	cargo fmt --all --check
	cargo xtask tidy
	cargo clippy --workspace --all-targets -- -D warnings

faults: deps build
	cargo xtask faults $(ARGS)

clean-lab: build
	$(KNEEPOINT) lab clean

deps:
	@scripts/install-deps

cargo:
	@command -v cargo >/dev/null || { \
		echo 'cargo is missing: install Rust from https://rustup.rs, then open a new shell' \
			'or run: source "$$HOME/.cargo/env"' >&2; exit 1; }
