/*
 * What a receiver finds in its memory, and when:
 *
 *   hook CASE
 *
 * A receiver, and a sender that it forks: each opens the device for itself. Prints what the receiver
 * sees, and ends with status 0.
 */
#include "side.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

enum { MANY = 20000 };

static const char *which;

static int is_case(const char *name)
{
    return !strcmp(which, name);
}

/* Messages of all sizes, each polled when the sender is done. */
static void sizes(struct side *side, int is_sender)
{
    static const unsigned all[] = {1, 8, 48, 49, 64, 1000, 4096};
    memset(side->memory, 0, DEPTH * BYTES);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (is_sender) {
            await();
            send_one(side, all[i], i + 1);
            step();
            continue;
        }
        post_receive(side, i);
        step();
        await();
        if (i == 0)
            print("there before the poll", has(side->memory, all[i], i + 1));
        poll_good(side);
        printf("%u bytes: %s\n", all[i], has(side->memory + i * BYTES, all[i], i + 1) ? "right" : "wrong");
    }
}

/* The region ends, or the queue pair, before the completion is polled. */
static void ended(struct side *side, int is_sender, int ends_region)
{
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        step();
        await();
        return;
    }
    post_receive(side, 0);
    step();
    await();
    check(ends_region ? !ibv_dereg_mr(side->mr) : !ibv_destroy_qp(side->qp), "the end");
    print("there when it has ended", has(side->memory, 100, 7));
    memset(side->memory, 1, BYTES);
    poll_good(side);
    print("untouched after that", side->memory[0] == 1 && side->memory[99] == 1);
    step();
}

/* A write to where a message has gone before. */
static void order(struct side *side, int is_sender, struct name peer)
{
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        fill(side->memory, 50, 70);
        post(side, 50, peer.address, peer.rkey);
        poll_good(side);
        step();
        return;
    }
    post_receive(side, 0);
    step();
    await();
    poll_good(side);
    print("the write came last", has(side->memory, 50, 70) && has(side->memory + 50, 50, 57));
}

/* Memory that a program has unmapped. */
static void unmapped(struct side *side, int is_sender)
{
    int status;
    if (is_sender) {
        await();
        send_one(side, 100, 7);
        step();
        await();
        check(!munmap(side->memory, BYTES), "munmap");
        post(side, 100, 0, 0);
        poll_one(side, &status);
        step();
        exit(status != IBV_WC_LOC_PROT_ERR);
    }
    post_receive(side, 0);
    post_receive(side, 1);
    check(!munmap(side->memory, BYTES), "munmap");
    step();
    await();
    poll_one(side, &status);
    print("the receiver goes on", 1);
    step();
    await();
}

static sigjmp_buf back;
static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    siglongjmp(back, info->si_addr == (void *)8 ? 1 : 2);
}

/* A program's own fault reaches its own handler. */
static int own_fault(void)
{
    int caught = sigsetjmp(back, 1);
    if (!caught)
        *(volatile int *)8 = 1;
    return caught == 1;
}

static int calls;
static int (*own_poll)(struct ibv_cq *, int, struct ibv_wc *);
static int counting_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    calls++;
    return own_poll(cq, count, wc);
}

/* Another library does as soft-hca does. */
static void swap(struct side *side)
{
    own_poll = side->context->ops.poll_cq;
    side->context->ops.poll_cq = counting_poll;
}

static struct side *shared;
static unsigned polled, wrong;

static void *poll_many(void *nothing)
{
    for (;;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(shared->cq, 1, &wc) == 1) {
            unsigned number = wc.wr_id;
            if (wc.status || !has(shared->memory + number * BYTES, 100, shared->memory[number * BYTES]))
                __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
            memset(shared->memory + number * BYTES, 0, 100);
            post_receive(shared, number);
            if (__atomic_add_fetch(&polled, 1, __ATOMIC_RELAXED) == MANY)
                return nothing;
        } else if (__atomic_load_n(&polled, __ATOMIC_RELAXED) >= MANY) {
            return nothing;
        } else {
            sched_yield();
        }
    }
}

/* Two threads poll one queue. */
static void threads(struct side *side, int is_sender)
{
    if (is_sender) {
        await();
        for (unsigned i = 0; i < MANY; i++)
            send_one(side, 100, i);
        return;
    }
    for (unsigned i = 0; i < DEPTH; i++)
        post_receive(side, i);
    shared = side;
    step();
    pthread_t other;
    check(!pthread_create(&other, NULL, poll_many, NULL), "pthread_create");
    poll_many(NULL);
    pthread_join(other, NULL);
    printf("%u messages, %u wrong\n", polled, wrong);
}

static void *sleeps(void *nothing)
{
    pause();
    return nothing;
}

int main(int count, char **arguments)
{
    int sockets[2];
    which = count > 1 ? arguments[1] : "plain";
    struct side side = {0};
    is_extended = is_case("extended") || is_case("extended-plainly");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t sender = fork();
    to_peer = sockets[sender != 0];
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    if (is_case("handler"))
        sigaction(SIGSEGV, &action, NULL);
    open_side(&side);
    if (is_case("swapped-before"))
        swap(&side);
    pthread_t other;
    if (is_case("extended-plainly"))
        check(!pthread_create(&other, NULL, sleeps, NULL), "pthread_create");
    create_queues(&side);
    if (is_case("extended-plainly"))
        side.extended = NULL;
    if (is_case("swapped-after"))
        swap(&side);
    struct name peer = connect_side(&side);
    if (is_case("order"))
        order(&side, !sender, peer);
    else if (is_case("region") || is_case("queue-pair"))
        ended(&side, !sender, is_case("region"));
    else if (is_case("unmapped"))
        unmapped(&side, !sender);
    else if (is_case("threads"))
        threads(&side, !sender);
    else
        sizes(&side, !sender);
    if (is_case("extended-plainly"))
        sizes(&side, !sender);
    if (is_case("handler") && sender)
        print("its own fault is its own", own_fault());
    if (is_case("again")) {
        for (int i = 0; i < 3; i++) {
            destroy_queues(&side);
            create_queues(&side);
            connect_side(&side);
            sizes(&side, !sender);
        }
    }
    if (is_case("contexts")) {
        struct side other = {0};
        open_side(&other);
        create_queues(&other);
        connect_side(&other);
        sizes(&other, !sender);
        sizes(&side, !sender);
    }
    if (is_case("swapped-before") || is_case("swapped-after"))
        if (sender)
            print("the other library is called", calls > 0);
    if (is_case("fork") && sender) {
        pid_t child = fork();
        int status;
        if (!child) {
            struct ibv_wc wc;
            _exit(ibv_poll_cq(side.cq, 1, &wc) != 0);
        }
        check(waitpid(child, &status, 0) == child, "waitpid");
        print("a child may poll", status == 0);
    }
    if (!sender)
        return 0;
    int status;
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    return status != 0;
}
