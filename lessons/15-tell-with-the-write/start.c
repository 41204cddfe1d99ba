/* A client that writes a text into the server's memory, and tells its length by the same request. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "written and told at once";

/* Writes the text to `remote` in the server's memory, and tells its length. */
static void write_and_tell(struct our_control *conn, struct ibv_mr *mr, struct our_remote remote)
{
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr write = our_setup_send_wr(&sge, 1);
    write.opcode = IBV_WR_RDMA_WRITE;
    write.wr.rdma.remote_addr = remote.address;
    write.wr.rdma.rkey = remote.rkey;
    write.send_flags = 0;
    our_post_send(conn, &write);
    /* To do: one request instead of two, which says how long the text is. */
    struct ibv_send_wr tell = our_setup_send_wr(NULL, 0);
    our_post_send(conn, &tell);
    our_await_completion(conn);
}

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    void *text = our_buffer(&conn, strlen(TEXT));
    memcpy(text, TEXT, strlen(TEXT));
    struct ibv_mr *mr = our_reg_mr(&conn, text, strlen(TEXT), 0);
    our_connect(&conn, NULL, 0);

    /* the server has said in its private data where its memory is */
    struct our_remote remote = our_remote(&conn);
    write_and_tell(&conn, mr, remote);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
