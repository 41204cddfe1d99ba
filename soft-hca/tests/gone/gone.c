/*
 * A fabric whose daemon is killed while a program waits:
 *
 *   gone ADDRESS
 *
 * Threads wait in ibv_get_cq_event, ibv_get_async_event, rdma_get_cm_event, rdma_connect, poll and epoll_wait. The
 * program prints "ready" when all of them do, and each call's result in the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../hook/results.h"

enum { CHANNELS = 1000, MEMORY = 4096, LIMIT_MS = 60000 };

static struct ibv_context *context;
static struct ibv_comp_channel *channel, *polled, *many[CHANNELS];
static struct rdma_event_channel *events;
static struct rdma_cm_id *id, *connecting;

static void *get_completion_event(void *unused)
{
    struct ibv_cq *cq;
    void *cq_context;
    (void)unused;
    print_status("ibv_get_cq_event", ibv_get_cq_event(channel, &cq, &cq_context));
    return NULL;
}

static void *get_async_event(void *unused)
{
    struct ibv_async_event event;
    (void)unused;
    check(!ibv_get_async_event(context, &event), "ibv_get_async_event");
    printf("event: %s\n", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
    return NULL;
}

static void *get_cm_event(void *unused)
{
    struct rdma_cm_event *event;
    (void)unused;
    print_status("rdma_get_cm_event", rdma_get_cm_event(events, &event));
    return NULL;
}

/* Nobody answers: the listener's program does not take its events. */
static void *connect_id(void *unused)
{
    struct rdma_conn_param parameters = { .retry_count = 7 };
    (void)unused;
    print_status("rdma_connect", rdma_connect(connecting, &parameters));
    return NULL;
}

static void *poll_channel(void *unused)
{
    struct pollfd waited = { .fd = polled->fd, .events = POLLIN };
    struct ibv_cq *cq;
    void *cq_context;
    (void)unused;
    printf("poll: %d\n", poll(&waited, 1, -1));
    print_status("ibv_get_cq_event after poll", ibv_get_cq_event(polled, &cq, &cq_context));
    return NULL;
}

/* Waits at as many channels as a server has that gives each connection one. */
static void *epoll_channels(void *unused)
{
    int set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    (void)unused;
    check(set >= 0, "epoll_create1");
    for (int i = 0; i < CHANNELS; i++)
        check(!epoll_ctl(set, EPOLL_CTL_ADD, many[i]->fd, &event), "epoll_ctl");
    printf("waits for %d\n", CHANNELS);
    printf("epoll_wait: %d\n", epoll_wait(set, &event, 1, -1));
    return NULL;
}

static struct sockaddr *address_of(const char *name, const char *port)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
    check(!getaddrinfo(name, port, &hints, &found), "getaddrinfo");
    return found->ai_addr;
}

static void prepare_connection(const char *address)
{
    struct rdma_cm_id *listener;
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
    check(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_bind_addr(listener, address_of(address, "7471")), "rdma_bind_addr");
    check(!rdma_listen(listener, 1), "rdma_listen");
    check(!rdma_create_id(NULL, &connecting, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_resolve_addr(connecting, NULL, address_of(address, "7471"), LIMIT_MS), "rdma_resolve_addr");
    check(!rdma_resolve_route(connecting, LIMIT_MS), "rdma_resolve_route");
    check(!rdma_create_qp(connecting, NULL, &init), "rdma_create_qp");
}

int main(int argc, char **argv)
{
    check(argc == 2, "usage");
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0] && (context = ibv_open_device(devices[0])), "ibv_open_device");
    channel = ibv_create_comp_channel(context);
    polled = ibv_create_comp_channel(context);
    for (int i = 0; i < CHANNELS; i++)
        check((many[i] = ibv_create_comp_channel(context)) != NULL, "ibv_create_comp_channel");
    static char memory[MEMORY];
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    check(channel && polled && pd && cq && mr && qp, "objects");
    struct rdma_event_channel *own = rdma_create_event_channel();
    events = rdma_create_event_channel();
    check(own && events && !rdma_create_id(own, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    prepare_connection(argv[1]);
    /* Its request is there: the next wait is for ever. */
    void *(*const waits[])(void *) = { connect_id, get_completion_event, get_async_event,
                                       poll_channel, epoll_channels };
    enum { WAITS = sizeof(waits) / sizeof(*waits) };
    pthread_t threads[WAITS], last;
    for (int i = 0; i < WAITS; i++)
        check(!pthread_create(&threads[i], NULL, waits[i], NULL), "pthread_create");
    struct rdma_cm_event *request;
    check(!rdma_get_cm_event(events, &request), "rdma_get_cm_event");
    check(!pthread_create(&last, NULL, get_cm_event, NULL), "pthread_create");

    puts("ready");
    for (int i = 0; i < WAITS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(last, NULL);
    struct ibv_async_event event;
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    print_status("ibv_get_async_event", ibv_get_async_event(context, &event));
    struct pollfd asynchronous = { .fd = context->async_fd, .events = POLLIN };
    printf("poll for another event: %d\n", poll(&asynchronous, 1, 0));
    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    void *cq_context;
    struct ibv_cq *reported;
    print_status("ibv_get_cq_event", ibv_get_cq_event(channel, &reported, &cq_context));
    struct ibv_port_attr port;
    print_number("ibv_query_port", ibv_query_port(context, 1, &port));
    print_status("ibv_alloc_pd", ibv_alloc_pd(context) ? 0 : -1);
    print_status("rdma_listen", rdma_listen(id, 1));
    print_number("ibv_destroy_qp", ibv_destroy_qp(qp));
    print_number("ibv_dereg_mr", ibv_dereg_mr(mr));
    print_number("ibv_destroy_cq", ibv_destroy_cq(cq));
    print_number("ibv_dealloc_pd", ibv_dealloc_pd(pd));
    print_number("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel));
    print_status("rdma_destroy_id", rdma_destroy_id(id));
    puts("done");
    return 0;
}
