/*
 * Mistakes that soft-hca lets pass and another adapter, or another order of events, does not:
 *
 *   mistakes CASE wrong     makes the one that the case, mostly called like its rule, is about
 *   mistakes CASE right     does the same without it
 *   mistakes CASE failed    makes the mistake and ends with an error
 *
 * Two processes, a sender and a receiver. All ends well, and all is destroyed, in either way.
 */
#include "../hook/side.h"

#include <poll.h>
#include <sys/wait.h>

enum { MESSAGE = 8, FEW = 8, MANY = 12, ROUNDS = 192, FAILED = 3 };
/* The limit of a shared receive queue, and the number of messages after which FEW receives are below it. */
enum { LIMIT = 4, BURST = 6 };

static struct side side;
static const char *rule;
static int is_wrong, has_failed;

static int is(const char *name)
{
    return !strcmp(rule, name);
}

static int is_wrongly(const char *name)
{
    return is_wrong && is(name);
}

/* Cases in which a queue is armed again. */
static int is_armed_again(void)
{
    return is("arm-order") || is("arm-polled");
}

/* Cases in which the receiver has a completion channel. */
static int has_channel(void)
{
    return is_armed_again() || is("arm-first") || is("unacked") || is("leaked");
}

/* What both sides are made with, for the rules that are about that. */
static void choose(int is_sender)
{
    rnr_retry = 3;
    rnr_timer = 31;
    signals_all = 0;
    if (is("unsignaled-run") || is("never-polled") || is("queue-full"))
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
    path_mtu = is_wrongly("path-mtu") && is_sender ? IBV_MTU_512 : IBV_MTU_1024;
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

/* Reads from the peer's second buffer, into which it receives nothing. */
static void post_read(struct name peer)
{
    struct ibv_sge sge = {(uintptr_t)side.memory, MESSAGE, side.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {peer.address + BYTES, peer.rkey}}, *bad;
    check(!ibv_post_send(side.qp, &wr, &bad), "ibv_post_send");
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

/* Registers the memory anew, as another region. */
static void register_again(void)
{
    check(!ibv_dereg_mr(side.mr), "ibv_dereg_mr");
    side.mr = ibv_reg_mr(side.pd, side.memory, BYTES, 0);
    check(side.mr != NULL, "ibv_reg_mr");
}

/* Cases in which the receiver is told that the message has come before it polls. */
static int is_told(void)
{
    return is("arm-first") || is("rkey-received") || is("receive-gone") || is("receive-returned");
}

static void map_memory(void)
{
    side.memory = mmap(NULL, DEPTH * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(side.memory != MAP_FAILED, "mmap");
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
    } else if (is("unsignaled-run") || is("never-polled")) {
        for (unsigned i = 0; i < MANY; i++) {
            int is_last = i + 1 == MANY && is("unsignaled-run");
            int is_signaled = i % 4 == 3 && (!is_wrong || is_last);
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
        post_read(peer);
        poll_good(&side);
    } else if (is("race")) {
        post_read(peer);
        send_message(1, 1, IBV_SEND_SIGNALED | (is_wrong ? 0 : IBV_SEND_FENCE), lkey);
        poll_good(&side);
        poll_good(&side);
    } else if (is("buffer-early") || is("buffer-freed")) {
        send_message(0, 1, 0, lkey);
        if (is_wrong)
            reuse_buffer();
        send_message(1, 0, IBV_SEND_SIGNALED, lkey);
        poll_good(&side);
        if (!is_wrong)
            reuse_buffer();
        if (is("buffer-freed"))
            map_memory();
    } else if (is("rkey-sent")) {
        send_message(0, 1, IBV_SEND_SIGNALED, lkey);
        if (is_wrong)
            register_again();
        poll_good(&side);
        if (!is_wrong)
            register_again();
    } else if (is("srq-limit")) {
        for (unsigned i = 0; i < 2 * BURST; i++) {
            if (i == BURST)
                await();
            send_message(i, 1, IBV_SEND_SIGNALED, lkey);
            poll_good(&side);
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
        if (is_told())
            step();
        if (is_armed_again() || is("arm-first")) {
            await();
            until_sleeps(receiver);
        }
        if (is_armed_again() || is("arm-first") || is("overlap")) {
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
    struct pollfd readable = {.fd = cq_channel->fd, .events = POLLIN};
    if (is("arm-polled") || is("arm-first"))
        check(poll(&readable, 1, -1) == 1, "poll");
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
        /* The child's copy of the registered memory is its own. */
        memset(side.memory, 0, DEPTH * BYTES);
        _exit(is_wrong ? 0 : read(ends[0], &byte, 1) != 0);
    }
    close(ends[0]);
    to_child = ends[1];
    if (is_wrong)
        end_child();
    poll_once(&side, &number, &status);
}

static struct ibv_srq *srq;

/* Makes a queue pair whose receives are in a shared queue. */
static void create_shared(void)
{
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
    srq = ibv_create_srq(side.pd, &shared);
    check(srq != NULL, "ibv_create_srq");
    create_cq(&side);
    struct ibv_qp_init_attr init = {.send_cq = side.cq, .recv_cq = side.cq, .srq = srq, .qp_type = IBV_QPT_RC,
                                    .cap = caps};
    side.qp = ibv_create_qp(side.pd, &init);
    check(side.qp != NULL, "ibv_create_qp");
}

static void post_shared(int count)
{
    for (int i = 0; i < count; i++) {
        struct ibv_sge sge = {(uintptr_t)side.memory + i * BYTES, BYTES, side.mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
        check(!ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
    }
}

static void set_limit(void)
{
    struct ibv_srq_attr attr = {.srq_limit = LIMIT};
    check(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

/* Waits until the limit is reached. */
static void take_limit(void)
{
    struct ibv_async_event event;
    check(!ibv_get_async_event(side.context, &event), "ibv_get_async_event");
    check(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "the event");
    ibv_ack_async_event(&event);
}

/* Posts receives at the limit event. */
static void receives_by_limit(void)
{
    post_shared(FEW);
    set_limit();
    step();
    for (int i = 0; i < BURST; i++)
        poll_good(&side);
    take_limit();
    post_shared(BURST);
    if (!is_wrong)
        set_limit();
    step();
    for (int i = 0; i < BURST; i++)
        poll_good(&side);
    if (!is_wrong)
        take_limit();
}

/* The region of a receive on the stack. */
static struct ibv_mr *on_stack;

/* Posts a receive for BYTES of memory that is not registered yet. */
static void post_to(unsigned char *bytes)
{
    on_stack = ibv_reg_mr(side.pd, bytes, BYTES, IBV_ACCESS_LOCAL_WRITE);
    check(on_stack != NULL, "ibv_reg_mr");
    struct ibv_sge sge = {(uintptr_t)bytes, BYTES, on_stack->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    check(!ibv_post_recv(side.qp, &wr, &bad), "ibv_post_recv");
}

/* The same for a variable of its own, so far down that nothing else is there when the message comes. */
static __attribute__((noinline)) void post_to_own(void)
{
    unsigned char bytes[DEPTH * BYTES];
    post_to(bytes);
}

static void receives(struct name peer)
{
    int is_many = is("unsignaled-run") || is("never-polled") || is("queue-full");
    int count = is_many ? MANY : is("cq-full") ? 6 : 2;
    if (is("read-depth") || is("race") || is("after-error") || is("leaked") || is("timers") || is("pkey-index") || is("path-mtu")
        || is("unacked") || !strncmp(rule, "fork", 4) || is("state") || is("rkey-sent")
        || (is_told() && !is("arm-first")))
        count = 1;
    if (is("srq-limit")) {
        receives_by_limit();
        return;
    }
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
    unsigned char bytes[BYTES];
    if (is_wrongly("receive-returned"))
        post_to_own();
    else if (is("receive-returned"))
        post_to(bytes);
    else
        for (int i = 0; i < count; i++)
            post_receive(&side, is_wrongly("overlap") ? 0 : i);
    if (is_armed_again() || is("unacked"))
        check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
    step();
    if (is_told())
        await();
    if (is("arm-first")) {
        check(!ibv_req_notify_cq(side.cq, 0), "ibv_req_notify_cq");
        if (!is_wrong)
            poll_good(&side);
        step();
        take_event();
        count = is_wrong ? 2 : 1;
    }
    if (is_wrongly("rkey-received"))
        register_again();
    if (is_wrongly("receive-gone"))
        reuse_buffer();
    if (is("unacked"))
        take_event();
    if (is("read-depth") || is("after-error"))
        return;
    if (is_armed_again()) {
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
    if (is("receive-gone")) {
        if (!is_wrong)
            reuse_buffer();
        map_memory();
    }
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count == 3, "arguments");
    rule = arguments[1];
    has_failed = !strcmp(arguments[2], "failed");
    is_wrong = has_failed || !strcmp(arguments[2], "wrong");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t receiver = fork();
    to_peer = sockets[receiver != 0];
    choose(receiver != 0);
    open_side(&side);
    if (!receiver && has_channel()) {
        cq_channel = ibv_create_comp_channel(side.context);
        check(cq_channel != NULL, "ibv_create_comp_channel");
    }
    if (is("srq-limit") && !receiver)
        create_shared();
    else
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
    if (is_wrongly("rkey-stale"))
        register_again();
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
    if (srq)
        check(!ibv_destroy_srq(srq), "ibv_destroy_srq");
    if (cq_channel && !is_stuck && !is_wrongly("leaked"))
        check(!ibv_destroy_comp_channel(cq_channel), "ibv_destroy_comp_channel");
    if (on_stack)
        check(!ibv_dereg_mr(on_stack), "ibv_dereg_mr");
    if (is_wrongly("leaked")) {
        if (receiver)
            status_of(receiver);
        return has_failed ? FAILED : 0;
    }
    close_side(&side);
    return receiver ? status_of(receiver) : 0;
}
