/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a plan that kernels on accelerators read. */
#include "runtime/plan/build.h"

qn_status qn_plan_upload(qn_plan *plan, char *const *consts, qn_error *err)
{
    for (uint32_t n = 1; n < plan->n_spaces; n++) {
        qn_accel_slot *slot = plan->session->accels[n - 1];
        size_t bytes = plan->const_bytes[n];
        void *data;
        plan->const_bytes[n] = 0; /* until it is charged */
        if (!bytes)
            continue;
        qn_status st = qn_ledger_charge(slot->ledger, QN_MEM_PLAN, bytes, err);
        if (st != QN_OK)
            return qn_error_prefix(err, "%s", slot->accel->label);
        st = slot->accel->ops->alloc(slot->accel, bytes, &data, err);
        if (st != QN_OK) {
            qn_ledger_give_back(slot->ledger, QN_MEM_PLAN, bytes);
            return st;
        }
        plan->consts[n] = data;
        plan->const_bytes[n] = bytes;
        st = slot->accel->ops->upload(slot->accel, data, consts[n], bytes, err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

void qn_plan_drop_uploads(qn_plan *plan)
{
    for (uint32_t n = 1; n < plan->n_spaces; n++) {
        qn_accel_slot *slot = plan->session->accels[n - 1];
        if (!plan->consts[n])
            continue;
        slot->accel->ops->release(slot->accel, plan->consts[n]);
        qn_ledger_give_back(slot->ledger, QN_MEM_PLAN, plan->const_bytes[n]);
        plan->consts[n] = NULL;
    }
}
