/*
 * Operations of devices that access the same bytes of a process's memory:
 *
 *   races CASE wrong     nothing orders the two
 *   races CASE right     something does, or they are no race
 *
 * Three processes: a writer with two queue pairs, another one with one, and their target. They tell each other when to
 * go on by sockets, as programs do that have not only queue pairs. All ends well, and all is destroyed, in either way.
 */
#include "../hook/side.h"

#include <sys/wait.h>

enum { MESSAGE = 64, WORD = 8 };
/* Where things lie in the memory of each: what the cases are about, other bytes, a word that is a lock. */
enum { BYTES_AT = 0, OTHERS_AT = BYTES, LOCK_AT = 2 * BYTES };
/* Buffers of receives: for the first queue pair, for the second one, for the other writer's. */
enum { RECEIVE = 8 };
enum { FIRST, SECOND, OTHER };

/* The lock's values: the writer has it, nobody has, the other writer has. */
enum { MINE, FREE, THEIRS };

static const char *name;
static int is_wrong;
/* Of the writers FIRST and SECOND, or OTHER; of the target all. They have one completion queue. */
static struct side sides[3];
static struct name peers[3];
/* Sockets: to the target, of the target to the writers, between the writers. */
static int to_target, to_writer, to_other;

static int is(const char *other)
{
    return !strcmp(name, other);
}

/* Waits for a process, or tells it to go on. */
static void await_from(int socket)
{
    to_peer = socket;
    await();
}

static void tell(int socket)
{
    to_peer = socket;
    step();
}

/* Posts an operation on bytes of ours and bytes of the target's. */
static void operate(int number, enum ibv_wr_opcode opcode, unsigned own, unsigned target, unsigned length, int flags)
{
    struct side *side = &sides[number];
    struct ibv_sge sge = {(uintptr_t)side->memory + own, length, side->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 100 * (number + 1) + opcode, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .send_flags = flags}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = peers[number].address + target;
        wr.wr.atomic.rkey = peers[number].rkey;
        wr.wr.atomic.compare_add = FREE;
        wr.wr.atomic.swap = THEIRS;
    } else {
        wr.wr.rdma.remote_addr = peers[number].address + target;
        wr.wr.rdma.rkey = peers[number].rkey;
    }
    check(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

static void writes(int number, unsigned target, unsigned length)
{
    operate(number, IBV_WR_RDMA_WRITE, OTHERS_AT, target, length, IBV_SEND_SIGNALED);
}

static void reads(int number, unsigned own)
{
    operate(number, IBV_WR_RDMA_READ, own, BYTES_AT, MESSAGE, IBV_SEND_SIGNALED);
}

static void sends(int number, unsigned own, int flags)
{
    operate(number, IBV_WR_SEND, own, 0, MESSAGE, IBV_SEND_SIGNALED | flags);
}

static void adds(int number, unsigned own, unsigned target)
{
    operate(number, IBV_WR_ATOMIC_FETCH_AND_ADD, own, target, WORD, IBV_SEND_SIGNALED);
}

static void polls(int number, int count)
{
    for (int i = 0; i < count; i++)
        poll_good(&sides[number]);
}

/* Two operations of ours, of which the first one is polled before or after the second. */
#define IN_TURN(first, second)                                                                                          \
    do {                                                                                                               \
        first;                                                                                                         \
        if (!is_wrong)                                                                                                 \
            polls(FIRST, 1);                                                                                           \
        second;                                                                                                        \
        polls(FIRST, is_wrong ? 2 : 1);                                                                                \
    } while (0)

/* The queue pair of a request that is to come behind one of the first queue pair. */
static int behind(void)
{
    return is_wrong ? SECOND : FIRST;
}

static void writer(void)
{
    int fence = is_wrong ? 0 : IBV_SEND_FENCE;
    if (is("write-write")) {
        IN_TURN(writes(FIRST, BYTES_AT, MESSAGE), writes(SECOND, BYTES_AT, MESSAGE));
    } else if (is("write-read")) {
        IN_TURN(writes(FIRST, BYTES_AT, MESSAGE), reads(SECOND, MESSAGE));
    } else if (is("read-write")) {
        IN_TURN(reads(FIRST, MESSAGE), writes(SECOND, BYTES_AT, MESSAGE));
    } else if (is("neighbours")) {
        writes(FIRST, BYTES_AT, MESSAGE);
        writes(SECOND, BYTES_AT + MESSAGE - (is_wrong ? 1 : 0), MESSAGE);
        polls(FIRST, 2);
    } else if (is("another-completion")) {
        /* An unsignaled write, and the completion of a request behind it, or of the other queue pair. */
        operate(FIRST, IBV_WR_RDMA_WRITE, OTHERS_AT, BYTES_AT, MESSAGE, 0);
        writes(behind(), OTHERS_AT, MESSAGE);
        polls(FIRST, 1);
        writes(SECOND, BYTES_AT, MESSAGE);
        polls(FIRST, 1);
        writes(FIRST, OTHERS_AT, MESSAGE);
        polls(FIRST, 1);
    } else if (is("writers") || is("writer-reader") || is("writer-sender") || is("atomic-writer")) {
        if (is("atomic-writer"))
            adds(FIRST, BYTES_AT, LOCK_AT);
        else
            writes(FIRST, BYTES_AT, MESSAGE);
        /* With atomic operations of both there is nothing to wait for. */
        if (!is_wrong && !is("atomic-writer"))
            polls(FIRST, 1);
        tell(is("writer-sender") ? to_target : to_other);
        await_from(is("writer-sender") ? to_target : to_other);
        if (is_wrong || is("atomic-writer"))
            polls(FIRST, 1);
        if (is("writer-sender"))
            polls(FIRST, 1);
    } else if (is("fence-write")) {
        reads(FIRST, MESSAGE);
        operate(FIRST, IBV_WR_RDMA_WRITE, OTHERS_AT, BYTES_AT, MESSAGE, IBV_SEND_SIGNALED | fence);
        polls(FIRST, 2);
    } else if (is("fence-send")) {
        reads(FIRST, BYTES_AT);
        sends(FIRST, BYTES_AT, fence);
        polls(FIRST, 2);
    } else if (is("fence-result")) {
        adds(FIRST, BYTES_AT, LOCK_AT);
        operate(FIRST, IBV_WR_RDMA_WRITE, BYTES_AT, BYTES_AT, WORD, IBV_SEND_SIGNALED | fence);
        polls(FIRST, 2);
    } else if (is("fence-between")) {
        reads(FIRST, BYTES_AT);
        operate(FIRST, IBV_WR_RDMA_WRITE, MESSAGE, OTHERS_AT, MESSAGE, IBV_SEND_SIGNALED | fence);
        sends(FIRST, BYTES_AT, 0);
        polls(FIRST, 3);
    } else if (is("atomic-write")) {
        adds(FIRST, MESSAGE, LOCK_AT);
        if (is_wrong)
            writes(SECOND, LOCK_AT, WORD);
        else
            adds(SECOND, 2 * MESSAGE, LOCK_AT);
        polls(FIRST, 2);
    } else if (is("receive")) {
        writes(FIRST, RECEIVE * BYTES, MESSAGE);
        sends(SECOND, OTHERS_AT, 0);
        polls(FIRST, 2);
    } else if (is("read-send")) {
        IN_TURN(reads(FIRST, BYTES_AT), sends(SECOND, BYTES_AT, 0));
    } else if (is("two-reads")) {
        reads(FIRST, BYTES_AT);
        reads(SECOND, is_wrong ? BYTES_AT : MESSAGE);
        polls(FIRST, 2);
    } else if (is("message")) {
        /* The target sends these bytes when it has the message. Its message, and our two completions. */
        writes(FIRST, BYTES_AT, MESSAGE);
        sends(behind(), OTHERS_AT, 0);
        polls(FIRST, 3);
    } else if (is("told-on")) {
        /* The target tells the other writer, by a message as well, when it has the message. */
        writes(FIRST, BYTES_AT, MESSAGE);
        sends(behind(), OTHERS_AT, 0);
        polls(FIRST, 2);
    } else if (is("lock")) {
        writes(FIRST, BYTES_AT, MESSAGE);
        adds(behind(), MESSAGE, LOCK_AT);
        polls(FIRST, 2);
    } else {
        check(0, name);
    }
}

static void other(void)
{
    if (is("writers") || is("writer-reader") || is("atomic-writer")) {
        await_from(to_other);
        if (is("writer-reader"))
            reads(OTHER, MESSAGE);
        else if (is("writers"))
            writes(OTHER, BYTES_AT, MESSAGE);
        else if (is_wrong)
            writes(OTHER, LOCK_AT, WORD);
        else
            operate(OTHER, IBV_WR_ATOMIC_CMP_AND_SWP, BYTES_AT, LOCK_AT, WORD, IBV_SEND_SIGNALED);
        polls(OTHER, 1);
        tell(to_other);
    } else if (is("told-on")) {
        polls(OTHER, 1);
        writes(OTHER, BYTES_AT, MESSAGE);
        polls(OTHER, 1);
    } else if (is("lock")) {
        uint64_t found;
        do {
            operate(OTHER, IBV_WR_ATOMIC_CMP_AND_SWP, BYTES_AT, LOCK_AT, WORD, IBV_SEND_SIGNALED);
            polls(OTHER, 1);
            memcpy(&found, sides[OTHER].memory + BYTES_AT, sizeof found);
        } while (found != FREE);
        writes(OTHER, BYTES_AT, MESSAGE);
        polls(OTHER, 1);
    }
}

static void target(void)
{
    if (is("writer-sender")) {
        await_from(to_writer);
        sends(FIRST, BYTES_AT, 0);
        polls(FIRST, 1);
        tell(to_writer);
    } else if (is("message")) {
        polls(FIRST, 1);
        sends(FIRST, BYTES_AT, 0);
        polls(FIRST, 1);
    } else if (is("told-on")) {
        polls(FIRST, 1);
        sends(OTHER, OTHERS_AT, 0);
        polls(FIRST, 1);
    } else if (!strncmp(name, "fence-send", 10) || is("fence-between") || is("receive") || is("read-send")) {
        polls(FIRST, 1);
    }
}

/* Makes queue pairs, those with the numbers from first to last, and connects them by sockets. */
static void make(int first, int last, int (*socket_of)(int))
{
    open_side(&sides[first]);
    create_queues(&sides[first]);
    for (int i = first + 1; i <= last; i++) {
        sides[i] = sides[first];
        create_qp(&sides[i]);
    }
    for (int i = first; i <= last; i++) {
        to_peer = socket_of(i);
        peers[i] = connect_side(&sides[i]);
        unsigned buffer = is("receive") && is_wrong && i == SECOND ? RECEIVE : RECEIVE + 1 + i;
        post_receive(&sides[i], buffer);
    }
    /* The peer sends when there are receives. */
    for (int i = first; i <= last; i++) {
        to_peer = socket_of(i);
        step();
        await();
    }
}

static void destroy(int first, int last)
{
    for (int i = first; i <= last; i++)
        check(!ibv_destroy_qp(sides[i].qp), "ibv_destroy_qp");
    check(!ibv_destroy_cq(sides[first].cq), "ibv_destroy_cq");
    close_side(&sides[first]);
}

static int of_target(int number)
{
    return number == OTHER ? to_other : to_writer;
}

static int of_writer(int number)
{
    (void)number;
    return to_target;
}

static void end_child(pid_t child)
{
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

int main(int count, char **arguments)
{
    int writers[2], others[2], between[2];
    check(count == 3, "arguments");
    name = arguments[1];
    is_wrong = !strcmp(arguments[2], "wrong");
    rnr_retry = 3;
    signals_all = 0;
    reads_out = reads_in = 4;
    rights |= IBV_ACCESS_REMOTE_ATOMIC;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, writers) && !socketpair(AF_UNIX, SOCK_STREAM, 0, others)
          && !socketpair(AF_UNIX, SOCK_STREAM, 0, between), "socketpair");
    pid_t children[2];
    if (!(children[0] = fork())) {
        to_writer = writers[1];
        to_other = others[1];
        make(FIRST, OTHER, of_target);
        target();
        await_from(to_writer);
        await_from(to_other);
        tell(to_writer);
        tell(to_other);
        destroy(FIRST, OTHER);
        return 0;
    }
    if (!(children[1] = fork())) {
        to_target = others[0];
        to_other = between[1];
        make(OTHER, OTHER, of_writer);
        other();
        tell(to_target);
        await_from(to_target);
        destroy(OTHER, OTHER);
        return 0;
    }
    to_target = writers[0];
    to_other = between[0];
    make(FIRST, SECOND, of_writer);
    writer();
    tell(to_target);
    await_from(to_target);
    destroy(FIRST, SECOND);
    end_child(children[0]);
    end_child(children[1]);
    return 0;
}
