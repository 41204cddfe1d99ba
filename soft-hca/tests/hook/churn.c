/*
 * Threads that poll a queue while others make queues in the same context, use them and destroy them:
 *
 *   churn ROUNDS [extended]
 *
 * A receiver, and a sender that it forks. In each round each of the receiver's threads makes a completion
 * queue and a queue pair, which another thread polls for some messages, and destroys them when that
 * thread has left them. In every second round it begins to poll before there is a queue pair. All the
 * time two threads poll a queue that stays.
 */
#include "side.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { CHURNERS = 2, POLLERS = 2, BURST = 8, MESSAGE = 100, ADDRESSES = 64 };

/* What the two processes have in common. */
static struct {
    atomic_int is_over, is_done;
    atomic_uint sent;
} *both;

static unsigned rounds;
static struct side steady;
static atomic_uint received, wrong, used_again;

/* A thread that makes queues, and the one that polls them. */
static struct churner {
    struct side side;
    int socket;
    /* What the polling thread is to do. */
    _Atomic enum { NOTHING, POLL, LEAVE } wish;
    unsigned round;
    atomic_uint polled;
} churners[CHURNERS];

/* Looks at a message in a buffer, and makes the buffer fit for the next one. */
static void look(unsigned char *buffer, int status, unsigned number)
{
    if (status || !has(buffer, MESSAGE, number))
        atomic_fetch_add(&wrong, 1);
    memset(buffer, 0xee, MESSAGE);
}

static void *polls_steady(void *nothing)
{
    while (!atomic_load(&both->is_done) || atomic_load(&received) != atomic_load(&both->sent)) {
        uint64_t number;
        int status;
        if (!poll_once(&steady, &number, &status)) {
            sched_yield();
            continue;
        }
        unsigned char *buffer = steady.memory + number * BYTES;
        look(buffer, status, buffer[0]);
        post_receive(&steady, number);
        atomic_fetch_add(&received, 1);
    }
    return nothing;
}

static void *polls(void *of)
{
    struct churner *churner = of;
    for (unsigned turns = 0; !atomic_load(&both->is_over); turns++) {
        uint64_t number;
        int status, wish = atomic_load(&churner->wish);
        if (wish == LEAVE)
            atomic_store(&churner->wish, NOTHING);
        if (wish == POLL && poll_once(&churner->side, &number, &status)) {
            look(churner->side.memory + number * BYTES, status, churner->round * BURST + number);
            atomic_fetch_add(&churner->polled, 1);
        } else if (wish != POLL || turns % 64 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

/* Whether a queue lies where one has lain before. */
static int is_known(struct ibv_cq **known, struct ibv_cq *cq, unsigned round)
{
    for (int i = 0; i < ADDRESSES; i++)
        if (known[i] == cq)
            return 1;
    known[round % ADDRESSES] = cq;
    return 0;
}

static void *makes_queues(void *of)
{
    struct churner *churner = of;
    struct side *side = &churner->side;
    struct ibv_cq *known[ADDRESSES] = {0};
    to_peer = churner->socket;
    for (unsigned i = 0; i < BURST; i++)
        memset(side->memory + i * BYTES, 0xee, MESSAGE);
    for (unsigned round = 0; round < rounds; round++) {
        churner->round = round;
        atomic_store(&churner->polled, 0);
        create_cq(side);
        if (is_known(known, side->cq, round))
            atomic_fetch_add(&used_again, 1);
        if (round % 2)
            atomic_store(&churner->wish, POLL);
        create_qp(side);
        connect_side(side);
        for (unsigned i = 0; i < BURST; i++)
            post_receive(side, i);
        step();
        atomic_store(&churner->wish, POLL);
        while (atomic_load(&churner->polled) < BURST)
            sched_yield();
        atomic_store(&churner->wish, LEAVE);
        while (atomic_load(&churner->wish) != NOTHING)
            sched_yield();
        destroy_queues(side);
    }
    return NULL;
}

static void *sends(void *of)
{
    struct churner *churner = of;
    struct side *side = &churner->side;
    to_peer = churner->socket;
    for (unsigned round = 0; round < rounds; round++) {
        create_queues(side);
        connect_side(side);
        await();
        for (unsigned i = 0; i < BURST; i++)
            send_one(side, MESSAGE, round * BURST + i);
        destroy_queues(side);
    }
    return NULL;
}

static void *sends_steadily(void *nothing)
{
    while (!atomic_load(&both->is_over)) {
        send_one(&steady, MESSAGE, atomic_fetch_add(&both->sent, 1));
        sched_yield();
    }
    atomic_store(&both->is_done, 1);
    return nothing;
}

static pthread_t start(void *(*function)(void *), void *of)
{
    pthread_t thread;
    check(!pthread_create(&thread, NULL, function, of), "pthread_create");
    return thread;
}

int main(int count, char **arguments)
{
    int sockets[1 + CHURNERS][2];
    check(count > 1, "arguments");
    rounds = atoi(arguments[1]);
    int is_queue_extended = count > 2;
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(both != MAP_FAILED, "mmap");
    for (int i = 0; i <= CHURNERS; i++)
        check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]), "socketpair");
    pid_t sender = fork();
    to_peer = sockets[CHURNERS][sender != 0];
    open_side(&steady);
    create_queues(&steady);
    connect_side(&steady);
    is_extended = is_queue_extended;
    pthread_t made[CHURNERS], polling[CHURNERS], steadily[POLLERS];
    for (int i = 0; i < CHURNERS; i++) {
        churners[i].side.context = steady.context;
        churners[i].socket = sockets[i][sender != 0];
        add_memory(&churners[i].side);
    }
    if (!sender) {
        await();
        steadily[0] = start(sends_steadily, NULL);
        for (int i = 0; i < CHURNERS; i++)
            made[i] = start(sends, &churners[i]);
        for (int i = 0; i < CHURNERS; i++)
            pthread_join(made[i], NULL);
        pthread_join(steadily[0], NULL);
        return 0;
    }
    for (unsigned i = 0; i < DEPTH; i++)
        post_receive(&steady, i);
    step();
    for (int i = 0; i < POLLERS; i++)
        steadily[i] = start(polls_steady, NULL);
    for (int i = 0; i < CHURNERS; i++) {
        made[i] = start(makes_queues, &churners[i]);
        polling[i] = start(polls, &churners[i]);
    }
    for (int i = 0; i < CHURNERS; i++)
        pthread_join(made[i], NULL);
    atomic_store(&both->is_over, 1);
    for (int i = 0; i < CHURNERS; i++)
        pthread_join(polling[i], NULL);
    for (int i = 0; i < POLLERS; i++)
        pthread_join(steadily[i], NULL);
    printf("%u rounds, %u messages wrong\n", CHURNERS * rounds, atomic_load(&wrong));
    print("messages to the queue that stays", atomic_load(&received) > 0);
    print("addresses are used again", atomic_load(&used_again) > 0);
    int status;
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    return status != 0;
}
