/* A client that writes a text into the server's memory, and then tells the server that it is there. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "written from elsewhere";

/* Writes the text to `remote` in the server's memory, and then tells it. */
static void write_and_tell(struct our_control *conn, struct ibv_mr *mr, struct our_remote remote)
{
    /* To do: an IBV_WR_RDMA_WRITE, which the server does not notice, and a message, which it does. */
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
