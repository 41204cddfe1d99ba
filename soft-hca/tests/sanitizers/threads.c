/*
 * One thread asks for events, another one takes them: what the first has stored before is there, without a lock. Messages go
 * from a queue pair of the process to another one.
 */
#include "../hook/side.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

enum { MESSAGES = 200, MESSAGE = 64 };

static struct side sender, receiver;
static struct rdma_event_channel *connections;
/* The taker's end of a pair of sockets. */
static int of_taker;
/* Of these, the taker loads what the asker has stored. */
static int notes[MESSAGES], last_note;

static void takes_event(enum rdma_cm_event_type expected)
{
    struct rdma_cm_event *event;
    check(!rdma_get_cm_event(connections, &event) && event->event == expected, "rdma_get_cm_event");
    rdma_ack_cm_event(event);
}

/* Takes the event of each message, and one of the connection manager. */
static void *takes(void *unused)
{
    to_peer = of_taker;
    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_cq *cq;
        void *context;
        check(!ibv_get_cq_event(cq_channel, &cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        check(notes[i] == i + 1, "note");
        poll_good(&receiver);
        step();
    }
    takes_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    check(last_note == 1, "last note");
    return unused;
}

int main(void)
{
    int sockets[2];
    pthread_t taker;
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
    to_peer = sockets[0];
    of_taker = sockets[1];
    open_side(&sender);
    create_queues(&sender);
    open_side(&receiver);
    cq_channel = ibv_create_comp_channel(receiver.context);
    check(cq_channel != NULL, "ibv_create_comp_channel");
    create_queues(&receiver);
    init_side(&sender);
    init_side(&receiver);
    connect_to(&sender, name_of(&receiver));
    connect_to(&receiver, name_of(&sender));
    connections = rdma_create_event_channel();
    check(connections != NULL, "rdma_create_event_channel");
    struct rdma_cm_id *id;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(7471),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(!rdma_create_id(connections, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    /* librdmacm itself still writes to the id when the event of this may have come: so the same thread takes it. */
    check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000), "rdma_resolve_addr");
    takes_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(!pthread_create(&taker, NULL, takes, NULL), "pthread_create");
    for (int i = 0; i < MESSAGES; i++) {
        post_receive(&receiver, i % DEPTH);
        notes[i] = i + 1;
        check(!ibv_req_notify_cq(receiver.cq, 0), "ibv_req_notify_cq");
        send_one(&sender, MESSAGE, i);
        await();
    }
    last_note = 1;
    check(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
    check(!pthread_join(taker, NULL), "pthread_join");
    puts("all notes");
    return 0;
}
