# Short commands for the usual work; each calls the CMake presets, which also work by themselves.
JOBS ?= $(shell nproc)
ARGS ?=
DATA ?=
CMAKE_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help mnist test asan tsan bench format tidy clean

help:
	@echo 'make mnist     install what is missing, build, find or fetch MNIST, train LeNet on it'
	@echo '               DATA=DIR: where MNIST is; ARGS="--model cnn --epochs 3": the flags of examples/mnist'
	@echo 'make test      build and run all tests; ARGS="-R conv2d": the flags of ctest'
	@echo 'make asan      the tests under the address and undefined-behaviour sanitizers'
	@echo 'make tsan      the tests under the thread sanitizer'
	@echo 'make bench     build the benchmarks (bench/README.md says how to run them)'
	@echo 'make format    format all C++ sources; make tidy runs clang-tidy over them'
	@echo 'make clean     remove build/'
	@echo 'JOBS=N: parallel jobs (default: all processors); CMAKE_FLAGS=-DADRET_WERROR=ON: cmake options'

# A first build for the example alone asks for neither GoogleTest nor Google Benchmark.
mnist:
	@tools/install_dependencies build data
	@test -f build/cpu/build.ninja || \
	  cmake --preset cpu $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=OFF -DADRET_BUILD_BENCH=OFF
	@cmake -DADRET_BUILD_EXAMPLES=ON $(CMAKE_FLAGS) build/cpu >/dev/null
	@cmake --build --preset cpu -j $(JOBS) --target mnist
	@data=$$(tools/fetch_mnist $(if $(DATA),--data '$(DATA)')) && \
	  build/cpu/examples/mnist --data "$$data" $(ARGS)

test:
	@tools/install_dependencies build test bench
	cmake --preset cpu $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=ON -DADRET_BUILD_EXAMPLES=ON -DADRET_BUILD_BENCH=ON
	cmake --build --preset cpu -j $(JOBS)
	ctest --preset cpu -j $(JOBS) $(ARGS)

asan tsan:
	@tools/install_dependencies build test
	cmake --preset $@ $(CMAKE_FLAGS)
	cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -j $(JOBS) $(ARGS)

bench:
	@tools/install_dependencies build bench
	cmake --preset cpu $(CMAKE_FLAGS) -DADRET_BUILD_BENCH=ON
	cmake --build --preset cpu -j $(JOBS) --target bench

format:
	@tools/install_dependencies develop
	tools/format

tidy:
	@tools/install_dependencies build test bench develop
	cmake --preset cpu $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=ON -DADRET_BUILD_EXAMPLES=ON -DADRET_BUILD_BENCH=ON
	tools/tidy -j $(JOBS)

clean:
	cmake -E rm -rf build
