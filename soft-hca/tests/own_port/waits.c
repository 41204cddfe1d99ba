/*
 * Two processes, each waiting for the other's message by its completion channel:
 *
 *   waits HOW MESSAGES   read, poll, ppoll, epoll, epoll_pwait, or nested: a set of epoll in poll; without end if MESSAGES
 *                        is 0; prints the time of each message
 *   waits ends           waits that nothing ends but time or a signal, with the connection there
 */
#include "../hook/side.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { MESSAGE = 8, WAIT_MS = 60 };

static struct side side;
static int set;
static const char *how;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Waits in the way that was asked for: how many descriptors have something. */
static int wait_for(int milliseconds, const sigset_t *mask)
{
    struct pollfd entry = {.fd = strcmp(how, "nested") ? cq_channel->fd : set, .events = POLLIN};
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    struct epoll_event event;
    if (!strcmp(how, "poll") || !strcmp(how, "nested"))
        return poll(&entry, 1, milliseconds);
    if (!strcmp(how, "ppoll"))
        return ppoll(&entry, 1, milliseconds < 0 ? NULL : &time, mask);
    if (!strcmp(how, "epoll"))
        return epoll_wait(set, &event, 1, milliseconds);
    check(!strcmp(how, "epoll_pwait"), "how");
    return epoll_pwait(set, &event, 1, milliseconds, mask);
}

/* Takes the channel's event, and has the next completion give one. */
static void take_event(void)
{
    struct ibv_cq *cq;
    void *context;
    if (strcmp(how, "read"))
        check(wait_for(-1, NULL) == 1, "wait");
    check(!ibv_get_cq_event(cq_channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
}

/* Waits for a receive; completions of sends pass. */
static void receive(void)
{
    for (;;) {
        uint64_t number;
        int status;
        while (poll_once(&side, &number, &status)) {
            check(status == IBV_WC_SUCCESS, "completion");
            if (number < DEPTH) {
                post_receive(&side, number);
                return;
            }
        }
        take_event();
    }
}

static void prepare(void)
{
    open_device(&side);
    cq_channel = ibv_create_comp_channel(side.context);
    check(cq_channel != NULL, "ibv_create_comp_channel");
    set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    check(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, cq_channel->fd, &event), "epoll");
    add_memory(&side);
    create_queues(&side);
    check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
    connect_side(&side);
    for (unsigned i = 0; i < DEPTH; i++)
        post_receive(&side, i);
}

static void is_hit(int signal)
{
    (void)signal;
}

/* Waits that end without an event. */
static void ends(void)
{
    static const char *const ways[] = {"poll", "ppoll", "epoll", "epoll_pwait", "nested"};
    struct sigaction action = {.sa_handler = is_hit};
    sigset_t blocked, none;
    check(!sigaction(SIGALRM, &action, NULL), "sigaction");
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        how = ways[i];
        check(wait_for(0, NULL) == 0, "no wait");
        double began = now();
        check(wait_for(WAIT_MS, NULL) == 0, "time");
        int is_late_enough = now() - began >= WAIT_MS / 1e3;
        /* A signal that is pending until the mask of the wait lets it through, or one that comes during the wait. */
        int has_mask = !strcmp(how, "ppoll") || !strcmp(how, "epoll_pwait");
        if (has_mask) {
            check(!sigprocmask(SIG_BLOCK, &blocked, NULL), "sigprocmask");
            check(!raise(SIGALRM), "raise");
        } else {
            ualarm(WAIT_MS * 1000, 0);
        }
        int is_interrupted = wait_for(-1, has_mask ? &none : NULL) == -1 && errno == EINTR;
        check(!sigprocmask(SIG_UNBLOCK, &blocked, NULL), "sigprocmask");
        printf("%s: %s\n", how, is_late_enough && is_interrupted ? "in time, by a signal" : "wrong");
    }
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count >= 2, "arguments");
    how = arguments[1];
    long messages = count > 2 ? atol(arguments[2]) : 0;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t server = fork();
    to_peer = sockets[server != 0];
    /* A test kills the one that it has started. */
    if (!server)
        check(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
    prepare();
    if (!strcmp(how, "ends")) {
        if (server)
            ends();
        fflush(stdout);
        step();
        await();
    } else {
        step();
        await();
        double began = now();
        for (long i = 0; messages == 0 || i < messages; i++) {
            if (server)
                post(&side, MESSAGE, 0, 0);
            receive();
            if (!server)
                post(&side, MESSAGE, 0, 0);
        }
        if (server)
            printf("%s: %.2f us\n", how, (now() - began) / messages / 2 * 1e6);
    }
    if (!server)
        _exit(0);
    check(waitpid(server, NULL, 0) == server, "waitpid");
    return 0;
}
