/*
 * A datagram to a multicast group, which python3-pyverbs cannot attach a queue pair to:
 *
 *   group SENDER RECEIVER     with these indices of P_Keys at rxe0 and at rxe1
 *
 * prints True if the receiver has got it, else False.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../hook/results.h"

enum { QKEY = 0x1234, ROOM = 256, LENGTH = 64, GROUP_LID = 0xc000, GROUP_QPN = 0xffffff };

struct side {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_sge sge;
};

static const union ibv_gid group = {.raw = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [15] = 1}};

static struct side side(struct ibv_device **devices, const char *name, int pkey_index)
{
    while (*devices && strcmp(ibv_get_device_name(*devices), name))
        devices++;
    check(*devices != NULL, name);
    struct ibv_context *context = ibv_open_device(*devices);
    check(context != NULL, "ibv_open_device");
    struct side s = {.pd = ibv_alloc_pd(context), .cq = ibv_create_cq(context, 4, NULL, NULL, 0)};
    void *memory = calloc(1, ROOM);
    struct ibv_mr *mr = ibv_reg_mr(s.pd, memory, ROOM, IBV_ACCESS_LOCAL_WRITE);
    check(s.cq && mr, "ibv_reg_mr");
    s.sge = (struct ibv_sge){.addr = (uintptr_t)memory, .length = ROOM, .lkey = mr->lkey};
    struct ibv_qp_init_attr init = {
        .send_cq = s.cq,
        .recv_cq = s.cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
    };
    s.qp = ibv_create_qp(s.pd, &init);
    check(s.qp != NULL, "ibv_create_qp");
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .pkey_index = pkey_index, .port_num = 1, .qkey = QKEY};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    check(ibv_modify_qp(s.qp, &attr, mask) == 0, "to INIT");
    struct ibv_recv_wr receive = {.sg_list = &s.sge, .num_sge = 1}, *bad;
    check(ibv_post_recv(s.qp, &receive, &bad) == 0, "ibv_post_recv");
    attr.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(s.qp, &attr, IBV_QP_STATE) == 0, "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
    return s;
}

int main(int argc, char **argv)
{
    check(argc == 3, "two indices");
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices != NULL, "ibv_get_device_list");
    struct side from = side(devices, "rxe0", atoi(argv[1]));
    struct side to = side(devices, "rxe1", atoi(argv[2]));
    check(ibv_attach_mcast(to.qp, &group, GROUP_LID) == 0, "ibv_attach_mcast");
    struct ibv_ah_attr way = {
        .grh = {.dgid = group, .hop_limit = 1}, .dlid = GROUP_LID, .is_global = 1, .port_num = 1};
    struct ibv_ah *ah = ibv_create_ah(from.pd, &way);
    check(ah != NULL, "ibv_create_ah");
    from.sge.length = LENGTH;
    struct ibv_send_wr send = {
        .sg_list = &from.sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .wr.ud = {.ah = ah, .remote_qpn = GROUP_QPN, .remote_qkey = QKEY},
    }, *bad;
    check(ibv_post_send(from.qp, &send, &bad) == 0, "ibv_post_send");
    struct ibv_wc wc;
    while (ibv_poll_cq(from.cq, 1, &wc) == 0)
        ;
    check(wc.status == IBV_WC_SUCCESS, "the send");
    /* Who has heard it has its completion before the sender has. */
    puts(ibv_poll_cq(to.cq, 1, &wc) == 1 ? "True" : "False");
    return 0;
}
