/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/tables.h"

const qn_kernel_table qn_cpu_unary = { 0 };
