/*
 * The tests. Each of a test's functions is what one process does, and gives whether it has seen the outcome. x, y, block,
 * r1 and r2 are 0 before; `one`, `two` and `thousand`, and the blocks `ones` and `twos`, hold what they are called.
 */

/* Watches a word until it has a value. */
static void wait_for(const volatile uint64_t *word, uint64_t value)
{
    while (*word != value)
        ;
}

/* Whether a word has a value when A is done and has told B so by a socket. */
static int b_hears_then(const volatile uint64_t *word, uint64_t value)
{
    hear(A);
    return *word == value;
}

/* A's end of a test: all its requests have completed, and B is told. */
static int done_and_told(enum link link)
{
    poll_all(link);
    tell(B);
    return 0;
}

/* The same when B's processor sees what was put. */
static int flushed_and_told(enum link link)
{
    poll_all(link);
    flush(link);
    tell(B);
    return 0;
}

static int reads_x_old(void) { return b_hears_then(&m->x, 0); }
static int reads_x_one(void) { return b_hears_then(&m->x, 1); }
static int reads_x_two(void) { return b_hears_then(&m->x, 2); }
static int reads_y_seven(void) { return b_hears_then(&m->y, 7); }

/* Row 1: two puts. */

static int puts_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    put(QP1, &m->y, &m->one, SIGNALED);
    return 0;
}

static int puts_b(void)
{
    wait_for(&m->y, 1);
    return m->x == 0;
}

/* Row 2: one put of several words. */

static int bytes_a(void)
{
    put_bytes(QP1, m->block, m->ones, 64, SIGNALED);
    return 0;
}

static int bytes_b(void)
{
    int is_old = 0;
    wait_for(&m->block[7], 1);
    for (int word = 0; word < 7; word++)
        is_old |= m->block[word] == 0;
    return is_old;
}

/* Row 3: a get behind a put. */

static int put_get_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    get(QP1, &m->r1, &m->x, SIGNALED);
    poll_all(QP1);
    return m->r1 == 0;
}

/* Row 4: a put behind a get. */

static int get_put(int flags)
{
    get(QP1, &m->r1, &m->x, SIGNALED);
    put(QP1, &m->x, &m->one, flags);
    poll_all(QP1);
    return m->r1 == 1;
}

static int get_put_a(void) { return get_put(SIGNALED); }
static int get_put_fenced_a(void) { return get_put(FENCED); }

/* Row 5: what a get brings is sent on. */

static void b_has_x_one(void)
{
    m->x = 1;
    tell(A);
}

static int get_send(int flags)
{
    hear(B);
    get(QP1, &m->r1, &m->x, SIGNALED);
    send_word(QP1, &m->r1, flags);
    return 0;
}

static int get_send_a(void) { return get_send(SIGNALED); }
static int get_send_fenced_a(void) { return get_send(FENCED); }

static int get_send_b(void)
{
    b_has_x_one();
    return poll_receive(QP1) == 0;
}

/* Row 6: what a get brings is put. */

static int get_put_on(int flags)
{
    hear(B);
    get(QP1, &m->r1, &m->x, SIGNALED);
    put(QP1, &m->y, &m->r1, flags);
    return flushed_and_told(QP1);
}

static int get_put_on_a(void) { return get_put_on(SIGNALED); }
static int get_put_on_fenced_a(void) { return get_put_on(FENCED); }

static int get_put_on_b(void)
{
    b_has_x_one();
    return b_hears_then(&m->y, 0);
}

/* Row 7: two gets, of which the second is polled. */

static int gets_a(void)
{
    hear(B);
    get(QP1, &m->r1, &m->x, 0);
    get(QP1, &m->r2, &m->x, SIGNALED);
    poll_all(QP1);
    return m->r1 == 0;
}

static int has_x_one_b(void)
{
    b_has_x_one();
    return 0;
}

/* Row 8: a put whose completion was polled. */

static int put_polled_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    return done_and_told(QP1);
}

static int put_polled_then_two_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    poll_all(QP1);
    send_word(QP2, &m->one, SIGNALED);
    return 0;
}

static int put_polled_then_c_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    poll_all(QP1);
    send_word(AC, &m->one, SIGNALED);
    return 0;
}

static int relay_c(void)
{
    poll_receive(AC);
    send_word(CB, &m->one, SIGNALED);
    return 0;
}

static int relay_b(void)
{
    poll_receive(CB);
    return m->x == 0;
}

/* Row 9: the same with a get behind it. */

static int put_flushed_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    return flushed_and_told(QP1);
}

/* Row 10: a put, and a message of the same queue pair. */

static int put_send_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    send_word(QP1, &m->one, SIGNALED);
    return 0;
}

static int put_polled_send_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    poll_all(QP1);
    send_word(QP1, &m->one, SIGNALED);
    return 0;
}

static int put_send_b(void)
{
    poll_receive(QP1);
    return m->x == 0;
}

/* The same by the connection with a shared receive queue. */

static int put_send_shared_a(void)
{
    put(SHARED, &m->x, &m->one, SIGNALED);
    send_word(SHARED, &m->one, SIGNALED);
    return 0;
}

static int put_send_shared_b(void)
{
    poll_receive(SHARED);
    return m->x == 0;
}

/* Row 11: and of another one. */

static int two_queue_pairs_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    send_word(QP2, &m->one, SIGNALED);
    return 0;
}

static int two_queue_pairs_b(void)
{
    poll_receive(QP2);
    return m->x == 0;
}

/* Row 12: puts of two queue pairs to the same place. */

static int puts_cross_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    put(QP2, &m->x, &m->two, SIGNALED);
    poll_all(QP1);
    flush(QP1);
    return flushed_and_told(QP2);
}

static int puts_mixed_a(void)
{
    put_bytes(QP1, m->block, m->ones, sizeof m->ones, SIGNALED);
    put_bytes(QP2, m->block, m->twos, sizeof m->twos, SIGNALED);
    poll_all(QP1);
    flush(QP1);
    return flushed_and_told(QP2);
}

static int puts_mixed_b(void)
{
    int are_others = 0;
    hear(A);
    for (int word = 1; word < WORDS; word++)
        are_others |= m->block[word] != m->block[0];
    return are_others;
}

/* Rows 13 to 15: the program's own stores before and behind a put. */

static int store_put_a(void)
{
    m->r1 = 1;
    put(QP1, &m->x, &m->r1, SIGNALED);
    return flushed_and_told(QP1);
}

static int put_store(int flags)
{
    m->r1 = 1;
    put(QP1, &m->x, &m->r1, flags);
    m->r1 = 2;
    return flushed_and_told(QP1);
}

static int put_store_a(void) { return put_store(SIGNALED); }
static int inline_put_store_a(void) { return put_store(SIGNALED | IBV_SEND_INLINE); }

/* Rows 16 to 19: atomics. */

enum { ADDITIONS = 16 };

static void additions(enum link link)
{
    for (int i = 0; i < ADDITIONS; i++)
        add(link, &m->r1, &m->x, 1);
    poll_all(link);
    tell(B);
}

static int adds_a(void)
{
    additions(QP1);
    return 0;
}

static int adds_c(void)
{
    additions(CB);
    return 0;
}

static int adds_b(void)
{
    hear(A);
    hear(C);
    return m->x != 2 * ADDITIONS;
}

static int add_processor_b(void)
{
    uint64_t added = 0;
    while (m->x == 0)
        ;
    /* A tells when it is done. */
    while (recv(to[A], &(char){0}, 1, MSG_DONTWAIT) != 1)
        for (int i = 0; i < 100; i++, added++)
            __atomic_fetch_add(&m->x, 1, __ATOMIC_SEQ_CST);
    return m->x != ADDITIONS + added;
}

static int add_put_c(void)
{
    put(CB, &m->x, &m->thousand, SIGNALED);
    return flushed_and_told(CB);
}

static int add_put_b(void)
{
    hear(A);
    hear(C);
    return m->x < 1000;
}

static int add_put_on_a(void)
{
    m->r1 = 7;
    add(QP1, &m->r1, &m->x, 1);
    put(QP1, &m->y, &m->r1, SIGNALED);
    return flushed_and_told(QP1);
}

/* Row 20: a put without a completion, then one with. */

static int unsignaled_a(void)
{
    m->r1 = 1;
    put(QP1, &m->x, &m->r1, 0);
    put(QP1, &m->y, &m->one, SIGNALED);
    poll_all(QP1);
    m->r1 = 2;
    return flushed_and_told(QP1);
}

/* Row 21: messages. */

static int sends_a(void)
{
    send_word(QP1, &m->one, SIGNALED);
    send_word(QP1, &m->two, SIGNALED);
    return 0;
}

static int sends_b(void)
{
    return poll_receive(QP1) != 1;
}

static int sends_shared_a(void)
{
    send_word(SHARED, &m->one, SIGNALED);
    send_word(SHARED, &m->two, SIGNALED);
    return 0;
}

static int sends_shared_b(void)
{
    return poll_receive(SHARED) != 1;
}

static int sends_cross_a(void)
{
    send_word(QP1, &m->one, SIGNALED);
    send_word(QP2, &m->two, SIGNALED);
    return 0;
}

static int sends_cross_b(void)
{
    struct ibv_wc first, second;
    for (;;) {
        int has_first = poll_once(ends[QP1].receives, &first), has_second = poll_once(ends[QP2].receives, &second);
        /* The first may have come in between. */
        int is_weak = has_second && !has_first && !(has_first = poll_some(ends[QP1].receives, &first));
        if (has_first)
            post_receive(QP1, first.wr_id);
        if (has_second)
            post_receive(QP2, second.wr_id);
        if (has_first || has_second)
            return is_weak;
    }
}

/* Row 22: datagrams, which tell their numbers, others in each run. */

enum { SENT = 8, WAITS = 20 };

static int datagrams_a(void)
{
    for (int i = 0; i < SENT; i++) {
        m->block[i] = run * SENT + i;
        send_word(DATAGRAMS, &m->block[i], SIGNALED);
    }
    return done_and_told(DATAGRAMS);
}

/* In which order they have come, counted from 0. From another host they come later than word of them. */
static int datagrams_come(uint64_t numbers[STOCK])
{
    struct ibv_wc wc;
    int count = 0;
    hear(A);
    for (int wait = 0; wait < WAITS && count < SENT; wait++) {
        if (wait)
            usleep(1000);
        while (count < STOCK && poll_some(ends[DATAGRAMS].receives, &wc)) {
            numbers[count] = word_of(DATAGRAMS, &wc) - run * SENT;
            /* One of a run before counts as lost there. */
            count += numbers[count] < SENT;
            post_receive(DATAGRAMS, wc.wr_id);
        }
    }
    return count;
}

static int datagrams_lost_b(void)
{
    uint64_t numbers[STOCK];
    return datagrams_come(numbers) < SENT;
}

static int datagrams_order_b(void)
{
    uint64_t numbers[STOCK];
    int is_other = 0;
    for (int i = 1, count = datagrams_come(numbers); i < count; i++)
        is_other |= numbers[i] < numbers[i - 1];
    return is_other;
}

static int datagrams_twice_b(void)
{
    uint64_t numbers[STOCK], seen = 0, twice = 0;
    for (int i = 0, count = datagrams_come(numbers); i < count; i++) {
        twice |= seen & 1 << numbers[i];
        seen |= 1 << numbers[i];
    }
    return twice != 0;
}

/* Row 23: a put with immediate data. */

static int imm_a(void)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    put_imm(QP1, m->block, m->ones, 512);
    return 0;
}

static int imm_b(void)
{
    int is_old = 0;
    poll_receive(QP1);
    for (int word = 0; word < 64; word++)
        is_old |= m->block[word] == 0;
    return is_old || m->x == 0;
}

/* Row 24: memory that allows relaxed ordering. */

static int puts_relaxed_a(void)
{
    put_relaxed(QP1, &m->x, &m->one, IBV_WR_RDMA_WRITE);
    put_relaxed(QP1, &m->y, &m->one, IBV_WR_RDMA_WRITE);
    return 0;
}

static int put_send_relaxed_a(void)
{
    put_relaxed(QP1, &m->x, &m->one, IBV_WR_RDMA_WRITE);
    send_word(QP1, &m->one, SIGNALED);
    return 0;
}

static int imm_relaxed_a(void)
{
    put_relaxed(QP1, &m->x, &m->one, IBV_WR_RDMA_WRITE);
    put_relaxed(QP1, &m->y, &m->one, IBV_WR_RDMA_WRITE_WITH_IMM);
    return 0;
}

/* Row 26: an answer is there before the completion of what it answers. */

static int answered_a(void)
{
    struct ibv_wc wc;
    send_word(QP1, &m->one, SIGNALED);
    poll_receive(QP1);
    int is_complete = poll_once(ends[QP1].sends, &wc);
    ends[QP1].posted -= is_complete;
    return !is_complete;
}

static int answered_b(void)
{
    poll_receive(QP1);
    send_word(QP1, &m->one, SIGNALED);
    return 0;
}

/* Row 27: half a word. */

static const uint64_t whole = 0x0101010101010101;

static int word_a(void)
{
    for (int word = 0; word < 8; word++)
        m->twos[word] = whole;
    put_bytes(QP1, m->block, m->twos, 64, SIGNALED);
    return 0;
}

static int word_b(void)
{
    int is_torn = 0;
    for (uint64_t word = 0; word != whole;) {
        is_torn |= (word = m->block[3]) != 0 && word != whole;
        is_torn |= (word = m->block[7]) != 0 && word != whole;
    }
    return is_torn;
}

/* Row 28: what its reader has reset. */

static int reset_a(void)
{
    put_bytes(QP1, m->block, m->ones, 64, SIGNALED);
    return flushed_and_told(QP1);
}

static int reset_b(void)
{
    wait_for(&m->block[2], 1);
    m->block[2] = 5;
    hear(A);
    return m->block[2] != 5;
}

/* Row 29: both put, and look at what the other has put. */

static int crossing(int other)
{
    put(QP1, &m->x, &m->one, SIGNALED);
    poll_all(QP1);
    /* They look at the same time. */
    tell(other);
    hear(other);
    char is_old = m->x == 0, is_old_there;
    exchange(other, &is_old, &is_old_there, 1);
    return is_old && is_old_there;
}

static int crossing_a(void) { return crossing(B); }
static int crossing_b(void) { return crossing(A); }
