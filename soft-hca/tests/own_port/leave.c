/*
 * A receiver that polls leaves at once when it has found the last message, and its sender gets that one
 * acknowledged:
 *
 *   leave kill      by SIGKILL
 *   leave exit      by _exit, with nothing destroyed
 *   leave error     by moving its queue pair to the error state first, as rdma_disconnect does
 *   leave destroy   by destroying its queue pair first
 *   leave child     after it has counted what a child of its own has of the port to other hosts
 */
#include "../hook/side.h"

#include <signal.h>
#include <sys/wait.h>

enum { MESSAGES = 100, MESSAGE = 64, DESCRIPTORS = 4096, BACK_OFF_US = 300000 };

static struct side side;

/* Sockets for datagrams that this process has. */
static unsigned datagram_sockets(void)
{
    unsigned found = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        int type;
        socklen_t length = sizeof type;
        if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && type == SOCK_DGRAM)
            found++;
    }
    return found;
}

static void count_sockets(void)
{
    print("the process has sockets of the port", datagram_sockets() > 0);
    pid_t child = fork();
    if (!child) {
        print("its child has", datagram_sockets() > 0);
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == child, "waitpid");
}

static void receives(const char *how)
{
    create_queues(&side);
    connect_side(&side);
    for (unsigned i = 0; i < DEPTH; i++)
        post_receive(&side, i);
    step();
    for (unsigned i = 0; i < MESSAGES; i++) {
        int status;
        unsigned number = poll_one(&side, &status);
        check(status == IBV_WC_SUCCESS, "receive");
        if (i + 1 < MESSAGES)
            post_receive(&side, number);
    }
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    if (!strcmp(how, "error"))
        check(!ibv_modify_qp(side.qp, &error, IBV_QP_STATE), "ibv_modify_qp");
    if (!strcmp(how, "destroy"))
        check(!ibv_destroy_qp(side.qp), "ibv_destroy_qp");
    if (!strcmp(how, "child"))
        count_sockets();
    _exit(0);
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count == 2, "arguments");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t receiver = fork();
    to_peer = sockets[receiver != 0];
    open_side(&side);
    if (!receiver)
        receives(arguments[1]);
    create_queues(&side);
    connect_side(&side);
    await();
    for (unsigned i = 0; i < MESSAGES; i++) {
        /* A receiver that has let packets wait has its share again by then, unless the machine is very busy. */
        if (i + 1 == MESSAGES)
            usleep(BACK_OFF_US);
        send_one(&side, MESSAGE, i);
    }
    check(waitpid(receiver, NULL, 0) == receiver, "waitpid");
    puts("all acknowledged");
    destroy_queues(&side);
    close_side(&side);
    return 0;
}
