# Two commands are enough: `make demo` to see it, `make test` to check it.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/floodmark/target

.PHONY: help demo test build bench bench-e2e recovery mutations prove

help:
	@echo 'make demo   build, run the pipeline with faults, count every row'
	@echo 'make test   everything: format, lints, unit tests, tests against real services'
	@echo 'make build  the release binary'
	@echo 'make bench  the micro-benchmarks'
	@echo 'make bench-e2e  10 M events through the whole pipeline, in CPU-seconds'
	@echo 'make mutations  each guard switched off: what fails then'
	@echo 'make prove  further proof, counted by commit (PART=sim|encoded|kills|matrix|fuzz|mutants, BUDGET=30m)'
	@echo 'make recovery  how long a job with 1 GiB of state is away after a SIGKILL'

demo: build
	$(CARGO_TARGET_DIR)/release/floodmark demo

build:
	scripts/setup build
	cargo build --release

# A part that fails doesn't keep the others from running; the table fails the whole.
test:
	@scripts/timed --new
	@scripts/timed setup scripts/setup
	@scripts/timed stack scripts/fetch-stack
	-@scripts/timed format cargo fmt --all --check
	-@scripts/timed lints cargo clippy --release --workspace --all-targets -- -D warnings
	-@scripts/timed build cargo test --release --workspace --no-run
	-@scripts/timed tests scripts/run-tests
	-@scripts/timed flink scripts/run-tests flink
	@scripts/timed --table

bench:
	cargo bench --workspace --bench decode --bench core --bench dedup

bench-e2e:
	cargo bench --bench end_to_end

recovery:
	cargo bench --bench recovery

mutations:
	cargo test --release -p floodmark --lib simulate::tests::guards -- --nocapture

prove:
	PART=$(PART) BUDGET=$(BUDGET) scripts/prove
