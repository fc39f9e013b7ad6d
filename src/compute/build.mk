# What computes: the CPU's kernels and decoder, liblstorch.so by libtorch, and liblstorch_cuda.so by the CUDA toolkit's nvcc.
.PHONY: cuda cuda-ready

# ---- CPU kernels: one source a CPU level; no -ffast-math, so that sums keep the order in which they are written. -g1: debuggers
# see places in the source; with variables compilers took 1.2 to 2.2 times as long for the large ones. Sanitizers make compilers
# slow: at -O2 a file was not done after eight minutes; without pointer-overflow, whose work ASan does, they take about a
# third less.
LEVELS_OF_x86_64 := src/compute/kernels/kernels_avx%.c src/compute/kernels/kernels_amx%.c tests/unit/avxvnni_emulated.c \
  tests/unit/amx%_emulated.c tests/unit/neon%_emulated.c
LEVELS_OF_aarch64 := src/compute/kernels/kernels_neon%.c
FOREIGN := $(filter-out $(LEVELS_OF_$(ARCH)),$(LEVELS_OF_x86_64) $(LEVELS_OF_aarch64))
KERNEL_SRC := $(filter-out $(FOREIGN),$(wildcard src/compute/kernels/*.c))
KERNEL_OBJ := $(call obj,$(KERNEL_SRC))
$(B)/obj/src/compute/kernels/%.o: CFLAGS += -g1 $(if $(SAN),-O1 -fno-sanitize=pointer-overflow,-O3) -fPIC -fvisibility=hidden -fno-math-errno
kernels_neondot_CFLAGS := -march=armv8.2-a+dotprod
kernels_neoni8mm_CFLAGS := -march=armv8.2-a+dotprod+i8mm
kernels_avx512_CFLAGS := -ffp-contract=fast -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mavx2 -mf16c -mprefer-vector-width=512
kernels_avx512vnni_CFLAGS := $(kernels_avx512_CFLAGS) -mavx512vnni
kernels_avx512bf16_CFLAGS := $(kernels_avx512_CFLAGS) -mavx512bf16 -mamx-tile -mamx-bf16
kernels_amxunit_CFLAGS := -mamx-tile -mamx-bf16 -mamx-int8
kernels_amxbf16_CFLAGS := -mamx-tile -mamx-bf16
kernels_amxpacked_CFLAGS := $(kernels_avx512bf16_CFLAGS) -mavx512vbmi
kernels_amxint8_CFLAGS := $(kernels_avx512vnni_CFLAGS) -mamx-tile -mamx-int8
kernels_avx2_CFLAGS := -ffp-contract=fast -mavx2 -mfma -mf16c
kernels_avxvnni_CFLAGS := $(kernels_avx2_CFLAGS) -mavxvnni

# ---- C++: the CPU's decoder, which is part of the program, and what the libraries are made of
# -g1: debuggers see places in the source, but no variables. With libtorch's types compilers took 1.5 to 2.1 times as long.
CXXFLAGS := -std=c++20 -O2 -g1 $(SAME) $(WARN) -Wno-unused-parameter -fPIC -fvisibility=hidden $(SANFLAGS) $(HARDEN) -Isrc \
  -DLS_VERSION='"$(VERSION)"'
TORCH_INCLUDES = -fopenmp -D_GLIBCXX_USE_CXX11_ABI=1 -DAT_PER_OPERATOR_HEADERS -DUSE_C10D_GLOO -isystem src/compute/gloo_names \
  -isystem $(TORCH_DIR)/include -isystem $(TORCH_DIR)/include/torch/csrc/api/include
torch_obj = $(patsubst %,$(B)/obj/src/compute/%.o,$(1))
# of every decoder: loading, KV caches, threads, ranks, what packs and unpacks weights
DECODER_OBJ := $(call torch_obj,lst_open lst_kv_cache lst_threads lst_barrier lst_error lst_ranks lst_ranks_rows lst_ranks_calls lst_ranks_memory) $(KERNEL_OBJ)
CPU_OBJ := $(call torch_obj,lst_cpu lst_cpu_kv_cache lst_cpu_forward lst_cpu_experts lst_cpu_store lst_cpu_limits) $(DECODER_OBJ)
CUDA_OBJ := $(call torch_obj,lst_cuda lst_cuda_kv_cache lst_cuda_experts lst_cuda_ranks)
# what a library needs of the program's other folders
PIC_OBJ := $(patsubst %,$(B)/obj/pic/src/base/%.o,ggml rng mem system) $(B)/obj/pic/src/gpu/plan.o
WITH_TORCH := $(call torch_obj,lst_head lst_head_load lst_reference lst_operators lst_torch_device lst_gloo gpu_runtime)

$(B)/obj/src/compute/%.o: src/compute/%.cpp $(B)/obj/flags
	$(call say,CXX ,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<
$(WITH_TORCH): CXXFLAGS += $(TORCH_INCLUDES)
$(WITH_TORCH): $(B)/obj/torch
$(B)/obj/torch: FORCE
	$(call keep,$(TORCH_DIR))
$(B)/obj/pic/%.o: %.c $(B)/obj/flags
	$(call say,CC  ,$< (pic))
	$(Q)$(CC) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
# An installed library finds libtorch beside itself and names no folder of the machine that built it.
TORCH_RPATH = -Wl,-rpath,$(TORCH_DIR)/lib
$(B)/install/%.so: TORCH_RPATH :=
# $(call TORCH_LINK,libraries); a link that is interrupted leaves no library
TORCH_LINK = $(CXX) -shared $(SANFLAGS) $(HARDEN_LD) -o $@.new $(filter %.o,$^) -Wl,--version-script=src/compute/lst.map \
  -Wl,-rpath,'$$ORIGIN' $(TORCH_RPATH) -L$(TORCH_DIR)/lib $(1) -Wl,-rpath-link,$(TORCH_DIR)/lib && mv $@.new $@
# ---- liblstorch.so: trained heads, the reference engine, ranks over a network
OF_TORCH := $(call torch_obj,lst_head lst_head_load lst_reference lst_operators lst_gloo) $(DECODER_OBJ) $(PIC_OBJ)
$(B)/liblstorch.so $(B)/install/liblstorch.so: $(OF_TORCH) $(call torch_obj,lst_torch_device) src/compute/lst.map
	$(call say,LINK)
	$(Q)$(call TORCH_LINK,-ltorch_cpu -lc10 -fopenmp)

# ---- the GPU library, by the CUDA toolkit's nvcc. Machine code for Ampere (8.x) and Hopper, PTX for what is newer;
# CUDA_ARCH=all adds machine code for 8.6, 8.9, 10.0 and 12.0, CUDA_ARCH=90 is for that alone.
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(if $(NVCC),$(abspath $(dir $(realpath $(NVCC)))..))
CUDA_ARCH ?= default
GPU_ARCHS := $(if $(filter default,$(CUDA_ARCH)),80 90,$(if $(filter all,$(CUDA_ARCH)),80 86 89 90 100 120,$(CUDA_ARCH)))
GPU_CODE := $(foreach a,$(GPU_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
  $(foreach a,$(lastword $(GPU_ARCHS)),-gencode arch=compute_$(a),code=compute_$(a))
GPU_SRC := $(wildcard src/compute/kernels/*.cu)
# no contraction that is not written: a row's bits must not depend on which variant of a kernel computes it
NVCCFLAGS := -std=c++17 -O3 --fmad=false -lineinfo -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -Isrc $(GPU_CODE)
#: run | make cuda | the library for NVIDIA GPUs; needs the CUDA toolkit 13. CUDA_ARCH=all: machine code for all GPUs
cuda: cuda-ready $(if $(and $(NVCC),$(wildcard $(TORCH_DIR)/lib/libc10_cuda.so)),build/liblstorch_cuda.so)
cuda-ready:
	@test -n '$(NVCC)' || { echo "cuda: nvcc was not found: install NVIDIA's CUDA toolkit 13, or set NVCC=PATH" >&2; exit 1; }
	@$(NVCC) --version | grep -q 'release 13' || { echo "cuda: $(NVCC) is not of CUDA 13, which libtorch here is built \
	for: install that toolkit, or set NVCC=PATH" >&2; exit 1; }
	@test -n '$(TORCH_DIR)' || { echo "cuda: libtorch is not set up: 'make torch', or LIBTORCH=DIR" >&2; exit 1; }
	@test -e $(TORCH_DIR)/lib/libc10_cuda.so || { echo "cuda: $(TORCH_DIR) is a libtorch without CUDA (no libc10_cuda.so)" >&2; exit 1; }
# The checks come before nvcc compiles for minutes.
$(GPU_SRC:%.cu=build/obj/%.cu.o) $(call torch_obj,gpu_runtime): | cuda-ready
build/obj/gpu-code: FORCE
	$(call keep,$(NVCC) $(NVCCFLAGS))
build/obj/%.cu.o: %.cu build/obj/gpu-code
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
comma := ,
space := $(subst ,, )
$(call torch_obj,gpu_runtime): build/obj/gpu-code
$(call torch_obj,gpu_runtime): CXXFLAGS += -isystem $(CUDA_HOME)/include -DLSG_ARCHS=$(subst $(space),$(comma),$(strip $(GPU_ARCHS)))
build/liblstorch_cuda.so $(B)/install/liblstorch_cuda.so: $(CUDA_OBJ) $(call torch_obj,gpu_runtime) $(GPU_SRC:%.cu=build/obj/%.cu.o) $(DECODER_OBJ) $(PIC_OBJ) src/compute/lst.map
	$(call say,LINK)
	$(Q)$(call TORCH_LINK,-lc10_cuda -lc10 -L$(CUDA_HOME)/lib64 -lcudart)
