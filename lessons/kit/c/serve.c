/* A server for more than one client: it listens, and takes the requests one by one. See kit.h. */
#include <errno.h>

#include "internal.h"

struct our_control our_listener(struct our_options options)
{
    struct our_control listener = { .options = options };

    our_listen(&listener);
    return listener;
}

struct our_control our_next_request(const struct our_control *listener)
{
    struct our_control conn = { .options = listener->options };

    our_await_request(listener, &conn);
    return conn;
}

void our_reject(const struct our_control *conn, const void *private_data, size_t len)
{
    errno = 0;
    check(rdma_reject(conn->cm_id, private_data, len), "rdma_reject", conn);
}
