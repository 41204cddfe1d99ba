/*
 * What the C programs of the lessons share: the steps of the Rust ones, in their names and order.
 *
 * Whatever fails is reported, and ends the program with status 1.
 */
#ifndef KIT_H
#define KIT_H

#include <infiniband/verbs.h>
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
    int with_channel;          /* the completion queue gets a channel, to sleep on */
};

#define OUR_OPTIONS(name) ((struct our_options){ \
    .message = (name), .send_queue_depth = 16, .recv_queue_depth = 16, \
    .max_send_sge = 4, .max_recv_sge = 4, .with_channel = 0 })

/* Everything about one connection; each pointer is NULL until the step that sets it. */
struct our_control {
    struct our_options options;
    struct rdma_cm_id *listen_id; /* of a server: the id that listens */
    struct rdma_cm_id *cm_id;     /* the id of the connection */
    struct ibv_pd *protection_domain;
    struct ibv_comp_channel *completion_channel;
    struct ibv_cq *completion_queue; /* for sends and receives */
    struct ibv_qp *queue_pair;
    /* What the peer has said in the private data of its request or answer. */
    unsigned char peer_data[256];
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
/* Destroys all that our_client or our_server has created. Regions have to be deregistered before. */
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

#endif
