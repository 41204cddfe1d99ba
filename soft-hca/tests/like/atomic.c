/*
 * Adds to a number in the peer's memory, and does not ask whether the device has atomic operations.
 */
#include "../hook/side.h"

int main(void)
{
    int sockets[2];
    struct side side;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t peer = fork();
    check(peer >= 0, "fork");
    to_peer = sockets[peer != 0];
    rnr_retry = 3;
    rights |= IBV_ACCESS_REMOTE_ATOMIC;
    open_side(&side);
    create_queues(&side);
    struct name name = connect_side(&side);
    step();
    await();
    if (peer) {
        struct ibv_sge sge = {(uintptr_t)side.memory, sizeof(uint64_t), side.mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 .wr.atomic = {.remote_addr = name.address, .compare_add = 1, .rkey = name.rkey}};
        struct ibv_send_wr *bad;
        check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
        poll_good(&side);
    }
    /* Neither ends what the other still needs. */
    step();
    await();
    destroy_queues(&side);
    close_side(&side);
    return peer ? status_of(peer) : 0;
}
