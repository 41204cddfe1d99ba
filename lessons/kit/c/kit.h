/*
 * What the C programs of the lessons share: the steps of the Rust ones, in their names and order.
 *
 * Whatever fails is reported, and ends the program with status 1.
 */
#ifndef KIT_H
#define KIT_H

#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

/* What a program asks for; OUR_OPTIONS has what is usual. */
struct our_options {
    const char *message;       /* begins every line that reports a failure */
    uint32_t send_queue_depth; /* in work requests */
    uint32_t recv_queue_depth; /* in work requests */
    uint32_t max_send_sge;     /* elements that one send may have */
    uint32_t max_recv_sge;     /* elements that one receive may have */
    uint32_t max_inline_data;  /* bytes that a send may carry in its work request */
    int with_channel;          /* the completion queue gets a channel, to sleep on */
};

#define OUR_OPTIONS(name) ((struct our_options){ \
    .message = (name), .send_queue_depth = 16, .recv_queue_depth = 16, \
    .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 0, .with_channel = 0 })

enum { OUR_DATA_LEN = 256 }; /* bytes of private data, at most */

/* Everything about one connection; each pointer is NULL until the step that sets it. */
struct our_control {
    struct our_options options;
    struct rdma_cm_id *listen_id; /* of a server: the id that listens */
    struct rdma_event_channel *event_channel; /* of a connection whose calls do not wait */
    struct rdma_cm_id *cm_id;     /* the id of the connection */
    struct ibv_pd *protection_domain;
    struct ibv_comp_channel *completion_channel;
    struct ibv_cq *completion_queue; /* for sends and receives */
    struct ibv_qp *queue_pair;
    /* What the peer has said in the private data of its request or answer. */
    unsigned char peer_data[OUR_DATA_LEN];
    size_t peer_data_len;
};

/* Reports that a verb has failed, with what it returned and errno, and ends the program. */
_Noreturn void failed(const char *verb, int ret, const struct our_options *options);

/*
 * A client's id with its address and route resolved, and its queue pair. Receives can be posted;
 * our_connect is next.
 */
struct our_control our_client(struct our_options options);
/*
 * A server's id for the first client that calls, with its queue pair. Receives can be posted;
 * our_accept is next.
 */
struct our_control our_server(struct our_options options);
/* Connects to the server, and tells it `len` bytes of private data. */
void our_connect(struct our_control *conn, const void *private_data, size_t len);
/* Accepts the client's request, and tells it as much. */
void our_accept(struct our_control *conn, const void *private_data, size_t len);
/* Disconnects, unless the peer has done so. */
void our_disconnect(struct our_control *conn);
/* Destroys all that belongs to a connection, or to an id that listens. Regions have to be deregistered before. */
void our_unsetup(struct our_control *conn);

/* So many bytes, all zero. */
void *our_buffer(const struct our_control *conn, size_t len);
/* Registers memory for `access`, flags of IBV_ACCESS_... */
struct ibv_mr *our_reg_mr(const struct our_control *conn, void *buffer, size_t len, int access);
void our_dereg_mr(const struct our_control *conn, struct ibv_mr *mr);
/* An element for all of a region. */
struct ibv_sge our_setup_sge(const struct ibv_mr *mr);
/*
 * Where memory is and by which key the peer may name it. In private data these are OUR_REMOTE_LEN bytes:
 * the address and the key, the most significant byte first.
 */
struct our_remote {
    uint64_t address;
    uint32_t rkey;
};
enum { OUR_REMOTE_LEN = 12 };
/* Writes those of a region, for the peer. */
void our_remote_data(const struct ibv_mr *mr, unsigned char data[OUR_REMOTE_LEN]);
/* Those that the peer has told. */
struct our_remote our_remote(const struct our_control *conn);

/* A signaled send of these elements. */
struct ibv_send_wr our_setup_send_wr(struct ibv_sge *sges, int count);
/* A receive into these elements. */
struct ibv_recv_wr our_setup_recv_wr(struct ibv_sge *sges, int count);
/* Posts a work request, and those that its `next` leads to, to the send queue. */
void our_post_send(const struct our_control *conn, struct ibv_send_wr *work_request);
/* The same for the receive queue. */
void our_post_recv(const struct our_control *conn, struct ibv_recv_wr *work_request);
/* Takes a work completion whose status is good: 1, or 0 if there is none. */
int our_poll_cq(const struct our_control *conn, struct ibv_wc *work_completion);
/* The next work completion. Polls until there is one, or until the peer has hung up. */
struct ibv_wc our_await_completion(const struct our_control *conn);

/*
 * Arms the completion queue for one event: the next completion makes it, or with `solicited_only` the next
 * one whose sender has set IBV_SEND_SOLICITED. What is in the queue already makes none.
 */
void our_req_notify_cq(const struct our_control *conn, int solicited_only);
/* Sleeps until the completion channel has an event, and takes it. Each has to be acknowledged. */
void our_get_cq_event(const struct our_control *conn);
/* Acknowledges so many events. The completion queue is not destroyed before all are. */
void our_ack_cq_events(const struct our_control *conn, unsigned int events);

/*
 * Connecting step by step. A client's id with an event channel of its own: none of its calls waits, each begins
 * its work, and an event says how it went. our_begin_resolve_addr is next.
 */
struct our_control our_client_id(struct our_options options);
/* Begins to look for the device that reaches the server. Its event is RDMA_CM_EVENT_ADDR_RESOLVED. */
void our_begin_resolve_addr(const struct our_control *conn);
/* Begins to look for a route from there. Its event is RDMA_CM_EVENT_ROUTE_RESOLVED. */
void our_begin_resolve_route(const struct our_control *conn);
/* Protection domain, completion queue and queue pair of an id that is bound to a device. */
void our_setup_qp(struct our_control *conn);
/* Sleeps until the connection manager has an event about the connection, which has to be `wanted`. */
void our_await_cm_event(const struct our_control *conn, enum rdma_cm_event_type wanted);
/*
 * Takes the next event about the connection, and gives 1. If there is none it waits, or gives 0 if the channel's
 * descriptor does not block.
 */
int our_try_get_cm_event(const struct our_control *conn, enum rdma_cm_event_type *event);

/*
 * The same as our_client, on an event channel of its own: from our_connect on no call waits, and that only
 * begins. Its event is RDMA_CM_EVENT_ESTABLISHED.
 */
struct our_control our_event_client(struct our_options options);
/*
 * The same as our_server, on an event channel of its own: no call waits, and our_accept only begins. Its event
 * is RDMA_CM_EVENT_ESTABLISHED.
 */
struct our_control our_event_server(struct our_options options);
/* The descriptor of the channel at which the connection manager tells of this connection. */
int our_cm_fd(const struct our_control *conn);
/* The descriptor of the completion channel. */
int our_cq_fd(const struct our_control *conn);
/* From now on what reads this descriptor does not wait. */
void our_set_nonblocking(const struct our_control *conn, int fd);
/*
 * Sleeps until one of the descriptors can be read, for so many milliseconds at most, or for ever with -1. The
 * `revents` of those that can are not 0.
 */
void our_poll_fds(const struct our_control *conn, struct pollfd *fds, int count, int timeout);
/*
 * Takes an event of the completion channel, which has to be acknowledged, and gives 1. If there is none it waits,
 * or gives 0 if the channel's descriptor does not block.
 */
int our_try_get_cq_event(const struct our_control *conn);

/*
 * A server's id that listens. The ids of its clients have channels of their own, so that their calls wait.
 * our_next_request is next.
 */
struct our_control our_listener(struct our_options options);
/*
 * Sleeps until the next client asks for a connection. There is no queue pair yet; the request is to be answered
 * by our_accept or our_reject.
 */
struct our_control our_next_request(const struct our_control *listener);
/* Refuses the client's request, and tells it `len` bytes of private data. */
void our_reject(const struct our_control *conn, const void *private_data, size_t len);

/*
 * A server's id that listens, with an event channel that is that of all its clients, too: none of their calls
 * waits. our_get_cm_event and our_poll_cm_event fetch its events.
 */
struct our_control our_listener_with_channel(struct our_options options);
/* An event of the connection manager, which is acknowledged already. */
struct our_event {
    enum rdma_cm_event_type kind;
    struct rdma_cm_id *cm_id;          /* the id that it is about; of a request a new one */
    unsigned char data[OUR_DATA_LEN]; /* the private data that came with it */
    size_t data_len;
};
/* Sleeps until there is an event: of a listener's clients, or of an id with an event channel. */
struct our_event our_get_cm_event(const struct our_control *conn);
/* The same without sleeping: 1, or 0 if there is no event. */
int our_poll_cm_event(const struct our_control *conn, struct our_event *event);
/* The connection that a request asks for. There is no queue pair yet. */
struct our_control our_agent(const struct our_control *listener, const struct our_event *request);
/*
 * A queue pair for a client, on a protection domain and a completion queue that are the listener's. The first
 * call creates these, with room for so many clients. our_unsetup of a client destroys its queue pair, and that
 * of the listener what all of them use.
 */
void our_setup_shared_qp(struct our_control *listener, struct our_control *conn, int clients);

/*
 * A shared receive queue. Listens until the first of several clients calls. What they will share is there:
 * protection domain and completion queue, but no queue pair. our_accept_next makes each connection.
 */
struct our_control our_shared_server(struct our_options options);
/* Creates a shared receive queue with room for so many receives. */
struct ibv_srq *our_create_srq(const struct our_control *base, uint32_t max_wr);
/* Destroys it. No queue pair may have it any more. */
void our_destroy_srq(const struct our_control *base, struct ibv_srq *srq);
/*
 * Accepts the next client, waiting until it calls, with a queue pair that takes its receives from `srq`. The
 * connection ends before what it shares: our_unsetup of it comes first.
 */
struct our_control our_accept_next(struct our_control *base, struct ibv_srq *srq);
/* Posts a receive, and those that its `next` leads to, to a shared receive queue. */
void our_post_srq_recv(const struct our_control *base, struct ibv_srq *srq,
                       struct ibv_recv_wr *work_request);
/* Fetches the device's next asynchronous event, and acknowledges it: 1, or 0 if there is none now. */
int our_poll_async_event(const struct our_control *base, enum ibv_event_type *event);

/*
 * Unreliable datagrams. A server's id for the first client that asks, with a queue pair for datagrams. Receives
 * can be posted; our_accept is next, and tells the client where to send.
 */
struct our_control our_datagram_server(struct our_options options);
/* Destroys an address handle. Every send that uses it has to be done. */
void our_destroy_ah(const struct our_control *conn, struct ibv_ah *ah);

/*
 * A queue pair without the connection manager: the sides tell each other over TCP what they need to know, and
 * each brings its queue pair up itself.
 */
enum {
    OUR_IB_PORT = 1,   /* the device's port */
    OUR_GID_INDEX = 1, /* the index of its GID with an IPv4 address */
};
/* What one side has to know of the other's queue pair. */
struct our_place {
    uint32_t qp_num;   /* its number */
    uint32_t psn;      /* the packet sequence number that it begins to send with */
    union ibv_gid gid; /* the GID of its port */
};
/* A queue pair in the state RESET, and the way to the other side. */
struct our_raw {
    struct our_control conn; /* the objects; there is no id */
    struct our_place own;    /* what the peer is told of this side */
    struct our_place peer;   /* what the peer has told */
    struct ibv_context *context;
    int stream;
};
/* The client's side; the server listens at this TCP port, which is the program's last argument. */
struct our_raw our_raw_client(struct our_options options, const char *port);
/* Waits until the peer has come to the same place. */
void our_sync(const struct our_raw *raw);
/* Destroys all that our_raw_client has created. */
void our_unsetup_raw(struct our_raw *raw);

#endif
