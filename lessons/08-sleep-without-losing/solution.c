/* A server that takes twenty messages, and sleeps while there are none. */
#include <stdio.h>

#include "kit.h"

enum { MESSAGES = 20 };

/* Takes all messages. */
static void take(struct our_control *conn)
{
    int left = MESSAGES, events = 0;
    struct ibv_wc work_completion;

    our_req_notify_cq(conn, 0);
    while (our_poll_cq(conn, &work_completion))
        left--;
    while (left > 0) {
        our_get_cq_event(conn);
        events++;
        /* first this, then the polls: what comes in between is found, or makes an event */
        our_req_notify_cq(conn, 0);
        while (our_poll_cq(conn, &work_completion))
            left--;
    }
    our_ack_cq_events(conn, events);
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
