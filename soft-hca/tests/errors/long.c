/*
 * Messages as long as the port's max_msg_sz says, and a byte longer, of one element and of two:
 *
 *   long [exact]
 *
 * prints max_msg_sz and then, for each operation, the statuses of messages that are too long; with `exact` also the
 * statuses of those that are not. A queue pair is its own peer.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../hook/results.h"

enum { LIMIT_S = 60 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint32_t most;

/* Two messages' addresses, behind all of which is the same piece of memory. */
static void make_region(void)
{
    const size_t piece = 1 << 21;
    size_t length = 2 * ((size_t)most + piece);
    int file = memfd_create("piece", 0);
    check(file >= 0 && !ftruncate(file, piece), "memfd_create");
    char *all = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(all != MAP_FAILED, "mmap");
    for (size_t at = 0; at < length; at += piece)
        check(mmap(all + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED, "mmap");
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    mr = ibv_reg_mr(pd, all, length, rights);
    check(mr != NULL, "ibv_reg_mr");
}

static struct ibv_qp *make_qp(void)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {4, 4, 2, 1, 0}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    check(qp != NULL, "ibv_create_qp");
    struct ibv_port_attr port;
    check(!ibv_query_port(context, 1, &port), "ibv_query_port");
    int is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr = (struct ibv_ah_attr){.port_num = 1, .dlid = port.lid, .is_global = is_ethernet};
    attr.ah_attr.grh.sgid_index = 1;
    if (is_ethernet)
        check(!ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid), "ibv_query_gid");
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
    return qp;
}

/* The status of a message of so many bytes; the first element has `first` of them if that is not 0. */
static const char *status(enum ibv_wr_opcode opcode, uint32_t length, uint32_t first)
{
    struct ibv_qp *qp = make_qp();
    uint64_t from = (uintptr_t)mr->addr, to = from + mr->length / 2;
    struct ibv_sge receive = {to, most, mr->lkey};
    struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &receive, .num_sge = 1}, *bad_recv;
    check(!ibv_post_recv(qp, &recv, &bad_recv), "ibv_post_recv");
    struct ibv_sge list[2] = {{from, first, mr->lkey}, {from + first, length - first, mr->lkey}};
    struct ibv_send_wr wr = {.sg_list = first ? list : list + 1, .num_sge = first ? 2 : 1, .opcode = opcode}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = mr->rkey;
    check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
    struct ibv_wc wc = {.wr_id = 1};
    for (time_t end = time(NULL) + LIMIT_S; wc.wr_id != 0 && time(NULL) < end;)
        check(ibv_poll_cq(cq, 1, &wc) >= 0, "ibv_poll_cq");
    ibv_destroy_qp(qp);
    return wc.wr_id ? "nothing" : ibv_wc_status_str(wc.status);
}

int main(int argc, char **argv)
{
    int is_exact = argc > 1 && !strcmp(argv[1], "exact");
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0], "no device");
    context = ibv_open_device(devices[0]);
    check(context != NULL, "ibv_open_device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    check(pd && cq, "objects");
    struct ibv_port_attr port;
    check(!ibv_query_port(context, 1, &port), "ibv_query_port");
    most = port.max_msg_sz;
    printf("max_msg_sz %u\n", most);
    make_region();
    static const struct {
        const char *name;
        enum ibv_wr_opcode opcode;
    } all[] = {
        {"send", IBV_WR_SEND},
        {"send with immediate", IBV_WR_SEND_WITH_IMM},
        {"write", IBV_WR_RDMA_WRITE},
        {"write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM},
        {"read", IBV_WR_RDMA_READ},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        printf("%s: %s", all[i].name, status(all[i].opcode, most + 1, 0));
        printf(", %s", status(all[i].opcode, most + 1, most / 2));
        if (is_exact)
            printf("; %s", status(all[i].opcode, most, most / 2));
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
