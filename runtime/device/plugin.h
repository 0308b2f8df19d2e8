/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and opening accelerators: the driver is looked for first, then the
 * plug-in, then devices. A machine without a driver pays one failed look-up.
 */
#ifndef QN_DEVICE_PLUGIN_H
#define QN_DEVICE_PLUGIN_H

#include "runtime/device/accel.h"

/* What one process has opened. Zero is none. */
typedef struct qn_accels {
    uint32_t n;
    qn_accel *accel[QN_ACCEL_MAX]; /* in the order asked for */
    const qn_plugin *plugin;       /* NULL: none */
    void *library;                 /* private */
} qn_accels;

/**
 * Open CUDA devices.
 *
 *   ordinals  [n] the driver's numbers, in the order wanted, none twice
 *   n         0: every device there is, at most QN_ACCEL_MAX
 *   log       gets one line for each device opened (INFO), or one that says why
 *             there is none (WARN if n > 0, else INFO); kept by the devices, so
 *             it must outlive them
 *   out       close it with qn_accels_close(), also when this fails
 *
 * All or none. The plug-in is libquern-cuda.so in $QUERN_PLUGIN_DIR if that is
 * set, else beside the executable, else in ../lib/quern from there.
 *
 * Blocking: 0.1 ms without a driver, up to some seconds with one. One thread.
 *
 * Errors: QN_NOT_FOUND    no driver, plug-in, library or device: err says which
 *         QN_UNSUPPORTED  a driver, card or plug-in that does not fit
 *         QN_INVALID      n, or an ordinal given twice
 *         QN_DEVICE, QN_NO_MEMORY  it is there and does not start
 */
QN_NODISCARD qn_status qn_accels_open(const int *ordinals, uint32_t n,
                                      const qn_log *log, qn_accels *out,
                                      qn_error *err);
/* Everything made on the devices must be gone. Clears *accels. */
void qn_accels_close(qn_accels *accels);

#endif
