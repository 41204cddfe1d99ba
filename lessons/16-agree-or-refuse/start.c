/* A server that looks at what a client wants, and accepts with what it can give, or refuses. */
#include <stdio.h>

#include "kit.h"

enum {
    ROOM = 8,    /* receives that there is room for */
    SIZE = 1024, /* bytes of each */
    CLIENTS = 2,
};

/* What a client wants: so many messages, and so many bytes of each. */
struct wanted {
    uint32_t count;
    uint32_t size;
};

static struct wanted our_wanted(const unsigned char *private_data)
{
    /* To do. */
    return (struct wanted){ .count = ROOM, .size = SIZE };
}

/* Answers a request, and takes the messages if it accepts. */
static void our_answer(struct our_control *conn)
{
    /* To do: does it fit? our_reject refuses. */
    struct wanted wanted = our_wanted(conn->peer_data);
    uint32_t count = wanted.count;

    our_setup_qp(conn);
    void *buffer = our_buffer(conn, ROOM * SIZE);
    struct ibv_mr *mr = our_reg_mr(conn, buffer, ROOM * SIZE, IBV_ACCESS_LOCAL_WRITE);
    for (uint32_t place = 0; place < count; place++) {
        struct ibv_sge sge = our_setup_sge(mr);
        sge.addr += place * SIZE;
        sge.length = SIZE;
        struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
        our_post_recv(conn, &wr);
    }
    our_accept(conn, NULL, 0);

    for (uint32_t message = 0; message < count; message++)
        our_await_completion(conn);
    printf("%u messages have come\n", count);
    our_disconnect(conn);
    our_dereg_mr(conn, mr);
}

int main(void)
{
    struct our_control listener = our_listener(OUR_OPTIONS("server"));
    for (int client = 0; client < CLIENTS; client++) {
        struct our_control conn = our_next_request(&listener);
        our_answer(&conn);
        our_unsetup(&conn);
    }
    our_unsetup(&listener);
    return 0;
}
