/*
 * What a receiver finds in its memory, and when:
 *
 *   hook CASE
 *
 * A receiver, and a sender that it forks: each opens the device for itself. Prints what the receiver
 * sees, and ends with status 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, DEPTH = 64, MANY = 20000 };

/* One side: a queue pair with a buffer for each of its receives. */
struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_cq_ex *extended;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *memory;
};

/* What the sides tell each other. */
struct name {
    uint32_t qpn, rkey;
    uint64_t address;
    union ibv_gid gid;
};

static const char *which;
static int is_extended;
static int to_peer;

static int is_case(const char *name)
{
    return !strcmp(which, name);
}

static void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void say(const void *bytes, size_t length)
{
    check(write(to_peer, bytes, length) == (ssize_t)length, "write");
}

static void hear(void *bytes, size_t length)
{
    check(recv(to_peer, bytes, length, MSG_WAITALL) == (ssize_t)length, "recv");
}

/* A step of the peer is done. */
static void step(void)
{
    char byte = 0;
    say(&byte, 1);
}

static void await(void)
{
    char byte;
    hear(&byte, 1);
}

static void open_side(struct side *side)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "ibv_get_device_list");
    side->context = ibv_open_device(devices[0]);
    check(side->context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
    side->pd = ibv_alloc_pd(side->context);
    side->memory = mmap(NULL, DEPTH * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(side->memory != MAP_FAILED, "mmap");
    side->mr = ibv_reg_mr(side->pd, side->memory, DEPTH * BYTES,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    check(side->mr != NULL, "ibv_reg_mr");
}

static void create_queues(struct side *side)
{
    struct ibv_cq_init_attr_ex wish = {.cqe = 2 * DEPTH, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
    side->extended = is_extended ? ibv_create_cq_ex(side->context, &wish) : NULL;
    side->cq = is_extended ? ibv_cq_ex_to_cq(side->extended)
                           : ibv_create_cq(side->context, 2 * DEPTH, NULL, NULL, 0);
    check(side->cq != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = {.send_cq = side->cq, .recv_cq = side->cq, .qp_type = IBV_QPT_RC,
                                    .cap = {DEPTH, DEPTH, 1, 1, 0}, .sq_sig_all = 1};
    side->qp = ibv_create_qp(side->pd, &init);
    check(side->qp != NULL, "ibv_create_qp");
}

static void destroy_queues(struct side *side)
{
    check(!ibv_destroy_qp(side->qp), "ibv_destroy_qp");
    check(!ibv_destroy_cq(side->cq), "ibv_destroy_cq");
}

static struct name connect_side(struct side *side)
{
    struct name own = {.qpn = side->qp->qp_num, .rkey = side->mr->rkey,
                       .address = (uintptr_t)side->memory}, peer;
    check(!ibv_query_gid(side->context, 1, 1, &own.gid), "ibv_query_gid");
    say(&own, sizeof own);
    hear(&peer, sizeof peer);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer.qpn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer.gid, .sgid_index = 1, .hop_limit = 64}}};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
                         | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
                                .max_rd_atomic = 1};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                         | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
    return peer;
}

/* A receive for a buffer with a number. */
static void post_receive(struct side *side, unsigned number)
{
    struct ibv_sge sge = {(uintptr_t)side->memory + number * BYTES, BYTES, side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    check(!ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

/* Sends, or writes to an address, the first bytes of our memory. */
static void post(struct side *side, unsigned bytes, uint64_t address, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)side->memory, bytes, side->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000, .sg_list = &sge, .num_sge = 1,
                             .opcode = address ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
                             .wr.rdma = {address, rkey}}, *bad;
    check(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

/* One completion, and its status. Gives its number. */
static uint64_t poll_one(struct side *side, int *status)
{
    struct ibv_wc wc;
    if (!is_extended) {
        int found;
        while ((found = ibv_poll_cq(side->cq, 1, &wc)) == 0)
            ;
        check(found == 1, "ibv_poll_cq");
        *status = wc.status;
        return wc.wr_id;
    }
    struct ibv_poll_cq_attr none = {0};
    int error;
    while ((error = ibv_start_poll(side->extended, &none)) == ENOENT)
        ;
    check(!error, "ibv_start_poll");
    *status = side->extended->status;
    uint64_t number = side->extended->wr_id;
    ibv_end_poll(side->extended);
    return number;
}

static void poll_good(struct side *side)
{
    int status;
    poll_one(side, &status);
    if (status != IBV_WC_SUCCESS) {
        printf("status %s\n", ibv_wc_status_str(status));
        exit(1);
    }
}

/* Whether a buffer has so many bytes of a message that a number was sent with. */
static int has(const unsigned char *buffer, unsigned bytes, unsigned number)
{
    for (unsigned i = 0; i < bytes; i++)
        if (buffer[i] != (unsigned char)(number + i))
            return 0;
    return 1;
}

static void fill(unsigned char *buffer, unsigned bytes, unsigned number)
{
    for (unsigned i = 0; i < bytes; i++)
        buffer[i] = number + i;
}

/* Sends one message, and tells the receiver when it is done. */
static void send_one(struct side *side, unsigned bytes, unsigned number)
{
    fill(side->memory, bytes, number);
    post(side, bytes, 0, 0);
    poll_good(side);
    memset(side->memory, 0xee, bytes);
}

static void print(const char *what, int is_so)
{
    printf("%s: %s\n", what, is_so ? "yes" : "no");
    fflush(stdout);
}

/* Messages of all sizes, each polled when the sender is done. */
static void sizes(struct side *side, int is_sender)
{
    static const unsigned all[] = {1, 8, 48, 49, 64, 1000, 4096};
    memset(side->memory, 0, DEPTH * BYTES);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (is_sender) {
            await();
            send_one(side, all[i], i + 1);
            step();
            continue;
        }
        post_receive(side, i);
        step();
        await();
        if (i == 0)
            print("there before the poll", has(side->memory, all[i], i + 1));
        poll_good(side);
        printf("%u bytes: %s\n", all[i], has(side->memory + i * BYTES, all[i], i + 1) ? "right" : "wrong");
    }
}

/* The region ends, or the queue pair, before the completion is polled. */
static void ended(struct side *side, int is_sender, int ends_region)
{
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        step();
        await();
        return;
    }
    post_receive(side, 0);
    step();
    await();
    check(ends_region ? !ibv_dereg_mr(side->mr) : !ibv_destroy_qp(side->qp), "the end");
    print("there when it has ended", has(side->memory, 100, 7));
    memset(side->memory, 1, BYTES);
    poll_good(side);
    print("untouched after that", side->memory[0] == 1 && side->memory[99] == 1);
    step();
}

/* A write to where a message has gone before. */
static void order(struct side *side, int is_sender, struct name peer)
{
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        fill(side->memory, 50, 70);
        post(side, 50, peer.address, peer.rkey);
        poll_good(side);
        step();
        return;
    }
    post_receive(side, 0);
    step();
    await();
    poll_good(side);
    print("the write came last", has(side->memory, 50, 70) && has(side->memory + 50, 50, 57));
}

/* Memory that a program has unmapped. */
static void unmapped(struct side *side, int is_sender)
{
    int status;
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        step();
        await();
        check(!munmap(side->memory, BYTES), "munmap");
        post(side, 100, 0, 0);
        poll_one(side, &status);
        step();
        exit(status != IBV_WC_LOC_PROT_ERR);
    }
    post_receive(side, 0);
    post_receive(side, 1);
    check(!munmap(side->memory, BYTES), "munmap");
    step();
    await();
    poll_one(side, &status);
    print("the receiver goes on", 1);
    step();
    await();
}

static sigjmp_buf back;
static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    siglongjmp(back, info->si_addr == (void *)8 ? 1 : 2);
}

/* A program's own fault reaches its own handler. */
static int own_fault(void)
{
    int caught = sigsetjmp(back, 1);
    if (!caught)
        *(volatile int *)8 = 1;
    return caught == 1;
}

static int calls;
static int (*own_poll)(struct ibv_cq *, int, struct ibv_wc *);
static int counting_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    calls++;
    return own_poll(cq, count, wc);
}

/* Another library does as soft-hca does. */
static void swap(struct side *side)
{
    own_poll = side->context->ops.poll_cq;
    side->context->ops.poll_cq = counting_poll;
}

static struct side *shared;
static unsigned polled, wrong;

static void *poll_many(void *nothing)
{
    for (;;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(shared->cq, 1, &wc) == 1) {
            unsigned number = wc.wr_id;
            if (wc.status || !has(shared->memory + number * BYTES, 100, shared->memory[number * BYTES]))
                __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
            memset(shared->memory + number * BYTES, 0, 100);
            post_receive(shared, number);
            if (__atomic_add_fetch(&polled, 1, __ATOMIC_RELAXED) == MANY)
                return nothing;
        } else if (__atomic_load_n(&polled, __ATOMIC_RELAXED) >= MANY) {
            return nothing;
        } else {
            sched_yield();
        }
    }
}

/* Two threads poll one queue. */
static void threads(struct side *side, int is_sender)
{
    if (is_sender) {
        await();
        for (unsigned i = 0; i < MANY; i++)
            send_one(side, 100, i);
        return;
    }
    for (unsigned i = 0; i < DEPTH; i++)
        post_receive(side, i);
    shared = side;
    step();
    pthread_t other;
    check(!pthread_create(&other, NULL, poll_many, NULL), "pthread_create");
    poll_many(NULL);
    pthread_join(other, NULL);
    printf("%u messages, %u wrong\n", polled, wrong);
}

int main(int count, char **arguments)
{
    int sockets[2];
    which = count > 1 ? arguments[1] : "plain";
    struct side side = {0};
    is_extended = is_case("extended");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t sender = fork();
    to_peer = sockets[sender != 0];
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    if (is_case("handler"))
        sigaction(SIGSEGV, &action, NULL);
    open_side(&side);
    if (is_case("swapped-before"))
        swap(&side);
    create_queues(&side);
    if (is_case("swapped-after"))
        swap(&side);
    struct name peer = connect_side(&side);
    if (is_case("order"))
        order(&side, !sender, peer);
    else if (is_case("region") || is_case("queue-pair"))
        ended(&side, !sender, is_case("region"));
    else if (is_case("unmapped"))
        unmapped(&side, !sender);
    else if (is_case("threads"))
        threads(&side, !sender);
    else
        sizes(&side, !sender);
    if (is_case("handler") && sender)
        print("its own fault is its own", own_fault());
    if (is_case("again")) {
        for (int i = 0; i < 3; i++) {
            destroy_queues(&side);
            create_queues(&side);
            connect_side(&side);
            sizes(&side, !sender);
        }
    }
    if (is_case("contexts")) {
        struct side other = {0};
        open_side(&other);
        create_queues(&other);
        connect_side(&other);
        sizes(&other, !sender);
        sizes(&side, !sender);
    }
    if (is_case("swapped-before") || is_case("swapped-after"))
        if (sender)
            print("the other library is called", calls > 0);
    if (is_case("fork") && sender) {
        pid_t child = fork();
        int status;
        if (!child) {
            struct ibv_wc wc;
            _exit(ibv_poll_cq(side.cq, 1, &wc) != 0);
        }
        check(waitpid(child, &status, 0) == child, "waitpid");
        print("a child may poll", status == 0);
    }
    if (!sender)
        return 0;
    int status;
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    return status != 0;
}
