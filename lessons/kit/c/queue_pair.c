/* Protection domain, completion queue and queue pair. See kit.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

struct ibv_context *our_device(const struct our_control *conn)
{
    if (conn->cm_id->verbs == NULL) {
        fprintf(stderr, "%s: the id has no device before RDMA_CM_EVENT_ADDR_RESOLVED is fetched\n",
                conn->options.message);
        exit(EXIT_FAILURE);
    }
    return conn->cm_id->verbs;
}

void our_setup_qp(struct our_control *conn)
{
    our_setup_cq(conn, our_device(conn), 1);
    our_create_qp_on(conn, conn, IBV_QPT_RC, NULL);
}

void our_setup_cq(struct our_control *conn, struct ibv_context *verbs, int queue_pairs)
{
    const struct our_options *options = &conn->options;

    errno = 0;
    conn->protection_domain = created(ibv_alloc_pd(verbs), "ibv_alloc_pd", conn);
    if (options->with_channel)
        conn->completion_channel =
            created(ibv_create_comp_channel(verbs), "ibv_create_comp_channel", conn);
    /* room for all that can complete at a time */
    int cqe = queue_pairs * (options->send_queue_depth + options->recv_queue_depth);
    conn->completion_queue = created(ibv_create_cq(verbs, cqe, NULL, conn->completion_channel, 0),
                                     "ibv_create_cq", conn);
}

struct ibv_qp_init_attr our_init_attr(const struct our_control *base, const struct our_options *options,
                                      enum ibv_qp_type type, struct ibv_srq *srq)
{
    return (struct ibv_qp_init_attr){
        .send_cq = base->completion_queue,
        .recv_cq = base->completion_queue,
        .srq = srq,
        .cap.max_send_wr = options->send_queue_depth,
        .cap.max_recv_wr = options->recv_queue_depth,
        .cap.max_send_sge = options->max_send_sge,
        .cap.max_recv_sge = options->max_recv_sge,
        .cap.max_inline_data = options->max_inline_data,
        .qp_type = type,
        .sq_sig_all = 0, /* only what asks for it gives a completion */
    };
}

void our_create_qp_on(const struct our_control *base, struct our_control *conn, enum ibv_qp_type type,
                      struct ibv_srq *srq)
{
    struct ibv_qp_init_attr init_attr = our_init_attr(base, &conn->options, type, srq);

    errno = 0;
    check(rdma_create_qp(conn->cm_id, base->protection_domain, &init_attr), "rdma_create_qp", conn);
    conn->queue_pair = conn->cm_id->qp;
}
