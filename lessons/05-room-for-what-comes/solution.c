/* A server that takes one message, whose length the client has said. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "kit.h"

int main(void)
{
    struct our_control conn = our_server(OUR_OPTIONS("server"));

    uint32_t length;
    memcpy(&length, conn.peer_data, sizeof(length));
    /* most significant byte first */
    length = ntohl(length);

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
