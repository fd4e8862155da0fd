# Short commands for the usual work; each calls the CMake presets, which also work by themselves.
JOBS ?= $(shell nproc)
ARGS ?=
DATA ?=
CMAKE_FLAGS ?=
# cifar10 runs on what the machine has, the rest on the CPU unless told otherwise.
ifneq ($(filter cifar10,$(MAKECMDGOALS)),)
DEVICE ?= $(shell nvidia-smi -L >/dev/null 2>&1 && PATH=$$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null && echo cuda || echo cpu)
endif
DEVICE ?= cpu
PRESET := $(if $(filter cuda%,$(DEVICE)),cuda,cpu)
# The preset's architecture is for continuous integration; a machine with a GPU compiles for its own.
ifeq ($(PRESET),cuda)
  override CMAKE_FLAGS += $(if $(shell nvidia-smi -L 2>/dev/null),-DCMAKE_CUDA_ARCHITECTURES=native)
endif

.DEFAULT_GOAL := help
.PHONY: help mnist cifar10 test asan tsan bench format tidy clean

help:
	@echo 'make mnist     install what is missing, build, find or fetch MNIST, train LeNet on it'
	@echo '               DATA=DIR: where MNIST is; ARGS="--model cnn --epochs 3": the flags of examples/mnist'
	@echo '               DEVICE=cuda: with the CUDA backend, on a GPU (needs nvcc and cuDNN); test and bench too'
	@echo 'make cifar10   the same with CIFAR-10 and examples/cifar10; on a GPU where there is one and nvcc'
	@echo 'make test      build and run all tests; ARGS="-R conv2d": the flags of ctest'
	@echo 'make asan      the tests under the address and undefined-behaviour sanitizers'
	@echo 'make tsan      the tests under the thread sanitizer'
	@echo 'make bench     build the benchmarks (bench/README.md says how to run them)'
	@echo 'make format    format all C++ sources; make tidy runs clang-tidy over them'
	@echo 'make clean     remove build/'
	@echo 'JOBS=N: parallel jobs (default: all processors); CMAKE_FLAGS=-DADRET_WERROR=ON: cmake options'

# A first build for the example alone asks for neither GoogleTest nor Google Benchmark.
mnist cifar10:
	@tools/install_dependencies build data
	@test -f build/$(PRESET)/build.ninja || \
	  cmake --preset $(PRESET) $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=OFF -DADRET_BUILD_BENCH=OFF
	@cmake -DADRET_BUILD_EXAMPLES=ON $(CMAKE_FLAGS) build/$(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS) --target $@ $(if $(filter cuda,$(PRESET)),adret_cuda)
	@data=$$(tools/fetch_$@ $(if $(DATA),--data '$(DATA)')) && \
	  build/$(PRESET)/examples/$@ --device $(DEVICE) --data "$$data" $(ARGS)

test:
	@tools/install_dependencies build test bench
	cmake --preset $(PRESET) $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=ON -DADRET_BUILD_EXAMPLES=ON -DADRET_BUILD_BENCH=ON
	cmake --build --preset $(PRESET) -j $(JOBS)
	$(if $(filter cuda,$(PRESET)),ADRET_TEST_DEVICE=cuda) ctest --preset $(PRESET) -j $(JOBS) $(ARGS)

asan tsan:
	@tools/install_dependencies build test
	cmake --preset $@ $(CMAKE_FLAGS)
	cmake --build --preset $@ -j $(JOBS)
	ctest --preset $@ -j $(JOBS) $(ARGS)

bench:
	@tools/install_dependencies build bench
	cmake --preset $(PRESET) $(CMAKE_FLAGS) -DADRET_BUILD_BENCH=ON
	cmake --build --preset $(PRESET) -j $(JOBS) --target bench $(if $(filter cuda,$(PRESET)),adret_cuda)

format:
	@tools/install_dependencies develop
	tools/format

tidy:
	@tools/install_dependencies build test bench develop
	cmake --preset cpu $(CMAKE_FLAGS) -DADRET_BUILD_TESTS=ON -DADRET_BUILD_EXAMPLES=ON -DADRET_BUILD_BENCH=ON
	tools/tidy -j $(JOBS)

clean:
	cmake -E rm -rf build
