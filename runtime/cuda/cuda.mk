# The CUDA plug-in, build/libquern-cuda.so: where nvcc is.
#
#   make cuda                    for one card, and PTX for newer ones
#   make CUDA_ARCHS="80 90" cuda
#   make CUDA_ARCHS=all cuda     what is released: sm_75 to sm_120, and PTX
#
# Nothing of CUDA is linked: driver and libraries are opened by name at run time.

NVCC ?= $(firstword $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc)) \
          $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(NVCC)))
HAVE_CUDA := $(if $(NVCC),$(wildcard $(CUDA_HOME)/include/cuda.h))
# what to say where it is not whole
NO_CUDA = $(if $(NVCC),$(CUDA_HOME)/include/cuda.h is not there,nvcc is not here) \
    (CUDA 13 is needed; CUDA_HOME=DIR says where)
CUDA_ARCHS ?= 90

CUDA_ALL_ARCHS = 75 80 86 89 90 100 110 120
cuda_archs = $(if $(filter all,$(CUDA_ARCHS)),$(CUDA_ALL_ARCHS),$(CUDA_ARCHS))
# machine code for each, PTX of the newest
CUDA_GENCODE = $(foreach a,$(cuda_archs),-gencode arch=compute_$(a),code=sm_$(a)) \
    -gencode arch=compute_$(lastword $(cuda_archs)),code=compute_$(lastword $(cuda_archs)) \
    $(if $(filter all,$(CUDA_ARCHS)),-compress-mode=size)
# -v: registers, memory and spills of each kernel, kept beside its image
NVCCFLAGS = -std=c++17 -O3 -I. -Werror all-warnings -Wno-deprecated-gpu-targets \
    -Xptxas -v $(CUDA_GENCODE)

CUDA_LIB := $(BUILD)/libquern-cuda.so
# device code is the same whatever compiles the host's: builds share it
CUDA_IMAGES ?= build/cuda
CUDA_SRC := $(sort $(shell find runtime/cuda -name '*.c'))
CUDA_KERNELS := $(sort $(wildcard runtime/cuda/kernels/*.cu))
CUDA_FATBIN := $(CUDA_KERNELS:runtime/cuda/kernels/%.cu=$(CUDA_IMAGES)/%.fatbin)
# what the plug-in has copies of; the linker takes the members that it needs
CUDA_BASE_SRC := $(sort $(wildcard runtime/base/*.c runtime/ops/*.c)) \
    runtime/graph/attr.c runtime/exec/fail.c
CUDA_OBJ := $(CUDA_SRC:%.c=$(BUILD)/pic/%.o)
CUDA_BASE := $(BUILD)/pic/libbase.a

CUDA_TEXT := quern $(shell sed -n 's/.*QUERN_VERSION "\(.*\)"/\1/p' \
    server/cli/commands.h), cuda $(if $(HAVE_CUDA),$(shell awk \
    '$$2 == "CUDA_VERSION" { print int($$3 / 1000) "." $$3 % 1000 / 10; exit }' \
    $(HAVE_CUDA)))
# whole paths in quotes: -D and the shell see one word
CUDA_DEFS = -DQN_CUDA_IMAGE_DIR='"$(CUDA_IMAGES)"' \
    -DQN_CUDA_BUILD_TEXT='"$(CUDA_TEXT)"' \
    -DQN_CUDA_ARCH_TEXT='"$(strip $(foreach a,$(cuda_archs),sm_$(a)))"'

.PHONY: cuda
ifneq ($(HAVE_CUDA),)
cuda: $(CUDA_LIB) ## the CUDA plug-in (CUDA_ARCHS="75 90", or all)
else
cuda:
	@echo "no CUDA plug-in: $(strip $(NO_CUDA))"
endif

# once more when the list of architectures is another
$(CUDA_IMAGES)/archs: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_ARCHS)' | cmp -s - $@ || echo '$(CUDA_ARCHS)' >$@
.PHONY: FORCE
FORCE:

$(CUDA_IMAGES)/%.fatbin: runtime/cuda/kernels/%.cu $(CUDA_IMAGES)/archs
	@mkdir -p $(@D)
	$(call SAY,NVC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MF $(@:.fatbin=.d) -MT $@ -fatbin $< -o $@ \
	    2>$(@:.fatbin=.ptxas) || { cat $(@:.fatbin=.ptxas) >&2; rm -f $@; exit 1; }

.PHONY: cuda-ptxas
ifneq ($(HAVE_CUDA),)
cuda-ptxas: $(CUDA_FATBIN) ## registers, memory and spills of kernels; fails on spills
	$(Q)NVCC="$(NVCC)" sh tests/cuda/ptxas.sh $(CUDA_IMAGES) >$(CUDA_IMAGES)/PTXAS.md
	$(Q)sed -n '/^## Families/,/^| all/p' $(CUDA_IMAGES)/PTXAS.md
else
cuda-ptxas:
	@echo "SKIP 1: ptxas: $(strip $(NO_CUDA))"
endif

$(BUILD)/pic/runtime/cuda/images.o: $(CUDA_FATBIN) $(CUDA_IMAGES)/archs
$(BUILD)/pic/runtime/cuda/plugin.o $(BUILD)/pic/runtime/cuda/module.o: \
    $(CUDA_IMAGES)/archs

$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,PIC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -fPIC -isystem $(CUDA_HOME)/include $(CUDA_DEFS) \
	    -MMD -MP -c $< -o $@

$(CUDA_BASE): $(CUDA_BASE_SRC:%.c=$(BUILD)/pic/%.o)
	@rm -f $@
	$(Q)ar rcs $@ $^

# One symbol goes out, and none but the C library's (and a sanitizer's) comes in.
$(CUDA_LIB): $(CUDA_OBJ) $(CUDA_BASE) runtime/cuda/exports.map
	$(call SAY,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,--version-script=runtime/cuda/exports.map \
	    $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,--gc-sections -Wl,--exclude-libs,ALL \
	    $(CUDA_OBJ) $(CUDA_BASE) -o $@ -ldl -lm

# ---- tests: programs that open the plug-in as the server does

# test_emu* are about the stand-ins, see tests/cuda/cuda.mk
CUDA_UNIT_SRC := $(sort $(filter-out tests/cuda/test_emu%,\
                   $(wildcard tests/cuda/test_*.c)))
CUDA_UNIT_BIN := $(CUDA_UNIT_SRC:%.c=$(BUILD)/%)
CUDA_SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/cuda/support/*.c)))
# where the stand-ins of libcuda.so.1 and its company lie; empty: on a real card
CUDA_EMU_DIR ?= $(BUILD)/cuda-emu
CUDA_TEST_ENV = QUERN_PLUGIN_DIR=$(abspath $(BUILD)) $(if $(CUDA_EMU_DIR),\
    LD_LIBRARY_PATH=$(abspath $(CUDA_EMU_DIR))$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH})

$(BUILD)/tests/cuda/test_%: $(BUILD)/tests/cuda/test_%.o $(CUDA_SUPPORT_OBJ) \
        $(SUPPORT_LIB) $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka -lmicrohttpd $(LIBS)

# 77: there was nothing to test on, which the emulation always has
.PHONY: cuda-unit
ifneq ($(HAVE_CUDA),)
cuda-unit: cuda $(if $(CUDA_EMU_DIR),cuda-emu) $(CUDA_UNIT_BIN) ## tests of the plug-in
	@set -e; for t in $(CUDA_UNIT_BIN); do echo "== $$t"; r=0; \
	    $(CUDA_TEST_ENV) $$t || r=$$?; \
	    [ $$r = 0 ] || { [ $$r = 77 ] && [ -z "$(CUDA_EMU_DIR)" ]; } || exit $$r; done
endif
# kept: every test links them
.SECONDARY: $(CUDA_SUPPORT_OBJ) $(SUPPORT_OBJ) $(CUDA_UNIT_SRC:%.c=$(BUILD)/%.o)
