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
    uint32_t qpn, rkey;
    uint64_t address;
};

static int to_peer;
static struct side side;
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
    struct name own = {side.qp->qp_num, my_region->rkey, (uintptr_t)mine};
    say(&own, sizeof own);
    hear(&peer, sizeof peer);
    connect_to(&side, peer.qpn);
    step();
    await();
}

/* The peer's requests: of bytes from an offset on of the target's memory. */

static void operate(enum ibv_wr_opcode opcode, unsigned offset, unsigned length)
{
    struct ibv_sge sge = {(uintptr_t)mine + 1024, length, my_region->lkey};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = SIGNALED}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer.address + offset;
        wr.wr.atomic.rkey = peer.rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = peer.address + offset;
        wr.wr.rdma.rkey = peer.rkey;
    }
    must(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
    poll(&side, 1);
}

static void post_receive(unsigned offset)
{
    struct ibv_sge sge = {(uintptr_t)mine + offset, MESSAGE, my_region->lkey};
    struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
    must(!ibv_post_recv(side.qp, &wr, &bad), "ibv_post_recv");
}

/* Peers. Each waits until the target is ready, and says when it is done. */

static void peer_writes(int racy)
{
    (void)racy;
    await();
    operate(IBV_WR_RDMA_WRITE, 0, MESSAGE);
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

static const struct {
    const char *class, *name;
    void (*target)(int racy);
    void (*peer)(int racy);
} cases[] = {
    {"target of a write", "write-load", write_load, peer_writes},
    {"target of a write", "target-store", write_store, peer_writes},
    {"target of a write", "write-neighbour", write_neighbour, peer_writes},
    {"target of a write", "write-watched", watched, peer_writes},
    {"target of a write", "write-filled", filled, peer_writes},
    {"target of a write", "write-in-thread", in_another_thread, peer_writes},
    {"target of a write", "write-deregistered", freed, peer_writes},
    {"target of a write", "told-by-message", told_by_message, peer_writes_and_sends},
    {"target of a write", "told-by-immediate", told_by_immediate, peer_writes_with_immediate},
    {"target of a read", "target-read-store", read_store, peer_reads},
    {"target of a read", "read-load-or-store", read_load_or_store, peer_reads},
    {"target of an atomic", "atomic-load", atomic_load, peer_adds},
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
        await();
        _exit(0);
    }
    cases[number].target(racy);
    step();
    must(waitpid(child, &status, 0) == child && status == 0, "the peer");
    /* What has happened meanwhile is told by a call. */
    must(!ibv_destroy_qp(side.qp), "ibv_destroy_qp");
    return 0;
}

/* The sanitizer that finds it. */
static char by(int number)
{
    (void)number;
    return 'T';
}

#include "main.h"
