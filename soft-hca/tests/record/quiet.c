/*
 * What a program does without telling the kernel, in one process without a peer:
 *
 *   quiet
 *
 * Receives of a shared queue, before there is a queue pair; then for a plain and for an extended completion
 * queue receives, polls in vain, and a poll that finds the receives, which were flushed.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "../hook/results.h"

enum { RECEIVES = 3, IN_VAIN = 1000 };

static struct ibv_recv_wr *receives(void)
{
    static struct ibv_recv_wr list[RECEIVES];
    for (int i = 0; i < RECEIVES; i++)
        list[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i + 1 < RECEIVES ? &list[i + 1] : NULL };
    return list;
}

static int poll(struct ibv_cq *cq)
{
    struct ibv_wc wc[16];
    return ibv_poll_cq(cq, 16, wc);
}

static int poll_extended(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr none = { 0 };
    int found = 0;
    if (ibv_start_poll(cq, &none))
        return 0;
    do
        found++;
    while (!ibv_next_poll(cq));
    ibv_end_poll(cq);
    return found;
}

static void queue_pair(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_cq_ex *extended)
{
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
    init.cap = (struct ibv_qp_cap){ 1, RECEIVES, 1, 1, 0 };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    check(qp != NULL, "ibv_create_qp");
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    check(!ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp");
    struct ibv_recv_wr *bad;
    check(!ibv_post_recv(qp, receives(), &bad), "ibv_post_recv");
    for (int i = 0; i < IN_VAIN; i++)
        check(!(extended ? poll_extended(extended) : poll(cq)), "a completion");
    attr.qp_state = IBV_QPS_ERR;
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
    check((extended ? poll_extended(extended) : poll(cq)) == RECEIVES, "completions");
    check(!ibv_destroy_qp(qp), "ibv_destroy_qp");
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "ibv_get_device_list");
    struct ibv_context *context = ibv_open_device(devices[0]);
    check(context != NULL, "ibv_open_device");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_cq_init_attr_ex asked = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &asked);
    check(cq && extended, "ibv_create_cq");
    struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    check(srq != NULL, "ibv_create_srq");
    struct ibv_recv_wr *bad;
    check(!ibv_post_srq_recv(srq, receives(), &bad), "ibv_post_srq_recv");
    queue_pair(pd, cq, NULL);
    queue_pair(pd, ibv_cq_ex_to_cq(extended), extended);
    return 0;
}
