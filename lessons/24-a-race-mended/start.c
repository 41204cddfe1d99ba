/* A client that reads the server's page, and sends back what it has read. */
#include "kit.h"

/* Bytes of the page. */
enum { LENGTH = 20 };

/* Reads from `remote` in the server's memory, and sends what was read. */
static void read_and_send(struct our_control *conn, struct ibv_mr *mr, struct our_remote remote)
{
    /* To do: a race is in here. */
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr read = our_setup_send_wr(&sge, 1);
    read.opcode = IBV_WR_RDMA_READ;
    read.wr.rdma.remote_addr = remote.address;
    read.wr.rdma.rkey = remote.rkey;
    our_post_send(conn, &read);
    struct ibv_send_wr send = our_setup_send_wr(&sge, 1);
    our_post_send(conn, &send);
    our_await_completion(conn);
    our_await_completion(conn);
}

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    void *page = our_buffer(&conn, LENGTH);
    struct ibv_mr *mr = our_reg_mr(&conn, page, LENGTH, IBV_ACCESS_LOCAL_WRITE);
    our_connect(&conn, NULL, 0);

    /* the server has said in its private data where its memory is */
    struct our_remote remote = our_remote(&conn);
    read_and_send(&conn, mr, remote);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
