/*
 * How often the provider is told of sends:
 *
 *   doorbells plain|replaced
 *
 * A receiver, and a sender that it forks. Doorbells are writes to the device, which pass through this program's own
 * function. With `replaced` the context has another function for posting sends, as another library may have put there.
 */
#include "side.h"

#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <sys/wait.h>

enum { POST_SEND = IB_USER_VERBS_CMD_POST_SEND, BYTES_SENT = 40 };

static unsigned doorbells, calls;
static int (*provided)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

ssize_t write(int fd, const void *bytes, size_t length)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (length >= 8 && *(const uint32_t *)bytes == POST_SEND)
        doorbells++;
    return next(fd, bytes, length);
}

static int replaced(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    calls++;
    return provided(qp, wr, bad);
}

/* Two sends in a list. */
static void post_two(struct side *side)
{
    struct ibv_sge sge = {(uintptr_t)side->memory, BYTES_SENT, side->mr->lkey};
    struct ibv_send_wr second = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr first = second, *bad = &first;
    first.next = &second;
    check(!ibv_post_send(side->qp, &first, &bad), "ibv_post_send");
    check(!bad, "no request is bad");
    poll_good(side);
    poll_good(side);
}

static void sends(struct side *side)
{
    await();
    for (unsigned i = 0; i < 3; i++)
        send_one(side, BYTES_SENT, i + 1);
    fill(side->memory, BYTES_SENT, 7);
    post_two(side);
    printf("3 messages and 2 in a list: %u doorbells, %u calls of another library\n", doorbells, calls);
    fflush(stdout);
    step();
}

static void receives(struct side *side)
{
    for (unsigned i = 0; i < 5; i++)
        post_receive(side, i);
    step();
    for (unsigned i = 0; i < 5; i++) {
        poll_good(side);
        check(has(side->memory + i * BYTES, BYTES_SENT, i < 3 ? i + 1 : 7), "the message's bytes");
    }
    await();
}

int main(int count, char **arguments)
{
    int sockets[2], status;
    struct side side = {0};
    check(count > 1, "arguments");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t sender = fork();
    to_peer = sockets[sender != 0];
    open_side(&side);
    if (!sender && !strcmp(arguments[1], "replaced")) {
        provided = side.context->ops.post_send;
        side.context->ops.post_send = replaced;
    }
    create_queues(&side);
    connect_side(&side);
    if (!sender) {
        sends(&side);
        return 0;
    }
    receives(&side);
    check(waitpid(sender, &status, 0) == sender, "waitpid");
    return status != 0;
}
