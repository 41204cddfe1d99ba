/* See kit.h. */
#include "kit.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum {
    BACKLOG = 8,     /* requests that may wait for a server */
    LOOK = 10000000, /* nanoseconds between two looks at the connection */
    /* nanoseconds that a completion may come after the event of a disconnection: the order of the
     * two is not defined */
    LATER = 200000000,
    POLLS = 100, /* polls in that time at least: on a busy machine there may be few */
};

void failed(const char *verb, int ret, const struct our_options *options)
{
    int reason = errno != 0 ? errno : ret;

    fprintf(stderr, "%s: %s returned %d, errno %d: %s\n", options->message, verb, ret, errno,
            strerror(reason));
    exit(EXIT_FAILURE);
}

struct addrinfo *our_address(int flags, const struct our_options *options)
{
    struct addrinfo hints = { .ai_flags = flags, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    int ret = getaddrinfo(OUR_ADDRESS, OUR_PORT, &hints, &found);

    if (ret != 0) {
        fprintf(stderr, "%s: getaddrinfo " OUR_ADDRESS ": %s\n", options->message, gai_strerror(ret));
        exit(EXIT_FAILURE);
    }
    return found;
}

struct rdma_cm_id *our_create_id(const struct our_control *conn, enum rdma_port_space ps)
{
    struct rdma_cm_id *id;

    errno = 0;
    check(rdma_create_id(conn->event_channel, &id, NULL, ps), "rdma_create_id", conn);
    return id;
}

struct our_control our_client(struct our_options options)
{
    struct our_control conn = { .options = options };

    conn.cm_id = our_create_id(&conn, RDMA_PS_TCP);
    /* without an event channel both wait */
    our_begin_resolve_addr(&conn);
    our_begin_resolve_route(&conn);
    our_setup_qp(&conn);
    return conn;
}

void our_listen(struct our_control *conn, enum rdma_port_space ps)
{
    struct addrinfo *own = our_address(AI_PASSIVE, &conn->options);

    conn->listen_id = our_create_id(conn, ps);
    errno = 0;
    check(rdma_bind_addr(conn->listen_id, own->ai_addr), "rdma_bind_addr", conn);
    check(rdma_listen(conn->listen_id, BACKLOG), "rdma_listen", conn);
    freeaddrinfo(own);
}

struct our_control our_server(struct our_options options)
{
    struct our_control conn = { .options = options };

    our_listen(&conn, RDMA_PS_TCP);
    our_await_request(&conn, &conn);
    our_setup_qp(&conn);
    return conn;
}

/* What every connection of the lessons is like. */
static struct rdma_conn_param our_setup_conn_params(const void *private_data, size_t len)
{
    return (struct rdma_conn_param){
        .private_data = private_data,
        .private_data_len = len,
        .responder_resources = 2,
        .initiator_depth = 2,
        .retry_count = 5,
        /* a message that finds no receive is sent again so often, and then fails */
        .rnr_retry_count = 5,
    };
}

void our_connect(struct our_control *conn, const void *private_data, size_t len)
{
    struct rdma_conn_param params = our_setup_conn_params(private_data, len);

    errno = 0;
    check(rdma_connect(conn->cm_id, &params), "rdma_connect", conn);
    /* a synchronous call leaves its event with the id until the next call */
    conn->peer_data_len = our_event_data(conn->cm_id->event, conn->peer_data);
}

void our_accept(struct our_control *conn, const void *private_data, size_t len)
{
    struct rdma_conn_param params = our_setup_conn_params(private_data, len);

    errno = 0;
    check(rdma_accept(conn->cm_id, &params), "rdma_accept", conn);
}

void our_disconnect(struct our_control *conn)
{
    errno = 0;
    int ret = rdma_disconnect(conn->cm_id);

    if (ret != 0 && errno != EINVAL)
        failed("rdma_disconnect", ret, &conn->options);
}

void our_unsetup(struct our_control *conn)
{
    struct rdma_cm_id *ids[] = { conn->cm_id, conn->listen_id };

    errno = 0;
    if (conn->queue_pair != NULL)
        rdma_destroy_qp(conn->cm_id);
    if (conn->completion_queue != NULL)
        check(ibv_destroy_cq(conn->completion_queue), "ibv_destroy_cq", conn);
    if (conn->completion_channel != NULL)
        check(ibv_destroy_comp_channel(conn->completion_channel), "ibv_destroy_comp_channel", conn);
    if (conn->protection_domain != NULL)
        check(ibv_dealloc_pd(conn->protection_domain), "ibv_dealloc_pd", conn);
    for (int i = 0; i < 2; i++)
        if (ids[i] != NULL)
            check(rdma_destroy_id(ids[i]), "rdma_destroy_id", conn);
    if (conn->event_channel != NULL)
        rdma_destroy_event_channel(conn->event_channel);
}

void *our_buffer(const struct our_control *conn, size_t len)
{
    return created(calloc(len > 0 ? len : 1, 1), "calloc", conn);
}

struct ibv_mr *our_reg_mr(const struct our_control *conn, void *buffer, size_t len, int access)
{
    errno = 0;
    return created(ibv_reg_mr(conn->protection_domain, buffer, len, access), "ibv_reg_mr", conn);
}

void our_dereg_mr(const struct our_control *conn, struct ibv_mr *mr)
{
    errno = 0;
    check(ibv_dereg_mr(mr), "ibv_dereg_mr", conn);
}

struct ibv_sge our_setup_sge(const struct ibv_mr *mr)
{
    return (struct ibv_sge){ .addr = (uintptr_t)mr->addr, .length = mr->length, .lkey = mr->lkey };
}

/* So many bytes as a number, the most significant first. */
static uint64_t number(const unsigned char *bytes, int count)
{
    uint64_t number = 0;

    for (int i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

void our_remote_data(const struct ibv_mr *mr, unsigned char data[OUR_REMOTE_LEN])
{
    uint64_t address = (uintptr_t)mr->addr;

    for (int i = 0; i < 8; i++)
        data[i] = address >> (56 - 8 * i);
    for (int i = 0; i < 4; i++)
        data[8 + i] = mr->rkey >> (24 - 8 * i);
}

struct our_remote our_remote(const struct our_control *conn)
{
    return (struct our_remote){ .address = number(conn->peer_data, 8),
                                .rkey = number(conn->peer_data + 8, 4) };
}

struct ibv_send_wr our_setup_send_wr(struct ibv_sge *sges, int count)
{
    return (struct ibv_send_wr){ .sg_list = sges,
                                 .num_sge = count,
                                 .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED };
}

struct ibv_recv_wr our_setup_recv_wr(struct ibv_sge *sges, int count)
{
    return (struct ibv_recv_wr){ .sg_list = sges, .num_sge = count };
}

void our_post_send(const struct our_control *conn, struct ibv_send_wr *work_request)
{
    struct ibv_send_wr *bad_wr;

    errno = 0;
    check(ibv_post_send(conn->queue_pair, work_request, &bad_wr), "ibv_post_send", conn);
}

void our_post_recv(const struct our_control *conn, struct ibv_recv_wr *work_request)
{
    struct ibv_recv_wr *bad_wr;

    errno = 0;
    check(ibv_post_recv(conn->queue_pair, work_request, &bad_wr), "ibv_post_recv", conn);
}

int our_poll_cq(const struct our_control *conn, struct ibv_wc *work_completion)
{
    int ret = ibv_poll_cq(conn->completion_queue, 1, work_completion);

    if (ret < 0)
        failed("ibv_poll_cq", ret, &conn->options);
    if (ret > 0 && work_completion->status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s: ibv_poll_cq returned status %d %s\n", conn->options.message,
                work_completion->status, ibv_wc_status_str(work_completion->status));
        exit(EXIT_FAILURE);
    }
    return ret;
}

static long long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

struct ibv_wc our_await_completion(const struct our_control *conn)
{
    /* without an id nobody tells: poll(2) passes over the descriptor -1 */
    struct pollfd end = { .fd = conn->cm_id != NULL ? our_cm_fd(conn) : -1, .events = POLLIN };
    struct ibv_wc work_completion;
    long long looked = now();
    long long over_since = 0;
    int polls = 0;

    while (our_poll_cq(conn, &work_completion) == 0) {
        polls += over_since != 0;
        if (polls >= POLLS && now() - over_since >= LATER) {
            fprintf(stderr, "%s: the peer has hung up\n", conn->options.message);
            exit(EXIT_FAILURE);
        }
        if (over_since == 0 && now() - looked >= LOOK) {
            looked = now();
            /* the event after RDMA_CM_EVENT_ESTABLISHED is that of the disconnection */
            if (poll(&end, 1, 0) > 0)
                over_since = looked;
        }
        sched_yield();
    }
    return work_completion;
}

void our_req_notify_cq(const struct our_control *conn, int solicited_only)
{
    errno = 0;
    check(ibv_req_notify_cq(conn->completion_queue, solicited_only), "ibv_req_notify_cq", conn);
}

void our_get_cq_event(const struct our_control *conn)
{
    struct ibv_cq *queue;
    void *context;

    errno = 0;
    check(ibv_get_cq_event(conn->completion_channel, &queue, &context), "ibv_get_cq_event", conn);
}

void our_ack_cq_events(const struct our_control *conn, unsigned int events)
{
    ibv_ack_cq_events(conn->completion_queue, events);
}
