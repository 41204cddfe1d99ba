/* A client that sends eight lists of four messages. */
#include "kit.h"

enum { LISTS = 8, OF_A_LIST = 4 };

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    void *buffer = our_buffer(&conn, 8);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, 8, 0);
    our_connect(&conn, NULL, 0);

    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr wrs[OF_A_LIST];
    for (int at = 0; at < OF_A_LIST; at++) {
        wrs[at] = our_setup_send_wr(&sge, 1);
        if (at > 0)
            wrs[at - 1].next = &wrs[at];
    }
    /* To do: one completion for each list. */
    for (int list = 0; list < LISTS; list++) {
        our_post_send(&conn, &wrs[0]);
        for (int at = 0; at < OF_A_LIST; at++)
            our_await_completion(&conn);
    }

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
