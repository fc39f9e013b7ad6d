# Tests, checkers and benchmarks. Variables that a line of `make help` names are options of its script.
.PHONY: test test-setup unit torture mutants fuzz fuzz-all soak limits exactness check-model check-files bench-cpu bench-peers \
  bench-smoke gpu-check gpu-bundle check check-setup check-asan check-tsan check-valgrind check-locale check-static check-aarch64 \
  clang-build
PYTHON ?= python3

# ---- test programs
TEST_SRC := $(wildcard tests/unit/test_*.c)
TEST_LIB_SRC := $(filter-out $(TEST_SRC) $(FOREIGN),$(wildcard tests/unit/*.c))
TEST_BIN := $(patsubst tests/unit/%.c,$(B)/tests/%,$(TEST_SRC))
CLI_LIB_OBJ := $(filter-out $(B)/obj/src/cli/main.o,$(CLI_OBJ))
# Only the tests of kernels link these and the kernels: other tests would wait for compilers in vain.
EMULATED_LEVELS := $(filter %_emulated.c,$(TEST_LIB_SRC))
KERNEL_TEST_SRC := $(EMULATED_LEVELS) tests/unit/random_tensor.c tests/unit/plain_integers.c
# what kernels need of the core
KERNEL_BASE_SRC := $(patsubst %,src/base/%.c,ggml rng mem system) src/gpu/plan.c
$(call obj,$(EMULATED_LEVELS)): CFLAGS += -g1 -DLSK_EMULATED $(if $(SAN),-O1)
avxvnni_emulated_CFLAGS := $(kernels_avx2_CFLAGS)
amxattention_emulated_CFLAGS := $(kernels_avx512bf16_CFLAGS)
amxpacked_emulated_CFLAGS := $(kernels_avx512bf16_CFLAGS) -mavx512vbmi
amxint8_emulated_CFLAGS := $(kernels_avx512_CFLAGS)

$(B)/tests/test_kernels $(B)/tests/test_lst: $(call obj,$(KERNEL_TEST_SRC)) $(KERNEL_OBJ)
$(B)/tests/%: $(B)/obj/tests/unit/%.o $(call obj,$(filter-out $(KERNEL_TEST_SRC),$(TEST_LIB_SRC))) $(CORE_OBJ) $(UI_OBJ) $(CLI_LIB_OBJ)
	$(call link,$(LDLIBS) -lcmocka)
$(B)/tests/test_threads: $(B)/obj/tests/unit/patience.o
$(B)/obj/tests/unit/patience.o: tests/unit/patience.cpp $(B)/obj/flags
	$(call say,CXX ,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<
# The kernels and their test alone: what a compiler for another machine makes of them is soon built, and tests/e2e/test_aarch64.py
# runs it.
$(B)/tests/kernels: $(call obj,tests/unit/test_kernels.c $(KERNEL_TEST_SRC) tests/unit/filter.c $(KERNEL_BASE_SRC)) $(KERNEL_OBJ)
	$(call link,-lcmocka -ljansson -lm)
# The fuzz targets, on what is kept of their inputs: they write no files, and no clock makes them wait.
FUZZ_WRAP := -Wl,--wrap=ls_write_file -Wl,--wrap=ls_now_ns
$(B)/tests/test_fuzz: $(call obj,$(wildcard tests/fuzz/*.c)) $(CLI_LIB_OBJ)
$(B)/tests/test_fuzz: LDFLAGS += $(FUZZ_WRAP)
$(B)/obj/tests/fuzz/fuzz_%.o: CFLAGS += -DLLVMFuzzerTestOneInput=$(notdir $*)
# tools: a model's layers, the screen's time, and the measurements of tests/bench
build/tests/probe: build/obj/tests/tools/probe.o $(CORE_OBJ)
	$(call link,$(LDLIBS))
build/tests/screen: build/obj/tests/bench/screen.o $(CORE_OBJ) $(UI_OBJ)
	$(call link,$(LDLIBS))
$(patsubst %,build/tests/%,perplexity steps fit_priors trace): build/tests/%: build/obj/tests/bench/%.o $(CORE_OBJ)
	$(call link,$(LDLIBS))
# calls that fail (make torture)
$(B)/tests/inject.so: tests/torture/inject.c
	$(call say,CC  ,$<)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(WARN) -fPIC -shared -o $@ $< -ldl
# What the checkers must see, with the flags of all other code.
$(B)/tests/planted: $(B)/obj/tests/tools/planted.o
	$(call link)

# ---- the GPU library on a device that is emulated on the CPU: the kernels' sources as they are
GPU_TEST_SRC := $(filter-out tests/gpu/bench.c,$(wildcard tests/gpu/*.c))
EMULATED := $(patsubst %,$(B)/obj/emulated/%.o,$(GPU_SRC) $(wildcard tests/gpu/*.cpp))
EMULATED_CXXFLAGS := -std=c++20 -O2 -g $(WARN) -Wno-unknown-pragmas -ffp-contract=off -fPIC -fvisibility=hidden -fopenmp \
  -ftls-model=initial-exec -Isrc -I. -include tests/gpu/emulation.h $(SANFLAGS)
# ASan's second stack, which finds uses after a return, is kept for each emulated thread: 22 GB and more in test_lst.
ifeq ($(SAN),1)
EMULATED_CXXFLAGS += $(if $(findstring clang,$(CXX)),-fsanitize-address-use-after-return=never,--param=asan-use-after-return=0)
endif
$(B)/obj/emulated/%.o: %
	$(call say,CXX ,$< (emulated device))
	$(Q)$(CXX) $(EMULATED_CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<
$(B)/tests/liblstorch_emulated.so: $(CUDA_OBJ) $(EMULATED) $(DECODER_OBJ) $(PIC_OBJ) src/compute/lst.map
	$(call say,LINK)
	$(Q)$(call TORCH_LINK,-fopenmp)
# Trained heads on that device.
$(B)/obj/tests/unit/torch_device_emulated.o: tests/unit/torch_device_emulated.cpp $(B)/obj/flags $(B)/obj/torch
	$(call say,CXX ,$<)
	$(Q)$(CXX) $(CXXFLAGS) $(TORCH_INCLUDES) -MMD -MP -c -o $@ $<
$(B)/tests/liblstorch_emulated_torch.so: $(OF_TORCH) $(B)/obj/tests/unit/torch_device_emulated.o src/compute/lst.map
	$(call say,LINK)
	$(Q)$(call TORCH_LINK,-ltorch_cpu -lc10 -fopenmp)
# Kernels against their plain twins, on the emulated device.
$(B)/tests/test_gpu_kernels: $(call obj,$(GPU_TEST_SRC)) $(EMULATED) $(KERNEL_OBJ) $(CORE_OBJ) $(B)/obj/tests/unit/random_tensor.o
	$(call link,-fopenmp $(LDLIBS))

# ---- the check on a GPU, for a machine that has one (tests/gpu/README.md)
GPU_PLAIN_OBJ := $(patsubst %.c,build/obj/%.o,$(KERNEL_BASE_SRC) src/gpu/cost.c tests/unit/random_tensor.c)
# libtorch_cpu is not linked: what of the runtime is used here is libc10_cuda's
GPU_LIBS = -Wl,-rpath,$(TORCH_DIR)/lib -Wl,-rpath,$(CUDA_HOME)/lib64 -Wl,-rpath-link,$(TORCH_DIR)/lib -L$(TORCH_DIR)/lib \
  -lc10_cuda -lc10 -L$(CUDA_HOME)/lib64 -lcudart -fopenmp -ldl -lm
build/tests/gpu_kernels: $(GPU_TEST_SRC:%.c=build/obj/%.o) $(GPU_PLAIN_OBJ) $(KERNEL_OBJ) $(call torch_obj,gpu_runtime) $(GPU_SRC:%.cu=build/obj/%.cu.o)
	$(call link,$(GPU_LIBS))
build/tests/gpu_bench: build/obj/tests/gpu/bench.o $(call torch_obj,gpu_runtime)
	$(call link,$(GPU_LIBS))
build/tests/gpu_bench_emulated: build/obj/tests/gpu/bench.o $(EMULATED) $(KERNEL_OBJ) $(GPU_PLAIN_OBJ)
	$(call link,-fopenmp -ldl -lm)
# The script calls make for what it builds, with flags of its own.
#: measure | make gpu-check | on a machine with a GPU: build, test, measure; MODEL=FILE.gguf adds a real model
gpu-check:
	@env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS LIBTORCH='$(LIBTORCH)' $(PYTHON) tests/gpu/check.py \
	  $(call asked,PLAN SECONDS OUT MODEL STEPS) $(if $(ADD),--add $(ADD)) $(if $(QUICK),--quick)
#: measure | make gpu-bundle | build/logitspec-gpu.tar.gz, which runs gpu-check on a bare machine
gpu-bundle: all build/tests/test_lst build/tests/test_models
	@$(PYTHON) tests/gpu/check.py --bundle build/logitspec-gpu.tar.gz

# ---- make test
# What disassembles the kernels is fetched where nvcc is and its disassemblers are not; without a network, the test that wants
# them is skipped and says so.
test-setup:
	@.ci/packages test
	@$(FETCH) && $(FETCH_TORCH)
	@$(if $(NVCC),NVCC='$(NVCC)' tests/gpu/machine_code.py --tools >/dev/null 2>&1 || models/fetch cuda-tools .deps/cuda-tools || true)
.SECONDARY: $(call obj,$(TEST_SRC) $(TEST_LIB_SRC))
unit: $(TEST_BIN) $(B)/tests/test_gpu_kernels $(B)/embed $(if $(SAN),,$(B)/tests/inject.so) $(B)/tests/liblstorch_emulated.so $(if $(TORCH_DIR),$(B)/tests/liblstorch_emulated_torch.so)
# T=word (PATTERN=word) runs the test programs whose name holds it. The whole name of a test builds only what that one needs.
T ?= $(PATTERN)
ALL_TESTS := all unit $(if $(NVCC),cuda build/tests/gpu_kernels build/tests/gpu_bench)
OF_UNIT = $(B)/tests/$(T) $(if $(filter test_lst test_heads test_ranks test_reference,$(T)),$(TORCH_LIB)) $(if $(filter test_heads,$(T)),$(if $(TORCH_DIR),$(B)/tests/liblstorch_emulated_torch.so)) $(if $(shell grep -l 'use_gpu' tests/unit/$(T).c),$(B)/tests/liblstorch_emulated.so)
OF_E2E = all $(if $(shell grep -lE 'BUILD, "tests"|inject.so|emulated' tests/e2e/$(T).py),unit)
NEEDED = $(if $(wildcard tests/unit/$(T).c),$(OF_UNIT),$(if $(wildcard tests/e2e/$(T).py),$(OF_E2E),$(ALL_TESTS)))
#: test | make test | set up, build, run every test; T=name runs one, T=word those whose name holds it
test: $(if $(and $(T),$(TORCH_DIR),$(wildcard $(MODEL_FILE_NAME))),,test-setup)
	@$(MAKE) $(NEEDED)
	@python3 tests/run.py $(B) $(T)

# ---- what takes longer than a test may
#: test | make torture | every command with failing calls (memory, files, threads); SECONDS=600 SEED=2, CASE= KIND= ONLY=
torture: all $(B)/tests/inject.so
	@python3 tests/torture/torture.py $(B) $(call asked,SECONDS SEED CASE KIND ONLY)
#: test | make soak | a random user on the screen: SEED=, MINUTES=10, MODEL=; SAN=1 with sanitizers
soak: all
	@LOGITSPEC_BUILD=$(abspath $(B)) LOGITSPEC_LSTORCH=$(abspath build/liblstorch.so) $(PYTHON) tests/e2e/soak.py $(call asked,SEED MINUTES MODEL)
#: test | make limits | very long prompts, answers and contexts, at full length
limits: all
	@LOGITSPEC_LIMITS=1 $(PYTHON) tests/run.py $(B) test_extremes
#: test | make exactness | every exact method against plain decoding, in every arithmetic at every CPU level; LEVEL='avx2 amx'
exactness: all $(B)/tests/test_chances
	@LOGITSPEC_BUILD=$(abspath $(B)) $(PYTHON) tests/e2e/exactness.py $(LEVEL)
#: test | make check-model | MODEL=PATH against transformers, which PYTHON=... must have: ids, logits, every layer
check-model: all build/tests/probe
	@test -n '$(MODEL)' || { echo 'check-model: MODEL=FOLDER or MODEL=FILE.gguf'; exit 2; }
	@$(PYTHON) tests/tools/check_model.py '$(MODEL)' --build $(B) $(call asked,WEIGHTS DTYPE TEXT)
#: test | make check-files | other people's files, beside the programs that they were made for; RECORD=1 writes what tests replay
check-files: setup
	@$(MAKE) all
	@python3 tests/files/check.py $(if $(RECORD),--record) $(call asked,SEED)
#: test | make mutants | mistakes put into the sources one by one: do the unit tests see them? SHARD=1/4, ONLY=NAME
mutants:
	@python3 tests/mutants/run.py $(call asked,SHARD) $(ONLY)

# Fuzzing with clang. The targets and what they begin with are in tests/fuzz/targets.def.
FUZZ_SRC := $(CORE_SRC) $(UI_SRC) $(filter-out src/cli/main.c,$(CLI_SRC)) tests/fuzz/checks.c
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SAN := address,undefined -fno-sanitize-recover=undefined
build/fuzz/obj/%.o: %.c
	$(call say,FUZZ,$<)
	$(Q)clang -std=gnu11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -Isrc -I. -pthread \
	  -DLS_VERSION='"$(VERSION)"' -DLS_COMMIT='""' -MMD -MP -c -o $@ $<
build/fuzz/fuzz_%: build/fuzz/obj/tests/fuzz/fuzz_%.o $(patsubst %.c,build/fuzz/obj/%.o,$(FUZZ_SRC)) $(CPU_OBJ)
	$(call say,LINK)
	$(Q)clang++ -fsanitize=fuzzer,$(FUZZ_SAN) $(FUZZ_WRAP) -o $@ $^ $(LDLIBS) -pthread
.SECONDARY: $(patsubst %.c,build/fuzz/obj/%.o,$(FUZZ_SRC) $(wildcard tests/fuzz/fuzz_*.c))
TARGET ?= trace
#: test | make fuzz | clang and libFuzzer on what reads files: TARGET=trace SECONDS=60 (targets: tests/fuzz/targets.def)
fuzz: build/fuzz/fuzz_$(TARGET)
	@python3 tests/fuzz/run.py $(TARGET) $(call asked,SECONDS RUNS)
#: test | make fuzz-all | all targets in turn, SECONDS=60 or RUNS=100000 for each, and a table of what they did
fuzz-all: $(addprefix build/fuzz/fuzz_,$(FUZZ_TARGETS))
	@python3 tests/fuzz/run.py $(call asked,SECONDS RUNS)

# ---- benchmarks: ratios of one run, on this machine. The script reads its variables from the environment, where make puts them
# (tests/bench/run.py). bench-smoke checks the script.
#: measure | make bench-cpu | measure on this machine; SUITE=FILE has prompts as JSON lines, MODELS=NAME,NAME a column each
bench-cpu: setup
	@$(MAKE) all build/tests/perplexity
	@python3 tests/bench/run.py cpu
#: measure | make bench-peers | the same beside llama.cpp, transformers and OpenVINO, which it installs into build/peers; SHAPE=3b: a larger model
bench-peers: setup
	@$(MAKE) all
	@python3 tests/bench/run.py peers
bench-smoke: setup
	@$(MAKE) all
	@SMOKE=1 python3 tests/bench/run.py cpu

# ---- checkers. The last line of each counts, as make test's does.
#: check | make check | all of these; tests/README.md says what each covers. QUICK=1: their quick parts
check: check-static check-locale check-valgrind check-asan check-tsan
check-setup:
	@.ci/packages check
	@$(FETCH) && $(FETCH_TORCH)
# QUICK=1, as .ci/run has it: what runs without the compute library, and of the end-to-end tests the scripted screens.
# The real model, and the GPU's kernels apart from their library, are left to the plain build: minutes become an hour.
REAL_MODEL_TESTS := test_engine test_chances
LIBRARY_TESTS := test_lst test_models test_heads test_ranks test_reference
ASAN_TESTS := $(filter-out $(REAL_MODEL_TESTS) $(if $(QUICK),$(LIBRARY_TESTS) test_outputs),$(TEST_SRC:tests/unit/%.c=%))
#: check | make check-asan | all tests with ASan, UBSan and leaks
check-asan: check-setup
	@$(MAKE) SAN=1 $(ASAN_TESTS:%=build/san/tests/%) build/san/tests/planted \
	  $(if $(QUICK),build/san/logitspec,all build/san/embed build/san/tests/liblstorch_emulated.so)
	@python3 tests/run.py build/san --without-model --sees use-after-free,overflow,leak $(if $(QUICK),$(ASAN_TESTS) test_script test_serve_load)
# The threads: engine, screen, trace writer, corpus builder, and those of a forward.
TSAN_TESTS := test_feed test_live test_draft_model test_trace test_corpus $(if $(QUICK),,test_lst)
#: check | make check-tsan | the threads, with TSan
check-tsan: check-setup
	@$(MAKE) SAN=thread $(if $(QUICK),build/tsan/logitspec,all) $(TSAN_TESTS:%=build/tsan/tests/%) build/tsan/tests/planted
	@python3 tests/run.py build/tsan --without-model --sees race $(TSAN_TESTS) test_script $(if $(QUICK),,test_screen)
# What computes is left to ASan (valgrind knows neither AVX-512 nor AMX), and so are the four that would take it longest; of
# the quick part also the longest that ASan or TSan have there.
VALGRIND_TESTS := $(filter-out $(REAL_MODEL_TESTS) $(LIBRARY_TESTS) test_kernels test_session test_tokenizers test_pretok test_choose \
  $(if $(QUICK),test_blame test_live test_outputs test_draft_model test_trace test_ui),$(TEST_SRC:tests/unit/%.c=%))
#: check | make check-valgrind | C unit tests
check-valgrind: check-setup
	@$(MAKE) $(VALGRIND_TESTS:%=build/tests/%) build/tests/planted
	@python3 tests/run.py build --valgrind --sees use-after-free,leak,uninitialised $(VALGRIND_TESTS)
# What is printed and written to files, without a UTF-8 locale. Screens under it: test_terminal.
#: check | make check-locale | what is printed and written with LANG=C
check-locale: check-setup
	@$(MAKE) all
	@LOGITSPEC_TEST_LOCALE=C python3 tests/run.py build test_accessible test_film test_manual test_plain test_report test_script test_wrap
#: check | make check-static | cppcheck, clang-tidy, clang
check-static: check-setup
	@python3 tests/tools/check_static.py $(if $(QUICK),cppcheck tidy clang)
# Everything for 64-bit Arm by Debian's cross compiler, and what runs of it under qemu-user: the kernels at every level, the
# compute library, whole answers beside those of this machine.
#: check make check-aarch64 everything for 64-bit Arm by a cross compiler, run under qemu-user
check-aarch64:
	@.ci/packages aarch64
	@models/fetch libtorch .deps/libtorch-aarch64 aarch64
	@$(MAKE) all
	@$(MAKE) CC=aarch64-linux-gnu-gcc all build/aarch64/tests/kernels build/aarch64/tests/test_lst build/aarch64/embed
	@LOGITSPEC_AARCH64=build/aarch64 $(PYTHON) tests/run.py build test_aarch64
clang-build: $(B)/logitspec $(B)/embed $(call obj,$(TEST_SRC)) $(CPU_OBJ) $(CUDA_OBJ) $(call torch_obj,lst_head lst_head_load lst_gloo)
