/*
 * A program with a child that has a copy of its memory, as a data loader of Python's has: each of them looks at its own
 * while a peer reads and writes the parent's.
 */
#include "../hook/side.h"

#include <sys/wait.h>

enum { SENT = 100, WRITTEN = 4 * BYTES, ALL = DEPTH * BYTES, LAST = DEPTH - 1 };

static struct side side;

static int all_are(const unsigned char *bytes, size_t length, unsigned char value)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

/* Sends a message, and writes a larger one and reads when the peer has its child. */
static int sends(void)
{
    struct name peer = connect_side(&side);
    await();
    send_one(&side, SENT, 7);
    step();
    await();
    fill(side.memory, WRITTEN, 9);
    post(&side, WRITTEN, peer.address + BYTES, peer.rkey);
    poll_good(&side);
    struct ibv_sge sge = {(uintptr_t)side.memory, BYTES, side.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .wr.rdma = {peer.address + LAST * BYTES, peer.rkey}}, *bad;
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
    poll_good(&side);
    print("the peer reads what is the parent's", all_are(side.memory, BYTES, 1));
    fflush(stdout);
    step();
    destroy_queues(&side);
    close_side(&side);
    return 0;
}

/* Has its own bytes in all of the memory, and looks at them when the peer has written. */
static int loads(int with_parent)
{
    char byte = 0;
    memset(side.memory, 2, ALL);
    if (write(with_parent, &byte, 1) != 1 || read(with_parent, &byte, 1) != 1)
        return 1;
    return !all_are(side.memory, ALL, 2);
}

int main(void)
{
    int sockets[2], with_child[2], status;
    char byte;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t sender = fork();
    check(sender >= 0, "fork");
    to_peer = sockets[!sender];
    rnr_retry = 3;
    open_side(&side);
    create_queues(&side);
    if (!sender)
        return sends();
    print("fork needs no preparation", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
    fflush(stdout);
    memset(side.memory, 1, ALL);
    connect_side(&side);
    post_receive(&side, 0);
    step();
    await();
    /* The message has arrived, and was not polled yet. */
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, with_child), "socketpair");
    pid_t loader = fork();
    check(loader >= 0, "fork");
    if (!loader) {
        close(with_child[0]);
        _exit(loads(with_child[1]));
    }
    close(with_child[1]);
    int lives = read(with_child[0], &byte, 1) == 1;
    poll_good(&side);
    print("a message is the parent's", has(side.memory, SENT, 7));
    fflush(stdout);
    step();
    await();
    print("what is written is the parent's", has(side.memory + BYTES, WRITTEN, 9));
    print("so is the rest", all_are(side.memory + BYTES + WRITTEN, ALL - BYTES - WRITTEN, 1));
    lives = lives && write(with_child[0], &byte, 1) == 1;
    check(waitpid(loader, &status, 0) == loader, "waitpid");
    print("the child keeps its own", lives && status == 0);
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    destroy_queues(&side);
    close_side(&side);
    return status != 0;
}
