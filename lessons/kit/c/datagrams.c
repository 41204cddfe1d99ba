/* Unreliable datagrams, without a connection. See kit.h. */
#include <errno.h>

#include "internal.h"

struct our_control our_datagram_server(struct our_options options)
{
    struct our_control conn = { .options = options };

    our_listen(&conn, RDMA_PS_UDP);
    our_await_request(&conn, &conn);
    our_setup_cq(&conn, our_device(&conn), 1);
    /* the library brings such a queue pair to RTS at once: it has no peer to know */
    our_create_qp_on(&conn, &conn, IBV_QPT_UD, NULL);
    return conn;
}

void our_destroy_ah(const struct our_control *conn, struct ibv_ah *ah)
{
    errno = 0;
    check(ibv_destroy_ah(ah), "ibv_destroy_ah", conn);
}
