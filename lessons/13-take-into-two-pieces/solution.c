/* A server that takes a message of header and data, and has them in two pieces of memory. */
#include <stdio.h>

#include "kit.h"

enum {
    HEADER = 8, /* bytes of the header */
    DATA = 200, /* bytes of the data, at most */
};

int main(void)
{
    struct our_control conn = our_server(OUR_OPTIONS("server"));

    char *header = our_buffer(&conn, HEADER);
    struct ibv_mr *header_mr = our_reg_mr(&conn, header, HEADER, IBV_ACCESS_LOCAL_WRITE);
    char *data = our_buffer(&conn, DATA);
    struct ibv_mr *data_mr = our_reg_mr(&conn, data, DATA, IBV_ACCESS_LOCAL_WRITE);
    /* filled in this order, each to its end before the next begins */
    struct ibv_sge sges[] = { our_setup_sge(header_mr), our_setup_sge(data_mr) };
    struct ibv_recv_wr wr = our_setup_recv_wr(sges, 2);
    our_post_recv(&conn, &wr);
    our_accept(&conn, NULL, 0);

    int length = our_await_completion(&conn).byte_len;

    printf("\"%.*s\" and %d bytes behind it\n", HEADER, header, length - HEADER);

    our_disconnect(&conn);
    our_dereg_mr(&conn, data_mr);
    our_dereg_mr(&conn, header_mr);
    our_unsetup(&conn);
    return 0;
}
