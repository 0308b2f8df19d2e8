# Stand-ins for CUDA's libraries, see tests/cuda/README.md: where nvcc and
# cuda.h are, which runtime/cuda/cuda.mk has looked for.
#
#   make cuda-emu     build/cuda-emu/: libcuda.so.1 and the host's builds of our
#                     kernels, libquern-kernels-emu.so
#   make cuda-check   all of tests/cuda, which is these four:
#   make cuda-stand-ins   the stand-ins do as their manuals say
#   make cuda-unit        the plug-in, operators, schedules: runtime/cuda/cuda.mk
#   make cuda-verify      the ONNX backend tests with --device cuda
#   make cuda-e2e         the server with them, and what its start costs

EMU := $(BUILD)/cuda-emu
EMU_SRC := $(addprefix tests/cuda/emu/,capture.c copy.c driver.c errors.c \
    event.c faults.c fiber.c fiber_launch.c fiber_switch.c graph.c inject.c \
    launch.c log.c memory.c memory_api.c stream.c symbols.c virtual.c)
EMU_OBJ := $(EMU_SRC:%.c=$(BUILD)/emu/%.o)
EMU_DRIVER := $(EMU)/libcuda.so.1
EMU_KERNELS := $(EMU)/libquern-kernels-emu.so
EMU_TEST_KERNELS := $(EMU)/libtestkernels-emu.so
EMU_TEST_BIN := $(addprefix $(BUILD)/tests/cuda/,test_emu test_emu_streams test_emu_memory)
CUDA_TEST_BIN := $(EMU_TEST_BIN)

EMU_CXX = $(if $(findstring clang,$(CC)),clang++,g++)
EMU_CXXFLAGS = -std=c++17 -x c++ -DQN_CUDA_EMU -I. -Itests/cuda/emu $(OPT) -g -fPIC \
    -pthread -fvisibility=hidden -fno-math-errno -fno-trapping-math -ffp-contract=off \
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wundef -Wformat=2 \
    -Wno-unknown-pragmas -Wno-sign-conversion -Wno-unused-function $(WERROR) $(SAN) $(CXXFLAGS)

.PHONY: cuda-emu cuda-check cuda-stand-ins cuda-verify cuda-e2e
ifneq ($(HAVE_CUDA),)
cuda-emu: $(EMU_DRIVER) $(EMU_KERNELS)
# one after the other: some measure, and their lines are counted
cuda-check: $(QUERN) cuda cuda-emu ## everything in tests/cuda, on emulated CUDA
	$(MAKE) --no-print-directory cuda-stand-ins
	$(MAKE) --no-print-directory cuda-unit
	$(MAKE) --no-print-directory cuda-verify
	$(MAKE) --no-print-directory cuda-e2e
cuda-stand-ins: cuda-emu $(EMU_TEST_KERNELS) ## tests of what stands in for CUDA
	@set -e; for t in $(CUDA_TEST_BIN); do echo "== $$t"; \
	    LD_LIBRARY_PATH=$(abspath $(EMU)) $$t; done
cuda-verify: $(QUERN) cuda $(if $(CUDA_EMU_DIR),cuda-emu) ## quern verify --device cuda
	@$(CUDA_TEST_ENV) sh tests/cuda/verify.sh $(QUERN) $(TESTDATA)
cuda-e2e: $(QUERN) cuda cuda-emu ## the server on emulated cards
	python3 tests/cuda/serve.py $(QUERN)
	sh tests/cuda/startup.sh $(QUERN)
else
cuda-emu cuda-check cuda-stand-ins cuda-unit cuda-verify cuda-e2e:
	@echo "SKIP 1: emulated CUDA: $(strip $(NO_CUDA))"
endif

# Functions of our own stay inside, so that stand-ins find the driver's alone.
$(EMU_DRIVER): $(EMU_OBJ)
	@mkdir -p $(@D)
	$(call SAY,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS_ALL) -Wl,-soname,libcuda.so.1 $^ -o $@ -ldl -lm

$(BUILD)/emu/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,EMU,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -fPIC -isystem $(CUDA_HOME)/include -MMD -MP -c $< -o $@

$(BUILD)/emu/%.o: %.cu
	@mkdir -p $(@D)
	$(call SAY,EMU,$<)
	$(Q)$(EMU_CXX) $(EMU_CXXFLAGS) -MMD -MP -c $< -o $@

$(EMU_KERNELS): $(CUDA_KERNELS:%.cu=$(BUILD)/emu/%.o) $(EMU_DRIVER)
	$(call SAY,LD,$@)
	$(Q)$(EMU_CXX) -shared $(LDFLAGS_ALL) -Wl,-rpath,'$$ORIGIN' $^ -o $@ -lm

$(EMU_TEST_KERNELS): $(BUILD)/emu/tests/cuda/emu/testkernels.o $(EMU_DRIVER)
	$(call SAY,LD,$@)
	$(Q)$(EMU_CXX) -shared $(LDFLAGS_ALL) -Wl,-rpath,'$$ORIGIN' $^ -o $@ -lm

$(BUILD)/tests/cuda/%.o: tests/cuda/%.c
	@mkdir -p $(@D)
	$(call SAY,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -isystem $(CUDA_HOME)/include \
	    -DQN_EMU_DIR='"$(EMU)"' -MMD -MP -c $< -o $@

$(EMU_TEST_BIN): $(BUILD)/tests/cuda/%: $(BUILD)/tests/cuda/%.o $(EMU_DRIVER) \
        $(EMU_TEST_KERNELS)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $< $(EMU_DRIVER) -Wl,-rpath,'$$ORIGIN/../../cuda-emu' \
	    -o $@ -lcmocka -ldl -lm

include tests/cuda/emu/libs.mk
# by then it has all of them
cuda-stand-ins: $(CUDA_TEST_BIN)

# ---- for a machine with a card: tests/cuda/gpu-check.sh

CARD := $(BUILD)/tests/cuda/card/card
CARD_POISON := $(BUILD)/tests/cuda/card/libpoison.so
$(CARD): $(CARD).o $(BUILD)/tests/cuda/card/networks.o $(SUPPORT_LIB) $(SERVER_LIB) $(LIB)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka -lmicrohttpd $(LIBS)
$(CARD_POISON): tests/cuda/card/poison.c
	@mkdir -p $(@D)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(CFLAGS_ALL) -fPIC -shared -isystem $(CUDA_HOME)/include $< -o $@ -ldl

.PHONY: gpu-check-build
# all that it runs, so that it need not build
gpu-check-build: $(QUERN) cuda $(CUDA_UNIT_BIN) $(CARD) $(CARD_POISON)
