/*
 * Races between a program and its peer's RDMA operations at its memory, each with the program that has none:
 *
 *   targets CASE racy|right, targets list, targets all       as races
 *
 * Two processes, which talk by a pair of sockets. The one that is looked at is the target; its peer does no more than it is
 * told.
 */
#include "side.h"

#include <sys/socket.h>
#include <sys/wait.h>

/* What the sides tell each other. */
struct name {
    uint32_t qpn, other_qpn, rkey;
    uint64_t address;
};

static int to_peer;
/* Two queue pairs, each connected to one of the peer's. */
static struct side side, other;
static struct name peer;

static void say(const void *bytes, size_t length)
{
    must(write(to_peer, bytes, length) == (ssize_t)length, "write");
}

static void hear(void *bytes, size_t length)
{
    must(recv(to_peer, bytes, length, MSG_WAITALL) == (ssize_t)length, "recv");
}

/* A step of ours is done, or one of the peer's. */
static void step(void)
{
    say("", 1);
}

static void await(void)
{
    char byte;
    hear(&byte, 1);
}

static void set_up(void)
{
    open_device();
    add_memory();
    create(&side, NULL);
    create(&other, NULL);
    struct name own = {side.qp->qp_num, other.qp->qp_num, my_region->rkey, (uintptr_t)mine};
    say(&own, sizeof own);
    hear(&peer, sizeof peer);
    connect_to(&side, peer.qpn);
    connect_to(&other, peer.other_qpn);
    step();
    await();
}

/* The peer's requests: of bytes from an offset on of the target's memory. */

static void post_by(struct side *by, enum ibv_wr_opcode opcode, unsigned offset, unsigned length)
{
    struct ibv_sge sge = {(uintptr_t)mine + (by == &side ? 1024 : 1536), length, my_region->lkey};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = SIGNALED}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer.address + offset;
        wr.wr.atomic.rkey = peer.rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = peer.address + offset;
        wr.wr.rdma.rkey = peer.rkey;
    }
    must(!ibv_post_send(by->qp, &wr, &bad), "ibv_post_send");
}

static void operate(enum ibv_wr_opcode opcode, unsigned offset, unsigned length)
{
    post_by(&side, opcode, offset, length);
    poll(&side, 1);
}

/* A write's own completion tells nobody but its poster: the bytes are where the target's processor sees them when
 * a read behind it has its completion. */
static void write_and_read(unsigned offset)
{
    operate(IBV_WR_RDMA_WRITE, offset, MESSAGE);
    operate(IBV_WR_RDMA_READ, offset + MESSAGE - 8, 8);
}

static void post_receive_to(struct side *to, unsigned offset)
{
    struct ibv_sge sge = {(uintptr_t)mine + offset, MESSAGE, my_region->lkey};
    struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
    must(!ibv_post_recv(to->qp, &wr, &bad), "ibv_post_recv");
}

static void post_receive(unsigned offset)
{
    post_receive_to(&side, offset);
}

/* Peers. Each waits until the target is ready, and says when it is done. */

static void peer_writes(int racy)
{
    (void)racy;
    await();
    write_and_read(0);
    step();
}

static void peer_reads(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_RDMA_READ, 0, MESSAGE);
    step();
}

static void peer_adds(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
    step();
}

static void peer_writes_and_sends(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_RDMA_WRITE, 0, MESSAGE);
    operate(IBV_WR_SEND, 0, 8);
    step();
}

static void peer_writes_with_immediate(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_RDMA_WRITE_WITH_IMM, 0, MESSAGE);
    step();
}

/* A message of one queue pair tells nothing of a write by the other, unless that is where the target sees it. */
static void peer_writes_and_tells_by_another(int racy)
{
    await();
    if (racy)
        post_by(&side, IBV_WR_RDMA_WRITE, 0, MESSAGE);
    else
        write_and_read(0);
    post_by(&other, IBV_WR_SEND, 0, 8);
    poll(&other, 1);
    if (racy)
        poll(&side, 1);
    step();
}

static void peer_tells_writes_and_tells(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_SEND, 0, 8);
    operate(IBV_WR_RDMA_WRITE, 0, MESSAGE);
    operate(IBV_WR_SEND, 0, 8);
    step();
}

/* It waits for a message before it writes. */
static void peer_is_told_and_writes(int racy)
{
    (void)racy;
    post_receive(2048);
    step();
    poll(&side, 1);
    write_and_read(0);
    step();
}

/* Not at the beginning, where the heap has what it needs in memory that is free. */

static void peer_writes_inside(int racy)
{
    (void)racy;
    await();
    write_and_read(BYTES / 2);
    step();
}

static void peer_reads_inside(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_RDMA_READ, BYTES / 2, MESSAGE);
    step();
}

static void peer_adds_inside(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_ATOMIC_FETCH_AND_ADD, BYTES / 2, 8);
    step();
}

static void peer_writes_where_it_is_told(int racy)
{
    (void)racy;
    hear(&peer, sizeof peer);
    write_and_read(0);
    step();
}

static void peer_writes_by_both(int racy)
{
    await();
    post_by(&side, IBV_WR_RDMA_WRITE, 0, MESSAGE);
    if (!racy)
        poll(&side, 1);
    post_by(&other, IBV_WR_RDMA_WRITE, 32, MESSAGE);
    poll(&other, 1);
    if (racy)
        poll(&side, 1);
    step();
}

static void peer_adds_by_both_or_writes(int racy)
{
    await();
    post_by(&side, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
    post_by(&other, racy ? IBV_WR_RDMA_WRITE : IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
    poll(&other, 1);
    poll(&side, 1);
    step();
}

/* Targets. */

#define AROUND(racy, notice, access) \
    do {                             \
        if (racy)                    \
            access;                  \
        notice;                      \
        if (!(racy))                 \
            access;                  \
    } while (0)

static void write_load(int racy)
{
    step();
    AROUND(racy, await(), load(mine));
}

static void write_store(int racy)
{
    step();
    AROUND(racy, await(), store(mine + MESSAGE - 1));
}

static void write_neighbour(int racy)
{
    step();
    store(mine + MESSAGE - (racy ? 1 : 0));
    await();
}

static void read_store(int racy)
{
    step();
    AROUND(racy, await(), store(mine + 8));
}

static void read_load_or_store(int racy)
{
    step();
    if (racy)
        store(mine);
    else
        load(mine);
    await();
}

static void atomic_load(int racy)
{
    step();
    AROUND(racy, await(), load(mine));
}

static void told_by_message(int racy)
{
    post_receive(2048);
    step();
    AROUND(racy, poll(&side, 1), load(mine));
    await();
}

static void told_by_immediate(int racy)
{
    post_receive(2048);
    step();
    AROUND(racy, poll(&side, 1), load(mine));
    await();
}

/* The word that is watched changes, but nothing says that the others have. */
static void watched(int racy)
{
    volatile unsigned char *last = mine + MESSAGE - 1;
    step();
    if (racy)
        while (*last != 5)
            ;
    else
        await();
    load(mine);
    if (racy)
        await();
}

static void filled(int racy)
{
    /* What it stores before is overwritten. */
    looks = looks && racy;
    if (!racy)
        for (int i = 0; i < MESSAGE; i++)
            store(mine + i);
    step();
    if (racy)
        for (int i = 0; i < MESSAGE; i++)
            store(mine + i);
    await();
}

static void freed(int racy)
{
    step();
    if (!racy)
        await();
    must(racy || !ibv_dereg_mr(my_region), "ibv_dereg_mr");
    store(mine + (racy ? 0 : 1));
    if (racy)
        await();
}

static void *load_in_thread(void *at)
{
    load(at);
    return NULL;
}

static void in_another_thread(int racy)
{
    pthread_t thread;
    step();
    if (!racy)
        await();
    must(!pthread_create(&thread, NULL, load_in_thread, mine), "pthread_create");
    pthread_join(thread, NULL);
    if (racy)
        await();
}

/* The message is of the other queue pair. */
static void told_by_another_queue(int racy)
{
    (void)racy;
    post_receive_to(&other, 2048);
    step();
    poll(&other, 1);
    load(mine);
    await();
}

/* The first of two messages was posted before the write. */
static void told_by_first_message(int racy)
{
    post_receive(2048);
    post_receive(3072);
    step();
    poll(&side, racy ? 1 : 2);
    load(mine);
    if (racy)
        poll(&side, 1);
    await();
}

/* The peer writes when it has a message. */
static void tells_by_message(int racy)
{
    looks = looks && racy;
    await();
    AROUND(!racy, post_by(&side, IBV_WR_SEND, 0, 8), store(mine));
    poll(&side, 1);
    await();
}

static void lets_operate(int racy)
{
    (void)racy;
    step();
    await();
}

/* Memory that is gone when the peer accesses it. */

static void freed_before(int racy)
{
    if (racy)
        free(mine);
    step();
    await();
    if (!racy)
        free(mine);
}

static void reallocated(int racy)
{
    if (racy)
        must(realloc(mine, 2 * BYTES) != NULL, "realloc");
    step();
    await();
}

/* Memory of a function, whose name the peer gets. The calls that follow its return use no more than the end of it. */
static __attribute__((noinline)) struct name on_stack(int racy)
{
    enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
    unsigned char local[8 * BYTES];
    struct ibv_mr *region = ibv_reg_mr(pd, local, MESSAGE, RIGHTS);
    must(region != NULL, "ibv_reg_mr");
    struct name name = {side.qp->qp_num, 0, region->rkey, (uintptr_t)local};
    if (!racy) {
        say(&name, sizeof name);
        await();
        must(!ibv_dereg_mr(region), "ibv_dereg_mr");
    }
    return name;
}

static void returned(int racy)
{
    struct name name = on_stack(racy);
    if (racy) {
        say(&name, sizeof name);
        await();
    }
}

static const struct {
    const char *class, *name;
    void (*target)(int racy);
    void (*peer)(int racy);
    /* Whether ThreadSanitizer finds it, or AddressSanitizer. */
    char by;
} cases[] = {
    {"target of a write", "write-load", write_load, peer_writes, 'T'},
    {"target of a write", "target-store", write_store, peer_writes, 'T'},
    {"target of a write", "write-neighbour", write_neighbour, peer_writes, 'T'},
    {"target of a write", "write-watched", watched, peer_writes, 'T'},
    {"target of a write", "write-filled", filled, peer_writes, 'T'},
    {"target of a write", "write-in-thread", in_another_thread, peer_writes, 'T'},
    {"target of a write", "write-deregistered", freed, peer_writes, 'T'},
    {"target of a write", "told-by-message", told_by_message, peer_writes_and_sends, 'T'},
    {"target of a write", "told-by-immediate", told_by_immediate, peer_writes_with_immediate, 'T'},
    {"another message", "told-by-another-queue", told_by_another_queue, peer_writes_and_tells_by_another, 'T'},
    {"another message", "told-by-first-message", told_by_first_message, peer_tells_writes_and_tells, 'T'},
    {"another message", "tells-by-message", tells_by_message, peer_is_told_and_writes, 'T'},
    {"target of a read", "target-read-store", read_store, peer_reads, 'T'},
    {"target of a read", "read-load-or-store", read_load_or_store, peer_reads, 'T'},
    {"target of an atomic", "atomic-load", atomic_load, peer_adds, 'T'},
    {"two queue pairs at a target", "two-writes", lets_operate, peer_writes_by_both, 'T'},
    {"two queue pairs at a target", "atomic-and-write", lets_operate, peer_adds_by_both_or_writes, 'T'},
    {"target that is gone", "freed-before-write", freed_before, peer_writes_inside, 'A'},
    {"target that is gone", "freed-before-read", freed_before, peer_reads_inside, 'A'},
    {"target that is gone", "freed-before-atomic", freed_before, peer_adds_inside, 'A'},
    {"target that is gone", "reallocated", reallocated, peer_writes_inside, 'A'},
    {"target that is gone", "returned", returned, peer_writes_where_it_is_told, 'A'},
};

enum { CASES = sizeof cases / sizeof *cases };

static int run(int number, int racy)
{
    int sockets[2], status;
    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t child = fork();
    must(child >= 0, "fork");
    to_peer = sockets[child == 0];
    close(sockets[child != 0]);
    set_up();
    if (child == 0) {
        for (int i = 0; i < BYTES; i++)
            mine[i] = 5;
        cases[number].peer(racy);
        if (looks)
            look(&side, 1, mine + 1024, MESSAGE);
        await();
        _exit(0);
    }
    cases[number].target(racy);
    if (looks)
        look(&side, 1, mine, 0);
    step();
    must(waitpid(child, &status, 0) == child && status == 0, "the peer");
    /* What has happened meanwhile is told by a call. */
    must(!ibv_destroy_qp(side.qp), "ibv_destroy_qp");
    return 0;
}

/* The sanitizer that finds it. */
static char by(int number)
{
    return cases[number].by;
}

#include "main.h"
