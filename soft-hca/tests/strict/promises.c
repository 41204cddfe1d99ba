/*
 * What programs take for promised, and is not:
 *
 *   promises CASE wrong     relies on it
 *   promises CASE right     does the same without
 *
 * Two processes, a sender and a receiver. Each passes, in either way, where requests are executed at once; the exit
 * status is not 0 if a call fails, if bytes are others than those that were sent, or if a side waits in vain.
 */
#include "../hook/side.h"

#include <signal.h>

enum { MESSAGE = 512, FEW = 4, ROUNDS = 8, PATIENCE = 2 };

static struct side side;
static const char *name;
static int is_wrong;
/* Messages that are checked, each by its number. */
static int are_good = 1;

static int is(const char *other)
{
    return !strcmp(name, other);
}

/* The bytes of a message, none of which is 0. */
static void write_message(unsigned char *to, unsigned number)
{
    memset(to, 1 + number, MESSAGE);
}

static void expect(const volatile unsigned char *message, unsigned number)
{
    for (int i = 0; i < MESSAGE; i++)
        are_good &= message[i] == 1 + number;
}

static unsigned char *buffer(int number)
{
    return side.memory + number * BYTES;
}

static int try_sending(const void *from, uint32_t lkey, unsigned number, int flags)
{
    struct ibv_sge sge = {(uintptr_t)from, MESSAGE, lkey};
    struct ibv_send_wr wr = {.wr_id = 1000 + number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                             .send_flags = flags}, *bad;
    return !ibv_post_send(side.qp, &wr, &bad);
}

static void send_from(const void *from, uint32_t lkey, unsigned number, int flags)
{
    check(try_sending(from, lkey, number, flags), "ibv_post_send");
}

static void send_message(unsigned number, int flags)
{
    write_message(buffer(number), number);
    send_from(buffer(number), side.mr->lkey, number, flags);
}

/* The completion with a number, which is a good one. */
static void poll_number(uint64_t wanted)
{
    int status;
    uint64_t number = poll_one(&side, &status);
    check(status == IBV_WC_SUCCESS && number == wanted, "ibv_poll_cq");
}

/* Sends from a buffer that does not live longer than this call. */
static __attribute__((noinline)) void send_from_stack(int waits)
{
    unsigned char message[MESSAGE];
    struct ibv_mr *mr = ibv_reg_mr(side.pd, message, sizeof message, 0);
    check(mr != NULL, "ibv_reg_mr");
    write_message(message, 0);
    send_from(message, mr->lkey, 0, IBV_SEND_SIGNALED);
    if (waits)
        poll_number(1000);
}

static __attribute__((noinline)) void use_stack(void)
{
    volatile unsigned char other[2 * MESSAGE];
    for (unsigned i = 0; i < sizeof other; i++)
        other[i] = 0xee;
}

static void write_to(struct name peer, unsigned number, int has_imm)
{
    struct ibv_sge sge = {(uintptr_t)buffer(number), MESSAGE, side.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000 + number, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
                             .opcode = has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                             .wr.rdma = {peer.address + number * BYTES, peer.rkey}}, *bad;
    write_message(buffer(number), number);
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
    poll_number(1000 + number);
}

/* What is promised of the sender's side, and what is not. */
static void sends(struct name peer)
{
    if (is("reused")) {
        send_message(0, IBV_SEND_SIGNALED);
        if (!is_wrong)
            poll_number(1000);
        write_message(buffer(0), 7);
        if (is_wrong)
            poll_number(1000);
    } else if (is("stack")) {
        send_from_stack(!is_wrong);
        use_stack();
        if (is_wrong)
            poll_number(1000);
    } else if (is("freed")) {
        unsigned char *message = malloc(MESSAGE);
        struct ibv_mr *mr = ibv_reg_mr(side.pd, message, MESSAGE, 0);
        check(mr != NULL, "ibv_reg_mr");
        write_message(message, 0);
        send_from(message, mr->lkey, 0, IBV_SEND_SIGNALED);
        if (!is_wrong)
            poll_number(1000);
        free(message);
        message = malloc(MESSAGE);
        memset(message, 0xee, MESSAGE);
        if (is_wrong)
            poll_number(1000);
        free(message);
    } else if (is("deregistered")) {
        struct ibv_mr *mr = ibv_reg_mr(side.pd, buffer(5), MESSAGE, 0);
        check(mr != NULL, "ibv_reg_mr");
        write_message(buffer(5), 0);
        send_from(buffer(5), mr->lkey, 0, IBV_SEND_SIGNALED);
        if (!is_wrong)
            poll_number(1000);
        check(!ibv_dereg_mr(mr), "ibv_dereg_mr");
        if (is_wrong)
            poll_number(1000);
    } else if (is("destroyed")) {
        send_message(0, IBV_SEND_SIGNALED);
        if (!is_wrong)
            poll_number(1000);
    } else if (is("watched")) {
        for (int i = 0; i < ROUNDS; i++)
            write_to(peer, i, !is_wrong);
    } else if (is("read-early")) {
        for (int i = 0; i < ROUNDS; i++) {
            send_message(i, IBV_SEND_SIGNALED);
            if (is_wrong)
                step();
            poll_number(1000 + i);
            await();
        }
    } else if (is("send-queue")) {
        for (int i = 0; i < ROUNDS; i++) {
            send_message(i, IBV_SEND_SIGNALED);
            if (!is_wrong)
                poll_number(1000 + i);
        }
        for (int i = 0; i < ROUNDS && is_wrong; i++)
            poll_number(1000 + i);
    } else if (is("unsignaled")) {
        for (int i = 0; i < ROUNDS; i++) {
            int is_signaled = i % FEW == FEW - 1 && !is_wrong;
            send_message(i, is_signaled ? IBV_SEND_SIGNALED : 0);
            if (is_signaled)
                poll_number(1000 + i);
            await();
        }
    } else if (is("completions")) {
        for (int i = 0; i < ROUNDS; i++)
            send_message(i, IBV_SEND_SIGNALED);
        await();
        for (int i = 0; i < ROUNDS; i++)
            poll_number(1000 + i);
    } else if (is("elements")) {
        struct ibv_sge sges[3];
        write_message(buffer(0), 0);
        for (int i = 0; i < 3; i++)
            sges[i] = (struct ibv_sge){(uintptr_t)buffer(0) + i, i < 2 ? 1 : MESSAGE - 2, side.mr->lkey};
        struct ibv_send_wr wr = {.wr_id = 1000, .sg_list = sges, .num_sge = 3, .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED}, *bad;
        check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
        poll_number(1000);
    } else if (is("late-receive") || is("armed-late")) {
        for (int i = 0; i < ROUNDS; i++) {
            if (is("late-receive") && i > 0)
                await();
            send_message(i, IBV_SEND_SIGNALED);
            poll_number(1000 + i);
        }
    } else {
        check(0, "no such case");
    }
}

/* Polls until there is nothing: how many completions there were. */
static int drain(unsigned first)
{
    uint64_t number;
    int status, count = 0;
    while (poll_once(&side, &number, &status)) {
        check(status == IBV_WC_SUCCESS, "ibv_poll_cq");
        expect(buffer(number), first + count++);
    }
    return count;
}

static void receives(void)
{
    int is_one = is("reused") || is("stack") || is("freed") || is("deregistered") || is("destroyed") || is("elements");
    int count = is_one ? 1 : ROUNDS;
    for (int i = 0; i < count && !is("late-receive"); i++) {
        memset(buffer(i), 0, MESSAGE);
        if (!is("watched") || !is_wrong)
            post_receive(&side, i);
    }
    /* The sender may begin. */
    if (!is("late-receive"))
        step();
    if (is("watched") && is_wrong) {
        for (int i = 0; i < count; i++) {
            volatile unsigned char *last = buffer(i) + MESSAGE - 1;
            while (*last == 0)
                ;
            expect(buffer(i), i);
        }
    } else if (is("read-early")) {
        for (int i = 0; i < count; i++) {
            if (is_wrong)
                await();
            else
                poll_number(i);
            expect(buffer(i), i);
            step();
        }
    } else if (is("late-receive")) {
        for (int i = 0; i < count; i++) {
            if (!is_wrong)
                post_receive(&side, i);
            step();
            if (is_wrong)
                post_receive(&side, i);
            poll_number(i);
            expect(buffer(i), i);
        }
    } else if (is("armed-late")) {
        unsigned done = 0;
        while (done < ROUNDS) {
            struct ibv_cq *cq;
            void *context;
            done += drain(done);
            check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
            if (!is_wrong)
                done += drain(done);
            if (done == ROUNDS)
                break;
            check(!ibv_get_cq_event(cq_channel, &cq, &context), "ibv_get_cq_event");
            ibv_ack_cq_events(cq, 1);
        }
    } else {
        for (int i = 0; i < count; i++) {
            poll_number(i);
            expect(buffer(i), i);
            if (is("unsignaled"))
                step();
        }
        if (is("completions"))
            step();
    }
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count == 3, "arguments");
    name = arguments[1];
    is_wrong = !strcmp(arguments[2], "wrong");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t receiver = fork();
    to_peer = sockets[receiver != 0];
    if (is_wrong)
        alarm(PATIENCE);
    rnr_retry = is("late-receive") ? 0 : 7;
    signals_all = 0;
    if (receiver && (is("send-queue") || is("unsignaled")))
        caps.max_send_wr = FEW;
    if (is("elements")) {
        caps.max_send_sge = is_wrong ? 2 : 3;
        caps.max_inline_data = 64;
    }
    if (receiver && is("completions"))
        cq_entries = is_wrong ? FEW : ROUNDS;
    open_side(&side);
    if (!receiver && is("armed-late")) {
        cq_channel = ibv_create_comp_channel(side.context);
        check(cq_channel != NULL, "ibv_create_comp_channel");
    }
    create_queues(&side);
    struct name peer = connect_side(&side);
    if (receiver) {
        await();
        sends(peer);
    } else {
        receives();
    }
    int ends_early = is("destroyed") && receiver;
    if (ends_early)
        destroy_queues(&side);
    step();
    await();
    if (!ends_early)
        destroy_queues(&side);
    return receiver ? status_of(receiver) : are_good ? 0 : 2;
}
