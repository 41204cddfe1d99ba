/* A client that sends a hundred messages, as many at a time as the server has receives for. */
#include <arpa/inet.h>

#include "kit.h"

enum { MESSAGES = 100 };

/* Posts one message: the number that has this place in the buffer. */
static void post(struct our_control *conn, struct ibv_mr *mr, int place)
{
    struct ibv_sge sge = our_setup_sge(mr);
    sge.addr += place * sizeof(uint64_t);
    sge.length = sizeof(uint64_t);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    our_post_send(conn, &wr);
}

/* Sends all messages to a server that has so many receives posted. */
static void blast(struct our_control *conn, struct ibv_mr *mr, int receives)
{
    int places = conn->options.send_queue_depth;
    int sent = 0, under_way = 0, credits = receives;

    /* at the end all credits have come back: the server has nothing left to say */
    while (sent < MESSAGES || under_way > 0 || credits < receives) {
        while (sent < MESSAGES && credits > 0 && under_way < places) {
            post(conn, mr, sent);
            sent++;
            under_way++;
            credits--;
        }
        struct ibv_wc work_completion = our_await_completion(conn);
        if (work_completion.opcode == IBV_WC_RECV) {
            /* for the next credits, before the server can have any to give */
            struct ibv_recv_wr wr = our_setup_recv_wr(NULL, 0);
            our_post_recv(conn, &wr);
            credits += ntohl(work_completion.imm_data);
        } else {
            under_way--;
        }
    }
}

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    uint64_t *numbers = our_buffer(&conn, MESSAGES * sizeof(uint64_t));
    for (int number = 0; number < MESSAGES; number++)
        numbers[number] = number;
    struct ibv_mr *mr = our_reg_mr(&conn, numbers, MESSAGES * sizeof(uint64_t), 0);
    /* the server tells of half of its receives at a time, so that two of its messages can be under way */
    for (int i = 0; i < 2; i++) {
        struct ibv_recv_wr wr = our_setup_recv_wr(NULL, 0);
        our_post_recv(&conn, &wr);
    }
    our_connect(&conn, NULL, 0);

    int receives = conn.peer_data[0];
    blast(&conn, mr, receives);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
