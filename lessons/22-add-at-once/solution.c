/* A client that takes a thousand numbers from the server's counter, while others do so, too. */
#include <endian.h>

#include "kit.h"

enum { NUMBERS = 1000 };

/* Takes a number from the counter, which is at `counter` in the server's memory. It comes into `answer`. */
static uint64_t take(struct our_control *conn, uint64_t *answer, struct ibv_mr *mr,
                     struct our_remote counter)
{
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    /* the server's adapter reads and adds, and nobody comes between */
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = counter.address;
    wr.wr.atomic.rkey = counter.rkey;
    wr.wr.atomic.compare_add = 1;
    our_post_send(conn, &wr);
    our_await_completion(conn);
    return *answer;
}

/* Tells the server the sum of all numbers that were taken, most significant byte first. */
static void tell(struct our_control *conn, uint64_t *buffer, struct ibv_mr *mr, uint64_t sum)
{
    *buffer = htobe64(sum);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    our_post_send(conn, &wr);
    our_await_completion(conn);
}

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    uint64_t *answer = our_buffer(&conn, sizeof(uint64_t));
    struct ibv_mr *mr = our_reg_mr(&conn, answer, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE);
    our_connect(&conn, NULL, 0);

    /* the server has said in its private data where its counter is */
    struct our_remote counter = our_remote(&conn);
    uint64_t sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        sum += take(&conn, answer, mr, counter);
    tell(&conn, answer, mr, sum);

    our_disconnect(&conn);
    our_dereg_mr(&conn, mr);
    our_unsetup(&conn);
    return 0;
}
