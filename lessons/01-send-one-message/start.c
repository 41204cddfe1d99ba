/* A client that connects, sends one message and hangs up. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "hello, RDMA";

/* Sends the whole of the buffer, and comes back when it has been sent. */
static void send_text(struct our_control *conn, void *buffer, size_t len, struct ibv_mr *mr)
{
    /* To do: fill in a struct ibv_sge and a struct ibv_send_wr, post it with our_post_send, and wait for its
     * completion with our_await_completion. */
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
