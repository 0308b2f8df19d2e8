# Quern. `make help` lists the targets.
# One makefile, not recursive; objects mirror the source tree under build/.

CC ?= gcc
BUILD ?= build
OPT ?= -O2
WERROR ?=
SAN ?=

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
       -Wmissing-prototypes -Wvla -Wundef -Wformat=2 -fno-common
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -I. $(OPT) -g -pthread -fvisibility=hidden \
             -fno-math-errno $(WARN) $(WERROR) $(SAN) $(CFLAGS)
LDFLAGS_ALL = -pthread $(SAN) $(LDFLAGS)
LIBS = -lm -ljansson -lcrypto

# libquern: what runs, and what a model is
LIB_SRC := $(sort $(shell find runtime models -name '*.c' -not -path '*/cuda/*' \
             -not -path '*/simd/*'))
# simd/ is compiled once per instruction set, see runtime/cpu/isa.h
SIMD_SRC := $(sort $(wildcard runtime/cpu/simd/*.c))
ISAS := base $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),avx2 avx512)
ISA_FLAGS_base =
ISA_FLAGS_avx2 = -mavx2 -mfma -mbmi2
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

.PHONY: all unit clean
all: $(LIB) $(SERVER_LIB)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(SERVER_LIB): $(SERVER_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# no floating-point exception is ever looked at: lets branches become selects
SIMD_FLAGS = -fno-trapping-math -ffp-contract=off
define SIMD_RULE
$(BUILD)/runtime/cpu/simd/%.$(1).o: runtime/cpu/simd/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_ALL) $$(SIMD_FLAGS) $$(ISA_FLAGS_$(1)) -DQN_ISA=$(1) \
	    -MMD -MP -c $$< -o $$@
endef
$(foreach isa,$(ISAS),$(eval $(call SIMD_RULE,$(isa))))

# loops over tensors: let the compiler vectorise them
$(BUILD)/runtime/cpu/%.o: OPT := $(OPT) -O3

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(SUPPORT_OBJ) $(SERVER_LIB) $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka $(LIBS)

unit: $(TEST_BIN)
	@set -e; for t in $(TEST_BIN); do echo "== $$t"; $$t; done

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
