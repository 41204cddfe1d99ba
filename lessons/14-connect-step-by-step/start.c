/* A client that connects step by step, and sends one message. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "step by step";

/* From an id to a connection; a message can be sent after it. */
static void connect_steps(struct our_control *conn)
{
    /* To do: each of these calls only begins its work. What says that the next one may follow? */
    our_begin_resolve_addr(conn);
    our_begin_resolve_route(conn);
    our_setup_qp(conn);
    our_connect(conn, NULL, 0);
}

int main(void)
{
    struct our_control conn = our_client_id(OUR_OPTIONS("client"));
    connect_steps(&conn);

    void *text = our_buffer(&conn, strlen(TEXT));
    memcpy(text, TEXT, strlen(TEXT));
    struct ibv_mr *mr = our_reg_mr(&conn, text, strlen(TEXT), 0);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    our_post_send(&conn, &wr);
    our_await_completion(&conn);

    our_disconnect(&conn);
    our_await_cm_event(&conn, RDMA_CM_EVENT_DISCONNECTED);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
