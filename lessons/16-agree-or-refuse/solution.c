/* A server that looks at what a client wants, and accepts with what it can give, or refuses. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

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
    struct wanted wanted;

    memcpy(&wanted, private_data, sizeof(wanted));
    return (struct wanted){ .count = ntohl(wanted.count), .size = ntohl(wanted.size) };
}

/* Answers a request, and takes the messages if it accepts. */
static void our_answer(struct our_control *conn)
{
    struct wanted wanted = our_wanted(conn->peer_data);
    if (wanted.size > SIZE) {
        /* now, or not at all */
        uint32_t reason = htonl(SIZE);
        our_reject(conn, &reason, sizeof(reason));
        return;
    }
    uint32_t count = wanted.count < ROOM ? wanted.count : ROOM;

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
    uint32_t given = htonl(count);
    our_accept(conn, &given, sizeof(given));

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
