/*
 * What programs take for promised of connection events, and is not:
 *
 *   events CASE wrong     relies on it
 *   events CASE right     does the same without
 *
 * established   a peer's first message is not polled before ESTABLISHED can be fetched
 * ended         of two connections, the one that the peer ends first is told first
 *
 * A client and a server, two processes. The exit status is 2 if what is relied on does not hold, and 1 if a call fails.
 */
#include "../hook/side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

enum { MESSAGE = 64, CONNECTIONS = 2 };

static char memory[MESSAGE];
static struct rdma_conn_param wish = {.retry_count = 7, .rnr_retry_count = 7};

/* A queue pair with its own queues, and one message's memory. */
static struct ibv_mr *make_ready(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}, .sq_sig_all = 1};
    check(!rdma_create_qp(id, NULL, &init), "rdma_create_qp");
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, MESSAGE);
    check(mr != NULL, "rdma_reg_msgs");
    return mr;
}

static void remove_id(struct rdma_cm_id *id, struct ibv_mr *mr)
{
    check(!rdma_dereg_mr(mr), "rdma_dereg_mr");
    rdma_destroy_qp(id);
    check(!rdma_destroy_id(id), "rdma_destroy_id");
}

/* The next event's id, and its type: -1 if there is no event. */
static int fetch(struct rdma_event_channel *channel, struct rdma_cm_id **id)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(channel, &event)) {
        check(errno == EAGAIN, "rdma_get_cm_event");
        return -1;
    }
    int type = event->event;
    *id = event->id;
    check(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
    return type;
}

/* An event of this type, and its id. */
static struct rdma_cm_id *await_event(struct rdma_event_channel *channel, int type)
{
    struct rdma_cm_id *id;
    check(fetch(channel, &id) == type, rdma_event_str(type));
    return id;
}

/* Whether the message is there only when ESTABLISHED is. */
static int takes_message(struct rdma_event_channel *channel, struct rdma_cm_id *id, int is_wrong)
{
    struct ibv_wc wc;
    int is_established = 0, found = 0, is_good = 1;
    check(!fcntl(channel->fd, F_SETFL, O_NONBLOCK), "fcntl");
    while (!found || !is_established) {
        if (!found && (found = ibv_poll_cq(id->recv_cq, 1, &wc)) > 0)
            check(wc.status == IBV_WC_SUCCESS, "ibv_poll_cq");
        is_established |= fetch(channel, &id) == RDMA_CM_EVENT_ESTABLISHED;
        if (is_wrong && found && !is_established)
            is_good = 0;
    }
    check(!fcntl(channel->fd, F_SETFL, 0), "fcntl");
    return is_good;
}

/* What the server has seen: 0, or 2 if that is not what it relies on. */
static int serve(int is_about_end, int is_wrong)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener, *ids[CONNECTIONS];
    struct ibv_mr *mrs[CONNECTIONS];
    int count = is_about_end ? CONNECTIONS : 1, is_good = 1;
    check(channel && !rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    check(!rdma_bind_addr(listener, (struct sockaddr *)&address), "rdma_bind_addr");
    check(!rdma_listen(listener, CONNECTIONS), "rdma_listen");
    address.sin_port = rdma_get_src_port(listener);
    say(&address, sizeof address);
    for (int i = 0; i < count; i++) {
        ids[i] = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        mrs[i] = make_ready(ids[i]);
        check(!rdma_post_recv(ids[i], NULL, memory, MESSAGE, mrs[i]), "rdma_post_recv");
        check(!rdma_accept(ids[i], &wish), "rdma_accept");
        if (is_about_end)
            await_event(channel, RDMA_CM_EVENT_ESTABLISHED);
        else
            is_good = takes_message(channel, ids[i], is_wrong);
        step();
    }
    for (int i = 0; i < count; i++) {
        struct rdma_cm_id *id = await_event(channel, RDMA_CM_EVENT_DISCONNECTED);
        is_good &= id == ids[i] || !is_wrong;
        check(!rdma_disconnect(id), "rdma_disconnect");
    }
    for (int i = 0; i < count; i++)
        remove_id(ids[i], mrs[i]);
    check(!rdma_destroy_id(listener), "rdma_destroy_id");
    rdma_destroy_event_channel(channel);
    return is_good ? 0 : 2;
}

/* Two connections, of which the first one ends first; or one with a message. */
static void connect_and_end(int is_about_end)
{
    struct sockaddr_in address;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *ids[CONNECTIONS];
    struct ibv_mr *mrs[CONNECTIONS];
    struct ibv_wc wc;
    int count = is_about_end ? CONNECTIONS : 1;
    check(channel != NULL, "rdma_create_event_channel");
    hear(&address, sizeof address);
    for (int i = 0; i < count; i++) {
        check(!rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), "rdma_create_id");
        check(!rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&address, 2000), "rdma_resolve_addr");
        await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
        check(!rdma_resolve_route(ids[i], 2000), "rdma_resolve_route");
        await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
        mrs[i] = make_ready(ids[i]);
        check(!rdma_connect(ids[i], &wish), "rdma_connect");
        await_event(channel, RDMA_CM_EVENT_ESTABLISHED);
        if (!is_about_end) {
            check(!rdma_post_send(ids[i], NULL, memory, MESSAGE, mrs[i], 0), "rdma_post_send");
            check(rdma_get_send_comp(ids[i], &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_get_send_comp");
        }
        await();
    }
    for (int i = 0; i < count; i++)
        check(!rdma_disconnect(ids[i]), "rdma_disconnect");
    for (int i = 0; i < count; i++)
        await_event(channel, RDMA_CM_EVENT_DISCONNECTED);
    for (int i = 0; i < count; i++)
        remove_id(ids[i], mrs[i]);
    rdma_destroy_event_channel(channel);
}

int main(int count, char **arguments)
{
    int sockets[2];
    check(count == 3, "arguments");
    int is_about_end = !strcmp(arguments[1], "ended"), is_wrong = !strcmp(arguments[2], "wrong");
    check(is_about_end || !strcmp(arguments[1], "established"), "no such case");
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    pid_t server = fork();
    check(server >= 0, "fork");
    to_peer = sockets[server != 0];
    if (!server)
        return serve(is_about_end, is_wrong);
    connect_and_end(is_about_end);
    return status_of(server);
}
