/* A queue pair with what it needs, and memory of the program's. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096, DEPTH = 64, MESSAGE = 64 };
enum { SIGNALED = IBV_SEND_SIGNALED };

/* One end: a queue pair with its queue of completions. */
struct side {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_comp_channel *channel;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
/* Memory that is the program's, of a heap block each: in `races` what `a` sends and reads into, and what `b` receives
 * into. */
static unsigned char *mine, *theirs;
static struct ibv_mr *my_region, *their_region;
/* Where loads go, so that they are made. */
static volatile unsigned char seen;
/* Whether the program looks at what has come of its accesses. */
static int looks;

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        _exit(3);
    }
}

static void open_device(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    must(devices && devices[0], "ibv_get_device_list");
    context = ibv_open_device(devices[0]);
    must(context != NULL, "ibv_open_device");
    ibv_free_device_list(devices);
    looks = getenv("RACES_LOOK") != NULL;
    pd = ibv_alloc_pd(context);
    must(pd != NULL, "ibv_alloc_pd");
}

static inline void add_memory(void)
{
    enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
    mine = calloc(1, BYTES);
    theirs = calloc(1, BYTES);
    my_region = ibv_reg_mr(pd, mine, BYTES, RIGHTS);
    their_region = ibv_reg_mr(pd, theirs, BYTES, RIGHTS);
    must(my_region && their_region, "ibv_reg_mr");
}

static void create(struct side *side, struct ibv_srq *shared)
{
    side->channel = ibv_create_comp_channel(context);
    side->cq = ibv_create_cq(context, 2 * DEPTH, NULL, side->channel, 0);
    must(side->cq != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = {.send_cq = side->cq, .recv_cq = side->cq, .srq = shared, .qp_type = IBV_QPT_RC,
                                    .cap = {DEPTH, DEPTH, 2, 2, MESSAGE}};
    side->qp = ibv_create_qp(pd, &init);
    must(side->qp != NULL, "ibv_create_qp");
}

static void connect_to(struct side *side, uint32_t peer)
{
    union ibv_gid gid;
    must(!ibv_query_gid(context, 1, 1, &gid), "ibv_query_gid");
    enum { RIGHTS = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS};
    must(!ibv_modify_qp(side->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
                              .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
                              .ah_attr = {.is_global = 1, .port_num = 1,
                                          .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}};
    must(!ibv_modify_qp(side->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    must(!ibv_modify_qp(side->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* Polls so many completions. clang's runtime forgets where an access was made some thousand polls ago, and reports
 * nothing then, so there are pauses between them. */
static inline void poll(struct side *side, int count)
{
    struct ibv_wc wc;
    while (count > 0) {
        int found = ibv_poll_cq(side->cq, 1, &wc);
        must(found >= 0 && (found == 0 || wc.status == IBV_WC_SUCCESS), "a completion");
        if (found == 0)
            usleep(100);
        count -= found;
    }
}

/* With RACES_LOOK in its environment the program looks at the end whether all that it has loaded and stored is still
 * there, and whether nothing was sent that it has stored too late: a race that has a result, its status shows. */
enum { ACCESSES = 256, STORED = 7 };
static struct access {
    const unsigned char *at;
    unsigned char value;
} accesses[ACCESSES];
static unsigned access_count;

static inline void note(const unsigned char *at, unsigned char value)
{
    unsigned number = __atomic_fetch_add(&access_count, 1, __ATOMIC_RELAXED);
    if (number < ACCESSES)
        accesses[number] = (struct access){at, value};
}

static inline void store(unsigned char *at)
{
    *at = STORED;
    if (looks)
        note(at, STORED);
}

static inline void load(const unsigned char *at)
{
    seen = *at;
    if (looks)
        note(at, seen);
}

static inline int was_stored(const unsigned char *at)
{
    for (unsigned number = 0; number < access_count && number < ACCESSES; number++)
        if (accesses[number].at == at)
            return 1;
    return 0;
}

/* The last requests may be late. */
static inline void look(struct side *sides, int count, const unsigned char *received, unsigned length)
{
    struct ibv_wc wc;
    for (int attempt = 0; attempt < 100; attempt++) {
        for (int side = 0; side < count; side++)
            while (ibv_poll_cq(sides[side].cq, 1, &wc) > 0)
                ;
        usleep(1000);
    }
    for (unsigned number = 0; number < access_count && number < ACCESSES; number++)
        if (*accesses[number].at != accesses[number].value)
            _exit(4);
    for (unsigned offset = 0; offset < length; offset++)
        if (received[offset] == STORED && !was_stored(received + offset))
            _exit(4);
}
