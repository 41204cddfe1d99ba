/* A server that takes a datagram, and sends its bytes back to where they have come from. */
#include <errno.h>
#include <stdio.h>

#include "kit.h"

enum {
    LENGTH = 64,                  /* bytes of a datagram, at most */
    GRH = sizeof(struct ibv_grh), /* bytes of the global routing header */
};

/* Sends the datagram in the buffer back to where it has come from. */
static void answer(struct our_control *conn, void *buffer, struct ibv_mr *mr,
                   struct ibv_wc *work_completion)
{
    /* the header is what the buffer begins with */
    struct ibv_ah *ah =
        ibv_create_ah_from_wc(conn->protection_domain, work_completion, buffer, OUR_IB_PORT);
    if (ah == NULL)
        failed("ibv_create_ah_from_wc", ENOMEM, &conn->options);
    /* what has come begins behind the header, which is counted */
    struct ibv_sge sge = our_setup_sge(mr);
    sge.addr += GRH;
    sge.length = work_completion->byte_len - GRH;
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = work_completion->src_qp;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    our_post_send(conn, &wr);
    our_await_completion(conn);
    our_destroy_ah(conn, ah);
}

int main(void)
{
    /* listens until a client asks, and creates a queue pair for datagrams */
    struct our_control conn = our_datagram_server(OUR_OPTIONS("server"));
    char *buffer = our_buffer(&conn, GRH + LENGTH);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, GRH + LENGTH, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
    our_post_recv(&conn, &wr);
    /* tells the client the queue pair's number */
    our_accept(&conn, NULL, 0);

    struct ibv_wc work_completion = our_await_completion(&conn);
    printf("%.*s\n", LENGTH, buffer + GRH);
    answer(&conn, buffer, mr, &work_completion);

    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
