/*
 * A receive that is posted after the connection manager has connected the two sides:
 *
 *   managed wrong     the receiver accepts, and then posts its receive
 *   managed right     the other way round
 *
 * The sender sends when it hears by a socket that both are done, so that the message is never too early: in this run.
 */
#include "../hook/side.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

static struct side side;
static struct rdma_conn_param wish = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
                                      .rnr_retry_count = 3};

/* What a side needs once its id has a device. */
static void make_ready(struct rdma_cm_id *id)
{
    side.context = id->verbs;
    add_memory(&side);
    create_cq(&side);
    struct ibv_qp_init_attr init = {.send_cq = side.cq, .recv_cq = side.cq, .qp_type = IBV_QPT_RC, .cap = caps,
                                    .sq_sig_all = 1};
    check(!rdma_create_qp(id, side.pd, &init), "rdma_create_qp");
    side.qp = id->qp;
}

static struct rdma_cm_id *accept_peer(int is_wrong)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_cm_id *listens, *id;
    check(!rdma_create_id(NULL, &listens, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_bind_addr(listens, (struct sockaddr *)&address), "rdma_bind_addr");
    check(!rdma_listen(listens, 1), "rdma_listen");
    address.sin_port = rdma_get_src_port(listens);
    say(&address, sizeof address);
    check(!rdma_get_request(listens, &id), "rdma_get_request");
    make_ready(id);
    if (!is_wrong)
        post_receive(&side, 0);
    check(!rdma_accept(id, &wish), "rdma_accept");
    if (is_wrong)
        post_receive(&side, 0);
    check(!rdma_destroy_id(listens), "rdma_destroy_id");
    return id;
}

static struct rdma_cm_id *connect_to_peer(void)
{
    struct sockaddr_in address;
    struct rdma_cm_id *id;
    hear(&address, sizeof address);
    check(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000), "rdma_resolve_addr");
    check(!rdma_resolve_route(id, 2000), "rdma_resolve_route");
    make_ready(id);
    check(!rdma_connect(id, &wish), "rdma_connect");
    return id;
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count == 2, "arguments");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t receiver = fork();
    check(receiver >= 0, "fork");
    to_peer = sockets[receiver != 0];
    struct rdma_cm_id *id = receiver ? connect_to_peer() : accept_peer(!strcmp(arguments[1], "wrong"));
    step();
    await();
    if (receiver)
        post(&side, 8, 0, 0);
    poll_good(&side);
    /* Neither ends what the other still needs. */
    step();
    await();
    /* The other one may have been quicker. */
    check(!rdma_disconnect(id) || errno == EINVAL, "rdma_disconnect");
    rdma_destroy_qp(id);
    check(!ibv_destroy_cq(side.cq), "ibv_destroy_cq");
    check(!ibv_dereg_mr(side.mr), "ibv_dereg_mr");
    check(!ibv_dealloc_pd(side.pd), "ibv_dealloc_pd");
    check(!rdma_destroy_id(id), "rdma_destroy_id");
    return receiver ? status_of(receiver) : 0;
}
