/*
 * Sleeps of many minutes, with each function that there is for that: one after the other between RDMA writes to a peer that waits
 * in the kernel (`writes`), of two threads at a time (`threads`), and interrupted by a signal while another thread computes
 * (`signal`). With `clock` a short one is to take its time.
 */
#include "../hook/side.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

enum { MINUTES = 10, ROUNDS = 3 };

static struct timespec minutes(int count)
{
    return (struct timespec){.tv_sec = 60 * count};
}

static void by_nanosleep(void)
{
    struct timespec time = minutes(MINUTES);
    check(!nanosleep(&time, NULL), "nanosleep");
}

static void by_clock(void)
{
    struct timespec time = minutes(MINUTES);
    check(!clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), "clock_nanosleep");
}

static void until(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 60 * MINUTES;
    check(!clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &time, NULL), "clock_nanosleep until");
}

static void by_usleep(void)
{
    check(!usleep(MINUTES * 60 * 1000000u), "usleep");
}

static void by_sleep(void)
{
    check(!sleep(60 * MINUTES), "sleep");
}

static void by_thread(void)
{
    struct timespec time = minutes(MINUTES);
    check(!thrd_sleep(&time, NULL), "thrd_sleep");
}

static void by_poll(void)
{
    check(!poll(NULL, 0, MINUTES * 60 * 1000), "poll");
    struct timespec time = minutes(MINUTES);
    check(!ppoll(NULL, 0, &time, NULL), "ppoll");
}

static void by_select(void)
{
    struct timeval time = {.tv_sec = 60 * MINUTES};
    check(!select(0, NULL, NULL, NULL, &time), "select");
    check(time.tv_sec == 0 && time.tv_usec == 0, "what select has left");
    struct timespec again = minutes(MINUTES);
    check(!pselect(0, NULL, NULL, NULL, &again, NULL), "pselect");
}

static int writes(void)
{
    void (*sleeps[])(void) = {by_nanosleep, by_clock, until, by_usleep, by_sleep, by_thread, by_poll, by_select};
    int sockets[2];
    struct side side;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t peer = fork();
    to_peer = sockets[peer != 0];
    /* One after the other, so that a record always has them in the same order. */
    if (!peer)
        await();
    open_side(&side);
    create_queues(&side);
    if (peer)
        step();
    struct name theirs = connect_side(&side);
    step();
    await();
    if (peer) {
        for (unsigned i = 0; i < sizeof sleeps / sizeof *sleeps; i++) {
            sleeps[i]();
            post(&side, 8, theirs.address, theirs.rkey);
            poll_good(&side);
        }
        step();
    } else {
        await();
    }
    destroy_queues(&side);
    close_side(&side);
    return peer ? status_of(peer) : 0;
}

/* Of two threads one sleeps twice as long as the other one. */
static atomic_int slept[2];

static void *sleeps_often(void *is_long)
{
    int number = is_long != NULL;
    for (int i = 0; i < ROUNDS * (2 - number); i++) {
        struct timespec time = minutes(MINUTES * (1 + number));
        time.tv_nsec = number;
        check(!nanosleep(&time, NULL), "nanosleep");
        slept[number]++;
        check(slept[0] >= 2 * slept[1], "the thread that sleeps longer was too early");
    }
    return NULL;
}

static int threads(void)
{
    pthread_t other;
    struct side side;
    open_side(&side);
    check(!pthread_create(&other, NULL, sleeps_often, slept), "pthread_create");
    sleeps_often(NULL);
    check(!pthread_join(other, NULL), "pthread_join");
    close_side(&side);
    return 0;
}

static atomic_int is_over;

static void *computes(void *nothing)
{
    while (!is_over)
        ;
    return nothing;
}

static void handle(int number)
{
    (void)number;
}

static void arm(void)
{
    struct itimerval soon = {.it_value.tv_usec = 50000};
    check(!setitimer(ITIMER_REAL, &soon, NULL), "setitimer");
}

/* Less than all is left, and more than nothing. */
static void check_left(struct timespec left)
{
    check(left.tv_sec > 60 && left.tv_sec < 60 * MINUTES, "what is left");
}

static int interrupted(void)
{
    pthread_t other;
    sigset_t alarms;
    struct side side;
    struct timespec time = minutes(MINUTES), left;
    open_side(&side);
    check(signal(SIGALRM, handle) != SIG_ERR, "signal");
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    check(!pthread_sigmask(SIG_BLOCK, &alarms, NULL), "pthread_sigmask");
    check(!pthread_create(&other, NULL, computes, NULL), "pthread_create");
    check(!pthread_sigmask(SIG_UNBLOCK, &alarms, NULL), "pthread_sigmask");
    arm();
    check(nanosleep(&time, &left) == -1 && errno == EINTR, "nanosleep");
    check_left(left);
    arm();
    check(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left) == EINTR, "clock_nanosleep");
    check_left(left);
    arm();
    check(thrd_sleep(&time, &left) == -1, "thrd_sleep");
    check_left(left);
    arm();
    check(usleep(MINUTES * 60 * 1000000u) == -1 && errno == EINTR, "usleep");
    arm();
    check_left((struct timespec){.tv_sec = sleep(60 * MINUTES)});
    arm();
    check(poll(NULL, 0, MINUTES * 60 * 1000) == -1 && errno == EINTR, "poll");
    struct timeval rest = {.tv_sec = 60 * MINUTES};
    arm();
    check(select(0, NULL, NULL, NULL, &rest) == -1 && errno == EINTR, "select");
    check_left((struct timespec){.tv_sec = rest.tv_sec});
    time.tv_nsec = 1000000000;
    check(nanosleep(&time, &left) == -1 && errno == EINVAL, "nanosleep of no time");
    is_over = 1;
    check(!pthread_join(other, NULL), "pthread_join");
    close_side(&side);
    return 0;
}

static int takes_its_time(void)
{
    struct timespec before, after;
    struct side side;
    open_side(&side);
    clock_gettime(CLOCK_MONOTONIC, &before);
    check(!sleep(1), "sleep");
    clock_gettime(CLOCK_MONOTONIC, &after);
    close_side(&side);
    long long passed = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    return passed < 1000000000;
}

int main(int count, char **arguments)
{
    check(count == 2, "arguments");
    switch (arguments[1][0]) {
    case 'w':
        return writes();
    case 't':
        return threads();
    case 's':
        return interrupted();
    case 'c':
        return takes_its_time();
    }
    return 2;
}
