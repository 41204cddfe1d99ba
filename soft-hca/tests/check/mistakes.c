/*
 * Mistakes that soft-hca lets pass and another adapter, or another order of events, does not:
 *
 *   mistakes CASE wrong     makes the one that the case, mostly called like its rule, is about
 *   mistakes CASE right     does the same without it
 *
 * Two processes, a sender and a receiver. All ends well, and all is destroyed, in either way.
 */
#include "../hook/side.h"

#include <sys/wait.h>

enum { MESSAGE = 8, FEW = 8, MANY = 12, ROUNDS = 192 };

static struct side side;
static const char *rule;
static int is_wrong;

static int is(const char *name)
{
    return !strcmp(rule, name);
}

static int is_wrongly(const char *name)
{
    return is_wrong && is(name);
}

/* What both sides are made with, for the rules that are about that. */
static void choose(int is_sender)
{
    rnr_retry = 3;
    rnr_timer = 31;
    signals_all = 0;
    if (is("unsignaled-run") || is("queue-full"))
        caps.max_send_wr = FEW;
    if (is("sge-count")) {
        caps.max_send_sge = is_wrong ? 2 : 3;
        caps.max_inline_data = 6 * MESSAGE;
    }
    if (is("inline-size"))
        caps.max_inline_data = is_wrong ? 0 : MESSAGE;
    if (is("cq-full") && is_sender)
        cq_entries = is_wrong ? 4 : 6;
    pkey_index = is_wrongly("pkey-index") ? 5 : 0;
    ack_timeout = is_wrongly("timers") ? 0 : 14;
    reads_out = is("read-depth") ? 4 : 1;
    reads_in = is_wrongly("read-depth") ? 1 : reads_out;
}

/* Sends a message of so many elements. */
static void send_message(unsigned number, int elements, int flags, uint32_t lkey)
{
    struct ibv_sge sges[3];
    for (int i = 0; i < elements; i++)
        sges[i] = (struct ibv_sge){(uintptr_t)side.memory + MESSAGE * i, MESSAGE, lkey};
    struct ibv_send_wr wr = {.wr_id = number, .sg_list = sges, .num_sge = elements, .opcode = IBV_WR_SEND,
                             .send_flags = flags}, *bad;
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
}

static void read_from(struct name peer)
{
    struct ibv_sge sge = {(uintptr_t)side.memory, MESSAGE, side.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {peer.address, peer.rkey}}, *bad;
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
    poll_good(&side);
}

/* Until a process sleeps. */
static void until_sleeps(pid_t process)
{
    char name[64], state = 'R';
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    while (state != 'S') {
        FILE *file = fopen(name, "r");
        check(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1, name);
        fclose(file);
    }
}

/* Until a message has found no receive. */
static void until_not_ready(void)
{
    char name[512];
    int count = 0;
    snprintf(name, sizeof name, "%s/ports/1/hw_counters/rcvd_rnr_err", side.context->device->ibdev_path);
    while (count == 0) {
        FILE *file = fopen(name, "r");
        check(file && fscanf(file, "%d", &count) == 1, name);
        fclose(file);
    }
}

/* Posts a send that no queue pair takes in RESET, and does not look whether it was refused. */
static void post_in_reset(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    ibv_post_send(side.qp, &wr, &bad);
}

/* Does to the buffer of a send what may be done when its completion was polled. */
static void reuse_buffer(void)
{
    if (is("buffer-early"))
        side.memory[0]++;
    else
        check(!munmap(side.memory, DEPTH * BYTES), "munmap");
}

/* The receive in which the peer's writes with immediate data are told of, and how many writes and receives are done. */
enum { TOLD = 2 };
static unsigned done[2];

/* Until so many writes, or receives, have completed. */
static void until_done(int is_receive, unsigned count)
{
    while (done[is_receive] < count) {
        int status;
        uint64_t number = poll_one(&side, &status);
        check(status == IBV_WC_SUCCESS, "a completion");
        done[number == TOLD]++;
    }
}

/* Writes a number, from the first byte of our memory, to the second buffer of the peer's. */
static void write_number(struct name peer, unsigned char number)
{
    side.memory[0] = number;
    struct ibv_sge sge = {(uintptr_t)side.memory, 1, side.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000 + number, .sg_list = &sge, .num_sge = 1,
                             .opcode = is_wrong ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {peer.address + BYTES, peer.rkey}}, *bad;
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
}

/* Until the peer has written a number to our memory. */
static void await_number(unsigned char number)
{
    volatile unsigned char *byte = side.memory + BYTES;
    if (is_wrong) {
        while (*byte != number)
            ;
    } else {
        until_done(1, number);
        check(*byte == number, "the number");
        post_receive(&side, TOLD);
    }
}

/* The sides write numbers to each other's memory in turn. A write of ours was polled when the next one is posted. */
static void writes(struct name peer, int is_first)
{
    for (unsigned number = 1; number <= ROUNDS; number++) {
        if (is_first)
            write_number(peer, number);
        await_number(number);
        until_done(0, is_first ? number : number - 1);
        if (!is_first)
            write_number(peer, number);
    }
    until_done(0, ROUNDS);
}

static void sends(struct name peer, pid_t receiver)
{
    uint32_t lkey = side.mr->lkey;
    int status;
    if (is("polled-memory")) {
        post_receive(&side, TOLD);
        step();
        writes(peer, 1);
    } else if (is("receive-late")) {
        send_message(0, 1, IBV_SEND_SIGNALED, lkey);
        if (is_wrong)
            until_not_ready();
        step();
        poll_good(&side);
    } else if (is("unsignaled-run")) {
        for (unsigned i = 0; i < MANY; i++) {
            int is_signaled = i % 4 == 3 && (!is_wrong || i + 1 == MANY);
            send_message(i, 1, is_signaled ? IBV_SEND_SIGNALED : 0, lkey);
            if (is_signaled)
                poll_good(&side);
        }
    } else if (is("queue-full") || is("cq-full")) {
        unsigned count = is("cq-full") ? 6 : MANY;
        for (unsigned i = 0; i < count; i++) {
            send_message(i, 1, IBV_SEND_SIGNALED, lkey);
            if (is("queue-full") && !is_wrong)
                poll_good(&side);
        }
        for (unsigned i = 0; i < count && (is("cq-full") || is_wrong); i++)
            poll_good(&side);
    } else if (is("read-depth")) {
        read_from(peer);
    } else if (is("buffer-early") || is("buffer-freed")) {
        send_message(0, 1, 0, lkey);
        if (is_wrong)
            reuse_buffer();
        send_message(1, 0, IBV_SEND_SIGNALED, lkey);
        poll_good(&side);
        if (!is_wrong)
            reuse_buffer();
        if (is("buffer-freed")) {
            side.memory = mmap(NULL, DEPTH * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            check(side.memory != MAP_FAILED, "mmap");
        }
    } else if (is("state-peer")) {
        send_message(0, 1, IBV_SEND_SIGNALED, lkey);
        if (is_wrong)
            step();
        poll_good(&side);
    } else if (is("after-error")) {
        send_message(0, 1, IBV_SEND_SIGNALED, 0);
        poll_one(&side, &status);
        if (is_wrong) {
            send_message(1, 1, IBV_SEND_SIGNALED, lkey);
            poll_one(&side, &status);
        }
    } else {
        int flags = IBV_SEND_SIGNALED | (is("inline-size") ? IBV_SEND_INLINE : 0);
        send_message(0, is("sge-count") ? 3 : 1, flags, lkey);
        poll_good(&side);
        if (is("arm-order")) {
            await();
            until_sleeps(receiver);
        }
        if (is("arm-order") || is("overlap")) {
            send_message(1, 1, IBV_SEND_SIGNALED, lkey);
            poll_good(&side);
        }
    }
}

/* Waits for an event. */
static void take_event(void)
{
    struct ibv_cq *cq;
    void *context;
    check(!ibv_get_cq_event(cq_channel, &cq, &context), "ibv_get_cq_event");
    if (!is_wrongly("unacked"))
        ibv_ack_cq_events(cq, 1);
}

/* The end of a pipe for which a child of this process waits. */
static int to_child = -1;
/* A child that takes no part. */
static pid_t child;

/* Waits for its good end. */
static void end_child(void)
{
    int status;
    close(to_child);
    to_child = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

/* Makes a child, which ends soon if it does what is wrong, and else when it is told to. */
static void make_child(void)
{
    int ends[2], status;
    uint64_t number;
    char byte;
    check(!pipe(ends), "pipe");
    child = fork();
    check(child >= 0, "fork");
    if (!child) {
        close(ends[1]);
        if (is_wrongly("fork"))
            poll_once(&side, &number, &status);
        if (is_wrongly("fork-command"))
            ibv_alloc_pd(side.context);
        /* Its copy of what is registered is its own. */
        memset(side.memory, 0, DEPTH * BYTES);
        _exit(is_wrong ? 0 : read(ends[0], &byte, 1) != 0);
    }
    close(ends[0]);
    to_child = ends[1];
    if (is_wrong)
        end_child();
    poll_once(&side, &number, &status);
}

static void receives(struct name peer)
{
    int count = is("unsignaled-run") || is("queue-full") ? MANY : is("cq-full") ? 6 : 2;
    if (is("read-depth") || is("after-error") || is("leaked") || is("timers") || is("pkey-index")
        || is("unacked") || !strncmp(rule, "fork", 4) || is("state"))
        count = 1;
    if (is("polled-memory")) {
        post_receive(&side, TOLD);
        step();
        await();
        writes(peer, 0);
        return;
    }
    if (is("state-peer")) {
        step();
        poll_good(&side);
        return;
    }
    if (is("receive-late")) {
        if (is_wrong) {
            step();
            await();
        }
        post_receive(&side, 0);
        step();
        if (!is_wrong)
            await();
        poll_good(&side);
        return;
    }
    for (int i = 0; i < count; i++)
        post_receive(&side, is_wrongly("overlap") ? 0 : i);
    if (is("arm-order") || is("unacked"))
        check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
    step();
    if (is("unacked"))
        take_event();
    if (is("read-depth") || is("after-error"))
        return;
    if (is("arm-order")) {
        uint64_t number;
        int status;
        take_event();
        poll_good(&side);
        check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
        if (!is_wrong)
            check(!poll_once(&side, &number, &status), "ibv_poll_cq");
        step();
        take_event();
        poll_good(&side);
        return;
    }
    int messages = is("rkey-stale") || is("sge-count") || is("inline-size") ? 1 : count;
    for (int i = 0; i < messages; i++)
        poll_good(&side);
}

int main(int count, char **arguments)
{
    int sockets[2], status;
    check(count == 3, "arguments");
    rule = arguments[1];
    is_wrong = !strcmp(arguments[2], "wrong");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t receiver = fork();
    to_peer = sockets[receiver != 0];
    choose(receiver != 0);
    open_side(&side);
    if (!receiver && (is("arm-order") || is("unacked"))) {
        cq_channel = ibv_create_comp_channel(side.context);
        check(cq_channel != NULL, "ibv_create_comp_channel");
    }
    create_queues(&side);
    if (is_wrongly("state") && receiver)
        post_in_reset();
    struct name peer = exchange_names(&side);
    init_side(&side);
    if (is("state-peer") && !receiver) {
        post_receive(&side, 0);
        if (is_wrong)
            await();
    }
    connect_to(&side, peer);
    if (receiver && !strncmp(rule, "fork", 4))
        make_child();
    if (receiver) {
        if (!is_wrongly("state-peer"))
            await();
        sends(peer, receiver);
        if (is_wrongly("receive-late") || is_wrongly("state-peer"))
            await();
    } else {
        receives(peer);
    }
    if (is_wrongly("rkey-stale")) {
        check(!ibv_dereg_mr(side.mr), "ibv_dereg_mr");
        side.mr = ibv_reg_mr(side.pd, side.memory, BYTES, 0);
        check(side.mr != NULL, "ibv_reg_mr");
    }
    /* Neither ends what the other still needs. */
    step();
    await();
    if (to_child >= 0)
        end_child();
    /* A queue with such an event cannot be destroyed. */
    int is_stuck = !receiver && is_wrongly("unacked");
    check(!ibv_destroy_qp(side.qp), "ibv_destroy_qp");
    if (!is_stuck)
        check(!ibv_destroy_cq(side.cq), "ibv_destroy_cq");
    if (cq_channel && !is_stuck)
        check(!ibv_destroy_comp_channel(cq_channel), "ibv_destroy_comp_channel");
    if (is_wrongly("leaked"))
        return receiver && waitpid(receiver, &status, 0) == receiver ? status : 0;
    close_side(&side);
    if (!receiver)
        return 0;
    check(waitpid(receiver, &status, 0) == receiver, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
