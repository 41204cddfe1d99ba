/* A process of a litmus test: memory that its peers reach, connected queue pairs, and words by another way. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum process { A, B, C, PROCESSES, REFEREE = PROCESSES };
/* Connections: two between A and B, one of which B's end takes its receives from a shared queue, and those of C; and one
 * between A and B that a test makes for itself. */
enum link { QP1, QP2, SHARED, AC, CB, LINKS, DATAGRAMS = LINKS, OWN };

enum { WORDS = 1024, DEPTH = 64, STOCK = 16, SIGNALED = IBV_SEND_SIGNALED, FENCED = IBV_SEND_SIGNALED | IBV_SEND_FENCE };
/* A queue may be found empty some times although there is a completion in it. */
enum { LOOKS = 16 };

/* The same in each process: what it names here is named so at a peer, too. */
struct memory {
    volatile uint64_t x, y, r1, r2, one, two, thousand, flush;
    volatile uint64_t block[WORDS], ones[WORDS], twos[WORDS], received[OWN + 1][STOCK][8];
};

/* The words that the other end has to know of one. */
struct name {
    uint32_t qpn, rkey, relaxed_rkey;
    uint64_t memory;
    union ibv_gid gid;
};

/* An end of a connection. */
struct end {
    struct ibv_cq *sends, *receives;
    struct ibv_qp *qp;
    struct ibv_srq *shared;
    struct name peer;
    /* Requests with a completion that was not polled, and whether there were any. */
    int posted, is_used;
};

static enum process me;
static int to[PROCESSES + 1];
static struct memory *m;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *region, *relaxed_region;
static struct ibv_ah *handle;
static struct end ends[OWN + 1];
/* The number of the run. */
static uint64_t run;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, me == REFEREE ? "litmus: " : "litmus: process %c: ", 'A' + me);
        perror(what);
        _exit(3);
    }
}

/* Words by another way than RDMA. */

static void tell(int process)
{
    char byte = 0;
    must(write(to[process], &byte, 1) == 1, "write");
}

static void hear(int process)
{
    char byte;
    must(read(to[process], &byte, 1) == 1, "read");
}

static void exchange(int process, const void *ours, void *theirs, size_t bytes)
{
    must(write(to[process], ours, bytes) == (ssize_t)bytes, "write");
    must(recv(to[process], theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
}

/* Requests. */

/* A request that was not given a work request of its own: `there` is an address of ours that names the peer's. */
static struct ibv_send_wr request(enum link link, enum ibv_wr_opcode opcode, struct ibv_sge *sge, const volatile void *there,
                                  int flags)
{
    struct end *end = &ends[link];
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};
    wr.wr.rdma.remote_addr = there ? end->peer.memory + (uintptr_t)there - (uintptr_t)m : 0;
    wr.wr.rdma.rkey = end->peer.rkey;
    return wr;
}

static void post(enum link link, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    must(!ibv_post_send(ends[link].qp, wr, &bad), "ibv_post_send");
    ends[link].posted += (wr->send_flags & SIGNALED) != 0;
    ends[link].is_used = 1;
}

static struct ibv_sge element(const volatile void *here, unsigned bytes)
{
    return (struct ibv_sge){(uintptr_t)here, bytes, region->lkey};
}

static void put_bytes(enum link link, const volatile void *there, const volatile void *here, unsigned bytes, int flags)
{
    struct ibv_sge sge = element(here, bytes);
    struct ibv_send_wr wr = request(link, IBV_WR_RDMA_WRITE, &sge, there, flags);
    post(link, &wr);
}

static void put(enum link link, const volatile uint64_t *there, const volatile uint64_t *here, int flags)
{
    put_bytes(link, there, here, 8, flags);
}

/* The same to memory that allows relaxed ordering. */
static void put_relaxed(enum link link, const volatile uint64_t *there, const volatile uint64_t *here,
                        enum ibv_wr_opcode opcode)
{
    struct ibv_sge sge = element(here, 8);
    struct ibv_send_wr wr = request(link, opcode, &sge, there, SIGNALED);
    wr.wr.rdma.rkey = ends[link].peer.relaxed_rkey;
    post(link, &wr);
}

static void put_imm(enum link link, const volatile void *there, const volatile void *here, unsigned bytes)
{
    struct ibv_sge sge = element(here, bytes);
    struct ibv_send_wr wr = request(link, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, there, SIGNALED);
    post(link, &wr);
}

static void get(enum link link, const volatile uint64_t *here, const volatile uint64_t *there, int flags)
{
    struct ibv_sge sge = element(here, 8);
    struct ibv_send_wr wr = request(link, IBV_WR_RDMA_READ, &sge, there, flags);
    post(link, &wr);
}

static void add(enum link link, const volatile uint64_t *here, const volatile uint64_t *there, uint64_t value)
{
    struct ibv_sge sge = element(here, 8);
    struct ibv_send_wr wr = request(link, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, NULL, SIGNALED);
    wr.wr.atomic.remote_addr = ends[link].peer.memory + (uintptr_t)there - (uintptr_t)m;
    wr.wr.atomic.rkey = ends[link].peer.rkey;
    wr.wr.atomic.compare_add = value;
    post(link, &wr);
}

static void send_word(enum link link, const volatile uint64_t *here, int flags)
{
    struct ibv_sge sge = element(here, 8);
    struct ibv_send_wr wr = request(link, IBV_WR_SEND, &sge, NULL, flags);
    if (link == DATAGRAMS) {
        wr.wr.ud.ah = handle;
        wr.wr.ud.remote_qpn = ends[link].peer.qpn;
        wr.wr.ud.remote_qkey = 1;
    }
    post(link, &wr);
}

static void post_receive(enum link link, uint64_t number)
{
    struct ibv_sge sge = element(m->received[link][number], sizeof m->received[link][number]);
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    struct end *end = &ends[link];
    must(!(end->shared ? ibv_post_srq_recv(end->shared, &wr, &bad) : ibv_post_recv(end->qp, &wr, &bad)), "a receive");
}

/* Completions. */

static int poll_once(struct ibv_cq *cq, struct ibv_wc *wc)
{
    int found = ibv_poll_cq(cq, 1, wc);
    must(found >= 0, "ibv_poll_cq");
    if (found && wc->status != IBV_WC_SUCCESS) {
        fprintf(stderr, "litmus: process %c: %s\n", 'A' + me, ibv_wc_status_str(wc->status));
        _exit(3);
    }
    return found;
}

/* Whether a completion is found by one look after another. */
static int poll_some(struct ibv_cq *cq, struct ibv_wc *wc)
{
    int found = 0;
    for (int look = 0; look < LOOKS && !found; look++)
        found = poll_once(cq, wc);
    return found;
}

/* The status of the only send that was posted. */
static enum ibv_wc_status poll_status(enum link link)
{
    struct ibv_wc wc;
    int found;
    while (!(found = ibv_poll_cq(ends[link].sends, 1, &wc)))
        ;
    must(found > 0, "ibv_poll_cq");
    ends[link].posted = 0;
    return wc.status;
}

/* The completion of so many sends. */
static void poll_sends(enum link link, int count)
{
    struct ibv_wc wc;
    for (ends[link].posted -= count; count > 0;)
        count -= poll_once(ends[link].sends, &wc);
}

static int poll_all(enum link link)
{
    int count = ends[link].posted;
    poll_sends(link, count);
    return count;
}

/* The first word of a received message. */
static uint64_t word_of(enum link link, const struct ibv_wc *wc)
{
    return m->received[link][wc->wr_id][link == DATAGRAMS ? 5 : 0];
}

static uint64_t poll_receive(enum link link)
{
    struct ibv_wc wc;
    while (!poll_once(ends[link].receives, &wc))
        ;
    uint64_t word = word_of(link, &wc);
    post_receive(link, wc.wr_id);
    return word;
}

/* Waits until a put is where the peer's processor sees it: a read behind it is answered later. */
static void flush(enum link link)
{
    get(link, &m->flush, &m->flush, SIGNALED);
    poll_all(link);
}

/* All that was posted is done with, also at the peer. */
static void settle(void)
{
    for (int link = 0; link <= LINKS; link++) {
        if (ends[link].qp == NULL)
            continue;
        poll_all(link);
        if (ends[link].is_used && link != DATAGRAMS)
            flush(link);
        ends[link].is_used = 0;
    }
}

/* Takes messages that the test has not polled. */
static void drain(void)
{
    struct ibv_wc wc;
    for (int link = 0; link <= LINKS; link++)
        while (ends[link].qp && poll_some(ends[link].receives, &wc))
            post_receive(link, wc.wr_id);
}

/* Setting up. */

enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

static void open_device(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    must(devices && devices[0], "ibv_get_device_list");
    context = ibv_open_device(devices[0]);
    must(context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
}

static void register_memory(void)
{
    pd = ibv_alloc_pd(context);
    must(pd != NULL, "ibv_alloc_pd");
    m = aligned_alloc(4096, (sizeof *m + 4095) / 4096 * 4096);
    must(m != NULL, "aligned_alloc");
    memset((void *)m, 0, sizeof *m);
    region = ibv_reg_mr(pd, (void *)m, sizeof *m, RIGHTS | IBV_ACCESS_MW_BIND);
    relaxed_region = ibv_reg_mr(pd, (void *)m, sizeof *m, RIGHTS | IBV_ACCESS_RELAXED_ORDERING);
    must(region && relaxed_region, "ibv_reg_mr");
}

static void to_init(struct ibv_qp *qp, int is_ud)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS, .qkey = 1};
    int last = is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    must(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last), "INIT");
}

static struct ibv_ah_attr way_to(const struct name *peer)
{
    return (struct ibv_ah_attr){.is_global = 1, .port_num = 1,
                                .grh = {.dgid = peer->gid, .sgid_index = 1, .hop_limit = 64}};
}

static void to_rts(struct ibv_qp *qp, const struct name *peer)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
                              .max_dest_rd_atomic = 8, .min_rnr_timer = 1, .ah_attr = way_to(peer)};
    must(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 8};
    must(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                      IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void to_rts_of_datagrams(struct ibv_qp *qp, const struct name *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR}, rts = {.qp_state = IBV_QPS_RTS};
    struct ibv_ah_attr way = way_to(peer);
    must(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
    must(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
    handle = ibv_create_ah(pd, &way);
    must(handle != NULL, "ibv_create_ah");
}

/* Our end of a connection. */
static void add_end(enum link link, int peer)
{
    struct end *end = &ends[link];
    int is_ud = link == DATAGRAMS;
    struct ibv_srq_init_attr shared = {.attr = {STOCK, 1, 0}};
    end->sends = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
    end->receives = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
    end->shared = link == SHARED && me == B ? ibv_create_srq(pd, &shared) : NULL;
    must(end->sends && end->receives, "ibv_create_cq");
    struct ibv_qp_init_attr init = {.send_cq = end->sends, .recv_cq = end->receives, .srq = end->shared,
                                    .qp_type = is_ud ? IBV_QPT_UD : IBV_QPT_RC, .cap = {DEPTH, STOCK, 1, 1, 64}};
    end->qp = ibv_create_qp(pd, &init);
    must(end->qp != NULL, "ibv_create_qp");
    struct name ours = {end->qp->qp_num, region->rkey, relaxed_region->rkey, (uintptr_t)m, {{0}}};
    must(!ibv_query_gid(context, 1, 1, &ours.gid), "ibv_query_gid");
    to_init(end->qp, is_ud);
    for (int number = 0; number < STOCK; number++)
        post_receive(link, number);
    exchange(peer, &ours, &end->peer, sizeof ours);
    if (is_ud)
        to_rts_of_datagrams(end->qp, &end->peer);
    else
        to_rts(end->qp, &end->peer);
    /* A message is not to come before its receiver is ready. */
    char byte = 0;
    exchange(peer, &byte, &byte, 1);
}

static void remove_end(enum link link)
{
    struct end *end = &ends[link];
    must(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(end->sends) && !ibv_destroy_cq(end->receives), "ibv_destroy");
    memset(end, 0, sizeof *end);
}

static void connect_all(void)
{
    static const enum process of[LINKS + 1][2] = {{A, B}, {A, B}, {A, B}, {A, C}, {C, B}, {A, B}};
    for (int link = 0; link <= LINKS; link++)
        if (of[link][0] == me || of[link][1] == me)
            add_end(link, of[link][0] == me ? of[link][1] : of[link][0]);
}
