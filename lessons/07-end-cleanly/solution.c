/* A client that sends one message, hangs up, and destroys all that it has. */
#include <string.h>

#include "kit.h"

static const char TEXT[] = "good-bye";

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    void *buffer = our_buffer(&conn, strlen(TEXT));
    memcpy(buffer, TEXT, strlen(TEXT));
    struct ibv_mr *mr = our_reg_mr(&conn, buffer, strlen(TEXT), 0);
    our_connect(&conn, NULL, 0);
    struct ibv_sge sge = our_setup_sge(mr);
    struct ibv_send_wr wr = our_setup_send_wr(&sge, 1);
    our_post_send(&conn, &wr);
    our_await_completion(&conn);

    our_disconnect(&conn);

    /* the opposite of the order in which they came */
    int ret;
    rdma_destroy_qp(conn.cm_id);
    if ((ret = ibv_dereg_mr(mr)) != 0)
        failed("ibv_dereg_mr", ret, &conn.options);
    if ((ret = ibv_destroy_cq(conn.completion_queue)) != 0)
        failed("ibv_destroy_cq", ret, &conn.options);
    if ((ret = ibv_dealloc_pd(conn.protection_domain)) != 0)
        failed("ibv_dealloc_pd", ret, &conn.options);
    if ((ret = rdma_destroy_id(conn.cm_id)) != 0)
        failed("rdma_destroy_id", ret, &conn.options);
    return 0;
}
