/* A queue pair without the connection manager. See kit.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

/* A TCP connection to the server. */
static int our_tcp_client(const char *port, const struct our_options *options)
{
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(strtoul(port, NULL, 10)) };

    inet_pton(AF_INET, OUR_ADDRESS, &server.sin_addr);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    if (stream < 0 || connect(stream, (struct sockaddr *)&server, sizeof(server)) != 0) {
        fprintf(stderr, "%s: TCP port %s: %s\n", options->message, port, strerror(errno));
        exit(EXIT_FAILURE);
    }
    return stream;
}

/* Tells the peer so many bytes, and waits for as many of its own. */
static void our_exchange(const struct our_raw *raw, const void *own, void *its, size_t len)
{
    /* a peer that has gone is an error, and not SIGPIPE */
    ssize_t ret = send(raw->stream, own, len, MSG_NOSIGNAL);

    if (ret >= 0)
        ret = recv(raw->stream, its, len, MSG_WAITALL);
    if (ret != (ssize_t)len) {
        fprintf(stderr, "%s: TCP: %s\n", raw->conn.options.message,
                ret < 0 ? strerror(errno) : "the peer has closed the connection");
        exit(EXIT_FAILURE);
    }
}

/* Tells the peer its own place, and learns that of the peer. */
static void our_exchange_places(struct our_raw *raw)
{
    struct our_place own = raw->own, its;
    _Static_assert(sizeof(own) == 24, "what is sent has no padding");

    /* numbers in network byte order */
    own.qp_num = htonl(own.qp_num);
    own.psn = htonl(own.psn);
    our_exchange(raw, &own, &its, sizeof(own));
    its.qp_num = ntohl(its.qp_num);
    its.psn = ntohl(its.psn);
    raw->peer = its;
}

/* Opens the first device. */
static struct ibv_context *our_open_device(const struct our_options *options)
{
    struct ibv_device **list;
    struct ibv_context *context;

    errno = 0;
    list = ibv_get_device_list(NULL);
    if (list == NULL || list[0] == NULL)
        failed("ibv_get_device_list", ENODEV, options);
    context = ibv_open_device(list[0]);
    if (context == NULL)
        failed("ibv_open_device", ENODEV, options);
    ibv_free_device_list(list);
    return context;
}

struct our_raw our_raw_client(struct our_options options, const char *port)
{
    struct our_raw raw = { .conn.options = options, .stream = our_tcp_client(port, &options) };
    struct our_control *conn = &raw.conn;

    raw.context = our_open_device(&options);
    errno = 0;
    check(ibv_query_gid(raw.context, OUR_IB_PORT, OUR_GID_INDEX, &raw.own.gid), "ibv_query_gid", conn);
    our_setup_cq(conn, raw.context, 1);

    struct ibv_qp_init_attr init_attr = our_init_attr(conn, &options, IBV_QPT_RC, NULL);
    conn->queue_pair =
        created(ibv_create_qp(conn->protection_domain, &init_attr), "ibv_create_qp", conn);
    raw.own.qp_num = conn->queue_pair->qp_num;
    /* any 24 bits, so that packets of an earlier connection are not taken for those of this one */
    raw.own.psn = getpid() * 7919u & 0xffffff;
    our_exchange_places(&raw);
    return raw;
}

void our_sync(const struct our_raw *raw)
{
    char its;

    our_exchange(raw, "Q", &its, 1);
}

void our_unsetup_raw(struct our_raw *raw)
{
    errno = 0;
    check(ibv_destroy_qp(raw->conn.queue_pair), "ibv_destroy_qp", &raw->conn);
    raw->conn.queue_pair = NULL;
    our_unsetup(&raw->conn);
    check(ibv_close_device(raw->context), "ibv_close_device", &raw->conn);
    close(raw->stream);
}
