/* A server for more than one client: it listens, and takes the requests one by one. See kit.h. */
#include <errno.h>

#include "internal.h"

struct our_control our_listener(struct our_options options)
{
    struct our_control listener = { .options = options };

    our_listen(&listener, RDMA_PS_TCP);
    return listener;
}

struct our_control our_listener_with_channel(struct our_options options)
{
    struct our_control listener = { .options = options };

    our_create_event_channel(&listener);
    our_listen(&listener, RDMA_PS_TCP);
    return listener;
}

struct our_control our_next_request(const struct our_control *listener)
{
    struct our_control conn = { .options = listener->options };

    our_await_request(listener, &conn);
    return conn;
}

struct our_control our_agent(const struct our_control *listener, const struct our_event *request)
{
    struct our_control conn = { .options = listener->options };

    our_take_request(&conn, request);
    return conn;
}

void our_reject(const struct our_control *conn, const void *private_data, size_t len)
{
    errno = 0;
    check(rdma_reject(conn->cm_id, private_data, len), "rdma_reject", conn);
}

void our_setup_shared_qp(struct our_control *listener, struct our_control *conn, int clients)
{
    if (listener->protection_domain == NULL)
        our_setup_cq(listener, our_device(conn), clients);
    our_create_qp_on(listener, conn, IBV_QPT_RC, NULL);
}
