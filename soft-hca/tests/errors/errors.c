/*
 * Requests that fail, and what both sides are told of it:
 *
 *   errors CASE...
 *
 * Each case has two queue pairs of its own, each in a context of its own, and prints a line: how
 * the requester's work requests have completed, how the responder's receives have, which
 * asynchronous events each has got, and the states of both in the end.
 */
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../hook/results.h"

enum { MEMORY = 16384, QKEY = 0x1234, GRH = 40, LIMIT_S = 60 };

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    uint8_t *memory;
    int receives;
};

/* What a case has to see before it is over. */
struct expected {
    int sends, receives, events;
};

static struct side requester, responder;

static void open_side(struct side *side, enum ibv_qp_type type, int is_shared, int access)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "no device");
    side->context = ibv_open_device(devices[0]);
    check(side->context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
    side->pd = ibv_alloc_pd(side->context);
    side->cq = ibv_create_cq(side->context, 64, NULL, NULL, 0);
    side->memory = aligned_alloc(4096, MEMORY);
    check(side->pd && side->cq && side->memory, "objects");
    memset(side->memory, 0, MEMORY);
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
              IBV_ACCESS_REMOTE_ATOMIC;
    side->mr = ibv_reg_mr(side->pd, side->memory, MEMORY, all);
    check(side->mr != NULL, "ibv_reg_mr");
    if (is_shared) {
        struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};
        side->srq = ibv_create_srq(side->pd, &attr);
        check(side->srq != NULL, "ibv_create_srq");
    }
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .srq = side->srq,
        .qp_type = type,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
        .pd = side->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
    };
    if (type == IBV_QPT_RC) {
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    side->qp = ibv_create_qp_ex(side->context, &init);
    check(side->qp != NULL, "ibv_create_qp_ex");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
    attr.qp_access_flags = access;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    mask |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    check(!ibv_modify_qp(side->qp, &attr, mask), "INIT");
}

static void connect_to(struct side *side, const struct side *peer)
{
    enum ibv_qp_type type = side->qp->qp_type;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask = IBV_QP_STATE;
    struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
    ah.grh.sgid_index = 1;
    ah.grh.hop_limit = 64;
    check(!ibv_query_gid(side->context, 1, 1, &ah.grh.dgid), "ibv_query_gid");
    if (type == IBV_QPT_UD) {
        side->ah = ibv_create_ah(side->pd, &ah);
        check(side->ah != NULL, "ibv_create_ah");
    } else {
        attr.ah_attr = ah;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer->qp->qp_num;
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (type == IBV_QPT_RC) {
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    check(!ibv_modify_qp(side->qp, &attr, mask), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (type == IBV_QPT_RC) {
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    check(!ibv_modify_qp(side->qp, &attr, mask), "RTS");
}

static void set_up(enum ibv_qp_type type, int is_shared, int access)
{
    open_side(&requester, type, 0, access);
    open_side(&responder, type, is_shared, access);
    connect_to(&requester, &responder);
    connect_to(&responder, &requester);
    responder.receives = 0;
}

static void tear_down(struct side *side)
{
    if (side->ah)
        ibv_destroy_ah(side->ah);
    ibv_destroy_qp(side->qp);
    if (side->srq)
        ibv_destroy_srq(side->srq);
    ibv_dereg_mr(side->mr);
    ibv_destroy_cq(side->cq);
    ibv_dealloc_pd(side->pd);
    ibv_close_device(side->context);
    free(side->memory);
    memset(side, 0, sizeof *side);
}

/* Receives are numbered as they are posted. */
static void receive(uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)responder.memory, length, responder.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = responder.receives++, .sg_list = &sge, .num_sge = 1}, *bad;
    int error = responder.srq ? ibv_post_srq_recv(responder.srq, &wr, &bad)
                              : ibv_post_recv(responder.qp, &wr, &bad);
    check(!error, "ibv_post_recv");
}

static void request(enum ibv_wr_opcode opcode, uint32_t length, uint64_t address, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)requester.memory, length, requester.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (requester.ah) {
        wr.wr.ud.ah = requester.ah;
        wr.wr.ud.remote_qpn = responder.qp->qp_num;
        wr.wr.ud.remote_qkey = QKEY;
    } else if (opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = rkey;
    } else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    }
    check(!ibv_post_send(requester.qp, &wr, &bad), "ibv_post_send");
}

static void send_message(uint32_t length)
{
    request(IBV_WR_SEND, length, 0, 0);
}

/* An atomic operation by extended posting, whose arguments the library does not look at. */
static void fetch_and_add(uint64_t address)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(requester.qp);
    ibv_wr_start(qp);
    qp->wr_id = 0;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(qp, responder.mr->rkey, address, 1);
    ibv_wr_set_sge(qp, requester.mr->lkey, (uintptr_t)requester.memory, 8);
    check(!ibv_wr_complete(qp), "ibv_wr_complete");
}

static void pause_briefly(void)
{
    struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

/* Prints completions, `count` at least, and whatever else is there. */
static void completions(const char *who, struct side *side, int count)
{
    time_t end = time(NULL) + LIMIT_S;
    struct ibv_wc wc;
    printf("%s", who);
    for (int seen = 0;;) {
        int polled = ibv_poll_cq(side->cq, 1, &wc);
        check(polled >= 0, "ibv_poll_cq");
        if (polled) {
            printf(" [%s]", ibv_wc_status_str(wc.status));
            seen++;
        } else if (seen >= count || time(NULL) >= end) {
            break;
        } else {
            pause_briefly();
        }
    }
    printf("; ");
}

static void events(const char *who, struct side *side, int count)
{
    struct pollfd file = {.fd = side->context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    printf("%s", who);
    for (int seen = 0; poll(&file, 1, seen < count ? LIMIT_S * 1000 : 0) == 1; seen++) {
        check(!ibv_get_async_event(side->context, &event), "ibv_get_async_event");
        printf(" [%s]%s", ibv_event_type_str(event.event_type),
               event.element.qp == side->qp ? "" : " of another");
        ibv_ack_async_event(&event);
    }
    printf("; ");
}

static const char *state(struct side *side)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    check(!ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state == IBV_QPS_RTS ? "RTS" : attr.qp_state == IBV_QPS_ERR ? "ERR" : "other";
}

static void report(const char *name, struct expected expected)
{
    printf("%s: ", name);
    completions("requester", &requester, expected.sends);
    completions("responder", &responder, expected.receives);
    events("events", &requester, 0);
    events("and", &responder, expected.events);
    printf("states %s %s\n", state(&requester), state(&responder));
    fflush(stdout);
    tear_down(&requester);
    tear_down(&responder);
}

static struct expected run(const char *name)
{
    const int ALL = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    int is_srq = strstr(name, "-srq") != NULL;
#define IS(text) (strncmp(name, text, strlen(text)) == 0)
    if (IS("rc-small")) {
        set_up(IBV_QPT_RC, is_srq, ALL);
        receive(99);
        receive(100);
        send_message(100);
        return (struct expected){1, is_srq ? 1 : 2, is_srq ? 1 : 0};
    }
    if (IS("uc-small") || IS("ud-small")) {
        int is_ud = IS("ud-small");
        set_up(is_ud ? IBV_QPT_UD : IBV_QPT_UC, is_srq, ALL);
        receive(99 + (is_ud ? GRH : 0));
        receive(100 + (is_ud ? GRH : 0));
        send_message(100);
        send_message(is_srq ? 100 : 99);
        return (struct expected){2, is_srq ? 2 : 1, 0};
    }
    if (IS("ud-long")) {
        set_up(IBV_QPT_UD, 0, ALL);
        receive(MEMORY);
        receive(MEMORY);
        send_message(1024);
        send_message(1025);
        return (struct expected){2, 1, 0};
    }
    /* The others are about keys and rights. */
    set_up(IBV_QPT_RC, is_srq, IS("forbidden") ? 0 : ALL);
    uint64_t address = (uintptr_t)responder.memory;
    uint32_t rkey = responder.mr->rkey, bad = rkey ^ 0xff;
    int receives = 2, events = is_srq ? 2 : 1;
    receive(100);
    receive(100);
    if (IS("write-key"))
        request(IBV_WR_RDMA_WRITE, 8, address, bad);
    else if (IS("write-range"))
        request(IBV_WR_RDMA_WRITE, 8, address + MEMORY - 7, rkey);
    else if (IS("read-key"))
        request(IBV_WR_RDMA_READ, 8, address, bad);
    else if (IS("atomic-key"))
        request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, address, bad);
    else if (IS("forbidden-write"))
        request(IBV_WR_RDMA_WRITE, 8, address, rkey);
    else if (IS("forbidden-read"))
        request(IBV_WR_RDMA_READ, 8, address, rkey);
    else if (IS("atomic-unaligned"))
        fetch_and_add(address + 4);
    else if (IS("immediate-key"))
        request(IBV_WR_RDMA_WRITE_WITH_IMM, 8, address, bad);
    else if (IS("immediate-long-key"))
        request(IBV_WR_RDMA_WRITE_WITH_IMM, 2000, address, bad);
    else if (IS("invalidate-key"))
        request(IBV_WR_SEND_WITH_INV, 8, 0, rkey);
    else
        check(0, name);
    if (IS("immediate-key") || IS("invalidate-key"))
        events--;
    if (is_srq)
        receives = events == 1;
    return (struct expected){1, receives, events};
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        report(argv[i], run(argv[i]));
    return 0;
}
