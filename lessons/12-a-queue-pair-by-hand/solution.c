/* A client that brings its queue pair up itself, sends a message and takes the answer. */
#include <stdio.h>
#include <string.h>

#include "kit.h"

static const char TEXT[] = "by hand";

static void modify_qp(const struct our_raw *raw, struct ibv_qp_attr *attr, int mask)
{
    int ret = ibv_modify_qp(raw->conn.queue_pair, attr, mask);

    if (ret != 0)
        failed("ibv_modify_qp", ret, &raw->conn.options);
}

/* From RESET to INIT: receives can be posted. */
static void to_init(const struct our_raw *raw)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = 0,
        .port_num = OUR_IB_PORT,
        .qp_access_flags = 0,
    };

    modify_qp(raw, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* From INIT to RTR, ready to receive: it knows its peer, `raw->peer`. */
static void to_rtr(const struct our_raw *raw)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = raw->peer.qp_num,
        .rq_psn = raw->peer.psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12, /* 0.64 ms */
        .ah_attr.port_num = OUR_IB_PORT,
        /* on Ethernet the peer's port is known by its GID */
        .ah_attr.is_global = 1,
        .ah_attr.grh.dgid = raw->peer.gid,
        .ah_attr.grh.sgid_index = OUR_GID_INDEX,
        .ah_attr.grh.hop_limit = 64,
    };

    modify_qp(raw, &attr,
              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* From RTR to RTS, ready to send as well: `raw->own.psn` is what it begins with. */
static void to_rts(const struct our_raw *raw)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = raw->own.psn,
        .max_rd_atomic = 1,
        /* 67 ms for an acknowledgement, and so many times again */
        .timeout = 14,
        .retry_cnt = 5,
        .rnr_retry = 5,
    };

    modify_qp(raw, &attr,
              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                  IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(int argc, char **argv)
{
    /* the server's TCP port is the last argument */
    struct our_raw raw = our_raw_client(OUR_OPTIONS("client"), argv[argc - 1]);
    char *buffer = our_buffer(&raw.conn, 32);
    strcpy(buffer, TEXT);
    struct ibv_mr *mr = our_reg_mr(&raw.conn, buffer, 32, IBV_ACCESS_LOCAL_WRITE);

    to_init(&raw);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_recv_wr receive = our_setup_recv_wr(&sge, 1);
    our_post_recv(&raw.conn, &receive);
    to_rtr(&raw);
    to_rts(&raw);
    /* the peer, too, is ready to receive */
    our_sync(&raw);

    sge.length = strlen(TEXT);
    struct ibv_send_wr send = our_setup_send_wr(&sge, 1);
    our_post_send(&raw.conn, &send);
    /* of the send, and of the receive */
    our_await_completion(&raw.conn);
    our_await_completion(&raw.conn);
    printf("%.32s\n", buffer);

    our_dereg_mr(&raw.conn, mr);
    our_unsetup_raw(&raw);
    return 0;
}
