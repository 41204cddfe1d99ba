/*
 * Regions on demand (IBV_ACCESS_ON_DEMAND): memory that is not there when it is registered.
 *
 *   on_demand registers          what the device announces, and what can be registered
 *   on_demand advises            what becomes of the kernel's ADVISE_MR, by which newer libraries do ibv_advise_mr
 *   on_demand used               all requests on memory that has come meanwhile
 *   on_demand gather | write | read | receive BYTES
 *                                a request of so many bytes on memory that has gone
 */
#include "../hook/side.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

enum { ALL = DEPTH * BYTES, PROTECTION = PROT_READ | PROT_WRITE };

static struct side side;
static const char *which;

static int is(const char *name)
{
    return !strcmp(which, name);
}

/* Addresses at which nothing is mapped, and nobody else maps anything. */
static void *nowhere(void)
{
    void *range = (void *)(1ul << 36);
    check(munmap(range, ALL) == 0, "munmap");
    return range;
}

static void come(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    check(mmap(side.memory, ALL, PROTECTION, flags, -1, 0) == side.memory, "mmap");
}

static void go(void)
{
    check(!munmap(side.memory, ALL), "munmap");
}

static void registers(void)
{
    side.pd = ibv_alloc_pd(side.context);
    struct ibv_device_attr_ex attr = {0};
    check(!ibv_query_device_ex(side.context, NULL, &attr), "ibv_query_device_ex");
    struct ibv_odp_caps *caps = &attr.odp_caps;
    printf("in general %#lx, rc %#x, uc %#x, ud %#x\n", (long)caps->general_caps,
           caps->per_transport_caps.rc_odp_caps, caps->per_transport_caps.uc_odp_caps,
           caps->per_transport_caps.ud_odp_caps);
    errno = 0;
    int is_pinned = ibv_reg_mr(side.pd, side.memory, ALL, IBV_ACCESS_LOCAL_WRITE) != NULL;
    printf("pinned: %s\n", is_pinned ? "yes" : strerror(errno));
    errno = 0;
    int is_implicit = ibv_reg_mr(side.pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND) != NULL;
    printf("all memory: %s\n", is_implicit ? "yes" : strerror(errno));
    errno = 0;
    int is_remote = ibv_reg_mr(side.pd, side.memory, ALL, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE) != NULL;
    printf("writable by a peer alone: %s\n", is_remote ? "yes" : strerror(errno));
}

/* The first bytes of a region, by a key. */
static void advise(const char *what, unsigned advice, unsigned flags, size_t offset, uint32_t lkey)
{
    struct ibv_sge sge = {(uintptr_t)side.memory + offset, BYTES, lkey};
    struct ib_uverbs_attr attributes[] = {
        {.attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .flags = UVERBS_ATTR_F_MANDATORY, .data = side.pd->handle},
        {.attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .len = 8, .flags = UVERBS_ATTR_F_MANDATORY, .data = advice},
        {.attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .len = 4, .flags = UVERBS_ATTR_F_MANDATORY, .data = flags},
        {.attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .len = sizeof sge, .flags = UVERBS_ATTR_F_MANDATORY,
         .data = (uintptr_t)&sge},
    };
    struct ib_uverbs_ioctl_hdr header = {.length = sizeof header + sizeof attributes, .object_id = UVERBS_OBJECT_MR,
                                         .method_id = UVERBS_METHOD_ADVISE_MR, .num_attrs = 4};
    unsigned char command[sizeof header + sizeof attributes];
    memcpy(command, &header, sizeof header);
    memcpy(command + sizeof header, attributes, sizeof attributes);
    printf("%s: %s\n", what, strerror(ioctl(side.context->cmd_fd, RDMA_VERBS_IOCTL, command) ? errno : 0));
}

static void advises(void)
{
    enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, WRITE = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
           SOFTLY = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, WAIT = IB_UVERBS_ADVISE_MR_FLAG_FLUSH };
    unsigned char is_there = 0;
    register_memory(&side);
    advise("gone", READ, WAIT, 0, side.mr->lkey);
    advise("gone, without faults", SOFTLY, WAIT, 0, side.mr->lkey);
    advise("gone, and nobody waits", WRITE, 0, 0, side.mr->lkey);
    come();
    advise("there", READ, WAIT, 0, side.mr->lkey);
    advise("there, to be written", WRITE, WAIT, 0, side.mr->lkey);
    check(!mincore(side.memory, BYTES, &is_there), "mincore");
    print("its page has come", is_there & 1);
    advise("beyond the region", READ, WAIT, ALL, side.mr->lkey);
    advise("no key", READ, WAIT, 0, 0);
    advise("no advice", 9, WAIT, 0, side.mr->lkey);
    advise("no flag", READ, 2, 0, side.mr->lkey);
}

/* A request to the peer's memory, and the status of its completion. */
static int request(enum ibv_wr_opcode opcode, struct name peer, unsigned bytes)
{
    struct ibv_sge sge = {(uintptr_t)side.memory, bytes, side.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .wr.rdma = {peer.address, peer.rkey}}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer.address;
        wr.wr.atomic.rkey = peer.rkey;
        wr.wr.atomic.compare_add = 5;
    }
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
    int status;
    poll_one(&side, &status);
    return status;
}

static void uses(struct name peer)
{
    uint64_t *words = (uint64_t *)side.memory;
    fill(side.memory, BYTES, 3);
    print("sent", !request(IBV_WR_SEND, peer, BYTES));
    print("written", !request(IBV_WR_RDMA_WRITE, peer, ALL));
    /* Pages that were given back are there again, and empty. */
    check(!madvise(side.memory, ALL, MADV_DONTNEED), "madvise");
    print("read", !request(IBV_WR_RDMA_READ, peer, ALL) && has(side.memory, BYTES, 3));
    words[0] = 0;
    print("added", !request(IBV_WR_ATOMIC_FETCH_AND_ADD, peer, 8) && words[0] == 0x0a09080706050403);
}

int main(int count, char **arguments)
{
    int sockets[2], status;
    check(count >= 2, "arguments");
    which = arguments[1];
    unsigned bytes = count > 2 ? atoi(arguments[2]) : 0;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    setvbuf(stdout, NULL, _IOLBF, 0);
    pid_t receiver = is("registers") || is("advises") ? 0 : fork();
    int is_sender = receiver > 0;
    to_peer = sockets[is_sender];
    rights |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND;
    open_device(&side);
    side.memory = nowhere();
    if (is("registers") || is("advises")) {
        is("advises") ? advises() : registers();
        return 0;
    }
    register_memory(&side);
    create_queues(&side);
    struct name peer = connect_side(&side);
    come();
    if (!is_sender) {
        post_receive(&side, 0);
        if (is("write") || is("read") || is("receive"))
            go();
        step();
        if (is("used") || is("receive")) {
            poll_one(&side, &status);
            printf("received: %s\n", ibv_wc_status_str(status));
            step();
        }
        await();
        return 0;
    }
    await();
    if (is("used"))
        uses(peer);
    else if (is("gather"))
        go(), printf("%s\n", ibv_wc_status_str(request(IBV_WR_SEND, peer, bytes)));
    else if (is("receive"))
        printf("%s\n", ibv_wc_status_str(request(IBV_WR_SEND, peer, bytes)));
    else
        printf("%s\n", ibv_wc_status_str(request(is("read") ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, peer, bytes)));
    if (is("used") || is("receive"))
        await();
    step();
    check(waitpid(receiver, &status, 0) == receiver, "waitpid");
    return status != 0;
}
