/* A server that answers calls, and does not notice that its client has hung up. */
#include <stdio.h>

#include "kit.h"

enum { RECEIVES = 8 }; /* that are posted at a time */

/* Answers the calls that have come, and posts receives for as many. How many there were. */
static int answer(struct our_control *conn)
{
    struct ibv_wc work_completion;
    int calls = 0;

    while (our_poll_cq(conn, &work_completion)) {
        /* those of the answers are in the same queue */
        if (work_completion.opcode != IBV_WC_RECV)
            continue;
        struct ibv_recv_wr receive = our_setup_recv_wr(NULL, 0);
        our_post_recv(conn, &receive);
        struct ibv_send_wr send = our_setup_send_wr(NULL, 0);
        our_post_send(conn, &send);
        calls++;
    }
    return calls;
}

/* Answers calls until the client has hung up. How many there were. */
static int serve(struct our_control *conn)
{
    int calls = 0, is_over = 0;

    our_req_notify_cq(conn, 0);
    while (!is_over) {
        calls += answer(conn);
        printf("%d calls so far\n", calls);
        fflush(stdout);
        /* To do: wait for both channels in one place. It is over with RDMA_CM_EVENT_DISCONNECTED. */
        our_get_cq_event(conn);
        our_ack_cq_events(conn, 1);
        our_req_notify_cq(conn, 0);
    }
    return calls;
}

int main(void)
{
    struct our_options options = OUR_OPTIONS("server");
    options.with_channel = 1;
    /* with an event channel of its own: no call waits for an event */
    struct our_control conn = our_event_server(options);
    for (int i = 0; i < RECEIVES; i++) {
        struct ibv_recv_wr wr = our_setup_recv_wr(NULL, 0);
        our_post_recv(&conn, &wr);
    }
    our_accept(&conn, NULL, 0);

    int calls = serve(&conn);
    printf("the client has hung up after %d calls\n", calls);

    our_disconnect(&conn);
    our_unsetup(&conn);
    return 0;
}
