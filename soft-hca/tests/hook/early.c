/*
 * Threads that poll a completion queue before it has a queue pair, each time of a context of its own:
 *
 *   early ROUNDS [extended]
 *
 * There are more of them than processors and they never rest, so that some are put aside within a poll,
 * and go on when messages have come.
 */
#include "side.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { POLLERS = 4, BURST = 8, MESSAGE = 100 };

static struct side side;
static atomic_uint polled, wrong;

static void *polls(void *nothing)
{
    while (atomic_load(&polled) < BURST) {
        uint64_t number;
        int status;
        if (!poll_once(&side, &number, &status))
            continue;
        if (status || !has(side.memory + number * BYTES, MESSAGE, number + 1))
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&polled, 1);
    }
    return nothing;
}

static void receives(void)
{
    pthread_t pollers[POLLERS];
    atomic_store(&polled, 0);
    create_cq(&side);
    for (int i = 0; i < POLLERS; i++)
        check(!pthread_create(&pollers[i], NULL, polls, NULL), "pthread_create");
    create_qp(&side);
    connect_side(&side);
    for (unsigned i = 0; i < BURST; i++)
        post_receive(&side, i);
    step();
    for (int i = 0; i < POLLERS; i++)
        pthread_join(pollers[i], NULL);
    step();
}

static void sends(void)
{
    create_queues(&side);
    connect_side(&side);
    await();
    for (unsigned i = 0; i < BURST; i++)
        send_one(&side, MESSAGE, i + 1);
    await();
}

int main(int count, char **arguments)
{
    int sockets[2], status;
    check(count > 1, "arguments");
    unsigned rounds = atoi(arguments[1]);
    is_extended = count > 2;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t sender = fork();
    to_peer = sockets[sender != 0];
    for (unsigned round = 0; round < rounds; round++) {
        open_side(&side);
        if (sender)
            receives();
        else
            sends();
        destroy_queues(&side);
        close_side(&side);
    }
    if (!sender)
        return 0;
    printf("%u rounds, %u messages wrong\n", rounds, atomic_load(&wrong));
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    return status != 0;
}
