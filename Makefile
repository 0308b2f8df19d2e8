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
LIB_SRC := $(sort $(shell find runtime models -name '*.c' -not -path '*/cuda/*'))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
LIB := $(BUILD)/libquern.a

# every tests/test_*.c is a program of its own; tests/support/ is shared
TEST_SRC := $(sort $(wildcard tests/test_*.c))
TEST_BIN := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/support/*.c)))

.PHONY: all unit clean
all: $(LIB)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# loops over tensors: let the compiler vectorise them
$(BUILD)/runtime/cpu/%.o: OPT := $(OPT) -O3

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(SUPPORT_OBJ) $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ -o $@ -lcmocka $(LIBS)

unit: $(TEST_BIN)
	@set -e; for t in $(TEST_BIN); do echo "== $$t"; $$t; done

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
