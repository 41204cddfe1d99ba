/* A server that takes one message, whose length the client has said. */
#include <stdio.h>

#include "kit.h"

int main(void)
{
    struct our_control conn = our_server(OUR_OPTIONS("server"));

    /* To do: the first four bytes of conn.peer_data are the message's length, most significant first. */
    uint32_t length = 1024;

    void *buffer = our_buffer(&conn, length);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, length, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
    our_post_recv(&conn, &wr);
    our_accept(&conn, NULL, 0);

    struct ibv_wc work_completion = our_await_completion(&conn);
    printf("a message of %u bytes has come\n", work_completion.byte_len);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
