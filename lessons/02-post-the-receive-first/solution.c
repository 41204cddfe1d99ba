/* A server that takes one message. */
#include <stdio.h>

#include "kit.h"

int main(void)
{
    /* listens until a client calls, and gives the new id a queue pair */
    struct our_control conn = our_server(OUR_OPTIONS("server"));

    char *buffer = our_buffer(&conn, 64);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, 64, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
    our_post_recv(&conn, &wr);

    /* there is a connection from here on */
    our_accept(&conn, NULL, 0);

    struct ibv_wc work_completion = our_await_completion(&conn);
    printf("%.*s\n", (int)work_completion.byte_len, buffer);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
