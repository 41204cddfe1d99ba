/* A server that takes a datagram, and sends its bytes back to where they have come from. */
#include <stdio.h>

#include "kit.h"

enum { LENGTH = 64 }; /* bytes of a datagram, at most */

/* Sends the datagram in the buffer back to where it has come from. */
static void answer(struct our_control *conn, void *buffer, struct ibv_mr *mr,
                   struct ibv_wc *work_completion)
{
    /* To do: an address handle (on the port OUR_IB_PORT), and a send whose wr.ud has it, the number of the
     * sender's queue pair and the Q_Key. Destroy the handle when the send is done. */
}

int main(void)
{
    /* listens until a client asks, and creates a queue pair for datagrams */
    struct our_control conn = our_datagram_server(OUR_OPTIONS("server"));
    char *buffer = our_buffer(&conn, LENGTH);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, LENGTH, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
    our_post_recv(&conn, &wr);
    /* tells the client the queue pair's number */
    our_accept(&conn, NULL, 0);

    struct ibv_wc work_completion = our_await_completion(&conn);
    printf("%.*s\n", LENGTH, buffer);
    answer(&conn, buffer, mr, &work_completion);

    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
