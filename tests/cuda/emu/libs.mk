# Stand-ins of the libraries beside libcuda.so.1, by soname. They link to the
# emulated driver, so that there is one of it in the process.

EMU_LIBS_DIR := $(BUILD)/cuda-emu
EMU_LIBS_OBJ_DIR := $(BUILD)/cuda-emu/obj
# loops over whole networks; fused multiply-add as on a card
EMU_LIBS_CFLAGS = -O3 -ffp-contract=fast -fPIC -fvisibility=default \
    -isystem $(CUDA_HOME)/include

# $(call EMU_LIB,soname,sources without .c,prefix of what is exported)
define EMU_LIB
EMU_LIBS += $(EMU_LIBS_DIR)/$(1)
$(EMU_LIBS_DIR)/$(1): $(patsubst %,$(EMU_LIBS_OBJ_DIR)/tests/cuda/emu/%.o,$(2)) \
        $(EMU_LIBS_DIR)/libcuda.so.1
	$$(call SAY,LD,$$@)
	@echo '{ global: $(3)*; local: *; };' >$$@.map
	$$(Q)$$(CC) -shared $$(LDFLAGS_ALL) -Wl,-soname,$(1) \
	    -Wl,--version-script=$$@.map $$(filter %.o,$$^) -o $$@ \
	    -L$(EMU_LIBS_DIR) -l:libcuda.so.1 -lm
endef
$(eval $(call EMU_LIB,libcublasLt.so.13,blas blas_algo blas_desc blas_matmul \
    libmac,cublasLt))
$(eval $(call EMU_LIB,libcudnn.so.9,dnn dnn_conv dnn_desc dnn_engine \
    dnn_execute dnn_finalize dnn_graph libmac,cudnn))
$(eval $(call EMU_LIB,libnccl.so.2,nccl nccl_run,nccl))

$(EMU_LIBS_OBJ_DIR)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,PIC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(EMU_LIBS_CFLAGS) -MMD -MP -c $< -o $@

# found by name beside libcuda.so.1, like that
EMU_LIBS_TEST := $(addprefix $(BUILD)/tests/cuda/test_emu_,blas dnn nccl)
CUDA_TEST_BIN += $(EMU_LIBS_TEST)
$(EMU_LIBS_TEST): %: %.o $(EMU_LIBS)
	$(call SAY,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $< -Wl,-rpath,'$$ORIGIN/../../cuda-emu' -o $@ \
	    -lcmocka -ldl -lm

.PHONY: emu-libs
emu-libs: $(EMU_LIBS)
ifneq ($(HAVE_CUDA),)
cuda-emu: emu-libs
endif
