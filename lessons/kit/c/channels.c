/* Connections with an event channel of their own, and both channels as descriptors for poll(2). See kit.h. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include "internal.h"

enum { TIMEOUT = 2000 }; /* of address and route, in milliseconds */

struct our_control our_client_id(struct our_options options)
{
    struct our_control conn = { .options = options };

    our_create_event_channel(&conn);
    conn.cm_id = our_create_id(&conn, RDMA_PS_TCP);
    return conn;
}

void our_begin_resolve_addr(const struct our_control *conn)
{
    struct addrinfo *server = our_address(0, &conn->options);

    errno = 0;
    check(rdma_resolve_addr(conn->cm_id, NULL, server->ai_addr, TIMEOUT), "rdma_resolve_addr", conn);
    freeaddrinfo(server);
}

void our_begin_resolve_route(const struct our_control *conn)
{
    our_device(conn);
    errno = 0;
    check(rdma_resolve_route(conn->cm_id, TIMEOUT), "rdma_resolve_route", conn);
}

struct our_control our_event_client(struct our_options options)
{
    struct our_control conn = our_client_id(options);

    our_begin_resolve_addr(&conn);
    our_await_cm_event(&conn, RDMA_CM_EVENT_ADDR_RESOLVED);
    our_begin_resolve_route(&conn);
    our_await_cm_event(&conn, RDMA_CM_EVENT_ROUTE_RESOLVED);
    our_setup_qp(&conn);
    return conn;
}

struct our_control our_event_server(struct our_options options)
{
    struct our_control conn = { .options = options };

    our_create_event_channel(&conn);
    our_listen(&conn, RDMA_PS_TCP);
    our_await_request(&conn, &conn);
    our_setup_qp(&conn);
    return conn;
}

int our_cm_fd(const struct our_control *conn)
{
    return conn->cm_id->channel->fd;
}

int our_cq_fd(const struct our_control *conn)
{
    return conn->completion_channel->fd;
}

void our_set_nonblocking(const struct our_control *conn, int fd)
{
    errno = 0;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        failed("fcntl", -1, &conn->options);
}

void our_poll_fds(const struct our_control *conn, struct pollfd *fds, int count, int timeout)
{
    errno = 0;
    int ret = poll(fds, count, timeout);

    if (ret < 0)
        failed("poll", ret, &conn->options);
}

int our_try_get_cq_event(const struct our_control *conn)
{
    struct ibv_cq *queue;
    void *context;

    errno = 0;
    int ret = ibv_get_cq_event(conn->completion_channel, &queue, &context);
    if (ret != 0 && errno == EAGAIN)
        return 0;
    check(ret, "ibv_get_cq_event", conn);
    return 1;
}
