# One profile (release) for everything, so that every crate is compiled once.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup build package demo test edge edge-fuzz edge-soak ledger lint tidy bench soak fuzz fuzz-smoke series-properties clean

# Inputs per property in `make fuzz-smoke`; power cuts in `make edge`, inputs and rows of `make edge-fuzz` and `make edge-soak`; arguments of `make bench`, `make soak` and `make ledger`; what
# `make fuzz` runs, and how long.
CASES ?= 20000
CUTS ?= 1000000
RUNS ?= 1000000
ROWS ?= 100000000
BENCH ?=
SOAK ?=
LEDGER ?=
TARGET ?= line_protocol
FUZZ_SECONDS ?= 60

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS=$$'\t' read -r name what; do printf '  make %-18s %s\n' "$$name" "$$what"; done

setup: ## Check the tools this needs and install what is missing
	@scripts/setup.sh

build: setup ## Build the program
	cargo build --release --locked -p nilometer

package: build ## Build the program and put it into dist/ without its symbols, these beside it
	@scripts/package.sh

demo: build ## Build the program and let it show itself
	"$$(scripts/target-dir.sh)/release/nilometer" demo

test: setup ## Run every test, with the minutes of each part
	@scripts/setup.sh tests || echo "setup: tests run without that, and the parts that need it fail" >&2
	@scripts/test.sh

edge: setup ## Test the library for microcontrollers, with a million power cuts (CUTS=1000000)
	@scripts/setup.sh tests || echo "setup: tests run without that, and the parts that need it fail" >&2
	@scripts/edge.sh $(CUTS)

edge-fuzz: setup ## Fuzz a flash of the library for microcontrollers with clang's libFuzzer (RUNS=1000000)
	@mkdir -p target/edge-corpus
	clang -std=gnu99 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Iedge/include -Iedge/src edge/src/*.c edge/tests/fuzz_flash.c -o target/edge-fuzz
	target/edge-fuzz -runs=$(RUNS) -max_len=200 -print_final_stats=1 target/edge-corpus

edge-soak: setup ## Put a hundred million rows through a ring of 1 MiB of the library for microcontrollers (ROWS=100000000)
	@mkdir -p target
	$(CC) -std=gnu99 -O2 -Iedge/include -Iedge/src edge/src/*.c edge/tests/soak.c -o target/edge-soak
	target/edge-soak $(ROWS)

# Selected together with the program, so that its libraries get the features that they have already.
ledger: build ## Kill, cut, fill and damage a server, count what is lost, keep findings in ledger-findings (LEDGER="arguments")
	cargo build --release --locked -p nilometer -p nilometer-ledger
	"$$(scripts/target-dir.sh)/release/nilometer-ledger" --table --keep ledger-findings $(LEDGER)

lint: setup ## Check formatting and every lint, in all crates
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --exclude nilometer-sim --all-targets -- -D warnings
	cargo clippy --release --locked -p nilometer-sim --all-targets -- -D warnings
	cargo clippy --release --locked -p nilometer --no-default-features -- -D warnings

tidy: setup ## Check layers, sizes, links, words, licences
	cargo xtask tidy
	cargo xtask deny

bench: build ## Run the benchmark (BENCH="arguments")
	"$$(scripts/target-dir.sh)/release/nilometer" bench $(BENCH)

soak: setup ## Simulate crashes and requests until stopped, keep what is found in soak-findings* (SOAK="--minutes 60")
	@scripts/soak.sh $(SOAK)

fuzz-smoke: setup ## Throw many random inputs at decoders and parsers (CASES=20000)
	seed=$$(date +%s) && echo "PROPTEST_RNG_SEED=$$seed NILOMETER_HOSTILE_SEED=$$seed" && \
	export PROPTEST_CASES=$(CASES) PROPTEST_RNG_SEED=$$seed NILOMETER_HOSTILE_SEED=$$seed && \
	cargo test --release --locked -p nilometer-codec -p nilometer-lineproto -p nilometer-hostile

series-properties: setup ## Compare series queries with a model and with SQL's planner on ten thousand drawn cases each
	seed=$$(date +%s) && echo "PROPTEST_RNG_SEED=$$seed" && export PROPTEST_CASES=10000 PROPTEST_RNG_SEED=$$seed && \
	cargo test --release --locked -p nilometer-series --test property && \
	cargo test --release --locked -p nilometer-query --test sql series_queries_answer

fuzz: setup ## Fuzz one target with coverage for some seconds (TARGET=record FUZZ_SECONDS=60); needs cargo-fuzz and a nightly compiler
	cd fuzz && cargo +nightly fuzz run $(TARGET) ../testdata/corpus/$(TARGET) -- -max_total_time=$(FUZZ_SECONDS)

clean: ## Remove everything that was built
	cargo clean
	rm -rf bench-results/tmp
