/* Row 25, invalidation: B lets A at its memory by a window, and makes its key useless. Refusal breaks a queue pair, so each
 * of these tests has a connection of its own. */

/* B's window, bound through its end of the connection. */
static struct ibv_mw *window;

/* B binds the window, and sends its key to A right behind that. */
static void b_gives_a_key(void)
{
    add_end(OWN, A);
    window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(window != NULL, "ibv_alloc_mw");
    m->r1 = ibv_inc_rkey(window->rkey);
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = SIGNALED};
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = m->r1;
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){region, (uintptr_t)m, sizeof *m, IBV_ACCESS_REMOTE_WRITE};
    post(OWN, &wr);
    send_word(OWN, &m->r1, SIGNALED);
    poll_all(OWN);
}

static uint32_t a_gets_the_key(void)
{
    add_end(OWN, B);
    return poll_receive(OWN);
}

/* Neither needs the connection any more. The window goes first: Linux 6.1 destroys a queue pair that has one only after 50 s. */
static void end_own(int other)
{
    char byte = 0;
    exchange(other, &byte, &byte, 1);
    if (me == B)
        must(!ibv_dealloc_mw(window), "ibv_dealloc_mw");
    remove_end(OWN);
}

/* A puts 1 to x by a key. */
static void put_by(uint32_t key)
{
    struct ibv_sge sge = element(&m->one, 8);
    struct ibv_send_wr wr = request(OWN, IBV_WR_RDMA_WRITE, &sge, &m->x, SIGNALED);
    wr.wr.rdma.rkey = key;
    post(OWN, &wr);
}

/* A sends a message that invalidates a key at B. */
static void send_invalidating(uint32_t key)
{
    struct ibv_sge sge = element(&m->one, 8);
    struct ibv_send_wr wr = request(OWN, IBV_WR_SEND_WITH_INV, &sge, NULL, SIGNALED);
    wr.invalidate_rkey = key;
    post(OWN, &wr);
}

static void b_invalidates(void)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = FENCED, .invalidate_rkey = m->r1};
    post(OWN, &wr);
    poll_all(OWN);
}

/* A message with the key of a window, right behind the request that binds it. */

static int bind_send_a(void)
{
    put_by(a_gets_the_key());
    int is_refused = poll_status(OWN) != IBV_WC_SUCCESS;
    end_own(B);
    return is_refused;
}

static int bind_send_b(void)
{
    b_gives_a_key();
    end_own(A);
    return 0;
}

/* A message that invalidates, behind a put by the same key. */

static int put_send_inv_a(void)
{
    uint32_t key = a_gets_the_key();
    put_by(key);
    send_invalidating(key);
    poll_all(OWN);
    end_own(B);
    return 0;
}

static int put_send_inv_b(void)
{
    b_gives_a_key();
    poll_receive(OWN);
    int is_old = m->x == 0;
    end_own(A);
    return is_old;
}

/* A put behind the invalidation. */

static int put_late(uint32_t key)
{
    hear(B);
    put_by(key);
    int is_done = poll_status(OWN) == IBV_WC_SUCCESS;
    end_own(B);
    return is_done;
}

static int send_inv_put_a(void)
{
    uint32_t key = a_gets_the_key();
    send_invalidating(key);
    poll_all(OWN);
    return put_late(key);
}

static int send_inv_put_b(void)
{
    b_gives_a_key();
    poll_receive(OWN);
    tell(A);
    end_own(A);
    return 0;
}

static int inv_put_a(void)
{
    return put_late(a_gets_the_key());
}

static int inv_put_b(void)
{
    b_gives_a_key();
    b_invalidates();
    tell(A);
    end_own(A);
    return 0;
}

/* A put before it: B's memory is its own when the invalidation is done. */

static int put_inv_a(void)
{
    put_by(a_gets_the_key());
    poll_all(OWN);
    tell(B);
    hear(B);
    flush(OWN);
    tell(B);
    end_own(B);
    return 0;
}

static int put_inv_b(void)
{
    b_gives_a_key();
    hear(A);
    b_invalidates();
    m->x = 5;
    tell(A);
    hear(A);
    int is_another = m->x != 5;
    end_own(A);
    return is_another;
}
