/*
 * A client with four pieces of memory: one to send from, one to receive into, one that the peer reads, and
 * one that the peer writes.
 */
#include <stdio.h>
#include <string.h>

#include "kit.h"

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));

    char *request = our_buffer(&conn, 16);
    char *answer = our_buffer(&conn, 64);
    char *board = our_buffer(&conn, 32);
    char *slot = our_buffer(&conn, 32);
    strcpy(request, "ready");
    strcpy(board, "for everybody to read");

    struct ibv_mr *request_mr = our_reg_mr(&conn, request, 16, 0);
    struct ibv_mr *answer_mr = our_reg_mr(&conn, answer, 64, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *board_mr = our_reg_mr(&conn, board, 32, IBV_ACCESS_REMOTE_READ);
    struct ibv_mr *slot_mr =
        our_reg_mr(&conn, slot, 32, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

    struct ibv_sge into = our_setup_sge(answer_mr);
    struct ibv_recv_wr receive = our_setup_recv_wr(&into, 1);
    our_post_recv(&conn, &receive);

    /* tells the peer where board and slot are, and by which keys */
    unsigned char places[2 * OUR_REMOTE_LEN];
    our_remote_data(board_mr, places);
    our_remote_data(slot_mr, places + OUR_REMOTE_LEN);
    our_connect(&conn, places, sizeof(places));
    struct ibv_sge from = our_setup_sge(request_mr);
    struct ibv_send_wr send = our_setup_send_wr(&from, 1);
    our_post_send(&conn, &send);
    /* of the send, and of the receive */
    our_await_completion(&conn);
    our_await_completion(&conn);
    printf("in the slot: \"%.32s\"\n", slot);

    our_disconnect(&conn);
    our_dereg_mr(&conn, request_mr);
    our_dereg_mr(&conn, answer_mr);
    our_dereg_mr(&conn, board_mr);
    our_dereg_mr(&conn, slot_mr);
    our_unsetup(&conn);
    return 0;
}
