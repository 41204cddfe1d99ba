/* A client that asks, and sleeps until the answer comes. */
#include <stdio.h>
#include <string.h>

#include "kit.h"

int main(void)
{
    struct our_options options = OUR_OPTIONS("client");
    options.with_channel = 1;
    struct our_control conn = our_client(options);
    char *question = our_buffer(&conn, 32);
    strcpy(question, "six times seven?");
    struct ibv_mr *question_mr = our_reg_mr(&conn, question, 32, 0);
    char *answer = our_buffer(&conn, 32);
    struct ibv_mr *answer_mr = our_reg_mr(&conn, answer, 32, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge into = our_setup_sge(answer_mr);
    struct ibv_recv_wr receive = our_setup_recv_wr(&into, 1);
    our_post_recv(&conn, &receive);
    our_connect(&conn, NULL, 0);

    struct ibv_sge from = our_setup_sge(question_mr);
    struct ibv_send_wr send = our_setup_send_wr(&from, 1);
    our_req_notify_cq(&conn, 0);
    our_post_send(&conn, &send);
    /* of the send, and of the receive; the first of them may be the only event */
    int left = 2, events = 0;
    struct ibv_wc work_completion;
    while (left > 0) {
        our_get_cq_event(&conn);
        events++;
        our_req_notify_cq(&conn, 0);
        while (our_poll_cq(&conn, &work_completion))
            left--;
    }
    our_ack_cq_events(&conn, events);
    printf("%.32s\n", answer);

    our_disconnect(&conn);
    our_dereg_mr(&conn, question_mr);
    our_dereg_mr(&conn, answer_mr);
    our_unsetup(&conn);
    return 0;
}
