# Shortcuts. `make run` and `make test` do everything on a fresh Debian 12
# machine; `make help` lists the targets. The build itself uses CMake.
PRESET ?= release
JOBS ?= $(shell nproc)
FOLDER := build$(if $(filter-out release,$(PRESET)),-$(PRESET))
# Clang 14 cannot compile the headers of libtorch 1.13 as C++20 with GCC 12's
# standard library (a vector of the incomplete c10::IValue). With a newer one:
# make tidy LAYERS="tensor nn data parallel train cli/torch"
LAYERS ?= base topo comm report cli
SOURCES = $(foreach layer,$(LAYERS),':(glob)sheaf/$(layer)/*.cpp')
SECONDS ?= 60
BENCH ?= allreduce -n 2 -b 8 -e 64M -f 4 --versus mpi

.PHONY: run test test-long fuzz build bench format tidy deps configure help
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18
	@echo "PRESET=dev|asan|asan-core|tsan|mpich|notorch works in build-<preset>."

run: build ## set up, build, train LeNet on Fashion-MNIST with 2 ranks
	$(FOLDER)/sheaf train examples/fashion_mnist.yaml -n 2

test: build ## set up, build, run all tests except the long ones
	ctest --test-dir $(FOLDER) -j $$(($(JOBS) + 1)) -LE long \
	  --output-on-failure --no-tests=error

test-long: build ## thousands of random trainings, and sanitizers (takes hours)
	scripts/test-long

fuzz: ## fuzz all parsers for SECONDS each (or TARGETS="npy zip"), with clang
	@scripts/install-deps --fuzz
	python3 -B tests/fuzz/fuzz.py . --seconds $(SECONDS) $(if $(RESULTS),--results) $(TARGETS)

build: configure ## set up and build the command build/sheaf
	cmake --build $(FOLDER) -j $(JOBS)

bench: build ## run the all-reduce benchmark, then all micro-benchmarks
	cmake --build $(FOLDER) -j $(JOBS) --target benches
	$(FOLDER)/sheaf bench $(BENCH)
	@for program in $(FOLDER)/bench/bench_*; do \
	  if [ -x "$$program" ]; then "$$program" || exit; fi; done

# A folder that is already configured keeps its generator and settings; `cmake
# --build` configures again when a CMake file changes.
configure: deps
	$(if $(wildcard $(FOLDER)/build.ninja $(FOLDER)/Makefile),@true,\
	  cmake --preset $(PRESET))

deps: ## install missing packages; SHEAF_SKIP_DEPS=1 skips this
	@scripts/install-deps

format: ## format all C and C++ files
	python3 -B tests/hygiene/format.py . --fix

# All sources of LAYERS, or with SINCE=<commit> those changed since then. Uses a
# separate build folder: clang cannot read headers precompiled by g++.
tidy: deps ## clang-tidy over LAYERS; SINCE=main: changed sources only
	@cmake --preset $(PRESET) -B $(FOLDER)-tidy --log-level=NOTICE \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	@if [ -n "$(SINCE)" ]; then \
	  git diff --name-only --diff-filter=d $(SINCE) -- $(SOURCES); \
	else git ls-files $(SOURCES); fi \
	  | xargs -r -P $(JOBS) -n 1 clang-tidy -p $(FOLDER)-tidy --quiet
