# The front door. `make run` and `make test` do all they need on a fresh
# Debian 12 machine; `make help` lists the rest. The build itself is CMake's.
PRESET ?= release
JOBS ?= $(shell nproc)
FOLDER := build$(if $(filter-out release,$(PRESET)),-$(PRESET))
# Clang 14 cannot compile libtorch 1.13's headers as C++20 beside GCC 12's
# library (a vector of the incomplete c10::IValue). Where a newer one is:
# make tidy LAYERS="tensor nn data parallel train cli/torch"
LAYERS ?= base topo comm report cli
SOURCES = $(foreach layer,$(LAYERS),':(glob)sheaf/$(layer)/*.cpp')
BENCH ?= allreduce -n 2 -b 8 -e 64M -f 4 --versus mpi

.PHONY: run test test-long build bench format tidy deps configure help
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18
	@echo "PRESET=dev|asan|asan-core|tsan|mpich|notorch works in build-<preset>."

run: build ## set up, build, train LeNet on Fashion-MNIST with 2 ranks
	$(FOLDER)/sheaf train examples/fashion_mnist.yaml -n 2

test: build ## set up, build, run every test but the long ones
	ctest --test-dir $(FOLDER) -j2 -LE long --output-on-failure \
	  --no-tests=error

test-long: build ## random trainings by the thousands, and sanitizers: hours
	scripts/test-long

build: configure ## set up and leave the command at build/sheaf
	cmake --build $(FOLDER) -j $(JOBS)

bench: build ## the all-reduce table, then every micro-benchmark
	cmake --build $(FOLDER) -j $(JOBS) --target benches
	$(FOLDER)/sheaf bench $(BENCH)
	@for program in $(FOLDER)/bench/bench_*; do \
	  if [ -x "$$program" ]; then "$$program" || exit; fi; done

# A folder that is configured already, by whatever generator, keeps its ways:
# `cmake --build` configures again by itself when a CMake file changes.
configure: deps
	$(if $(wildcard $(FOLDER)/build.ninja $(FOLDER)/Makefile),@true,\
	  cmake --preset $(PRESET))

deps: ## install missing packages; SHEAF_SKIP_DEPS=1 leaves them alone
	@scripts/install-deps

format: ## format all C and C++ files
	python3 -B tests/hygiene/format.py . --fix

# All sources of LAYERS, or with SINCE=<commit> those changed since then. In a folder of
# its own: clang cannot read the headers that g++ has compiled in the build's.
tidy: deps ## clang-tidy over LAYERS; SINCE=main: changed sources only
	@cmake --preset $(PRESET) -B $(FOLDER)-tidy --log-level=NOTICE \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	@if [ -n "$(SINCE)" ]; then \
	  git diff --name-only --diff-filter=d $(SINCE) -- $(SOURCES); \
	else git ls-files $(SOURCES); fi \
	  | xargs -r -P $(JOBS) -n 1 clang-tidy -p $(FOLDER)-tidy --quiet
