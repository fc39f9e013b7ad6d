# logitspec: `make run` and `make test` are all that a fresh machine needs; `make help` lists the rest.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
.DELETE_ON_ERROR:
.PHONY: all run test cuda cuda-ready gpu-check gpu-bundle embed fuzz fuzz-all mutants torture soak limits exactness check-model check-files bench-cpu bench-peers bench-smoke setup test-setup clean help install uninstall deb archive lint format unit \
  check check-setup check-locale check-asan check-tsan check-valgrind check-static clang-build check-aarch64

CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
CXX ?= g++
# The compiler's target, not this machine, chooses the kernels: `make CC=aarch64-linux-gnu-gcc` builds for that machine, in
# build/aarch64, with the libtorch in .deps/libtorch-aarch64.
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
CROSS := $(if $(filter $(shell uname -m),$(ARCH)),,$(ARCH))
ifneq ($(CROSS),)
ifeq ($(origin CXX),default)
CXX := $(patsubst %gcc,%g++,$(CC))
endif
endif
PREFIX ?= /usr/local
VERSION := 0.1.0

# SAN=1 builds everything (libtorch itself aside) with ASan and UBSan, SAN=thread with TSan, beside the normal build.
ifeq ($(SAN),1)
B := build/san
# object-size sees less than ASan does; it and -g's variables, which no report shows, took a third of the time to compile
SANFLAGS := -fsanitize=address,undefined -fno-sanitize=object-size -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1
# gcc's shared UBSan beside ASan does not read UBSAN_OPTIONS, so its reports would not reach tests/run.py; ASan must see
# the C++ library before the compute library brings it, or the first exception ends the program
SANLD := $(if $(findstring clang,$(CC)),,-static-libubsan -Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state)
else ifeq ($(SAN),thread)
B := build/tsan
SANFLAGS := -fsanitize=thread -fno-omit-frame-pointer -g1
else
B := build$(CROSS:%=/%)
endif

# What makes a mistake that is still there hard to use: tests/e2e/test_hardening.py looks at the files and at the process.
# Sanitizers replace it. A flag that the compiler does not know (another processor) is left out.
ifeq ($(SANFLAGS),)
HARDEN := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 $(shell for f in -fstack-protector-strong -fstack-clash-protection \
  -fcf-protection; do echo 'int x;' | $(CC) -Werror $$f -c -x c - -o /dev/null 2>/dev/null && echo $$f; done)
HARDEN_LD := -Wl,-z,relro,-z,now,-z,noexecstack
endif

# V=1 shows the commands.
Q := $(if $(V),,@)

WARN := -Wall -Wextra -Werror
# Arm contracts products and sums where x86 cannot, and its plain char has no sign: one program, the same numbers on both.
SAME := -ffp-contract=off -fsigned-char
CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g $(SAME) $(WARN) -Wshadow -Wstrict-prototypes -Isrc -I. -pthread \
  -DLS_VERSION='"$(VERSION)"' $(SANFLAGS) $(HARDEN) $(if $(HARDEN),-fPIE) $(EXTRA_CFLAGS)
LDFLAGS := -pthread $(SANFLAGS) $(SANLD) $(HARDEN_LD) $(if $(HARDEN_LD),-pie)
LDLIBS := -lncursesw -ltinfo -lyaml -lpcre2-8 -lutf8proc -lcrypto -ljansson -lzstd -ldl -lm

CORE_SRC := $(wildcard src/base/*.c src/text/*.c src/model/*.c src/spec/*.c src/gpu/*.c src/engine/*.c src/costs/*.c src/decode/*.c src/trace/*.c src/source/*.c src/report/*.c)
UI_SRC := $(wildcard ui/*.c)
CLI_SRC := $(wildcard src/cli/*.c)
LEVELS_OF_x86_64 := src/torch/kernels/kernels_avx%.c src/torch/kernels/kernels_amx%.c tests/unit/avxvnni_emulated.c \
  tests/unit/amx%_emulated.c tests/unit/neon%_emulated.c
LEVELS_OF_aarch64 := src/torch/kernels/kernels_neon%.c
FOREIGN := $(filter-out $(LEVELS_OF_$(ARCH)),$(LEVELS_OF_x86_64) $(LEVELS_OF_aarch64))
KERNEL_SRC := $(filter-out $(FOREIGN),$(wildcard src/torch/kernels/*.c))
TEST_SRC := $(wildcard tests/unit/test_*.c)
TEST_LIB_SRC := $(filter-out $(TEST_SRC) $(FOREIGN),$(wildcard tests/unit/*.c))
# Only the tests of kernels link these and the kernels: other tests would wait for compilers in vain.
EMULATED_LEVELS := $(filter %_emulated.c,$(TEST_LIB_SRC))
KERNEL_TEST_SRC := $(EMULATED_LEVELS) tests/unit/random_tensor.c

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
CORE_OBJ := $(call obj,$(CORE_SRC))
UI_OBJ := $(call obj,$(UI_SRC))
CLI_OBJ := $(call obj,$(CLI_SRC))
CLI_LIB_OBJ := $(filter-out $(B)/obj/src/cli/main.o,$(CLI_OBJ))
KERNEL_OBJ := $(call obj,$(KERNEL_SRC))
TEST_BIN := $(patsubst tests/unit/%.c,$(B)/tests/%,$(TEST_SRC))

# ---- libtorch: LIBTORCH=DIR (with include/ and lib/), else what `make setup` fetched
TORCH_FETCHED := .deps/libtorch$(CROSS:%=-%)
TORCH_DIR := $(abspath $(or $(LIBTORCH),$(patsubst %/ready,%,$(wildcard $(TORCH_FETCHED)/ready))))
TORCH_LIB := $(if $(TORCH_DIR),$(B)/liblstorch.so)

all: $(B)/logitspec $(TORCH_LIB)
ifeq ($(TORCH_DIR),)
	@echo "logitspec: built without the torch library (no libtorch here); 'make setup' fetches it"
endif

$(B)/logitspec: $(CORE_OBJ) $(UI_OBJ) $(CLI_OBJ)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Objects depend on what they were compiled with, and against which libtorch. PACKAGES=unchecked is for a machine that lacks
# packages which the GPU library does not need.
$(B)/obj/flags: FORCE
	@[ -e $@ ] || [ '$(PACKAGES)' = unchecked ] || .ci/packages build
	@mkdir -p $(@D); echo '$(CC) $(CXX) $(HARDEN) $(SANFLAGS) $(EXTRA_CFLAGS) $(TORCH_DIR)' | cmp -s - $@ || \
	  echo '$(CC) $(CXX) $(HARDEN) $(SANFLAGS) $(EXTRA_CFLAGS) $(TORCH_DIR)' > $@
# The commit that is built, where this folder is a clone; "+": with changes.
COMMIT = $(shell [ -e .git ] && git describe --always --dirty=+ --exclude '*' 2>/dev/null)
$(B)/obj/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
$(B)/obj/src/cli/machine.o: $(B)/obj/commit
machine_CFLAGS = -DLS_COMMIT='"$(COMMIT)"'
.PHONY: FORCE
$(B)/obj/%.o: %.c $(B)/obj/flags
	@mkdir -p $(@D)
	@echo '  CC   $<'
	$(Q)$(CC) $(CFLAGS) $($(basename $(notdir $<))_CFLAGS) -MMD -MP -c -o $@ $<

# Kernels: one source a CPU level; no -ffast-math, so that sums keep the order in which they are written. -g1: debuggers see
# places in the source; with variables compilers took 1.2 to 2.2 times as long for the large ones. Sanitizers make compilers
# slow: at -O2 a file was not done after eight minutes; without pointer-overflow, whose work ASan does, they take about a
# third less.
$(B)/obj/src/torch/kernels/%.o: CFLAGS += -g1 $(if $(SAN),-O1 -fno-sanitize=pointer-overflow,-O3) -fPIC -fvisibility=hidden -fno-math-errno
$(call obj,$(EMULATED_LEVELS)): CFLAGS += -g1 $(if $(SAN),-O1)
kernels_neondot_CFLAGS := -march=armv8.2-a+dotprod
kernels_neoni8mm_CFLAGS := -march=armv8.2-a+dotprod+i8mm
kernels_avx512_CFLAGS := -ffp-contract=fast -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mavx2 -mf16c -mprefer-vector-width=512
kernels_avx512vnni_CFLAGS := $(kernels_avx512_CFLAGS) -mavx512vnni
kernels_avx512bf16_CFLAGS := $(kernels_avx512_CFLAGS) -mavx512bf16
kernels_amxunit_CFLAGS := -mamx-tile -mamx-bf16 -mamx-int8
kernels_amxbf16_CFLAGS := -mamx-tile -mamx-bf16
kernels_amxpacked_CFLAGS := $(kernels_avx512bf16_CFLAGS) -mavx512vbmi -mamx-tile -mamx-bf16
kernels_amxint8_CFLAGS := $(kernels_avx512vnni_CFLAGS) -mamx-tile -mamx-int8
kernels_avx2_CFLAGS := -ffp-contract=fast -mavx2 -mfma -mf16c
kernels_avxvnni_CFLAGS := $(kernels_avx2_CFLAGS) -mavxvnni
neondot_emulated_CFLAGS := -O0
neoni8mm_emulated_CFLAGS := -O0
avxvnni_emulated_CFLAGS := $(kernels_avx2_CFLAGS)
amxpacked_emulated_CFLAGS := $(kernels_avx512bf16_CFLAGS) -mavx512vbmi
amxint8_emulated_CFLAGS := $(kernels_avx512_CFLAGS)

# -g1: debuggers see places in the source, but no variables. With libtorch's types compilers took 1.5 to 2.1 times as long.
TORCH_CXXFLAGS := -std=c++20 -O2 -g1 $(SAME) $(WARN) -Wno-unused-parameter -fPIC -fvisibility=hidden -fopenmp $(SANFLAGS) $(HARDEN) \
  -D_GLIBCXX_USE_CXX11_ABI=1 -Isrc -DAT_PER_OPERATOR_HEADERS -DUSE_C10D_GLOO -isystem src/torch/gloo_names -isystem $(TORCH_DIR)/include -isystem $(TORCH_DIR)/include/torch/csrc/api/include
torch_obj = $(patsubst %,$(B)/obj/src/torch/%.o,$(1))
# in every compute library: loading, timelines, trained heads, ranks, what packs and unpacks weights
TORCH_COMMON := $(call torch_obj,lst_open lst_session lst_head lst_ranks lst_ranks_rows lst_ranks_calls lst_ranks_memory lst_ranks_gloo) $(patsubst %.c,$(B)/obj/%.o,$(KERNEL_SRC)) \
  $(addprefix $(B)/obj/pic/src/,base/ggml.o base/rng.o base/clock.o base/sample.o base/mem.o base/rescue.o base/processors.o base/cgroup.o base/sysfile.o gpu/plan.o)

$(B)/obj/src/torch/%.o: src/torch/%.cpp $(B)/obj/flags
	@mkdir -p $(@D)
	@echo '  CXX  $<'
	$(Q)$(CXX) $(TORCH_CXXFLAGS) -MMD -MP -c -o $@ $<
$(B)/obj/pic/%.o: %.c $(B)/obj/flags
	@mkdir -p $(@D)
	@echo '  CC   $< (pic)'
	$(Q)$(CC) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
# An installed library finds libtorch beside itself and names no folder of the machine that built it.
TORCH_RPATH = -Wl,-rpath,$(TORCH_DIR)/lib
$(B)/install/%.so: TORCH_RPATH :=
# $(call TORCH_LINK,more libraries); a link that is interrupted leaves no library
TORCH_LINK = $(CXX) -shared $(SANFLAGS) $(HARDEN_LD) -o $@.new $(filter %.o,$^) -Wl,--version-script=src/torch/lst.map \
  -Wl,-rpath,'$$ORIGIN' $(TORCH_RPATH) -L$(TORCH_DIR)/lib -ltorch_cpu -lc10 -fopenmp \
  -Wl,-rpath-link,$(TORCH_DIR)/lib$(1) && mv $@.new $@
# TSan sees no meeting of threads inside libgomp; what our code calls of it is written on plain threads for that build.
ifeq ($(SAN),thread)
TORCH_COMMON += $(B)/obj/pic/tests/tools/openmp_tsan.o
endif
$(B)/liblstorch.so $(B)/install/liblstorch.so: $(call torch_obj,lst_cpu lst_cpu_engine lst_cpu_forward lst_cpu_limits lst_meeting) $(TORCH_COMMON) src/torch/lst.map
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(call TORCH_LINK)

# ---- the GPU library, by the CUDA toolkit's nvcc. Machine code for Ampere (8.x) and Hopper, PTX for what is newer;
# CUDA_ARCH=all adds machine code for 8.6, 8.9, 10.0 and 12.0, CUDA_ARCH=90 is for that alone.
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(if $(NVCC),$(abspath $(dir $(realpath $(NVCC)))..))
CUDA_ARCH ?= default
GPU_ARCHS := $(if $(filter default,$(CUDA_ARCH)),80 90,$(if $(filter all,$(CUDA_ARCH)),80 86 89 90 100 120,$(CUDA_ARCH)))
GPU_CODE := $(foreach a,$(GPU_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
  $(foreach a,$(lastword $(GPU_ARCHS)),-gencode arch=compute_$(a),code=compute_$(a))
GPU_SRC := $(wildcard src/torch/kernels/*.cu)
# no contraction that is not written: a row's bits must not depend on which variant of a kernel computes it
NVCCFLAGS := -std=c++17 -O3 --fmad=false -lineinfo -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Isrc $(GPU_CODE)
cuda: cuda-ready $(if $(and $(NVCC),$(wildcard $(TORCH_DIR)/lib/libc10_cuda.so)),build/liblstorch_cuda.so)
cuda-ready:
	@test -n '$(NVCC)' || { echo "cuda: nvcc was not found: install NVIDIA's CUDA toolkit 13, or set NVCC=PATH" >&2; exit 1; }
	@$(NVCC) --version | grep -q 'release 13' || { echo "cuda: $(NVCC) is not of CUDA 13, which libtorch here is built \
	for: install that toolkit, or set NVCC=PATH" >&2; exit 1; }
	@test -n '$(TORCH_DIR)' || { echo "cuda: libtorch is not set up: 'make setup', or LIBTORCH=DIR" >&2; exit 1; }
	@test -e $(TORCH_DIR)/lib/libc10_cuda.so || { echo "cuda: $(TORCH_DIR) is a libtorch without CUDA (no libc10_cuda.so)" >&2; exit 1; }
# The checks come before nvcc compiles for minutes.
$(GPU_SRC:%.cu=build/obj/%.cu.o) $(call torch_obj,gpu_runtime): | cuda-ready
build/obj/gpu-code: FORCE
	@mkdir -p build/obj; echo '$(NVCC) $(NVCCFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVCCFLAGS)' > $@
build/obj/%.cu.o: %.cu build/obj/gpu-code
	@mkdir -p $(@D)
	@echo '  NVCC $<'
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MF $(@:.o=.d) -c -o $@ $<
comma := ,
space := $(subst ,, )
$(call torch_obj,gpu_runtime): build/obj/gpu-code
$(call torch_obj,gpu_runtime): TORCH_CXXFLAGS += -isystem $(CUDA_HOME)/include -DLSG_ARCHS=$(subst $(space),$(comma),$(strip $(GPU_ARCHS)))
build/liblstorch_cuda.so $(B)/install/liblstorch_cuda.so: $(call torch_obj,lst_cuda lst_cuda_engine gpu_runtime) $(GPU_SRC:%.cu=build/obj/%.cu.o) $(TORCH_COMMON) src/torch/lst.map
	@echo '  LINK $@'
	$(Q)$(call TORCH_LINK, -lc10_cuda -L$(CUDA_HOME)/lib64 -lcudart)

# The same library on a device that is emulated on the CPU, for tests: the kernels' sources as they are.
EMULATED := $(patsubst %,$(B)/obj/emulated/%.o,$(GPU_SRC) $(wildcard tests/gpu/*.cpp))
EMULATED_CXXFLAGS := -std=c++20 -O2 -g $(WARN) -Wno-unknown-pragmas -ffp-contract=off -fPIC -fvisibility=hidden -fopenmp \
  -ftls-model=initial-exec -Isrc -I. \
  -include tests/gpu/emulation.h $(SANFLAGS)
# ASan's second stack, which finds uses after a return, is kept for each emulated thread: 22 GB and more in test_lst.
ifeq ($(SAN),1)
EMULATED_CXXFLAGS += $(if $(findstring clang,$(CXX)),-fsanitize-address-use-after-return=never,--param=asan-use-after-return=0)
endif
$(B)/obj/emulated/%.o: %
	@mkdir -p $(@D)
	@echo '  CXX  $< (emulated device)'
	$(Q)$(CXX) $(EMULATED_CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<
$(B)/tests/liblstorch_emulated.so: $(call torch_obj,lst_cuda lst_cuda_engine) $(EMULATED) $(TORCH_COMMON) src/torch/lst.map
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(call TORCH_LINK)

# ---- the check on a GPU. `make gpu-check` is for a machine that has one (tests/gpu/README.md); `make gpu-bundle` packs what
# such a machine needs into build/logitspec-gpu.tar.gz. MODEL=FILE.gguf adds the program on a real model.
GPU_TEST_OBJ := $(patsubst %.c,build/obj/%.o,$(filter-out tests/gpu/bench.c,$(wildcard tests/gpu/*.c)))
GPU_PLAIN_OBJ := $(patsubst %.c,build/obj/%.o,$(addprefix src/base/,ggml.c rng.c clock.c sample.c mem.c rescue.c) src/gpu/plan.c src/gpu/cost.c tests/unit/random_tensor.c)
# libtorch_cpu is not linked: what of the runtime is used here is libc10_cuda's
GPU_LINK = $(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,-rpath,$(TORCH_DIR)/lib -Wl,-rpath,$(CUDA_HOME)/lib64 \
  -Wl,-rpath-link,$(TORCH_DIR)/lib -L$(TORCH_DIR)/lib -lc10_cuda -lc10 -L$(CUDA_HOME)/lib64 -lcudart -fopenmp -ldl -lm
build/tests/gpu_kernels: $(GPU_TEST_OBJ) $(GPU_PLAIN_OBJ) $(KERNEL_OBJ) $(call torch_obj,gpu_runtime) $(GPU_SRC:%.cu=build/obj/%.cu.o)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(GPU_LINK)
build/tests/gpu_bench: build/obj/tests/gpu/bench.o $(call torch_obj,gpu_runtime)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(GPU_LINK)
build/tests/gpu_bench_emulated: build/obj/tests/gpu/bench.o $(EMULATED) $(KERNEL_OBJ) $(GPU_PLAIN_OBJ)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CXX) $(LDFLAGS) -fopenmp -o $@ $^ -ldl -lm
# The script calls make for what it builds, with flags of its own.
gpu-check:
	@env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS LIBTORCH='$(LIBTORCH)' $(PYTHON) tests/gpu/check.py \
	  $(if $(PLAN),--plan '$(PLAN)') $(if $(SECONDS),--seconds '$(SECONDS)') $(if $(ADD),--add $(ADD)) \
	  $(if $(OUT),--out '$(OUT)') $(if $(MODEL),--model '$(MODEL)') $(if $(STEPS),--steps '$(STEPS)') $(if $(QUICK),--quick)
gpu-bundle: all build/tests/test_lst build/tests/test_models
	@$(PYTHON) tests/gpu/check.py --bundle build/logitspec-gpu.tar.gz

# ---- tests
$(B)/tests/test_kernels $(B)/tests/test_lst: $(call obj,$(KERNEL_TEST_SRC)) $(KERNEL_OBJ)
$(B)/tests/%: $(B)/obj/tests/unit/%.o $(call obj,$(filter-out $(KERNEL_TEST_SRC),$(TEST_LIB_SRC))) $(CORE_OBJ) $(UI_OBJ) $(CLI_LIB_OBJ)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

# The kernels and their test alone: what a compiler for another machine makes of them is soon built, and tests/e2e/test_aarch64.py
# runs it.
$(B)/tests/kernels: $(call obj,tests/unit/test_kernels.c $(KERNEL_TEST_SRC) tests/unit/filter.c \
  $(addprefix src/base/,ggml.c rng.c clock.c sample.c mem.c rescue.c) src/gpu/plan.c) $(KERNEL_OBJ)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka -ljansson -lm

# The fuzz targets, on what is kept of their inputs: they write no files, and no clock makes them wait.
FUZZ_WRAP := -Wl,--wrap=ls_write_file -Wl,--wrap=ls_now_ns
$(B)/tests/test_fuzz: $(call obj,$(wildcard tests/fuzz/*.c)) $(CLI_LIB_OBJ)
$(B)/tests/test_fuzz: LDFLAGS += $(FUZZ_WRAP)
$(B)/obj/tests/fuzz/fuzz_%.o: CFLAGS += -DLLVMFuzzerTestOneInput=$(notdir $*)

# Kernels against their plain twins, on the emulated device.
$(B)/tests/test_gpu_kernels: $(call obj,$(filter-out tests/gpu/bench.c,$(wildcard tests/gpu/*.c))) $(EMULATED) \
  $(KERNEL_OBJ) $(CORE_OBJ) $(B)/obj/tests/unit/random_tensor.o
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CXX) $(LDFLAGS) -fopenmp -o $@ $^ $(LDLIBS)

.SECONDARY: $(call obj,$(TEST_SRC) $(TEST_LIB_SRC))
unit: $(TEST_BIN) $(B)/tests/test_gpu_kernels $(B)/embed $(if $(SAN),,$(B)/tests/inject.so) $(if $(TORCH_DIR),$(B)/tests/liblstorch_emulated.so)

# T=word (PATTERN=word) runs the test programs whose name holds it. The whole name of a test builds only what that one needs.
T ?= $(PATTERN)
ALL_TESTS := all unit $(if $(NVCC),cuda build/tests/gpu_kernels build/tests/gpu_bench)
OF_UNIT = $(B)/tests/$(T) $(if $(shell grep -l 'torch/' tests/unit/$(T).c),$(TORCH_LIB))
OF_E2E = all $(if $(shell grep -lE 'BUILD, "tests"|inject.so|emulated' tests/e2e/$(T).py),unit)
NEEDED = $(if $(wildcard tests/unit/$(T).c),$(OF_UNIT),$(if $(wildcard tests/e2e/$(T).py),$(OF_E2E),$(ALL_TESTS)))
test: $(if $(and $(T),$(TORCH_DIR),$(wildcard models/smollm2-135m-instruct.Q4_1.gguf)),,test-setup)
	@$(MAKE) $(NEEDED)
	@python3 tests/run.py $(B) $(T)

# Every command with failing calls: SECONDS= SEED=, CASE= and KIND= (a part of a name), ONLY='...' repeats what was reported.
$(B)/tests/inject.so: tests/torture/inject.c
	@mkdir -p $(@D)
	@echo '  CC   $<'
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -fPIC -shared -o $@ $< -ldl
torture: all $(B)/tests/inject.so
	@python3 tests/torture/torture.py $(B) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(CASE),--case '$(CASE)') $(if $(KIND),--kind '$(KIND)') $(if $(ONLY),--only '$(ONLY)')

# Ratios of one run, on this machine, alone or beside other programs (which this installs into build/peers, from PyPI).
# SUITE=FILE, TOKENS=, PER_GROUP=, THREADS=, REPEAT=, PEERS=: see tests/bench/run.py. bench-smoke checks the script.
BENCH = SUITE='$(SUITE)' TOKENS='$(TOKENS)' PER_GROUP='$(PER_GROUP)' THREADS='$(THREADS)' REPEAT='$(REPEAT)' PEERS='$(PEERS)' \
  RESULTS='$(RESULTS)' python3 tests/bench/run.py
bench-cpu: setup
	@$(MAKE) all build/tests/perplexity
	@$(BENCH) cpu
bench-peers: setup
	@$(MAKE) all
	@$(BENCH) peers
# Files as other people have them, beside the programs that they were made for (tests/files/README.md). RECORD=1 writes
# what the suite replays, SEED=N mixes anew.
check-files: setup
	@$(MAKE) all
	@python3 tests/files/check.py $(if $(RECORD),--record) $(if $(SEED),--seed $(SEED))
bench-smoke: setup
	@$(MAKE) all
	@SMOKE=1 $(BENCH) cpu
# Fuzzing with clang: `make fuzz TARGET=trace SECONDS=600`, `make fuzz-all SECONDS=60` (or RUNS=100000) for every target
# in turn. The targets and what they begin with are in tests/fuzz/targets.def.
TARGET ?= trace
SECONDS ?= 60
FUZZ_SRC := $(CORE_SRC) $(UI_SRC) $(filter-out src/cli/main.c,$(CLI_SRC)) tests/fuzz/checks.c
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SAN := address,undefined -fno-sanitize-recover=undefined
build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo '  FUZZ $<'
	$(Q)clang -std=gnu11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -Isrc -I. -pthread \
	  -DLS_VERSION='"$(VERSION)"' -DLS_COMMIT='""' -MMD -MP -c -o $@ $<
build/fuzz/fuzz_%: build/fuzz/obj/tests/fuzz/fuzz_%.o $(patsubst %.c,build/fuzz/obj/%.o,$(FUZZ_SRC))
	@echo '  LINK $@'
	$(Q)clang -fsanitize=fuzzer,$(FUZZ_SAN) $(FUZZ_WRAP) -o $@ $^ $(LDLIBS) -pthread
.SECONDARY: $(patsubst %.c,build/fuzz/obj/%.o,$(FUZZ_SRC) $(wildcard tests/fuzz/fuzz_*.c))
fuzz: build/fuzz/fuzz_$(TARGET)
	@python3 tests/fuzz/run.py $(TARGET) --seconds $(SECONDS) $(if $(RUNS),--runs $(RUNS))
fuzz-all: $(addprefix build/fuzz/fuzz_,$(FUZZ_TARGETS))
	@python3 tests/fuzz/run.py --seconds $(SECONDS) $(if $(RUNS),--runs $(RUNS))
# A random user on the real screen: SEED= repeats a run, MINUTES=10, MODEL= one model instead of the scripted and the default
# one; SAN=1 with sanitizers. What `make test` runs of these three is a small part.
soak: all
	@LOGITSPEC_BUILD=$(abspath $(B)) LOGITSPEC_LSTORCH=$(abspath build/liblstorch.so) $(PYTHON) tests/e2e/soak.py $(if $(SEED),--seed $(SEED)) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(MODEL),--model '$(MODEL)')
# Very long prompts, answers and contexts, at full length.
limits: all
	@LOGITSPEC_LIMITS=1 $(PYTHON) tests/run.py $(B) test_extremes
# Every exact method against plain decoding, in every arithmetic at every CPU level (LEVEL='avx2 amx': at those); a table of
# what was run.
exactness: all $(B)/tests/test_chances
	@LOGITSPEC_BUILD=$(abspath $(B)) $(PYTHON) tests/e2e/exactness.py $(LEVEL)
# The drafters alone, for other engines, and an example of such an engine.
embed: $(B)/embed
SPEC_LIB_SRC := $(wildcard src/spec/*.c) $(addprefix src/base/,buf.c clock.c err.c file.c map.c mem.c rescue.c rng.c cgroup.c sysfile.c sysmem.c)
$(B)/libspec.a: $(call obj,$(SPEC_LIB_SRC))
	@echo '  AR   $@'
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/embed: $(B)/obj/demos/embed.o $(B)/libspec.a
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm

# Mistakes that the unit tests must see, one at a time in a copy of the sources; ONLY='NAME NAME', SHARD=1/4.
mutants:
	@python3 tests/mutants/run.py $(if $(SHARD),--shard $(SHARD)) $(ONLY)

build/tests/screen: build/obj/tests/bench/screen.o $(CORE_OBJ) $(UI_OBJ)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# A model against Hugging Face transformers, which PYTHON must have: ids, logits and every layer.
PYTHON ?= python3
check-model: all build/tests/probe
	@test -n '$(MODEL)' || { echo 'check-model: MODEL=FOLDER or MODEL=FILE.gguf'; exit 2; }
	@$(PYTHON) tests/tools/check_model.py '$(MODEL)' --build $(B) $(if $(WEIGHTS),--weights $(WEIGHTS)) \
	  $(if $(DTYPE),--dtype $(DTYPE)) $(if $(TEXT),--text '$(TEXT)')
build/tests/probe: build/obj/tests/tools/probe.o $(CORE_OBJ)
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
build/tests/perplexity build/tests/steps build/tests/fit_priors build/tests/trace: build/tests/%: build/obj/tests/bench/%.o $(call obj,$(CORE_SRC))
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# ---- checkers; tests/README.md says what each one covers. The last line of each counts, as make test's does.
check: check-static check-locale check-valgrind check-asan check-tsan
check-setup:
	@.ci/packages check
	@$(FETCH)
# QUICK=1, as .ci/run has it: what runs without the compute library, and of the end-to-end tests the scripted screens.
# The real model, and the GPU's kernels apart from their library, are left to the plain build: minutes become an hour.
REAL_MODEL_TESTS := test_engine test_chances
LIBRARY_TESTS := test_lst test_models test_heads test_ranks
ASAN_TESTS := $(filter-out $(REAL_MODEL_TESTS) $(if $(QUICK),$(LIBRARY_TESTS) test_outputs),$(TEST_SRC:tests/unit/%.c=%))
check-asan: check-setup
	@$(MAKE) SAN=1 $(ASAN_TESTS:%=build/san/tests/%) build/san/tests/planted \
	  $(if $(QUICK),build/san/logitspec,all build/san/embed $(if $(TORCH_DIR),build/san/tests/liblstorch_emulated.so))
	@python3 tests/run.py build/san --without-model --sees use-after-free,overflow,leak $(if $(QUICK),$(ASAN_TESTS) test_script)
# The threads: engine, screen, trace writer, corpus builder, and those of a forward.
TSAN_TESTS := test_live test_second test_trace test_corpus $(if $(QUICK),,test_lst)
check-tsan: check-setup
	@$(MAKE) SAN=thread $(if $(QUICK),build/tsan/logitspec,all) $(TSAN_TESTS:%=build/tsan/tests/%) build/tsan/tests/planted
	@python3 tests/run.py build/tsan --without-model --sees race,omp-race,omp-barrier $(TSAN_TESTS) test_script $(if $(QUICK),,test_screen)
# What computes is left to ASan (valgrind knows neither AVX-512 nor AMX), and so are the four that would take it longest; of
# the quick part also the longest that ASan or TSan have there.
VALGRIND_TESTS := $(filter-out $(REAL_MODEL_TESTS) $(LIBRARY_TESTS) test_kernels test_session test_tokenizers test_pretok test_choose \
  $(if $(QUICK),test_blame test_live test_outputs test_second test_trace test_ui),$(TEST_SRC:tests/unit/%.c=%))
check-valgrind: check-setup
	@$(MAKE) $(VALGRIND_TESTS:%=build/tests/%) build/tests/planted
	@python3 tests/run.py build --valgrind --sees use-after-free,leak,uninitialised $(VALGRIND_TESTS)
# What is printed and written to files, without a UTF-8 locale. Screens under it: test_terminal.
check-locale: check-setup
	@$(MAKE) all
	@LOGITSPEC_TEST_LOCALE=C python3 tests/run.py build test_accessible test_film test_manual test_plain test_report test_script test_wrap
check-static: check-setup
	@python3 tests/tools/check_static.py $(if $(QUICK),cppcheck tidy clang)
# Everything for 64-bit Arm by Debian's cross compiler, and what runs of it under qemu-user: the kernels at every level, the
# compute library, whole answers beside those of this machine.
check-aarch64:
	@.ci/packages aarch64
	@models/fetch libtorch .deps/libtorch-aarch64 aarch64
	@$(MAKE) all
	@$(MAKE) CC=aarch64-linux-gnu-gcc all build/aarch64/tests/kernels build/aarch64/tests/test_lst build/aarch64/embed
	@LOGITSPEC_AARCH64=build/aarch64 $(PYTHON) tests/run.py build test_aarch64
# What the checkers must see, with the flags of all other code and, for TSan, its OpenMP.
$(B)/obj/tests/tools/planted.o: CFLAGS += -fopenmp
$(B)/tests/planted: $(B)/obj/tests/tools/planted.o $(filter %/openmp_tsan.o,$(TORCH_COMMON))
	@mkdir -p $(@D)
	@echo '  LINK $@'
	$(Q)$(CC) $(LDFLAGS) -fopenmp -o $@ $^
clang-build: $(B)/logitspec $(B)/embed $(call obj,$(TEST_SRC)) $(call torch_obj,lst_cpu lst_cpu_engine lst_cpu_forward lst_cpu_limits lst_meeting lst_ranks lst_ranks_rows lst_ranks_calls lst_ranks_memory lst_ranks_gloo lst_cuda lst_cuda_engine lst_open lst_session lst_head)

lint:
	@python3 tests/tools/lint.py

format:
	clang-format -i $(wildcard src/*/*.[ch] src/torch/*.cpp src/torch/kernels/gpu* ui/*.[ch] tests/unit/*.[ch] tests/gpu/*.[ch] tests/gpu/*.cpp)

# ---- set-up: packages, libtorch, the default model. Done once, it needs no network.
setup:
	@.ci/packages run
	@$(FETCH)
# What disassembles the kernels is fetched where nvcc is and its disassemblers are not; without a network, the test that wants
# them is skipped and says so.
test-setup:
	@.ci/packages test
	@$(FETCH)
	@$(if $(NVCC),NVCC='$(NVCC)' tests/gpu/machine_code.py --tools >/dev/null 2>&1 || models/fetch cuda-tools .deps/cuda-tools || true)
FETCH := $(if $(LIBTORCH),true,models/fetch libtorch $(TORCH_FETCHED) $(CROSS)) && \
  models/fetch default models/smollm2-135m-instruct.Q4_1.gguf

# The screen in a terminal; elsewhere a demo prompt, streamed with its statistics.
run: setup
	@$(MAKE) -s all
	@if [ -t 0 ] && [ -t 1 ]; then exec build/logitspec; \
	else echo "> $$(cat demos/prompts/fox.txt)" && exec build/logitspec generate --prompt-file demos/prompts/fox.txt; fi

# ---- installing. The program makes its manual and completions here; no user's own models go into them. MODEL_FILE= leaves
# the default model out: the program then says how to fetch it.
MAN_PAGES := logitspec.1 $(addprefix logitspec-,configuration.5 keys.7 methods.7 trace.5)
MODEL_FILE := $(wildcard models/smollm2-135m-instruct.Q4_1.gguf)
ZSH_FOLDER := share/zsh/site-functions
# how what is large gets there; CP="cp -s" only links it
CP := cp
INTO = $(DESTDIR)$(PREFIX)
INSTALLED_TORCH := $(if $(TORCH_DIR),$(B)/install/liblstorch.so $(if $(and $(NVCC),$(wildcard build/liblstorch_cuda.so)),$(B)/install/liblstorch_cuda.so))
SAYS := XDG_CONFIG_HOME=/nonexistent LOGITSPEC_MODELS=/nonexistent build/logitspec
install: all $(INSTALLED_TORCH)
	install -d $(INTO)/bin $(INTO)/lib/logitspec $(INTO)/share/logitspec/models $(INTO)/share/doc/logitspec \
	  $(addprefix $(INTO)/share/man/man,1 5 7) $(INTO)/share/bash-completion/completions $(INTO)/$(ZSH_FOLDER) \
	  $(INTO)/share/fish/vendor_completions.d
	install -m 755 build/logitspec $(INTO)/bin
	$(if $(INSTALLED_TORCH),install -m 755 $(INSTALLED_TORCH) $(INTO)/lib/logitspec)
	$(if $(INSTALLED_TORCH),$(CP) -af $(TORCH_DIR)/lib/*.so* $(INTO)/lib/logitspec)
	$(if $(and $(INSTALLED_TORCH),$(wildcard $(TORCH_DIR)/licenses)),cp -rf $(TORCH_DIR)/licenses $(INTO)/share/doc/logitspec)
	cp -f --parents configs/*.yaml configs/*/* demos/*.yaml demos/traces/* demos/prompts/* models/registry.json $(INTO)/share/logitspec
	install -m 755 models/fetch $(INTO)/share/logitspec/models
	$(if $(MODEL_FILE),$(CP) -f $(abspath $(MODEL_FILE)) $(INTO)/share/logitspec/models)
	cp -f --parents LICENSE README.md CHANGELOG.md demos/*.md demos/*.svg models/*.md ui/*.md src/*.md src/*/*.md tests/bench/*.md $(INTO)/share/doc/logitspec
	chmod -R u=rwX,go=rX $(INTO)/share/logitspec $(INTO)/share/doc/logitspec
	for p in $(MAN_PAGES); do n=$${p%.*}; n=$${n#logitspec}; $(SAYS) help $${n#-} --as man | gzip -9n > $(INTO)/share/man/man$${p##*.}/$$p.gz || exit 1; done
	$(SAYS) completion bash > $(INTO)/share/bash-completion/completions/logitspec
	$(SAYS) completion zsh > $(INTO)/$(ZSH_FOLDER)/_logitspec
	$(SAYS) completion fish > $(INTO)/share/fish/vendor_completions.d/logitspec.fish

uninstall:
	rm -rf $(INTO)/bin/logitspec $(INTO)/lib/logitspec $(INTO)/share/logitspec $(INTO)/share/doc/logitspec \
	  $(foreach p,$(MAN_PAGES),$(INTO)/share/man/man$(subst .,,$(suffix $(p)))/$(p).gz) \
	  $(INTO)/share/bash-completion/completions/logitspec $(INTO)/$(ZSH_FOLDER)/_logitspec $(INTO)/share/fish/vendor_completions.d/logitspec.fish

# build/logitspec_VERSION_ARCHITECTURE.deb, with libtorch and the model in it: it needs Debian's packages only.
deb:
	@.ci/packages deb && $(FETCH)
	@$(MAKE) all
	@.ci/deb $(VERSION)
# build/logitspec-VERSION.tar.gz: sources, libtorch and the model, for a machine without a network. There `make run` needs the
# system's packages only (.ci/packages names them).
archive: setup
	@.ci/archive $(VERSION)

clean:
	rm -rf build

help:
	@echo 'make              build the program (and the torch library where libtorch is set up)'
	@echo 'make run          set up, build, open the screen (without a terminal: stream a demo)'
	@echo 'make test         set up, build, run every test; T=name runs one, T=word those whose name holds it'
	@echo 'make torture      every command with failing calls (memory, files, threads); SECONDS=600 SEED=2'
	@echo 'make cuda         the library for NVIDIA GPUs; needs the CUDA toolkit 13. CUDA_ARCH=all: machine code for all GPUs'
	@echo 'make gpu-check    on a machine with a GPU: build, test, measure; MODEL=FILE.gguf adds a real model'
	@echo 'make gpu-bundle   an archive that runs gpu-check on a bare machine'
	@echo 'make setup        packages, libtorch and the default model only'
	@echo 'make check-model  MODEL=PATH against transformers, which PYTHON=... must have: ids, logits, every layer'
	@echo 'make check-files  files as other people have them, beside the programs that they were made for'
	@echo 'make bench-cpu    measure on this machine; SUITE=FILE has prompts as JSON lines'
	@echo 'make bench-peers  ... beside llama.cpp, transformers and openvino, which it installs'
	@echo 'make embed        build/libspec.a, the drafters alone, and an example that uses them'
	@echo 'make fuzz         clang and libFuzzer on what reads files: TARGET=$(subst $(eval) ,|,$(FUZZ_TARGETS)) SECONDS=60'
	@echo 'make fuzz-all     all of them in turn, SECONDS=60 or RUNS=100000 for each, and a table of what they did'
	@echo 'make mutants      mistakes put into the sources one by one: do the unit tests see them? SHARD=1/4, ONLY=NAME'
	@echo 'make check        check-static (cppcheck, clang-tidy, clang), check-valgrind, check-asan, check-tsan (tests/README.md)'
	@echo 'make check-aarch64  everything for 64-bit Arm by a cross compiler, run under qemu-user'
	@echo 'make soak         a random user on the screen: SEED=, MINUTES=10, MODEL=; SAN=1 with sanitizers'
	@echo 'make limits       very long prompts, answers and contexts, at full length'
	@echo 'make exactness    every exact method against plain decoding, in every arithmetic at every CPU level'
	@echo 'make lint         which folder may include which; one user for each library'
	@echo 'make format       clang-format over the sources'
	@echo 'make install      PREFIX=$(PREFIX), DESTDIR=; MODEL_FILE= leaves the model out. make uninstall removes it'
	@echo 'make deb          a package for this Debian, in build/'
	@echo 'make archive      sources, libtorch and model for a machine without a network, in build/'
	@echo 'make clean        remove build/ (keeps libtorch and the model)'
	@echo 'LIBTORCH=DIR      use that libtorch (with include/ and lib/)'
	@echo 'SAN=1             build with ASan and UBSan, in build/san; SAN=thread: with TSan, in build/tsan'

-include $(shell find build -path build/mutants -prune -o -name '*.d' -print 2>/dev/null)
