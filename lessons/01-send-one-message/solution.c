/* A client that connects, sends one message and hangs up. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "hello, RDMA";

/* Sends the whole of the buffer, and comes back when it has been sent. */
static void send_text(struct our_control *conn, void *buffer, size_t len, struct ibv_mr *mr)
{
    struct ibv_sge sge = { .addr = (uintptr_t)buffer, .length = len, .lkey = mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };

    our_post_send(conn, &wr);
    our_await_completion(conn);
}

int main(void)
{
    /* an id, the server's address, the route to it, and a queue pair */
    struct our_control conn = our_client(OUR_OPTIONS("client"));

    /* memory with the text in it, which the adapter may read */
    size_t len = strlen(TEXT);
    void *buffer = our_buffer(&conn, len);
    memcpy(buffer, TEXT, len);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, len, 0);

    our_connect(&conn, NULL, 0);
    send_text(&conn, buffer, len, mr);
    our_disconnect(&conn);

    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
