/*
 * One side of a connection, for the programs here: what it has, and what it does with it. Two sides
 * talk by a socket besides.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results.h"

enum { BYTES = 4096, DEPTH = 64 };

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

/* Whether queues are made as extended ones. */
static int is_extended;
/* What queues are made with. */
static int cq_entries = 2 * DEPTH, signals_all = 1;
static struct ibv_comp_channel *cq_channel;
static struct ibv_qp_cap caps = {DEPTH, DEPTH, 1, 1, 0};
/* What they are connected with. */
static int pkey_index, ack_timeout = 14, rnr_retry = 7, rnr_timer = 1, reads_out = 1, reads_in = 1;
static enum ibv_mtu path_mtu = IBV_MTU_1024;
/* What regions and queue pairs allow the peer. */
static int rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
/* The socket of this thread's side. */
static __thread int to_peer;

static inline void say(const void *bytes, size_t length)
{
    check(write(to_peer, bytes, length) == (ssize_t)length, "write");
}

static inline void hear(void *bytes, size_t length)
{
    check(recv(to_peer, bytes, length, MSG_WAITALL) == (ssize_t)length, "recv");
}

/* A step of the peer is done. */
static inline void step(void)
{
    char byte = 0;
    say(&byte, 1);
}

static inline void await(void)
{
    char byte;
    hear(&byte, 1);
}

/* Waits for the end of the peer, a child of this process: its exit status, 3 if it has none. */
static inline int status_of(pid_t peer)
{
    int status;
    check(waitpid(peer, &status, 0) == peer, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static inline void register_memory(struct side *side)
{
    side->pd = ibv_alloc_pd(side->context);
    side->mr = ibv_reg_mr(side->pd, side->memory, DEPTH * BYTES, IBV_ACCESS_LOCAL_WRITE | rights);
    check(side->mr != NULL, "ibv_reg_mr");
}

/* Memory for all that a side sends or receives. */
static inline void add_memory(struct side *side)
{
    side->memory = mmap(NULL, DEPTH * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(side->memory != MAP_FAILED, "mmap");
    register_memory(side);
}

static inline void open_device(struct side *side)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "ibv_get_device_list");
    side->context = ibv_open_device(devices[0]);
    check(side->context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
}

static inline void open_side(struct side *side)
{
    open_device(side);
    add_memory(side);
}

static inline void create_cq(struct side *side)
{
    struct ibv_cq_init_attr_ex wish = {.cqe = cq_entries, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
    side->extended = is_extended ? ibv_create_cq_ex(side->context, &wish) : NULL;
    side->cq = is_extended ? ibv_cq_ex_to_cq(side->extended)
                           : ibv_create_cq(side->context, cq_entries, NULL, cq_channel, 0);
    check(side->cq != NULL, "ibv_create_cq");
}

static inline void create_qp(struct side *side)
{
    struct ibv_qp_init_attr init = {.send_cq = side->cq, .recv_cq = side->cq, .qp_type = IBV_QPT_RC,
                                    .cap = caps, .sq_sig_all = signals_all};
    side->qp = ibv_create_qp(side->pd, &init);
    check(side->qp != NULL, "ibv_create_qp");
}

static inline void create_queues(struct side *side)
{
    create_cq(side);
    create_qp(side);
}

static inline void destroy_queues(struct side *side)
{
    check(!ibv_destroy_qp(side->qp), "ibv_destroy_qp");
    check(!ibv_destroy_cq(side->cq), "ibv_destroy_cq");
}

static inline void close_side(struct side *side)
{
    check(!ibv_dereg_mr(side->mr), "ibv_dereg_mr");
    check(!munmap(side->memory, DEPTH * BYTES), "munmap");
    check(!ibv_dealloc_pd(side->pd), "ibv_dealloc_pd");
    check(!ibv_close_device(side->context), "ibv_close_device");
}

static inline struct name name_of(struct side *side)
{
    struct name name = {.qpn = side->qp->qp_num, .rkey = side->mr->rkey,
                        .address = (uintptr_t)side->memory};
    check(!ibv_query_gid(side->context, 1, 1, &name.gid), "ibv_query_gid");
    return name;
}

/* Tells the other side what this one is called, and hears what that one is. */
static inline struct name exchange_names(struct side *side)
{
    struct name own = name_of(side), peer;
    say(&own, sizeof own);
    hear(&peer, sizeof peer);
    return peer;
}

/* From there on receives may be posted. */
static inline void init_side(struct side *side)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = pkey_index,
                               .qp_access_flags = rights};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
}

static inline void connect_to(struct side *side, struct name peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = path_mtu, .dest_qp_num = peer.qpn,
        .max_dest_rd_atomic = reads_in, .min_rnr_timer = rnr_timer,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer.gid, .sgid_index = 1, .hop_limit = 64}}};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
                         | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = ack_timeout, .retry_cnt = 7,
                                .rnr_retry = rnr_retry, .max_rd_atomic = reads_out};
    check(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                         | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static inline struct name connect_side(struct side *side)
{
    struct name peer = exchange_names(side);
    init_side(side);
    connect_to(side, peer);
    return peer;
}

/* A receive for a buffer with a number. */
static inline void post_receive(struct side *side, unsigned number)
{
    struct ibv_sge sge = {(uintptr_t)side->memory + number * BYTES, BYTES, side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    check(!ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

/* Sends, or writes to an address, the first bytes of our memory. */
static inline void post(struct side *side, unsigned bytes, uint64_t address, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)side->memory, bytes, side->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000, .sg_list = &sge, .num_sge = 1,
                             .opcode = address ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
                             .wr.rdma = {address, rkey}}, *bad;
    check(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

/* A completion if there is one: its number and status. */
static inline int poll_once(struct side *side, uint64_t *number, int *status)
{
    struct ibv_wc wc;
    if (!side->extended) {
        int found = ibv_poll_cq(side->cq, 1, &wc);
        check(found >= 0, "ibv_poll_cq");
        *number = wc.wr_id;
        *status = wc.status;
        return found;
    }
    struct ibv_poll_cq_attr none = {0};
    int error = ibv_start_poll(side->extended, &none);
    if (error == ENOENT)
        return 0;
    check(!error, "ibv_start_poll");
    *number = side->extended->wr_id;
    *status = side->extended->status;
    ibv_end_poll(side->extended);
    return 1;
}

/* One completion, and its status. Gives its number. */
static inline uint64_t poll_one(struct side *side, int *status)
{
    uint64_t number = 0;
    while (!poll_once(side, &number, status))
        ;
    return number;
}

static inline void poll_good(struct side *side)
{
    int status;
    poll_one(side, &status);
    if (status != IBV_WC_SUCCESS) {
        printf("status %s\n", ibv_wc_status_str(status));
        exit(1);
    }
}

/* Whether a buffer has so many bytes of a message that a number was sent with. */
static inline int has(const unsigned char *buffer, unsigned bytes, unsigned number)
{
    for (unsigned i = 0; i < bytes; i++)
        if (buffer[i] != (unsigned char)(number + i))
            return 0;
    return 1;
}

static inline void fill(unsigned char *buffer, unsigned bytes, unsigned number)
{
    for (unsigned i = 0; i < bytes; i++)
        buffer[i] = number + i;
}

/* Sends one message, and tells the receiver when it is done. */
static inline void send_one(struct side *side, unsigned bytes, unsigned number)
{
    fill(side->memory, bytes, number);
    post(side, bytes, 0, 0);
    poll_good(side);
    memset(side->memory, 0xee, bytes);
}

static inline void print(const char *what, int is_so)
{
    printf("%s: %s\n", what, is_so ? "yes" : "no");
    fflush(stdout);
}
