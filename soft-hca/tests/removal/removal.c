/*
 * A device that is removed while a program uses it, and comes back:
 *
 *   removal DEVICE ADDRESS
 *
 * Prints "ready", waits for the device's end, and prints what each call gives then. When the device
 * is there again it is opened anew.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../hook/results.h"

enum { MEMORY = 4096, QKEY = 0x1234, LIMIT_MS = 60000, LOOK_MS = 10 };

static struct ibv_context *context;
static struct ibv_comp_channel *channel;

/* The device with a name; NULL if there is none. */
static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *opened = NULL;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices != NULL, "ibv_get_device_list");
    for (int i = 0; devices[i]; i++)
        if (!strcmp(ibv_get_device_name(devices[i]), name))
            opened = ibv_open_device(devices[i]);
    ibv_free_device_list(devices);
    return opened;
}

static void *wait_for_completions(void *unused)
{
    struct ibv_cq *cq;
    void *cq_context;
    (void)unused;
    print_status("ibv_get_cq_event", ibv_get_cq_event(channel, &cq, &cq_context));
    return NULL;
}

static struct ibv_qp *datagrams(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    check(qp && !ibv_modify_qp(qp, &attr, mask), "INIT");
    attr.qp_state = IBV_QPS_RTR;
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
    return qp;
}

static struct rdma_cm_id *bind_id(struct rdma_event_channel *events, const char *address)
{
    struct rdma_cm_id *id;
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
    check(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!getaddrinfo(address, NULL, &hints, &found), "getaddrinfo");
    check(!rdma_bind_addr(id, found->ai_addr), "rdma_bind_addr");
    freeaddrinfo(found);
    return id;
}

int main(int argc, char **argv)
{
    check(argc == 3, "usage");
    setvbuf(stdout, NULL, _IOLBF, 0);
    context = open_device(argv[1]);
    check(context != NULL, "ibv_open_device");
    channel = ibv_create_comp_channel(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0);
    static char memory[MEMORY];
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &shared);
    check(channel && pd && cq && mr && srq, "objects");
    struct ibv_qp *qp = datagrams(pd, cq);
    union ibv_gid gid;
    check(!ibv_query_gid(context, 1, 1, &gid), "ibv_query_gid");
    struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
                              .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 1 } };
    struct ibv_ah *ah = ibv_create_ah(pd, &to);
    check(ah != NULL, "ibv_create_ah");
    check(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    struct rdma_event_channel *events = rdma_create_event_channel();
    check(events != NULL, "rdma_create_event_channel");
    struct rdma_cm_id *id = bind_id(events, argv[2]);
    pthread_t waiting;
    check(!pthread_create(&waiting, NULL, wait_for_completions, NULL), "pthread_create");

    puts("ready");
    struct ibv_async_event event;
    check(!ibv_get_async_event(context, &event), "ibv_get_async_event");
    printf("event: %s\n", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
    pthread_join(waiting, NULL);
    struct pollfd polled = { .fd = channel->fd, .events = POLLIN };
    printf("poll of the channel: %d\n", poll(&polled, 1, LIMIT_MS));
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    print_status("ibv_get_async_event", ibv_get_async_event(context, &event));

    struct rdma_cm_event *cm_event;
    check(!rdma_get_cm_event(events, &cm_event), "rdma_get_cm_event");
    printf("event: %s %d\n", rdma_event_str(cm_event->event), cm_event->status);
    check(cm_event->id == id, "whose event");
    rdma_ack_cm_event(cm_event);
    print_status("rdma_listen", rdma_listen(id, 1));

    struct ibv_device_attr device;
    struct ibv_port_attr port;
    print_number("ibv_query_device", ibv_query_device(context, &device));
    print_number("ibv_query_port", ibv_query_port(context, 1, &port));
    print_object("ibv_alloc_pd", ibv_alloc_pd(context));
    print_object("ibv_reg_mr", ibv_reg_mr(pd, memory, MEMORY, 0));
    print_object("ibv_create_cq", ibv_create_cq(context, 1, NULL, NULL, 0));
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
    print_number("ibv_modify_qp", ibv_modify_qp(qp, &error, IBV_QP_STATE));
    print_number("ibv_req_notify_cq", ibv_req_notify_cq(cq, 0));
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey };
    struct ibv_send_wr *bad, send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                                      .send_flags = IBV_SEND_SIGNALED };
    send.wr.ud.ah = ah;
    send.wr.ud.remote_qpn = qp->qp_num;
    send.wr.ud.remote_qkey = QKEY;
    print_number("ibv_post_send", ibv_post_send(qp, &send, &bad));
    struct ibv_wc wc;
    printf("ibv_poll_cq: %d\n", ibv_poll_cq(cq, 1, &wc));

    print_number("ibv_dealloc_pd", ibv_dealloc_pd(pd));
    print_number("ibv_destroy_ah", ibv_destroy_ah(ah));
    print_number("ibv_destroy_qp", ibv_destroy_qp(qp));
    print_number("ibv_destroy_srq", ibv_destroy_srq(srq));
    print_number("ibv_destroy_cq", ibv_destroy_cq(cq));
    print_number("ibv_dereg_mr", ibv_dereg_mr(mr));
    print_number("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel));
    print_number("ibv_close_device", ibv_close_device(context));
    print_status("rdma_destroy_id", rdma_destroy_id(id));
    rdma_destroy_event_channel(events);

    printf("the device is %s\n", open_device(argv[1]) ? "there" : "gone");
    for (int waited = 0; !(context = open_device(argv[1])); waited += LOOK_MS) {
        check(waited < LIMIT_MS, "the device does not come back");
        usleep(LOOK_MS * 1000);
    }
    pd = ibv_alloc_pd(context);
    mr = pd ? ibv_reg_mr(pd, memory, MEMORY, 0) : NULL;
    print_object("ibv_reg_mr", mr);
    check(mr && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "end");
    return 0;
}
