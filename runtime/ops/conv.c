/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ops/tables.h"

const qn_op_table qn_ops_conv = { 0 };
