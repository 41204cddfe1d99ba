/*
 * RDMA writes one after the other, each polled, with a peer that waits in the kernel (`waits`) or computes (`computes`) until
 * all are done.
 */
#include "../hook/side.h"

enum { WRITES = 200 };

int main(int count, char **arguments)
{
    int sockets[2];
    struct side side;
    check(count == 2, "arguments");
    int computes = !strcmp(arguments[1], "computes");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t peer = fork();
    to_peer = sockets[peer != 0];
    open_side(&side);
    create_queues(&side);
    struct name theirs = connect_side(&side);
    step();
    await();
    if (peer) {
        for (int i = 0; i < WRITES; i++) {
            post(&side, 8, theirs.address, theirs.rkey);
            poll_good(&side);
        }
        step();
    } else {
        char byte;
        while (recv(to_peer, &byte, 1, computes ? MSG_DONTWAIT : 0) != 1)
            ;
    }
    destroy_queues(&side);
    close_side(&side);
    return peer ? status_of(peer) : 0;
}
