/* A client that answers what its server sends, and notices that the server is dead. */
#include <poll.h>
#include <stdio.h>

#include "kit.h"

/* As many as the server has promised. */
enum { MESSAGES = 10 };

/* The place of one message. */
static struct ibv_sge place(const struct ibv_mr *mr, int number)
{
    struct ibv_sge sge = our_setup_sge(mr);

    sge.addr += 8 * number;
    sge.length = 8;
    return sge;
}

/* Answers each message with its own bytes, as long as any come. How many there were. */
static int take(const struct our_control *conn, const struct ibv_mr *mr)
{
    struct ibv_wc work_completion;
    int taken = 0;

    our_req_notify_cq(conn, 0);
    for (;;) {
        while (our_poll_cq(conn, &work_completion)) {
            struct ibv_sge sge = place(mr, taken);
            struct ibv_send_wr answer = our_setup_send_wr(&sge, 1);
            /* nobody needs to know when it is done; a failed one has a completion all the same */
            answer.send_flags = 0;
            our_post_send(conn, &answer);
            taken++;
        }
        if (taken == MESSAGES)
            return taken;
        struct pollfd fds[] = {
            { .fd = our_cm_fd(conn), .events = POLLIN },
            { .fd = our_cq_fd(conn), .events = POLLIN },
        };
        our_poll_fds(conn, fds, 2, -1);
        enum rdma_cm_event_type event;
        if (fds[1].revents) {
            our_get_cq_event(conn);
            our_ack_cq_events(conn, 1);
            our_req_notify_cq(conn, 0);
        } else if (our_try_get_cm_event(conn, &event) && event == RDMA_CM_EVENT_DISCONNECTED) {
            return taken;
        }
    }
}

int main(void)
{
    struct our_options options = OUR_OPTIONS("client");
    options.with_channel = 1;
    struct our_control conn = our_event_client(options);
    void *buffer = our_buffer(&conn, 8 * MESSAGES);
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, 8 * MESSAGES, IBV_ACCESS_LOCAL_WRITE);
    for (int number = 0; number < MESSAGES; number++) {
        struct ibv_sge sge = place(mr, number);
        struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
        our_post_recv(&conn, &wr);
    }
    our_connect(&conn, NULL, 0);
    our_await_cm_event(&conn, RDMA_CM_EVENT_ESTABLISHED);

    int taken = take(&conn, mr);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    printf("%d of %d messages have come\n", taken, MESSAGES);
    return 0;
}
