# logitspec: `make run` and `make test` are all that a fresh machine needs; `make help` lists the rest.
# What computes is built by src/compute/build.mk; tests, checkers and benchmarks by tests/build.mk.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all
.PHONY: all run setup torch install uninstall deb archive embed lint format clean help FORCE

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
VERSION := 0.2.0

# libtorch itself has no sanitizers.
#: variable | SAN=1 | build with ASan and UBSan in build/san; SAN=thread: with TSan in build/tsan
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

WARN := -Wall -Wextra -Werror
# Arm contracts products and sums where x86 cannot, and its plain char has no sign: one program, the same numbers on both.
SAME := -ffp-contract=off -fsigned-char
CFLAGS := -std=gnu11 -D_GNU_SOURCE -O2 -g $(SAME) $(WARN) -Wshadow -Wstrict-prototypes -Isrc -I. -pthread \
  -DLS_VERSION='"$(VERSION)"' $(SANFLAGS) $(HARDEN) $(if $(HARDEN),-fPIE) $(EXTRA_CFLAGS)
LDFLAGS := -pthread $(SANFLAGS) $(SANLD) $(HARDEN_LD) $(if $(HARDEN_LD),-pie)
LDLIBS := -lncursesw -ltinfo -lyaml -lpcre2-8 -lutf8proc -lcrypto -ljansson -lmicrohttpd -lzstd -ldl -lm

#: variable | V=1 | show the commands
Q := $(if $(V),,@)
say = @mkdir -p $(@D); echo '  $(1) $(or $(2),$@)'
# $(call link,libraries,compiler): a program of all its prerequisites
define link
$(call say,LINK)
$(Q)$(or $(2),$(CXX)) $(LDFLAGS) -o $@ $^ $(1)
endef
# writes a file of one line if the line is another one, so that what depends on it is made again
keep = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
# of these variables those that are set, as options of a script: SEED=7 is --seed '7'
asked = $(foreach v,$(1),$(if $($(v)),--$(shell echo $(v) | tr A-Z a-z) '$($(v))'))

CORE_SRC := $(wildcard $(patsubst %,src/%/*.c,base text model spec gpu engine decode trace source report serve))
UI_SRC := $(wildcard ui/*.c)
CLI_SRC := $(wildcard src/cli/*.c)
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
CORE_OBJ = $(call obj,$(CORE_SRC)) $(CPU_OBJ)
UI_OBJ := $(call obj,$(UI_SRC))
CLI_OBJ := $(call obj,$(CLI_SRC))

# What `make torch` fetched, or
#: variable | LIBTORCH=DIR | use that libtorch (with include/ and lib/)
TORCH_FETCHED := .deps/libtorch$(CROSS:%=-%)
TORCH_DIR := $(abspath $(or $(LIBTORCH),$(patsubst %/ready,%,$(wildcard $(TORCH_FETCHED)/ready))))
TORCH_LIB := $(if $(TORCH_DIR),$(B)/liblstorch.so)
MODEL_FILE_NAME := models/smollm2-135m-instruct.Q4_1.gguf
include src/compute/build.mk

#: run | make | build the program (and liblstorch.so where libtorch is)
all: $(B)/logitspec $(TORCH_LIB)

$(B)/logitspec: $(CORE_OBJ) $(UI_OBJ) $(CLI_OBJ)
	$(call link,$(LDLIBS))

# Objects depend on what they were compiled with. PACKAGES=unchecked is for a machine that lacks
# packages which the GPU library does not need.
$(B)/obj/flags: FORCE
	@[ -e $@ ] || [ '$(PACKAGES)' = unchecked ] || .ci/packages build
	$(call keep,$(CC) $(CXX) $(HARDEN) $(SANFLAGS) $(EXTRA_CFLAGS))
# The commit that is built, where this folder is a clone; "+": with changes.
COMMIT = $(shell [ -e .git ] && git describe --always --dirty=+ --exclude '*' 2>/dev/null)
$(B)/obj/commit: FORCE
	$(call keep,$(COMMIT))
$(B)/obj/src/cli/machine.o: $(B)/obj/commit
machine_CFLAGS = -DLS_COMMIT='"$(COMMIT)"'
$(B)/obj/%.o: %.c $(B)/obj/flags
	$(call say,CC  ,$<)
	$(Q)$(CC) $(CFLAGS) $($(basename $(notdir $<))_CFLAGS) -MMD -MP -c -o $@ $<

#: package | make embed | build/libspec.a, the drafters alone, and an example that uses them
embed: $(B)/embed
SPEC_LIB_SRC := $(wildcard src/spec/*.c) $(patsubst %,src/base/%.c,alias buf err file map mem rng system)
$(B)/libspec.a: $(call obj,$(SPEC_LIB_SRC))
	$(call say,AR  )
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/embed: $(B)/obj/demos/embed.o $(B)/libspec.a
	$(call link,-lm,$(CC))

-include tests/build.mk

# ---- set-up: packages, the default model. Done once, it needs no network.
FETCH := models/fetch default $(MODEL_FILE_NAME)
FETCH_TORCH := $(if $(LIBTORCH),true,models/fetch libtorch $(TORCH_FETCHED) $(CROSS))
#: run | make setup | install packages, fetch the default model
setup:
	@.ci/packages run
	@$(FETCH)
#: run | make torch | fetch libtorch and build liblstorch.so: for trained heads, --engine reference, ranks of torchrun, srun or mpirun
torch:
	@$(FETCH_TORCH)
	@$(MAKE) all

#: run | make run | set up, build, open the screen (without a terminal: stream a demo)
run: setup
	@$(MAKE) -s all
	@if [ -t 0 ] && [ -t 1 ]; then exec build/logitspec; \
	else echo "> $$(cat demos/prompts/fox.txt)" && exec build/logitspec generate --prompt-file demos/prompts/fox.txt; fi

# ---- installing. No user's own models go along. MODEL_FILE= leaves the default model out: the program then says how to fetch
# it. CP="cp -s" only links what is large.
MODEL_FILE := $(wildcard $(MODEL_FILE_NAME))
CP := cp
ZSH_FOLDER := share/zsh/site-functions
INSTALLED_TORCH := $(if $(TORCH_DIR),$(B)/install/liblstorch.so $(if $(and $(NVCC),$(wildcard build/liblstorch_cuda.so)),$(B)/install/liblstorch_cuda.so))
INSTALL = CP='$(CP)' ZSH_FOLDER='$(ZSH_FOLDER)' MODEL_FILE='$(MODEL_FILE)' TORCH_DIR='$(TORCH_DIR)' .ci/install '$(DESTDIR)$(PREFIX)'
#: package | make install | PREFIX=/usr/local, DESTDIR=; MODEL_FILE= leaves the model out. make uninstall removes it
install: all $(INSTALLED_TORCH)
	@$(INSTALL) $(INSTALLED_TORCH)
uninstall:
	@$(INSTALL) --remove

# build/logitspec_VERSION_ARCHITECTURE.deb, with the model in it, and libtorch where `make torch` was run: it needs Debian's
# packages only.
#: package | make deb | a package for this Debian, in build/
deb:
	@.ci/packages deb && $(FETCH)
	@$(MAKE) all
	@.ci/deb $(VERSION)
# build/logitspec-VERSION.tar.gz: there `make run` needs the system's packages only (.ci/packages names them).
#: package | make archive | sources and model (and libtorch after make torch) for a machine without a network, in build/
archive: setup
	@.ci/archive $(VERSION)

#: check | make lint | which folder may include which; one user for each library; the format
lint:
	@python3 tests/tools/lint.py
#: check | make format | clang-format over the sources
format:
	@python3 tests/tools/lint.py --format

#: run | make clean | remove build/ (keeps libtorch and the model)
clean:
	rm -rf build

# A target's line stands above it: "#: group | make target | text".
help:
	@for group in run test check measure package variable; do echo "$$group"; \
	  awk -F ' *[|] *' -v group="#: $$group" '$$1 == group { printf "  %-20s %s\n", $$2, $$3 }' $(filter %Makefile %build.mk,$(MAKEFILE_LIST)); done

-include $(shell find build -path build/mutants -prune -o -name '*.d' -print 2>/dev/null)
