/* A client that sends a header and data, which are in two pieces of memory, as one message. */
#include <string.h>

#include "kit.h"

static const char HEADER[] = "HEADER: ";
static const char DATA[] = "and the data behind it";

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));

    void *header = our_buffer(&conn, strlen(HEADER));
    memcpy(header, HEADER, strlen(HEADER));
    struct ibv_mr *header_mr = our_reg_mr(&conn, header, strlen(HEADER), 0);
    void *data = our_buffer(&conn, strlen(DATA));
    memcpy(data, DATA, strlen(DATA));
    struct ibv_mr *data_mr = our_reg_mr(&conn, data, strlen(DATA), 0);

    our_connect(&conn, NULL, 0);

    /* To do: one message, not two. */
    struct ibv_mr *pieces[] = { header_mr, data_mr };
    for (int i = 0; i < 2; i++) {
        struct ibv_sge sge = our_setup_sge(pieces[i]);
        struct ibv_send_wr wr = {
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
        };
        our_post_send(&conn, &wr);
        our_await_completion(&conn);
    }

    our_disconnect(&conn);
    our_dereg_mr(&conn, data_mr);
    our_dereg_mr(&conn, header_mr);
    our_unsetup(&conn);
    return 0;
}
