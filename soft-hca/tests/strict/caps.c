/* What ibv_create_qp and ibv_query_qp say that a queue pair holds is the same: elements and inline data always,
 * work requests where they are given as the first argument. It ends with 1 where they differ.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static int differ(const char *what, unsigned asked, unsigned made, unsigned told)
{
    if (made == told)
        return 0;
    printf("%s: asked for %u, ibv_create_qp says %u, ibv_query_qp %u\n", what, asked, made, told);
    return 1;
}

int main(int argc, char **argv)
{
    int with_requests = argc > 1 && !strcmp(argv[1], "requests"), wrong = 0;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    struct ibv_cq *cq = context ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
    if (!pd || !cq)
        return 2;
    static const struct ibv_qp_cap all[] = {
        {.max_send_wr = 5, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
        {.max_send_wr = 5, .max_recv_wr = 9, .max_send_sge = 4, .max_recv_sge = 3},
        {.max_send_wr = 9, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 1},
        {.max_send_wr = 9, .max_recv_wr = 5, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 100},
    };
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        for (unsigned type = 0; type < sizeof types / sizeof *types; type++) {
            struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = all[i], .qp_type = types[type]}, again;
            struct ibv_qp_attr attr;
            struct ibv_qp *qp = ibv_create_qp(pd, &init);
            if (!qp || ibv_query_qp(qp, &attr, IBV_QP_CAP, &again))
                return 2;
            const struct ibv_qp_cap *asked = &all[i], *made = &init.cap, *told = &attr.cap;
            wrong |= differ("max_send_sge", asked->max_send_sge, made->max_send_sge, told->max_send_sge);
            wrong |= differ("max_recv_sge", asked->max_recv_sge, made->max_recv_sge, told->max_recv_sge);
            wrong |= differ("max_inline_data", asked->max_inline_data, made->max_inline_data, told->max_inline_data);
            if (with_requests) {
                wrong |= differ("max_send_wr", asked->max_send_wr, made->max_send_wr, told->max_send_wr);
                wrong |= differ("max_recv_wr", asked->max_recv_wr, made->max_recv_wr, told->max_recv_wr);
            }
            ibv_destroy_qp(qp);
        }
    return wrong;
}
