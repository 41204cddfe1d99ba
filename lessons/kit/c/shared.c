/* Several connections with one receive queue, and one completion queue. See kit.h. */
#include <errno.h>
#include <poll.h>

#include "internal.h"

struct our_control our_shared_server(struct our_options options)
{
    struct our_control base = { .options = options };

    our_listen(&base, RDMA_PS_TCP);
    our_await_request(&base, &base);
    our_setup_cq(&base, our_device(&base), 1);
    return base;
}

struct ibv_srq *our_create_srq(const struct our_control *base, uint32_t max_wr)
{
    struct ibv_srq_init_attr init_attr = {
        .attr.max_wr = max_wr,
        .attr.max_sge = base->options.max_recv_sge,
    };

    errno = 0;
    return created(ibv_create_srq(base->protection_domain, &init_attr), "ibv_create_srq", base);
}

void our_destroy_srq(const struct our_control *base, struct ibv_srq *srq)
{
    errno = 0;
    check(ibv_destroy_srq(srq), "ibv_destroy_srq", base);
}

struct our_control our_accept_next(struct our_control *base, struct ibv_srq *srq)
{
    struct our_control conn = { .options = base->options };

    if (base->cm_id == NULL)
        our_await_request(base, base);
    conn.cm_id = base->cm_id;
    base->cm_id = NULL;
    our_create_qp_on(base, &conn, IBV_QPT_RC, srq);
    our_accept(&conn, NULL, 0);
    return conn;
}

void our_post_srq_recv(const struct our_control *base, struct ibv_srq *srq,
                       struct ibv_recv_wr *work_request)
{
    struct ibv_recv_wr *bad_wr;

    errno = 0;
    check(ibv_post_srq_recv(srq, work_request, &bad_wr), "ibv_post_srq_recv", base);
}

int our_poll_async_event(const struct our_control *base, enum ibv_event_type *event)
{
    struct ibv_context *verbs = base->completion_queue->context;
    struct pollfd fd = { .fd = verbs->async_fd, .events = POLLIN };
    struct ibv_async_event got;

    if (poll(&fd, 1, 0) <= 0)
        return 0;
    errno = 0;
    check(ibv_get_async_event(verbs, &got), "ibv_get_async_event", base);
    *event = got.event_type;
    ibv_ack_async_event(&got);
    return 1;
}
