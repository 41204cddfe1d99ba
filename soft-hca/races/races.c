/*
 * Races between a program and its device, each with the program that has none:
 *
 *   races CASE racy     makes the access that the case is about while the device may access the same bytes
 *   races CASE right    makes it when the completion was polled, or to other bytes
 *   races list          names the cases, one a line: the class, the case
 *   races all [racy|right]   runs each in a process of its own; a line for each: the case, and its exit status
 *
 * Two connected queue pairs of one process: what is accessed, and by whom, is all in one program. All requests succeed in
 * either way: what is wrong, no result shows. The classes are those of RMARaceBench, and those that verbs alone have.
 */
#include "side.h"

#include <stdatomic.h>
#include <sys/wait.h>

enum { SILENT = 0, INLINE = IBV_SEND_SIGNALED | IBV_SEND_INLINE };

static struct ibv_srq *srq;
static struct side a, b;

static struct ibv_sge element(const unsigned char *at, unsigned length)
{
    int is_mine = at >= mine && at < mine + BYTES;
    return (struct ibv_sge){(uintptr_t)at, length, is_mine ? my_region->lkey : their_region->lkey};
}

/* Posts a request of `a` with one element. */
static void post(enum ibv_wr_opcode opcode, const unsigned char *at, unsigned length, int flags, const unsigned char *target)
{
    struct ibv_sge sge = element(at, length);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)target;
        wr.wr.atomic.rkey = their_region->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)target;
        wr.wr.rdma.rkey = their_region->rkey;
    }
    must(!ibv_post_send(a.qp, &wr, &bad), "ibv_post_send");
}

static void post_send(const unsigned char *at, int flags)
{
    post(IBV_WR_SEND, at, MESSAGE, flags, NULL);
}

static void post_receive(unsigned char *at, unsigned length)
{
    struct ibv_sge sge = element(at, length);
    struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
    must(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(b.qp, &wr, &bad)), "ibv_post_recv");
}

/* Stores to each byte of a message. Compilers make a short memset of their own, which gcc tells no sanitizer of. */
static void fill(unsigned char *at)
{
    for (volatile unsigned char *byte = at; byte < at + MESSAGE; byte++) {
        *byte = STORED;
        if (looks)
            note((unsigned char *)byte, STORED);
    }
}

/* Runs something before the poll if it is racy, behind it if it is right. */
#define AROUND_POLL(racy, side, count, access) \
    do {                                       \
        if (racy)                              \
            access;                            \
        poll(side, count);                     \
        if (!(racy))                           \
            access;                            \
    } while (0)

/* A local buffer of a request, and an access of the program's. */

static void send_store(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &a, 1, store(mine + 5));
}

static void send_last_byte(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    store(mine + MESSAGE - (racy ? 1 : 0));
    poll(&a, 1);
}

static void send_byte_before(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine + 64, SIGNALED);
    store(mine + 64 - (racy ? 0 : 1));
    poll(&a, 1);
}

static void send_fill(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &a, 1, fill(mine));
}

/* To read what is sent is right at any time. */
static void send_load_or_store(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    if (racy)
        store(mine);
    else
        load(mine);
    poll(&a, 1);
}

static void write_store(int racy)
{
    post(IBV_WR_RDMA_WRITE, mine, MESSAGE, SIGNALED, theirs);
    AROUND_POLL(racy, &a, 1, store(mine));
}

static void read_load(int racy)
{
    post(IBV_WR_RDMA_READ, mine, MESSAGE, SIGNALED, theirs);
    AROUND_POLL(racy, &a, 1, load(mine + 8));
}

static void read_store(int racy)
{
    post(IBV_WR_RDMA_READ, mine, MESSAGE, SIGNALED, theirs);
    AROUND_POLL(racy, &a, 1, store(mine + 8));
}

static void atomic_result(int racy)
{
    post(IBV_WR_ATOMIC_FETCH_AND_ADD, mine, 8, SIGNALED, theirs);
    AROUND_POLL(racy, &a, 1, load(mine));
}

static void receive_load(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &b, 1, load(theirs + 3));
}

static void receive_store(int racy)
{
    post_receive(theirs, MESSAGE);
    AROUND_POLL(racy, &b, racy ? 0 : (post_send(mine, SIGNALED), 1), store(theirs + 3));
}

static void receive_never_sent(int racy)
{
    post_receive(theirs, MESSAGE);
    load(theirs + (racy ? 0 : MESSAGE));
}

static void receive_filled_before_or_after(int racy)
{
    if (!racy)
        fill(theirs);
    post_receive(theirs, MESSAGE);
    if (racy)
        fill(theirs);
}

/* Two requests of one list, two elements of one request. */

static void second_element(int racy)
{
    post_receive(theirs, MESSAGE);
    struct ibv_sge list[2] = {element(mine, 32), element(mine + 1024, 32)};
    struct ibv_send_wr wr = {.sg_list = list, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = SIGNALED}, *bad;
    must(!ibv_post_send(a.qp, &wr, &bad), "ibv_post_send");
    AROUND_POLL(racy, &a, 1, store(mine + 1024));
}

static void between_elements(int racy)
{
    post_receive(theirs, MESSAGE);
    struct ibv_sge list[2] = {element(mine, 32), element(mine + 1024, 32)};
    struct ibv_send_wr wr = {.sg_list = list, .num_sge = 2, .opcode = IBV_WR_SEND, .send_flags = SIGNALED}, *bad;
    must(!ibv_post_send(a.qp, &wr, &bad), "ibv_post_send");
    store(mine + (racy ? 31 : 32));
    poll(&a, 1);
}

static void last_of_list(int racy)
{
    struct ibv_sge sges[3];
    struct ibv_send_wr list[3], *bad;
    for (int i = 0; i < 3; i++) {
        post_receive(theirs + 128 * i, MESSAGE);
        sges[i] = element(mine + 128 * i, MESSAGE);
        list[i] = (struct ibv_send_wr){.wr_id = i, .next = i < 2 ? &list[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
                                       .opcode = IBV_WR_SEND, .send_flags = SIGNALED};
    }
    must(!ibv_post_send(a.qp, list, &bad), "ibv_post_send");
    poll(&a, 2);
    AROUND_POLL(racy, &a, 1, store(mine + 256));
}

static void first_of_receives(int racy)
{
    struct ibv_sge sges[2] = {element(theirs, MESSAGE), element(theirs + 128, MESSAGE)};
    struct ibv_recv_wr list[2], *bad;
    list[1] = (struct ibv_recv_wr){.wr_id = 2, .sg_list = &sges[1], .num_sge = 1};
    list[0] = (struct ibv_recv_wr){.wr_id = 1, .next = &list[1], .sg_list = &sges[0], .num_sge = 1};
    must(!ibv_post_recv(b.qp, list, &bad), "ibv_post_recv");
    post_send(mine, SIGNALED);
    poll(&b, 1);
    load(theirs + (racy ? 128 : 0));
}

/* Inline data are read by the post itself. */
static void inline_store(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, racy ? SIGNALED : INLINE);
    store(mine);
    poll(&a, 1);
}

/* The completion of a signaled request is that of those before it, too. */

static void unsignaled_store(int racy)
{
    post_receive(theirs, MESSAGE);
    post_receive(theirs + 128, MESSAGE);
    post_send(mine, SILENT);
    post_send(mine + 128, SIGNALED);
    AROUND_POLL(racy, &a, 1, store(mine));
}

static void unsignaled_behind(int racy)
{
    post_receive(theirs, MESSAGE);
    post_receive(theirs + 128, MESSAGE);
    post_send(mine, SIGNALED);
    post_send(mine + 128, SILENT);
    poll(&a, 1);
    store(mine + (racy ? 128 : 0));
}

static void unsignaled_read(int racy)
{
    post(IBV_WR_RDMA_READ, mine, MESSAGE, SILENT, theirs);
    post(IBV_WR_RDMA_WRITE, mine + 128, MESSAGE, SIGNALED, theirs + 128);
    AROUND_POLL(racy, &a, 1, load(mine));
}

/* The completion of another request says nothing of this one. */

static void wrong_completion(int racy)
{
    post_receive(theirs, MESSAGE);
    post_receive(theirs + 128, MESSAGE);
    post_send(mine, SIGNALED);
    post_send(mine + 128, SIGNALED);
    poll(&a, racy ? 1 : 2);
    store(mine + 128);
}

static void wrong_queue(int racy)
{
    post(IBV_WR_RDMA_READ, mine, MESSAGE, SIGNALED, theirs);
    post_receive(theirs + 128, MESSAGE);
    post_send(mine + 128, SIGNALED);
    poll(&b, 1);
    AROUND_POLL(racy, &a, 2, load(mine));
}

/* An event is not a completion: that is polled behind it. */
static void event_only(int racy)
{
    must(!ibv_req_notify_cq(a.cq, 0), "ibv_req_notify_cq");
    post(IBV_WR_RDMA_READ, mine, MESSAGE, SIGNALED, theirs);
    struct ibv_cq *cq;
    void *unused;
    must(!ibv_get_cq_event(a.channel, &cq, &unused), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    AROUND_POLL(racy, &a, 1, load(mine));
}

/* Threads: one posts, another one polls, a third one accesses. */

static atomic_int is_polled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *store_in_thread(void *at)
{
    store(at);
    return NULL;
}

static void *fill_in_thread(void *at)
{
    fill(at);
    return NULL;
}

static void *store_unordered(void *at)
{
    while (!atomic_load_explicit(&is_polled, memory_order_relaxed))
        ;
    store(at);
    return NULL;
}

static void *poll_in_thread(void *unused)
{
    poll(&a, 1);
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&is_polled, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return unused;
}

static pthread_t start(void *run(void *), void *argument)
{
    pthread_t thread;
    must(!pthread_create(&thread, NULL, run, argument), "pthread_create");
    return thread;
}

static void another_thread_stores(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &a, 1, pthread_join(start(store_in_thread, mine), NULL));
}

static void another_thread_polls(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    pthread_t thread = start(poll_in_thread, NULL);
    if (racy)
        store(mine);
    /* The mutex orders what the thread has polled before what follows here. */
    for (int is_told = 0; !is_told;) {
        pthread_mutex_lock(&lock);
        is_told = atomic_load_explicit(&is_polled, memory_order_relaxed);
        pthread_mutex_unlock(&lock);
    }
    if (!racy)
        store(mine);
    pthread_join(thread, NULL);
}

/* Time is no order: the other thread knows of the poll by a relaxed word only. */
static void told_without_order(int racy)
{
    post_receive(theirs, MESSAGE);
    pthread_t thread = start(store_unordered, racy ? mine : mine + 1024);
    post_send(mine, SIGNALED);
    poll(&a, 1);
    atomic_store_explicit(&is_polled, 1, memory_order_relaxed);
    pthread_join(thread, NULL);
}

/* What is sent was written by a thread that this one has not waited for. */
static void filled_by_another_thread(int racy)
{
    post_receive(theirs, MESSAGE);
    pthread_t thread = start(fill_in_thread, mine);
    if (!racy) {
        pthread_join(thread, NULL);
        looks = 0;
    }
    post_send(mine, SIGNALED);
    poll(&a, 1);
    if (racy)
        pthread_join(thread, NULL);
}

/* The device against itself. */

static void two_reads(int racy)
{
    post_receive(mine, MESSAGE);
    post(IBV_WR_RDMA_READ, racy ? mine + 32 : mine + MESSAGE, MESSAGE, SIGNALED, theirs);
    poll(&a, 1);
}

static void send_of_a_posted_receive(int racy)
{
    post_receive(theirs, MESSAGE);
    post_receive(mine, MESSAGE);
    post_send(racy ? mine : mine + MESSAGE, SIGNALED);
    poll(&a, 1);
}

/* Behind calls, under another name, by another type. */

static void __attribute__((noinline)) nested_three(unsigned char *at)
{
    store(at);
}

static void __attribute__((noinline)) nested_two(unsigned char *at)
{
    nested_three(at);
}

static void nested_call(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &a, 1, nested_two(mine));
}

static void under_another_name(int racy)
{
    struct message {
        uint32_t head;
        uint64_t body[4];
    } *message = (struct message *)mine;
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &a, 1, message->body[3]++);
}

/* Shared receive queues. */

static void shared_receive(int racy)
{
    post_receive(theirs, MESSAGE);
    post_receive(theirs + 128, MESSAGE);
    post_send(mine, SIGNALED);
    poll(&b, 1);
    load(theirs + (racy ? 128 : 0));
}

static void shared_receive_early(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &b, 1, store(theirs));
}

/* Errors, and the ends of queue pairs and memory. */

static void fail(struct side *side)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    must(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
}

static void flushed(int racy)
{
    struct ibv_wc wc;
    post_receive(theirs, MESSAGE);
    fail(&b);
    if (racy)
        store(theirs);
    while (ibv_poll_cq(b.cq, 1, &wc) == 0)
        ;
    must(wc.status == IBV_WC_WR_FLUSH_ERR, "a flushed receive");
    if (!racy)
        store(theirs);
}

static void destroyed(int racy)
{
    post_receive(theirs, MESSAGE);
    if (racy)
        store(theirs);
    must(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
    if (!racy)
        store(theirs);
}

static void reset(int racy)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    post_receive(theirs, MESSAGE);
    if (racy)
        store(theirs);
    must(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), "ibv_modify_qp");
    if (!racy)
        store(theirs);
}

static void freed_while_posted(int racy)
{
    post_receive(theirs, MESSAGE);
    if (!racy)
        must(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
    free(theirs);
    if (racy)
        must(!ibv_destroy_qp(b.qp), "ibv_destroy_qp");
}

static void freed_before_post(int racy)
{
    unsigned char *at = mine;
    post_receive(theirs, MESSAGE);
    if (racy)
        free(mine);
    post_send(at, SIGNALED);
    poll(&a, 1);
    if (!racy)
        free(mine);
}

static void freed_region(int racy)
{
    unsigned char *small = malloc(MESSAGE);
    memset(small, 1, MESSAGE);
    struct ibv_mr *region = ibv_reg_mr(pd, small, MESSAGE, IBV_ACCESS_LOCAL_WRITE);
    must(region != NULL, "ibv_reg_mr");
    struct ibv_sge sge = {(uintptr_t)small, MESSAGE, region->lkey};
    if (racy) {
        free(small);
        small = NULL;
    }
    post_receive(theirs, MESSAGE);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = SIGNALED}, *bad;
    must(!ibv_post_send(a.qp, &wr, &bad), "ibv_post_send");
    poll(&a, 1);
    free(small);
}

static void freed_before_poll(int racy)
{
    post_receive(theirs, MESSAGE);
    post_send(mine, SIGNALED);
    AROUND_POLL(racy, &b, 1, free(theirs));
}

static void registered_too_much(int racy)
{
    unsigned char *small = malloc(100);
    ibv_reg_mr(pd, small, racy ? 200 : 100, IBV_ACCESS_LOCAL_WRITE);
}

/* Bytes that were never written, in memory of the heap that had no use before. */

static struct ibv_sge unwritten(unsigned filled)
{
    unsigned char *at = malloc(BYTES);
    struct ibv_mr *region = ibv_reg_mr(pd, at, BYTES, IBV_ACCESS_LOCAL_WRITE);
    must(region != NULL, "ibv_reg_mr");
    for (volatile unsigned char *byte = at; byte < at + filled; byte++)
        *byte = 1;
    return (struct ibv_sge){(uintptr_t)at, MESSAGE, region->lkey};
}

static void send_list(struct ibv_sge *list, int count, enum ibv_wr_opcode opcode)
{
    struct ibv_send_wr wr = {.sg_list = list, .num_sge = count, .opcode = opcode, .send_flags = SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)theirs;
    wr.wr.rdma.rkey = their_region->rkey;
    must(!ibv_post_send(a.qp, &wr, &bad), "ibv_post_send");
    poll(&a, 1);
}

static void never_written_send(int racy)
{
    struct ibv_sge sge = unwritten(racy ? 0 : MESSAGE);
    post_receive(theirs, MESSAGE);
    send_list(&sge, 1, IBV_WR_SEND);
}

static void never_written_end(int racy)
{
    struct ibv_sge sge = unwritten(MESSAGE - (racy ? 1 : 0));
    post_receive(theirs, MESSAGE);
    send_list(&sge, 1, IBV_WR_SEND);
}

static void never_written_write(int racy)
{
    struct ibv_sge sge = unwritten(racy ? 0 : MESSAGE);
    send_list(&sge, 1, IBV_WR_RDMA_WRITE);
}

static void never_written_element(int racy)
{
    struct ibv_sge list[2] = {element(mine, 32), unwritten(racy ? 0 : 32)};
    list[1].length = 32;
    post_receive(theirs, MESSAGE);
    send_list(list, 2, IBV_WR_SEND);
}

/* What has come is written, and no more than that. */
static void received_and_sent(int racy)
{
    struct ibv_sge sge = unwritten(0);
    struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;
    must(!ibv_post_recv(b.qp, &wr, &bad), "ibv_post_recv");
    struct ibv_sge half = element(mine, 32);
    send_list(&half, 1, IBV_WR_SEND);
    poll(&b, 1);
    post_receive(theirs, MESSAGE);
    sge.length = racy ? MESSAGE : 32;
    send_list(&sge, 1, IBV_WR_SEND);
}

static void read_and_sent(int racy)
{
    struct ibv_sge sge = unwritten(0), part = {sge.addr, 32, sge.lkey};
    send_list(&part, 1, IBV_WR_RDMA_READ);
    post_receive(theirs, MESSAGE);
    send_list(racy ? &sge : &part, 1, IBV_WR_SEND);
}

static const struct {
    const char *class, *name;
    void (*run)(int racy);
    /* Whether ThreadSanitizer finds it, AddressSanitizer or MemorySanitizer. */
    char by;
    int is_shared;
} cases[] = {
    {"store to what is sent", "send-store", send_store, 'T', 0},
    {"store to what is sent", "send-last-byte", send_last_byte, 'T', 0},
    {"store to what is sent", "send-byte-before", send_byte_before, 'T', 0},
    {"store to what is sent", "send-fill", send_fill, 'T', 0},
    {"store to what is sent", "send-load-or-store", send_load_or_store, 'T', 0},
    {"store to what is sent", "write-store", write_store, 'T', 0},
    {"store to what is sent", "inline-store", inline_store, 'T', 0},
    {"result before its completion", "read-load", read_load, 'T', 0},
    {"result before its completion", "read-store", read_store, 'T', 0},
    {"result before its completion", "atomic-result", atomic_result, 'T', 0},
    {"receive before its completion", "receive-load", receive_load, 'T', 0},
    {"receive before its completion", "receive-store", receive_store, 'T', 0},
    {"receive before its completion", "receive-never-sent", receive_never_sent, 'T', 0},
    {"receive before its completion", "receive-filled", receive_filled_before_or_after, 'T', 0},
    {"receive before its completion", "shared-receive", shared_receive, 'T', 1},
    {"receive before its completion", "shared-receive-early", shared_receive_early, 'T', 1},
    {"lists", "second-element", second_element, 'T', 0},
    {"lists", "between-elements", between_elements, 'T', 0},
    {"lists", "last-of-list", last_of_list, 'T', 0},
    {"lists", "first-of-receives", first_of_receives, 'T', 0},
    {"another completion", "unsignaled-store", unsignaled_store, 'T', 0},
    {"another completion", "unsignaled-behind", unsignaled_behind, 'T', 0},
    {"another completion", "unsignaled-read", unsignaled_read, 'T', 0},
    {"another completion", "wrong-completion", wrong_completion, 'T', 0},
    {"another completion", "wrong-queue", wrong_queue, 'T', 0},
    {"another completion", "event-only", event_only, 'T', 0},
    {"threads", "another-thread-stores", another_thread_stores, 'T', 0},
    {"threads", "another-thread-polls", another_thread_polls, 'T', 0},
    {"threads", "told-without-order", told_without_order, 'T', 0},
    {"threads", "filled-by-another-thread", filled_by_another_thread, 'T', 0},
    {"device against device", "two-reads", two_reads, 'T', 0},
    {"device against device", "send-of-a-posted-receive", send_of_a_posted_receive, 'T', 0},
    {"other names", "nested-call", nested_call, 'T', 0},
    {"other names", "under-another-name", under_another_name, 'T', 0},
    {"ends", "flushed", flushed, 'T', 0},
    {"ends", "destroyed", destroyed, 'T', 0},
    {"ends", "reset", reset, 'T', 0},
    {"ends", "freed-while-posted", freed_while_posted, 'T', 0},
    {"memory that is gone", "freed-before-post", freed_before_post, 'A', 0},
    {"memory that is gone", "freed-region", freed_region, 'A', 0},
    {"memory that is gone", "freed-before-poll", freed_before_poll, 'A', 0},
    {"memory that is gone", "registered-too-much", registered_too_much, 'A', 0},
    {"bytes never written", "never-written-send", never_written_send, 'M', 0},
    {"bytes never written", "never-written-end", never_written_end, 'M', 0},
    {"bytes never written", "never-written-write", never_written_write, 'M', 0},
    {"bytes never written", "never-written-element", never_written_element, 'M', 0},
    {"bytes never written", "received-and-sent", received_and_sent, 'M', 0},
    {"bytes never written", "read-and-sent", read_and_sent, 'M', 0},
};

enum { CASES = sizeof cases / sizeof *cases };

static int run(int number, int racy)
{
    open_device();
    add_memory();
    if (cases[number].is_shared) {
        struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
        srq = ibv_create_srq(pd, &init);
        must(srq != NULL, "ibv_create_srq");
    }
    create(&a, NULL);
    create(&b, srq);
    connect_to(&a, b.qp->qp_num);
    connect_to(&b, a.qp->qp_num);
    if (looks)
        memset(mine, STORED + 1, BYTES);
    cases[number].run(racy);
    if (looks) {
        struct side sides[] = {a, b};
        int is_destroyed = cases[number].run == destroyed || cases[number].run == freed_while_posted;
        int is_freed = cases[number].by == 'A' || cases[number].run == freed_while_posted;
        look(sides, is_destroyed ? 1 : 2, theirs, is_freed ? 0 : BYTES);
    }
    return 0;
}

/* The sanitizer that finds it. */
static char by(int number)
{
    return cases[number].by;
}

#include "main.h"
