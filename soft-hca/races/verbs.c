/*
 * The calls of the device in races.rs: functions of verbs.h that are inline, for which Rust has no bindings of its own.
 *
 * Pairs of connected queue pairs of one process: of pair n, the ends 2 n and 2 n + 1. Memory is named by its address.
 */
#include "side.h"

enum { ENDS = 4, REGIONS = 8 };

struct request {
    uint32_t opcode, flags, count, rkey;
    uint64_t remote_address;
    struct ibv_sge list[2];
};

struct keys {
    uint32_t lkey, rkey;
};

static struct side ends[ENDS];
static struct ibv_srq *srq;
static struct ibv_mr *regions[REGIONS];
static int region_count;

/* The odd ends share one queue of receives, or each has its own. */
void device_open(int is_shared)
{
    open_device();
    if (is_shared) {
        struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
        srq = ibv_create_srq(pd, &init);
        must(srq != NULL, "ibv_create_srq");
    }
    for (int end = 0; end < ENDS; end++)
        create(&ends[end], end % 2 ? srq : NULL);
    for (int end = 0; end < ENDS; end++)
        connect_to(&ends[end], ends[end ^ 1].qp->qp_num);
}

struct keys device_register(uint64_t address, uint64_t length)
{
    enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND };
    must(region_count < REGIONS, "room for a region");
    struct ibv_mr *region = ibv_reg_mr(pd, (void *)address, length, RIGHTS);
    must(region != NULL, "ibv_reg_mr");
    regions[region_count++] = region;
    return (struct keys){region->lkey, region->rkey};
}

static struct ibv_mr *region(uint32_t lkey)
{
    for (int i = 0; i < region_count; i++)
        if (regions[i]->lkey == lkey)
            return regions[i];
    must(0, "a region");
    return NULL;
}

/* The key of a new window of a pair, by which its other end may write. */
uint32_t device_bind(int end, uint32_t lkey, uint64_t address, uint64_t length)
{
    struct ibv_mw *window = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    must(window != NULL, "ibv_alloc_mw");
    struct ibv_mw_bind bind = {.send_flags = SIGNALED,
                               .bind_info = {region(lkey), address, length, IBV_ACCESS_REMOTE_WRITE}};
    must(!ibv_bind_mw(ends[end].qp, window, &bind), "ibv_bind_mw");
    poll(&ends[end], 1);
    return window->rkey;
}

void device_send(int end, const struct request *request)
{
    struct ibv_send_wr *bad, wr = {.wr_id = 1, .sg_list = (struct ibv_sge *)request->list,
                                   .num_sge = (int)request->count, .opcode = request->opcode,
                                   .send_flags = request->flags};
    if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = request->remote_address;
        wr.wr.atomic.rkey = request->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = request->remote_address;
        wr.wr.rdma.rkey = request->rkey;
    }
    must(!ibv_post_send(ends[end].qp, &wr, &bad), "ibv_post_send");
}

void device_receive(int end, uint64_t address, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = {address, length, lkey};
    struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
    must(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(ends[end].qp, &wr, &bad)), "ibv_post_recv");
}

void device_poll(int end, int count)
{
    poll(&ends[end], count);
}

void device_arm(int end)
{
    must(!ibv_req_notify_cq(ends[end].cq, 0), "ibv_req_notify_cq");
}

void device_wait(int end)
{
    struct ibv_cq *cq;
    void *unused;
    must(!ibv_get_cq_event(ends[end].channel, &cq, &unused), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
}

void device_fail(int end)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    must(!ibv_modify_qp(ends[end].qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
}

void device_poll_flushed(int end)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(ends[end].cq, 1, &wc) == 0)
        usleep(100);
    must(wc.status == IBV_WC_WR_FLUSH_ERR, "a flushed request");
}

void device_destroy(int end)
{
    must(!ibv_destroy_qp(ends[end].qp), "ibv_destroy_qp");
}
