# Quern. `make help` lists the targets.
# One makefile, not recursive; objects mirror the source tree under build/.

# make presets CC to cc; a bare system has neither until `make serve` gets one
ifeq ($(origin CC),default)
CC = gcc
endif
BUILD ?= build
OPT ?= -O2
WERROR ?=
SAN ?=

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
       -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -fno-common
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -I. $(OPT) -g -pthread -fvisibility=hidden \
             -fno-math-errno $(WARN) $(WERROR) $(SAN) $(CFLAGS)
LDFLAGS_ALL = -pthread $(SAN) $(LDFLAGS)
LIBS = -lm -ljansson -lcrypto -ldl

comma := ,
# V=1 shows whole commands
Q := $(if $(V),,@)
SAY = @$(if $(V),:,printf '  %-3s %s\n' '$(1)' '$(2)')

# libquern: what runs, and what a model is
LIB_SRC := $(sort $(shell find runtime models -name '*.c' -not -path '*/cuda/*' \
             -not -path '*/simd/*'))
# simd/ is compiled once per instruction set, see runtime/cpu/isa.h
SIMD_SRC := $(sort $(wildcard runtime/cpu/simd/*.c))
ISAS := base $(if $(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)),avx2 avx512)
ISA_FLAGS_base =
ISA_FLAGS_avx2 = -mavx2 -mfma -mbmi2 -mf16c
ISA_FLAGS_avx512 = $(ISA_FLAGS_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl \
                   -mprefer-vector-width=512
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) \
           $(foreach isa,$(ISAS),$(SIMD_SRC:%.c=$(BUILD)/%.$(isa).o))
LIB := $(BUILD)/libquern.a

# libquern-server: the HTTP face without its main(), so that tests can link it
SERVER_SRC := $(sort $(shell find server -name '*.c' \
                       -not -path 'server/main.c' 2>/dev/null))
SERVER_OBJ := $(SERVER_SRC:%.c=$(BUILD)/%.o)
SERVER_LIB := $(BUILD)/libquern-server.a

# every tests/test_*.c is a program of its own; tests/support/ is shared
TEST_SRC := $(sort $(wildcard tests/test_*.c))
TEST_BIN := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/support/*.c)))
# a library, so that a test links what it uses and may bring its own of the rest
SUPPORT_LIB := $(BUILD)/tests/libsupport.a

QUERN := $(BUILD)/quern
IMAGES ?= 6000
TESTDATA ?= /usr/share/libonnx-testdata/data

.PHONY: all serve check unit e2e verify replay fuzz-run lint asan cuda-asan tsan fuzz bench format \
        image image-cuda install clean help
all: $(QUERN) cuda ## build build/quern, the libraries, the CUDA plug-in

include runtime/cuda/cuda.mk
# not in containers
include $(wildcard tests/cuda/cuda.mk)

$(QUERN): $(BUILD)/server/main.o $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ -lmicrohttpd $(LIBS)

# the assembler reads the files of web/ into the binary
$(BUILD)/server/assets.o: $(wildcard web/*)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(SERVER_LIB): $(SERVER_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(SUPPORT_LIB): $(SUPPORT_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# no floating-point exception is ever looked at: lets branches become selects
SIMD_FLAGS = -fno-trapping-math -ffp-contract=off
define SIMD_RULE
$(BUILD)/runtime/cpu/simd/%.$(1).o: runtime/cpu/simd/%.c
	@mkdir -p $$(@D)
	$$(call SAY,CC,$$< ($(1)))
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(SIMD_FLAGS) $$(ISA_FLAGS_$(1)) -DQN_ISA=$(1) \
	    -MMD -MP -c $$< -o $$@
endef
$(foreach isa,$(ISAS),$(eval $(call SIMD_RULE,$(isa))))

# loops over tensors: let the compiler vectorise them
$(BUILD)/runtime/cpu/%.o: OPT := $(OPT) -O3

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(SUPPORT_LIB) $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka -lmicrohttpd $(LIBS)

# these fail the n-th allocation
$(BUILD)/tests/test_%_alloc: LDFLAGS_ALL += \
    $(foreach f,calloc realloc aligned_alloc free,-Wl$(comma)--wrap=$(f))
# and this counts all of them
$(BUILD)/tests/test_no_heap: LDFLAGS_ALL += \
    $(foreach f,malloc calloc realloc aligned_alloc posix_memalign free,\
        -Wl$(comma)--wrap=$(f))

unit: $(TEST_BIN) ## unit tests (cmocka)
	@set -e; for t in $(TEST_BIN); do echo "== $$t"; $$t; done

e2e: $(QUERN) ## end-to-end tests: the real binary and curl
	IMAGES=$(IMAGES) sh tests/e2e/run.sh $(QUERN)
	sh tests/e2e/readme.sh $(QUERN)

verify: $(QUERN) ## ONNX backend tests of Debian's libonnx-testdata
	$(QUERN) verify $(TESTDATA)

# Both install what they need, in sub-makes so that the build comes after it.
serve: ## install what is missing, build, serve the examples on 127.0.0.1:8000
	sh deploy/install-deps.sh build $(if $(HAVE_CUDA),nvcc)
	@echo "building with $$(nproc) jobs: some minutes the first time"
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@echo "open http://127.0.0.1:8000/ (Ctrl-C ends it; QUERN_PORT chooses a port)"
	$(QUERN) serve --models models/examples

check: ## install what is missing, build, run every test
	sh deploy/install-deps.sh build test $(if $(HAVE_CUDA),cuda)
	$(MAKE) --no-print-directory -j$$(nproc) all
	$(MAKE) --no-print-directory -j$$(nproc) unit
	$(MAKE) --no-print-directory replay e2e verify
	$(MAKE) --no-print-directory -j$$(nproc) cuda-check

lint: ## style and structure; see tests/lint.sh
	CC="$(CC)" sh tests/lint.sh

ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
       -fno-omit-frame-pointer
asan: ## unit and end-to-end tests under AddressSanitizer and UBSan
	$(MAKE) --no-print-directory BUILD=build-asan OPT=-O1 SAN="$(ASAN)" \
	    unit replay e2e
# what runs here is the plug-in's host code, and our kernels compiled for the host
ifeq ($(HAVE_CUDA),)
cuda-asan:
	@echo "SKIP 1: emulated CUDA: $(strip $(NO_CUDA))"
else
cuda-asan: ## tests of the plug-in on emulated CUDA under AddressSanitizer and UBSan
	$(MAKE) --no-print-directory BUILD=build-asan OPT=-O1 SAN="$(ASAN)" \
	    cuda-stand-ins
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/cuda/emu/lsan.supp:print_suppressions=0 \
	    $(MAKE) --no-print-directory BUILD=build-asan OPT=-O1 SAN="$(ASAN)" cuda-unit
endif
tsan: ## unit and end-to-end tests under ThreadSanitizer
	$(MAKE) --no-print-directory BUILD=build-tsan OPT=-O1 \
	    SAN="-fsanitize=thread -fno-omit-frame-pointer" \
	    IMAGES=600 unit e2e

FUZZ_SECONDS ?= 60
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
fuzz: ## libFuzzer targets for FUZZ_SECONDS each; needs clang
	$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz OPT=-O1 \
	    SAN="-fsanitize=fuzzer-no-link,address,undefined" fuzz-run
fuzz-run: $(FUZZ_SRC:%.c=$(BUILD)/%)
	@set -e; for t in $^; do echo "== $$t"; mkdir -p $$t.corpus; \
	    $$t -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    $$t.corpus $$(ls -d tests/fuzz/corpus/$${t##*fuzz_} || true); done
MUTANTS ?= 20000
replay: $(FUZZ_SRC:tests/fuzz/fuzz_%.c=$(BUILD)/tests/fuzz/replay_%)
replay: ## the same targets over their corpora and seeded mutants of those
	@set -e; for t in $^; do c=tests/fuzz/corpus/$${t##*replay_}; \
	    echo "== $$t"; ! [ -d $$c ] || $$t -n $(MUTANTS) $$c/*; done
# without libFuzzer, see tests/fuzz/main.c
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o \
        $(BUILD)/tests/fuzz/main.o $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ -lmicrohttpd $(LIBS)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer $^ -o $@ -lmicrohttpd $(LIBS)

bench: $(QUERN) ## latency of the example model in this process
	for m in models/examples/*/*/model.onnx; do for c in 1 2; do \
	    $(QUERN) bench $$m --threads $$c --duration 3s; done; done

# by hand: build/tests/bench/bench_layout FILE.csv..., bench_codec [REPEATS]
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ $(LIBS)

format: ## clang-format over the tree
	clang-format -i $$(find runtime models server tests -name '*.[ch]')

image: ## container image quern:latest with buildah, podman or docker
	sh deploy/image.sh
image-cuda: ## the same with CUDA, quern:cuda, from NVIDIA's images
	sh deploy/image.sh cuda

PREFIX ?= /usr/local
install: $(QUERN) cuda ## into DESTDIR/PREFIX
	install -D -m 755 $(QUERN) $(DESTDIR)$(PREFIX)/bin/quern
	$(if $(HAVE_CUDA),install -D -m 755 $(CUDA_LIB) \
	    $(DESTDIR)$(PREFIX)/lib/quern/libquern-cuda.so)

clean: ## remove what was built
	rm -rf build build-clang build-asan build-tsan build-fuzz

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' \
	    $(MAKEFILE_LIST)

-include $(shell find $(BUILD) $(CUDA_IMAGES) -name '*.d' 2>/dev/null)
