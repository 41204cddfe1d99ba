/* A server for three clients at once, which sends each its questions back. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum {
    CLIENTS = 3,
    LENGTH = 16, /* bytes of a question */
};

/* A client, with all that is its own. */
struct client {
    struct our_control conn;
    char *question;
    struct ibv_mr *question_mr;
    char *answer;
    struct ibv_mr *answer_mr;
};

/* Posts a receive for the client's next question. */
static void our_expect_question(struct client *client)
{
    struct ibv_sge sge = our_setup_sge(client->question_mr);
    struct ibv_recv_wr wr = our_setup_recv_wr(&sge, 1);
    our_post_recv(&client->conn, &wr);
}

/* Sets up a client that asks for a connection, and accepts it. */
static struct client our_welcome(struct our_control *listener, const struct our_event *request)
{
    struct client client = { .conn = our_agent(listener, request) };
    struct our_control *conn = &client.conn;

    our_setup_qp(conn);
    client.question = our_buffer(conn, LENGTH);
    client.question_mr = our_reg_mr(conn, client.question, LENGTH, IBV_ACCESS_LOCAL_WRITE);
    client.answer = our_buffer(conn, LENGTH);
    client.answer_mr = our_reg_mr(conn, client.answer, LENGTH, 0);
    our_expect_question(&client);
    our_accept(conn, NULL, 0);
    return client;
}

/* Sends a question back, if one has come from the client. */
static void our_answer(struct client *client)
{
    struct ibv_wc work_completion;

    if (!our_poll_cq(&client->conn, &work_completion) || work_completion.opcode != IBV_WC_RECV)
        return;
    memcpy(client->answer, client->question, LENGTH);
    /* first this: the answer may be followed by the next question */
    our_expect_question(client);
    struct ibv_sge sge = our_setup_sge(client->answer_mr);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    our_post_send(&client->conn, &wr);
}

/* Hangs up as well, and destroys what is the client's own. */
static void our_farewell(struct client *client)
{
    our_disconnect(&client->conn);
    our_dereg_mr(&client->conn, client->question_mr);
    our_dereg_mr(&client->conn, client->answer_mr);
    our_unsetup(&client->conn);
    free(client->question);
    free(client->answer);
}

int main(void)
{
    struct our_control listener = our_listener_with_channel(OUR_OPTIONS("server"));

    /* To do: all of them at once. */
    for (int i = 0; i < CLIENTS; i++) {
        struct our_event event = our_get_cm_event(&listener);
        struct client client = our_welcome(&listener, &event);
        while (!our_poll_cm_event(&listener, &event) || event.kind != RDMA_CM_EVENT_DISCONNECTED) {
            our_answer(&client);
            sched_yield();
        }
        our_farewell(&client);
    }
    our_unsetup(&listener);
    return 0;
}
