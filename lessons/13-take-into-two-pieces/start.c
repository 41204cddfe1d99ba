/* A server that takes a message of header and data, and has them in two pieces of memory. */
#include <stdio.h>
#include <string.h>

#include "kit.h"

enum {
    HEADER = 8, /* bytes of the header */
    DATA = 200, /* bytes of the data, at most */
};

int main(void)
{
    struct our_control conn = our_server(OUR_OPTIONS("server"));

    char *whole = our_buffer(&conn, HEADER + DATA);
    struct ibv_mr *whole_mr = our_reg_mr(&conn, whole, HEADER + DATA, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = our_setup_sge(whole_mr);
    struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
    our_post_recv(&conn, &wr);
    our_accept(&conn, NULL, 0);

    int length = our_await_completion(&conn).byte_len;

    /* To do: the adapter can put them where they belong. */
    char *header = our_buffer(&conn, HEADER);
    char *data = our_buffer(&conn, DATA);
    memcpy(header, whole, HEADER);
    memcpy(data, whole + HEADER, DATA);
    printf("\"%.*s\" and %d bytes behind it\n", HEADER, header, length - HEADER);

    our_disconnect(&conn);
    our_dereg_mr(&conn, whole_mr);
    our_unsetup(&conn);
    return 0;
}
