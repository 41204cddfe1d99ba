/*
 * Litmus tests of the order that RDMA keeps: each is a few requests whose outcome a program might be surprised by.
 *
 *   litmus --list               names the tests, a line each: row, name, whether the outcome is allowed, what is done
 *   litmus NAME...|all          runs some, or all: how often the outcome was seen
 *          [--runs N]           of so many runs, 100 if not told
 *          [--b COMMAND]        B is run by a command that takes another one behind it, such as one for another host
 *
 * Up to three processes with connected queue pairs. The exit status is 1 if something was seen that is forbidden.
 */
#include "process.h"
#include "tests.h"
#include "windows.h"

enum expectation { ALLOWED, FORBIDDEN };

static const struct test {
    int row;
    const char *name;
    enum expectation outcome;
    const char *what;
    /* Each process's part. */
    int (*does[PROCESSES])(void);
} tests[] = {
    {1, "puts", FORBIDDEN, "A: put x,1; put y,1 | B: sees y=1, reads x=0", {puts_a, puts_b}},
    {2, "bytes", ALLOWED, "A: put of 8 words | B: sees the last one new, another one old", {bytes_a, bytes_b}},
    {3, "put-get", FORBIDDEN, "A: put x,1; get x: 0", {put_get_a}},
    {4, "get-put", ALLOWED, "A: get x; put x,1; the get's result is 1", {get_put_a}},
    {4, "get-put-fenced", FORBIDDEN, "the same with IBV_SEND_FENCE on the put", {get_put_fenced_a}},
    {5, "get-send", ALLOWED, "x=1. A: get x into r; send r | B: receives the old r", {get_send_a, get_send_b}},
    {5, "get-send-fenced", FORBIDDEN, "the same with IBV_SEND_FENCE on the send", {get_send_fenced_a, get_send_b}},
    {6, "get-put-on", ALLOWED, "x=1. A: get x into r; put y,r | B: y is the old r", {get_put_on_a, get_put_on_b}},
    {6, "get-put-on-fenced", FORBIDDEN, "the same with IBV_SEND_FENCE on the put", {get_put_on_fenced_a, get_put_on_b}},
    {7, "gets", FORBIDDEN, "x=1. A: get x into r1; get x into r2; polls the second; r1 is old", {gets_a, has_x_one_b}},
    {8, "put-polled", ALLOWED, "A: put x,1; polls; tells B by a socket | B: reads x=0", {put_polled_a, reads_x_old}},
    {8, "put-polled-other", ALLOWED, "A: put x,1; polls; send by another queue pair | B: polls it, reads x=0",
     {put_polled_then_two_a, two_queue_pairs_b}},
    {8, "put-polled-relay", ALLOWED, "A: put x,1; polls; send to C | C: polls it, send to B | B: polls it, reads x=0",
     {put_polled_then_c_a, relay_b, relay_c}},
    {9, "put-flushed", FORBIDDEN, "A: put x,1; get; polls; tells B by a socket | B: reads x=0", {put_flushed_a, reads_x_old}},
    {10, "put-send", FORBIDDEN, "A: put x,1; send | B: polls it, reads x=0", {put_send_a, put_send_b}},
    {10, "put-polled-send", FORBIDDEN, "A: put x,1; polls; send | B: polls it, reads x=0", {put_polled_send_a, put_send_b}},
    {10, "put-send-shared", FORBIDDEN, "A: put x,1; send | B: polls it, of a shared receive queue, reads x=0",
     {put_send_shared_a, put_send_shared_b}},
    {11, "two-queue-pairs", ALLOWED, "A: put x,1 by queue pair 1; send by 2 | B: polls it, reads x=0",
     {two_queue_pairs_a, two_queue_pairs_b}},
    {12, "puts-cross", ALLOWED, "A: put x,1 by queue pair 1; put x,2 by 2 | B: x is 1 in the end",
     {puts_cross_a, reads_x_one}},
    {12, "puts-mixed", ALLOWED, "A: two puts of 8 KiB by two queue pairs to one place | B: finds words of both",
     {puts_mixed_a, puts_mixed_b}},
    {13, "store-put", FORBIDDEN, "A: b=1; put x,b | B: x is 0 in the end", {store_put_a, reads_x_old}},
    {14, "put-store", ALLOWED, "A: put x,b; b=2 | B: x is 2", {put_store_a, reads_x_two}},
    {15, "inline-put-store", FORBIDDEN, "A: inline put x,b; b=2 | B: x is 2", {inline_put_store_a, reads_x_two}},
    {16, "adds", FORBIDDEN, "A, C: 16 additions to x each | B: x is not 32", {adds_a, adds_b, adds_c}},
    {17, "add-processor", ALLOWED, "A: 16 additions to x | B: its processor adds atomically; one is lost",
     {adds_a, add_processor_b}},
    {18, "add-put", ALLOWED, "A: 16 additions to x | C: put x,1000 | B: x is less in the end", {adds_a, add_put_b, add_put_c}},
    {19, "add-put-on", ALLOWED, "A: adds to x, result into r; put y,r | B: y is the old r", {add_put_on_a, reads_y_seven}},
    {20, "unsignaled", FORBIDDEN, "A: put x,b without a completion; put y; polls; b=2 | B: x is 2",
     {unsignaled_a, reads_x_two}},
    {21, "sends", FORBIDDEN, "A: send 1; send 2 | B: the first one polled is not 1", {sends_a, sends_b}},
    {21, "sends-shared", FORBIDDEN, "the same with a shared receive queue", {sends_shared_a, sends_shared_b}},
    {21, "sends-cross", ALLOWED, "A: send by queue pair 1; send by 2 | B: finds the second, not yet the first",
     {sends_cross_a, sends_cross_b}},
    {22, "datagrams-lost", ALLOWED, "A: 8 datagrams | B: receives fewer", {datagrams_a, datagrams_lost_b}},
    {22, "datagrams-order", ALLOWED, "A: 8 datagrams | B: receives one before another that was sent earlier",
     {datagrams_a, datagrams_order_b}},
    {22, "datagrams-twice", FORBIDDEN, "A: 8 datagrams | B: receives one twice", {datagrams_a, datagrams_twice_b}},
    {23, "imm", FORBIDDEN, "A: put x,1; put of 64 words with immediate data | B: polls it, a word or x is old",
     {imm_a, imm_b}},
    {24, "puts-relaxed", ALLOWED, "as puts, where relaxed ordering is allowed", {puts_relaxed_a, puts_b}},
    {24, "put-send-relaxed", FORBIDDEN, "as put-send, where relaxed ordering is allowed", {put_send_relaxed_a, put_send_b}},
    {24, "imm-relaxed", FORBIDDEN, "A: put x,1; put with immediate data, relaxed | B: polls it, reads x=0",
     {imm_relaxed_a, put_send_b}},
    {25, "bind-send", FORBIDDEN, "B: binds a window; sends its key | A: polls it; put by the key is refused",
     {bind_send_a, bind_send_b}},
    {25, "put-send-inv", FORBIDDEN, "A: put x,1 by a window's key; send that invalidates it | B: polls it, reads x=0",
     {put_send_inv_a, put_send_inv_b}},
    {25, "send-inv-put", FORBIDDEN, "A: send that invalidates a key | B: polls it | A: put by the key succeeds",
     {send_inv_put_a, send_inv_put_b}},
    {25, "inv-put", FORBIDDEN, "B: invalidates a key; polls | A: put by the key succeeds", {inv_put_a, inv_put_b}},
    {25, "put-inv", FORBIDDEN, "A: put x,1 by a key; polls | B: invalidates it; polls; x=5; it is not 5 in the end",
     {put_inv_a, put_inv_b}},
    {26, "answered", ALLOWED, "A: send; polls B's answer; the send has no completion yet", {answered_a, answered_b}},
    {27, "word", FORBIDDEN, "A: put of 8 words | B: sees a part of a word new", {word_a, word_b}},
    {28, "reset", FORBIDDEN, "A: put of 8 words | B: sees one, stores 5 to it; it is not 5 in the end", {reset_a, reset_b}},
    {29, "crossing", ALLOWED, "A, B: put x,1 to the other; poll; both read x=0", {crossing_a, crossing_b}},
};

enum { TESTS = sizeof tests / sizeof *tests };

static void reset_memory(void)
{
    memset((void *)m, 0, sizeof *m);
    m->one = 1;
    m->two = 2;
    m->thousand = 1000;
    for (int word = 0; word < WORDS; word++) {
        m->ones[word] = 1;
        m->twos[word] = 2;
    }
}

/* How often they wait for each other in a run. */
enum { STEPS = 3 };

/* The processes are in step: none goes on before all are there. */
static void wait_for_all(void)
{
    tell(REFEREE);
    hear(REFEREE);
}

/* Runs tests by their numbers, as the referee says. All have looked before something is done that may order what the test has
 * done. */
static void take_part(void)
{
    int number;
    open_device();
    register_memory();
    connect_all();
    while (recv(to[REFEREE], &number, sizeof number, MSG_WAITALL) == sizeof number) {
        run++;
        reset_memory();
        wait_for_all();
        char is_weak = tests[number].does[me] ? tests[number].does[me]() : 0;
        wait_for_all();
        settle();
        wait_for_all();
        drain();
        must(write(to[REFEREE], &is_weak, 1) == 1, "write");
    }
    exit(0);
}

/* Runs a test once: whether one of the processes has seen the outcome. */
static int judge(int number)
{
    int is_seen = 0;
    for (int process = 0; process < PROCESSES; process++)
        must(write(to[process], &number, sizeof number) == sizeof number, "write");
    for (int step = 0; step < STEPS; step++) {
        for (int process = 0; process < PROCESSES; process++)
            hear(process);
        for (int process = 0; process < PROCESSES; process++)
            tell(process);
    }
    for (int process = 0; process < PROCESSES; process++) {
        char is_weak;
        must(read(to[process], &is_weak, 1) == 1, "read");
        is_seen |= is_weak;
    }
    return is_seen;
}

/* How often a test's outcome was seen; whether that may be. */
static int report(int number, int runs)
{
    const struct test *test = &tests[number];
    int seen = 0;
    for (int run = 0; run < runs; run++)
        seen += judge(number);
    printf("%s %s %d of %d\n", test->name, test->outcome == ALLOWED ? "allowed" : "forbidden", seen, runs);
    fflush(stdout);
    return seen == 0 || test->outcome == ALLOWED;
}

/* Becomes the process with a number: of the sockets, one between each two, its own stay open. */
static void become(int process, int sockets[PROCESSES + 1][PROCESSES + 1])
{
    me = process;
    for (int one = 0; one <= PROCESSES; one++)
        for (int other = 0; other <= PROCESSES; other++)
            if (one == process)
                to[other] = one == other ? -1 : sockets[one][other];
            else if (one != other)
                close(sockets[one][other]);
}

/* An argument of a process that is run by a command; behind it are its number and those of its sockets. */
static const char take_part_here[] = "--take-part";

/* Has a command run this process. */
static void be_run_by(const char *command)
{
    char program[4096] = "", line[8192];
    must(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "/proc/self/exe");
    snprintf(line, sizeof line, "exec %s '%s' %s %d %d %d %d", command, program, take_part_here, me, to[A], to[C],
             to[REFEREE]);
    execl("/bin/sh", "sh", "-c", line, NULL);
    must(0, "/bin/sh");
}

/* Starts the processes; this one is their referee. It opens the device, too: the time of strict runs stands still only while
 * programs run that have opened it, and the processes are to wait for nobody else. */
static void start(pid_t children[PROCESSES], const char *b_by)
{
    int sockets[PROCESSES + 1][PROCESSES + 1];
    for (int one = 0; one <= PROCESSES; one++)
        for (int other = 0; other < one; other++) {
            int pair[2];
            must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
            sockets[one][other] = pair[0];
            sockets[other][one] = pair[1];
        }
    for (int process = 0; process < PROCESSES; process++) {
        children[process] = fork();
        must(children[process] >= 0, "fork");
        if (children[process] == 0) {
            become(process, sockets);
            if (process == B && b_by)
                be_run_by(b_by);
            take_part();
        }
    }
    become(REFEREE, sockets);
    open_device();
}

static int list(void)
{
    for (int number = 0; number < TESTS; number++) {
        const struct test *test = &tests[number];
        printf("%d %s %s: %s\n", test->row, test->name, test->outcome == ALLOWED ? "allowed" : "forbidden", test->what);
    }
    return 0;
}

static int usage(const char *name)
{
    fprintf(stderr, "usage: %s --list | NAME...|all [--runs N] [--b COMMAND]\n", name);
    return 2;
}

/* Which tests the names are of; 0 if one of them is of none. */
static int are_chosen(char **names, int count, int is_chosen[TESTS])
{
    for (int name = 0; name < count; name++) {
        int is_all = !strcmp(names[name], "all"), is_known = 0;
        for (int number = 0; number < TESTS; number++)
            if (is_all || !strcmp(names[name], tests[number].name))
                is_known = is_chosen[number] = 1;
        if (!is_known)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    pid_t children[PROCESSES];
    const char *b_by = NULL;
    int runs = 100, is_right = 1, is_chosen[TESTS] = {0};
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return list();
    if (argc == 6 && !strcmp(argv[1], take_part_here)) {
        me = atoi(argv[2]);
        to[A] = atoi(argv[3]);
        to[C] = atoi(argv[4]);
        to[REFEREE] = atoi(argv[5]);
        take_part();
    }
    int end = 1;
    while (end < argc && argv[end][0] != '-')
        end++;
    for (int option = end; option < argc; option += 2)
        if (option + 1 < argc && !strcmp(argv[option], "--runs"))
            runs = atoi(argv[option + 1]);
        else if (option + 1 < argc && !strcmp(argv[option], "--b"))
            b_by = argv[option + 1];
        else
            return usage(argv[0]);
    if (end == 1 || runs <= 0 || !are_chosen(argv + 1, end - 1, is_chosen))
        return usage(argv[0]);
    /* A process that ends early has said why. */
    signal(SIGPIPE, SIG_IGN);
    start(children, b_by);
    for (int number = 0; number < TESTS; number++)
        if (is_chosen[number])
            is_right &= report(number, runs);
    for (int process = 0; process < PROCESSES; process++)
        close(to[process]);
    for (int process = 0; process < PROCESSES; process++) {
        int status;
        must(waitpid(children[process], &status, 0) == children[process], "waitpid");
        is_right &= status == 0;
    }
    return is_right ? 0 : 1;
}
