/*
 * Datagrams to a multicast group, attached by ibv_attach_mcast and without the connection manager:
 *
 *   group listen GROUP OWN_ADDRESS              gets all datagrams of a round, twice, and answers
 *   group send GROUP OWN_ADDRESS CLASS HOPS     sends them, gets them itself, and waits for the answer
 *
 * Each member has to get each datagram once and in order, and one with another Q_Key none. The
 * listener stays until it is killed, attached no more.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../hook/results.h"

enum { COUNT = 100, END = COUNT, ANSWER, GRH = 40, SLOT = 512, RECEIVES = 2 * COUNT, QKEY = 0x1234 };

struct member {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;
    uint32_t next; /* number of the next datagram */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid group;

static union ibv_gid gid_of(const char *address)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, 0xff}};
    if (inet_pton(AF_INET, address, gid.raw + 12) != 1)
        check(inet_pton(AF_INET6, address, gid.raw) == 1, address);
    return gid;
}

static int index_of(union ibv_gid own)
{
    union ibv_gid gid;
    for (int index = 0; ibv_query_gid(context, 1, index, &gid) == 0; index++)
        if (memcmp(&gid, &own, sizeof gid) == 0)
            return index;
    fprintf(stderr, "no such GID\n");
    exit(1);
}

static struct member join(uint32_t qkey)
{
    struct member m = {.memory = calloc(RECEIVES + 1, SLOT)};
    check((m.cq = ibv_create_cq(context, 2 * RECEIVES, NULL, NULL, 0)) != NULL, "ibv_create_cq");
    m.mr = ibv_reg_mr(pd, m.memory, (RECEIVES + 1) * SLOT, IBV_ACCESS_LOCAL_WRITE);
    check(m.mr != NULL, "ibv_reg_mr");
    struct ibv_qp_init_attr init = {
        .send_cq = m.cq,
        .recv_cq = m.cq,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
    };
    check((m.qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    check(ibv_modify_qp(m.qp, &attr, mask) == 0, "INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(ibv_modify_qp(m.qp, &attr, IBV_QP_STATE) == 0, "RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(ibv_modify_qp(m.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
    for (int i = 0; i < RECEIVES; i++) {
        struct ibv_sge sge = {(uintptr_t)m.memory + i * SLOT, SLOT, m.mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
        check(ibv_post_recv(m.qp, &wr, &bad) == 0, "ibv_post_recv");
    }
    check(ibv_attach_mcast(m.qp, &group, 0) == 0, "ibv_attach_mcast");
    return m;
}

/* The number of a datagram, and as many bytes of it. */
static uint32_t length_of(uint32_t number)
{
    return 4 + number;
}

/* Takes one completion. Gives the number of the datagram that was received, or -1. */
static int64_t take(struct member *m)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(m->cq, 1, &wc) == 0)
        ;
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "a completion with status %d\n", wc.status);
        exit(1);
    }
    if (!(wc.opcode & IBV_WC_RECV))
        return -1;
    const uint8_t *slot = m->memory + wc.wr_id * SLOT;
    uint32_t number;
    memcpy(&number, slot + GRH, 4);
    int is_whole = wc.byte_len == GRH + length_of(number);
    for (uint32_t i = 4; is_whole && i < length_of(number); i++)
        is_whole = slot[GRH + i] == (uint8_t)(number + i);
    int is_ipv6 = slot[0] >> 4 == 6;
    int is_to_group = is_ipv6 ? memcmp(slot + 24, group.raw, 16) == 0
                              : memcmp(slot + 36, group.raw + 12, 4) == 0;
    if (!is_whole || !is_to_group || (number < ANSWER && number != m->next)) {
        fprintf(stderr, "datagram %u instead of %u, %u bytes\n", number, m->next, wc.byte_len);
        exit(1);
    }
    m->next += number < ANSWER;
    if (number == 0) {
        unsigned class = is_ipv6 ? (slot[0] & 15) << 4 | slot[1] >> 4 : slot[21];
        printf("class %u, hop limit %u\n", class, is_ipv6 ? slot[7] : slot[28]);
    }
    return number;
}

static void send_number(struct member *m, struct ibv_ah *ah, uint32_t number)
{
    uint8_t *slot = m->memory + RECEIVES * SLOT;
    memcpy(slot, &number, 4);
    for (uint32_t i = 4; i < length_of(number); i++)
        slot[i] = (uint8_t)(number + i);
    struct ibv_sge sge = {(uintptr_t)slot, length_of(number), m->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = QKEY;
    check(ibv_post_send(m->qp, &wr, &bad) == 0, "ibv_post_send");
    while (take(m) != -1)
        ;
}

int main(int argc, char **argv)
{
    int is_sender = argc == 6 && strcmp(argv[1], "send") == 0;
    if (!is_sender && (argc != 4 || strcmp(argv[1], "listen") != 0))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && *devices && (context = ibv_open_device(*devices)), "ibv_open_device");
    check((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
    group = gid_of(argv[2]);
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};
    to.grh.dgid = group;
    to.grh.sgid_index = index_of(gid_of(argv[3]));
    to.grh.traffic_class = is_sender ? atoi(argv[4]) : 0;
    to.grh.hop_limit = is_sender ? atoi(argv[5]) : 1;
    struct ibv_ah *ah = ibv_create_ah(pd, &to);
    check(ah != NULL, "ibv_create_ah");

    if (is_sender) {
        struct member own = join(QKEY);
        for (uint32_t number = 0; number <= END; number++)
            send_number(&own, ah, number);
        while (take(&own) != ANSWER)
            ;
        printf("answered\n");
        return own.next == ANSWER ? 0 : 1;
    }
    struct member members[2] = {join(QKEY), join(QKEY)}, stranger = join(QKEY + 1);
    printf("attached\n");
    for (int i = 0; i < 2; i++)
        while (take(&members[i]) != END)
            ;
    struct ibv_wc wc;
    check(ibv_poll_cq(stranger.cq, 1, &wc) == 0, "nothing with another Q_Key");
    send_number(&members[0], ah, ANSWER);
    for (int i = 0; i < 2; i++)
        check(ibv_detach_mcast(members[i].qp, &group, 0) == 0, "ibv_detach_mcast");
    check(ibv_detach_mcast(stranger.qp, &group, 0) == 0, "ibv_detach_mcast");
    printf("detached\n");
    for (;;)
        pause();
}
