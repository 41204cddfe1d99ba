/*
 * Work requests that fail, each in a way of its own, and the adapter's number for that:
 *
 *   vendor_err CASE...
 *
 * Each case has two queue pairs that are connected to each other, and prints the completion of its request. The case
 * "time" prints how long that took, with seven retries; the cases "cut-off" and "cut-off-peer" how many bytes a write has
 * written during which a queue pair fails.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../hook/results.h"

/* Longer than a message may be. The pages are never touched. */
static const uint64_t MEMORY = (1ull << 30) + 4096;
enum { REGION = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp, *peer;
static struct ibv_mr *all, *region, *readable;
static char *memory;
static uint8_t retry_cnt;

static struct ibv_qp *create(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *created = ibv_create_qp(pd, &init);
    check(created != NULL, "ibv_create_qp");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    check(!ibv_modify_qp(created, &attr, mask), "INIT");
    return created;
}

static void connect_to(struct ibv_qp *side, uint32_t number)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = number,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 64}},
    };
    check(!ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid), "ibv_query_gid");
    check(!ibv_modify_qp(side, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "RTR");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = retry_cnt, .rnr_retry = 1, .max_rd_atomic = 1};
    check(!ibv_modify_qp(side, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_MAX_QP_RD_ATOMIC),
          "RTS");
}

static void to_error(struct ibv_qp *side)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    check(!ibv_modify_qp(side, &attr, IBV_QP_STATE), "ERR");
}

static void receive(uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)memory, length, all->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    check(!ibv_post_recv(peer, &wr, &bad), "ibv_post_recv");
}

static void request(enum ibv_wr_opcode opcode, uint32_t length, uint32_t lkey, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)memory, length, lkey};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = (uintptr_t)memory;
    wr.wr.rdma.rkey = rkey;
    check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* How many bytes a write has written, which are to be the first ones. */
static int written(const volatile char *to, int length)
{
    int count = 0;
    while (count < length && to[count])
        count++;
    for (int i = count; i < length; i++)
        check(!to[i], "a byte without those before");
    return count;
}

/* A write during which a queue pair fails, as soon as its first bytes are seen, if any are before its completion. */
static void cut_off(struct ibv_qp *fails)
{
    enum { LENGTH = 16 * 1024 + 100, PLACE = 1 << 20 };
    const volatile char *to = memory + PLACE;
    int is_begun = 0;
    memset(memory, 1, LENGTH);
    memset(memory + PLACE, 0, LENGTH);
    struct ibv_sge sge = {(uintptr_t)memory, LENGTH, all->lkey};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = (uintptr_t)to;
    wr.wr.rdma.rkey = all->rkey;
    check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    while (!is_begun && !to[LENGTH - 1])
        for (int i = 0; i < LENGTH; i++)
            is_begun |= to[i];
    to_error(fails);
    printf("%d\n", written(to, LENGTH));
}

static void post(const char *name)
{
    if (!strcmp(name, "local-bounds")) {
        request(IBV_WR_RDMA_WRITE, REGION + 1, region->lkey, all->rkey);
    } else if (!strcmp(name, "local-key")) {
        request(IBV_WR_RDMA_WRITE, 8, region->lkey ^ 0x40000000, all->rkey);
    } else if (!strcmp(name, "local-access")) {
        request(IBV_WR_RDMA_READ, 8, readable->lkey, all->rkey);
    } else if (!strcmp(name, "posted-in-error")) {
        to_error(qp);
        request(IBV_WR_RDMA_WRITE, 8, all->lkey, all->rkey);
    } else if (!strcmp(name, "remote-request")) {
        receive(8);
        request(IBV_WR_SEND, 16, all->lkey, 0);
    } else if (!strcmp(name, "remote-access")) {
        request(IBV_WR_RDMA_WRITE, 8, all->lkey, all->rkey ^ 0x40000000);
    } else if (!strcmp(name, "rnr-retries")) {
        request(IBV_WR_SEND, 8, all->lkey, 0);
    } else if (!strcmp(name, "retries") || !strcmp(name, "time")) {
        to_error(peer);
        request(IBV_WR_RDMA_WRITE, 8, all->lkey, all->rkey);
    } else if (!strcmp(name, "cut-off")) {
        cut_off(qp);
    } else if (!strcmp(name, "cut-off-peer")) {
        cut_off(peer);
    } else if (!strcmp(name, "too-long")) {
        request(IBV_WR_RDMA_WRITE, (1u << 30) + 4, all->lkey, all->rkey);
    } else {
        check(0, name);
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void run(const char *name)
{
    int is_timed = !strcmp(name, "time");
    retry_cnt = is_timed ? 7 : 1;
    qp = create();
    peer = create();
    connect_to(qp, peer->qp_num);
    connect_to(peer, qp->qp_num);
    double posted = now();
    post(name);
    struct ibv_wc wc;
    /* The peer's receives are flushed, too. */
    do {
        while (!ibv_poll_cq(cq, 1, &wc))
            ;
    } while (wc.wr_id != 7);
    printf("%s: %s, vendor_err %#04x\n", name, ibv_wc_status_str(wc.status), wc.vendor_err);
    if (is_timed)
        printf("%.3f s\n", now() - posted);
    ibv_destroy_qp(qp);
    ibv_destroy_qp(peer);
}

int main(int argc, char **argv)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "no device");
    context = ibv_open_device(devices[0]);
    check(context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(pd && cq && memory != MAP_FAILED, "objects");
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    all = ibv_reg_mr(pd, memory, MEMORY, rights);
    region = ibv_reg_mr(pd, memory, REGION, IBV_ACCESS_LOCAL_WRITE);
    readable = ibv_reg_mr(pd, memory, REGION, 0);
    check(all && region && readable, "ibv_reg_mr");
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    ibv_dereg_mr(readable);
    ibv_dereg_mr(region);
    ibv_dereg_mr(all);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    return 0;
}
