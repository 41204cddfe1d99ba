/*
 * Programs that hang:
 *
 *   hangs CASE [SECONDS]
 *
 * Both sides are of this process. After two seconds, or so many, an alarm kills it; a case that is right ends
 * before.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../hook/results.h"

enum { SECONDS = 2, BYTES = 64, GID_INDEX = 1 };

struct side {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char bytes[BYTES];
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct side a, b;
/* Whether sends complete to a queue of their own. */
static int has_queue_for_sends;

static void prepare(struct side *side)
{
    side->channel = ibv_create_comp_channel(context);
    check(side->channel != NULL, "ibv_create_comp_channel");
    side->cq = ibv_create_cq(context, 16, NULL, side->channel, 0);
    check(side->cq != NULL, "ibv_create_cq");
    struct ibv_cq *for_sends = has_queue_for_sends ? ibv_create_cq(context, 16, NULL, NULL, 0) : side->cq;
    check(for_sends != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = { .send_cq = for_sends, .recv_cq = side->cq, .qp_type = IBV_QPT_RC };
    init.cap = (struct ibv_qp_cap){ 8, 8, 1, 1, 0 };
    side->qp = ibv_create_qp(pd, &init);
    check(side->qp != NULL, "ibv_create_qp");
    side->mr = ibv_reg_mr(pd, side->bytes, BYTES, IBV_ACCESS_LOCAL_WRITE);
    check(side->mr != NULL, "ibv_reg_mr");
}

static void join(struct side *side, uint32_t peer)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    check(!ibv_modify_qp(side->qp, &attr, mask), "to INIT");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024 };
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
    attr.ah_attr.grh.sgid_index = GID_INDEX;
    check(!ibv_query_gid(context, 1, GID_INDEX, &attr.ah_attr.grh.dgid), "ibv_query_gid");
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    check(!ibv_modify_qp(side->qp, &attr, mask), "to RTR");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7 };
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN;
    mask |= IBV_QP_MAX_QP_RD_ATOMIC;
    check(!ibv_modify_qp(side->qp, &attr, mask), "to RTS");
}

static void open_device(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "ibv_get_device_list");
    context = ibv_open_device(devices[0]);
    check(context != NULL, "ibv_open_device");
    pd = ibv_alloc_pd(context);
    check(pd != NULL, "ibv_alloc_pd");
}

static void connect_sides(void)
{
    open_device();
    prepare(&a);
    prepare(&b);
    join(&a, b.qp->qp_num);
    join(&b, a.qp->qp_num);
}

static pid_t second;

/* Two processes, each with side a; whether this is the second one. */
static int fork_sides(void)
{
    int to_first[2], to_second[2];
    check(!pipe(to_first) && !pipe(to_second), "pipe");
    second = fork();
    int is_second = second == 0;
    int to = is_second ? to_first[1] : to_second[1], from = is_second ? to_second[0] : to_first[0];
    uint32_t peer;
    open_device();
    prepare(&a);
    check(write(to, &a.qp->qp_num, sizeof peer) == sizeof peer, "write");
    check(read(from, &peer, sizeof peer) == sizeof peer, "read");
    join(&a, peer);
    /* Until both are connected. */
    check(write(to, &peer, 1) == 1 && read(from, &peer, 1) == 1, "read");
    return is_second;
}

static void receive(struct side *side)
{
    struct ibv_sge sge = { (uintptr_t)side->bytes, BYTES, side->mr->lkey };
    struct ibv_recv_wr request = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;
    check(!ibv_post_recv(side->qp, &request, &bad), "ibv_post_recv");
}

static void send_by(struct side *side, unsigned flags)
{
    struct ibv_sge sge = { (uintptr_t)side->bytes, BYTES, side->mr->lkey };
    struct ibv_send_wr request = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    check(!ibv_post_send(side->qp, &request, &bad), "ibv_post_send");
}

static void arm(struct side *side, int solicited_only)
{
    check(!ibv_req_notify_cq(side->cq, solicited_only), "ibv_req_notify_cq");
}

static void await_event(struct side *side)
{
    struct ibv_cq *cq;
    void *own;
    check(!ibv_get_cq_event(side->channel, &cq, &own), "ibv_get_cq_event");
}

static int poll(struct side *side)
{
    struct ibv_wc wc;
    return ibv_poll_cq(side->cq, 1, &wc);
}

static void poll_until_found(struct side *side)
{
    while (!poll(side))
        ;
}

/* A message that has come before anything else is done. */
static void message(unsigned flags)
{
    receive(&b);
    send_by(&a, flags | IBV_SEND_SIGNALED);
    poll_until_found(&a);
}

static void never_armed(void)
{
    message(0);
    await_event(&b);
}

static void armed_late(void)
{
    message(0);
    arm(&b, 0);
    await_event(&b);
}

static void armed_in_time(void)
{
    message(0);
    arm(&b, 0);
    if (!poll(&b))
        await_event(&b);
    arm(&b, 1);
    message(IBV_SEND_SOLICITED);
    await_event(&b);
    ibv_ack_cq_events(b.cq, 1);
}

static void solicited_only(void)
{
    arm(&b, 1);
    message(0);
    await_event(&b);
}

static void armed_once(void)
{
    arm(&b, 0);
    message(0);
    await_event(&b);
    ibv_ack_cq_events(b.cq, 1);
    poll_until_found(&b);
    message(0);
    await_event(&b);
}

static void silent(void)
{
    arm(&b, 0);
    message(0);
    await_event(&b);
    ibv_ack_cq_events(b.cq, 1);
    poll_until_found(&b);
    await_event(&b);
}

static void destroy_queues(int acknowledged)
{
    arm(&b, 0);
    message(0);
    await_event(&b);
    ibv_ack_cq_events(b.cq, acknowledged);
    check(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
    check(!ibv_destroy_cq(b.cq), "ibv_destroy_cq");
}

static void unacknowledged(void)
{
    destroy_queues(0);
}

static void acknowledged(void)
{
    destroy_queues(1);
}

static void *awaits(void *side)
{
    await_event(side);
    return NULL;
}

static void both_receive(void)
{
    pthread_t thread;
    receive(&a);
    receive(&b);
    arm(&a, 0);
    arm(&b, 0);
    check(!pthread_create(&thread, NULL, awaits, &a), "pthread_create");
    await_event(&b);
}

/* One side waits, the other may send later. */
static void waits_for_work(void)
{
    pthread_t thread;
    receive(&b);
    arm(&b, 0);
    check(!pthread_create(&thread, NULL, awaits, &b), "pthread_create");
    pause();
}

static void awaits_message(void)
{
    receive(&a);
    arm(&a, 0);
    await_event(&a);
}

static void peer_ends(void)
{
    if (!fork_sides())
        awaits_message();
}

static void peer_waits(void)
{
    if (fork_sides())
        alarm(SECONDS);
    awaits_message();
}

/* It may send something yet. */
static void peer_works(void)
{
    if (fork_sides())
        sleep(SECONDS + 1);
    else
        awaits_message();
}

/* Ends the second process with the first one. */
static void end_with_first(void)
{
    check(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
}

static void peer_polls(void)
{
    if (fork_sides()) {
        end_with_first();
        receive(&a);
        poll_until_found(&a);
    }
    awaits_message();
}

/* The other one has taken the event of its message, and waits for something else. */
static void handler_waits(void)
{
    if (fork_sides()) {
        end_with_first();
        awaits_message();
        pause();
    }
    send_by(&a, IBV_SEND_SIGNALED);
    poll_until_found(&a);
    awaits_message();
}

/* Keeps a process off all processors but one. */
static void pin(pid_t process)
{
    cpu_set_t all, one;
    int cpu = 0;
    check(!sched_getaffinity(0, sizeof all, &all), "sched_getaffinity");
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    check(!sched_setaffinity(process, sizeof one, &one), "sched_setaffinity");
}

/* A process kills the hanging one and ends; the killed one can exit when a third one leaves it the processor. */
static void slow_to_end(void)
{
    const struct sched_param none = { 0 };
    if (fork_sides()) {
        receive(&a);
        await_event(&a);
    }
    send_by(&a, IBV_SEND_SIGNALED);
    poll_until_found(&a);
    usleep(1500000);
    pin(second);
    check(!sched_setscheduler(second, SCHED_IDLE, &none), "sched_setscheduler");
    if (fork() == 0) {
        /* It gives up its parent's descriptors, and so is not taken for its parent. */
        syscall(SYS_close_range, 3u, ~0u, 0u);
        pin(0);
        for (time_t end = time(NULL) + 2; time(NULL) < end;)
            ;
        check(!sched_setscheduler(second, SCHED_OTHER, &none), "sched_setscheduler");
        _exit(0);
    }
    usleep(50000);
    check(!kill(second, SIGKILL), "kill");
}

/* A thread that waits for work does not hold up the end. */
static void ends_while_one_waits(void)
{
    pthread_t thread;
    check(!pthread_create(&thread, NULL, awaits, &b), "pthread_create");
    usleep(1200000);
}

static void unsignaled(void)
{
    receive(&b);
    send_by(&a, 0);
    poll_until_found(&a);
}

static void unposted(void)
{
    poll_until_found(&a);
}

/* The completion of a send comes in the queue for sends. */
static void other_queue(void)
{
    has_queue_for_sends = 1;
    connect_sides();
    receive(&b);
    send_by(&a, IBV_SEND_SIGNALED);
    poll_until_found(&a);
}

static void stalled(void)
{
    for (int i = 0; i < 3; i++)
        receive(&b);
    for (int i = 0; i < 5; i++)
        send_by(&a, IBV_SEND_SIGNALED);
    for (int i = 0; i < 5; i++)
        poll_until_found(&a);
}

/* The connection manager */

static struct rdma_event_channel *of_server, *of_client;
static struct rdma_cm_id *listener, *server, *client;
static uint16_t port;

static struct rdma_cm_event *get(struct rdma_event_channel *channel, enum rdma_cm_event_type expected)
{
    struct rdma_cm_event *event;
    check(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    check(event->event == expected, rdma_event_str(event->event));
    return event;
}

static void take(struct rdma_event_channel *channel, enum rdma_cm_event_type expected)
{
    check(!rdma_ack_cm_event(get(channel, expected)), "rdma_ack_cm_event");
}

static void resolve(struct rdma_event_channel *channel)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(!rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 1000), "rdma_resolve_addr");
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    check(!rdma_resolve_route(client, 1000), "rdma_resolve_route");
    take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void create_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
    init.cap = (struct ibv_qp_cap){ 8, 8, 1, 1, 0 };
    check(!rdma_create_qp(id, NULL, &init), "rdma_create_qp");
}

static void listens(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    of_server = rdma_create_event_channel();
    of_client = rdma_create_event_channel();
    check(of_server && of_client, "rdma_create_event_channel");
    check(!rdma_create_id(of_server, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_create_id(of_client, &client, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_bind_addr(listener, (struct sockaddr *)&address), "rdma_bind_addr");
    check(!rdma_listen(listener, 1), "rdma_listen");
    port = rdma_get_src_port(listener);
}

static void connects(void)
{
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    resolve(of_client);
    create_qp(client);
    check(!rdma_connect(client, &param), "rdma_connect");
}

static void request_comes(void)
{
    struct rdma_cm_event *event = get(of_server, RDMA_CM_EVENT_CONNECT_REQUEST);
    server = event->id;
    check(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

static void accepts(void)
{
    create_qp(server);
    check(!rdma_accept(server, NULL), "rdma_accept");
}

static void not_taken(void)
{
    listens();
    connects();
    take(of_client, RDMA_CM_EVENT_ESTABLISHED);
}

static void not_accepted(void)
{
    listens();
    connects();
    request_comes();
    take(of_client, RDMA_CM_EVENT_ESTABLISHED);
}

static void not_completed(void)
{
    listens();
    connects();
    request_comes();
    accepts();
    take(of_server, RDMA_CM_EVENT_ESTABLISHED);
}

static void established(void)
{
    listens();
    connects();
    request_comes();
    accepts();
    take(of_client, RDMA_CM_EVENT_ESTABLISHED);
    take(of_server, RDMA_CM_EVENT_ESTABLISHED);
}

static void wrong_channel(void)
{
    listens();
    resolve(of_server);
}

static void ignores_disconnected(void)
{
    established();
    check(!rdma_disconnect(client), "rdma_disconnect");
    take(of_server, RDMA_CM_EVENT_DISCONNECTED);
    take(of_client, RDMA_CM_EVENT_DISCONNECTED);
}

static void destroys(int acknowledges)
{
    established();
    check(!rdma_disconnect(client), "rdma_disconnect");
    struct rdma_cm_event *event = get(of_server, RDMA_CM_EVENT_DISCONNECTED);
    if (acknowledges)
        check(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
    rdma_destroy_qp(server);
    check(!rdma_destroy_id(server), "rdma_destroy_id");
}

static void unused_channel(void)
{
    established();
    take(rdma_create_event_channel(), RDMA_CM_EVENT_DISCONNECTED);
}

static void after_rejection(void)
{
    listens();
    connects();
    request_comes();
    check(!rdma_reject(server, NULL, 0), "rdma_reject");
    take(of_client, RDMA_CM_EVENT_REJECTED);
    take(of_client, RDMA_CM_EVENT_ESTABLISHED);
}

static void flushes_sends(void)
{
    established();
    for (int i = 0; i < 3; i++) {
        struct ibv_send_wr request = { .wr_id = 5, .opcode = IBV_WR_SEND }, *bad;
        check(!ibv_post_send(client->qp, &request, &bad), "ibv_post_send");
    }
    check(!rdma_disconnect(client), "rdma_disconnect");
    take(of_server, RDMA_CM_EVENT_DISCONNECTED);
    check(!rdma_disconnect(server), "rdma_disconnect");
    take(of_client, RDMA_CM_EVENT_DISCONNECTED);
}

/* The server serves a connection in its loop for events, and so does not take the next one. */
static void cm_handler_waits(void)
{
    int to_client[2];
    check(!pipe(to_client), "pipe");
    if (fork() == 0) {
        end_with_first();
        listens();
        check(write(to_client[1], &port, sizeof port) == sizeof port, "write");
        request_comes();
        accepts();
        pause();
    }
    check(read(to_client[0], &port, sizeof port) == sizeof port, "read");
    of_client = rdma_create_event_channel();
    check(!rdma_create_id(of_client, &client, NULL, RDMA_PS_TCP), "rdma_create_id");
    connects();
    take(of_client, RDMA_CM_EVENT_ESTABLISHED);
    struct ibv_recv_wr request = { .wr_id = 7 }, *bad;
    check(!ibv_post_recv(client->qp, &request, &bad), "ibv_post_recv");
    check(!ibv_req_notify_cq(client->recv_cq, 0), "ibv_req_notify_cq");
    struct ibv_cq *cq;
    void *own;
    check(!ibv_get_cq_event(client->recv_cq_channel, &cq, &own), "ibv_get_cq_event");
}

static void event_kept(void)
{
    destroys(0);
}

static void event_given_back(void)
{
    destroys(1);
    rdma_destroy_qp(client);
    take(of_client, RDMA_CM_EVENT_DISCONNECTED);
    check(!rdma_destroy_id(client), "rdma_destroy_id");
    check(!rdma_destroy_id(listener), "rdma_destroy_id");
    usleep(1200000);
}

static void *destroys_server(void *unused)
{
    (void)unused;
    rdma_destroy_qp(server);
    check(!rdma_destroy_id(server), "rdma_destroy_id");
    return NULL;
}

/* The thread that destroys the id waits until another one acknowledges its event, and ends then, some time before its
   process is killed. */
static void event_given_back_late(void)
{
    pthread_t thread;
    established();
    check(!rdma_disconnect(client), "rdma_disconnect");
    struct rdma_cm_event *event = get(of_server, RDMA_CM_EVENT_DISCONNECTED);
    check(!pthread_create(&thread, NULL, destroys_server, NULL), "pthread_create");
    usleep(200000);
    check(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
    check(!pthread_join(thread, NULL), "pthread_join");
    rdma_destroy_qp(client);
    take(of_client, RDMA_CM_EVENT_DISCONNECTED);
    check(!rdma_destroy_id(client), "rdma_destroy_id");
    check(!rdma_destroy_id(listener), "rdma_destroy_id");
    usleep(1200000);
    kill(getpid(), SIGKILL);
}

static const struct {
    const char *name;
    int connects;
    void (*run)(void);
} CASES[] = {
    { "never_armed", 1, never_armed },
    { "armed_late", 1, armed_late },
    { "armed_in_time", 1, armed_in_time },
    { "solicited_only", 1, solicited_only },
    { "armed_once", 1, armed_once },
    { "silent", 1, silent },
    { "unacknowledged", 1, unacknowledged },
    { "acknowledged", 1, acknowledged },
    { "both_receive", 1, both_receive },
    { "waits_for_work", 1, waits_for_work },
    { "peer_ends", 0, peer_ends },
    { "peer_waits", 0, peer_waits },
    { "peer_works", 0, peer_works },
    { "peer_polls", 0, peer_polls },
    { "handler_waits", 0, handler_waits },
    { "slow_to_end", 0, slow_to_end },
    { "ends_while_one_waits", 1, ends_while_one_waits },
    { "unsignaled", 1, unsignaled },
    { "unposted", 1, unposted },
    { "other_queue", 0, other_queue },
    { "stalled", 1, stalled },
    { "not_taken", 0, not_taken },
    { "not_accepted", 0, not_accepted },
    { "not_completed", 0, not_completed },
    { "wrong_channel", 0, wrong_channel },
    { "ignores_disconnected", 0, ignores_disconnected },
    { "unused_channel", 0, unused_channel },
    { "after_rejection", 0, after_rejection },
    { "flushes_sends", 0, flushes_sends },
    { "cm_handler_waits", 0, cm_handler_waits },
    { "event_kept", 0, event_kept },
    { "event_given_back", 0, event_given_back },
    { "event_given_back_late", 0, event_given_back_late },
};

int main(int argc, char **argv)
{
    alarm(argc == 3 ? atoi(argv[2]) : SECONDS);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (argc >= 2 && !strcmp(argv[1], CASES[i].name)) {
            if (CASES[i].connects)
                connect_sides();
            CASES[i].run();
            return 0;
        }
    }
    fprintf(stderr, "there is no such case\n");
    return 1;
}
