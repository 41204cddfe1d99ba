/* A server that takes twenty messages, and keeps a processor busy meanwhile. */
#include <stdio.h>

#include "kit.h"

enum { MESSAGES = 20 };

/* Takes all messages. */
static void take(struct our_control *conn)
{
    /* To do: sleep while there is nothing. Arm the queue with our_req_notify_cq, wait with our_get_cq_event,
     * take what is there with our_poll_cq, and acknowledge each event with our_ack_cq_events. */
    for (int i = 0; i < MESSAGES; i++)
        our_await_completion(conn);
}

int main(void)
{
    struct our_options options = OUR_OPTIONS("server");
    options.recv_queue_depth = MESSAGES;
    options.with_channel = 1; /* the completion queue has a channel */
    struct our_control conn = our_server(options);
    char *buffer = our_buffer(&conn, 8 * MESSAGES);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, 8 * MESSAGES, IBV_ACCESS_LOCAL_WRITE);
    for (int place = 0; place < MESSAGES; place++) {
        struct ibv_sge sge = our_setup_sge(mr);
        sge.addr += 8 * place;
        sge.length = 8;
        struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
        our_post_recv(&conn, &wr);
    }
    our_accept(&conn, NULL, 0);

    take(&conn);
    printf("%d messages have come\n", MESSAGES);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
