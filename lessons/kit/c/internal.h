/* What the files of the kit share, and the programs do not need. */
#ifndef INTERNAL_H
#define INTERNAL_H

#include <errno.h>
#include <netdb.h>

#include "kit.h"

/* Where the servers of all lessons listen. Each run has a fabric of its own. */
#define OUR_ADDRESS "127.0.0.1"
#define OUR_PORT "12321"

static inline void check(int ret, const char *verb, const struct our_control *conn)
{
    if (ret != 0)
        failed(verb, ret, &conn->options);
}

/* What is not NULL has not failed. */
static inline void *created(void *pointer, const char *verb, const struct our_control *conn)
{
    if (pointer == NULL)
        failed(verb, ENOMEM, &conn->options);
    return pointer;
}

/* The servers' address, to be freed with freeaddrinfo. */
struct addrinfo *our_address(int flags, const struct our_options *options);
/* An id on the connection's event channel. Without one its calls are synchronous. */
struct rdma_cm_id *our_create_id(const struct our_control *conn, enum rdma_port_space ps);
/* Has a server's id listen, on the connection's event channel if there is one. */
void our_listen(struct our_control *conn, enum rdma_port_space ps);

/* Gives the connection's ids an event channel: none of their calls waits. */
void our_create_event_channel(struct our_control *conn);
/* Copies the private data of an event, which may be NULL, and says how many bytes they have. */
size_t our_event_data(const struct rdma_cm_event *event, unsigned char data[OUR_DATA_LEN]);
/* Makes the id that came with a request that of the connection. */
void our_take_request(struct our_control *conn, const struct our_event *request);
/* The same with the next request, which it sleeps for. `conn` may be the listener. */
void our_await_request(const struct our_control *listener, struct our_control *conn);

/* The device that the id is bound to. librdmacm does not check that there is one, and crashes. */
struct ibv_context *our_device(const struct our_control *conn);
/* Creates what so many queue pairs stand on: protection domain and completion queue. */
void our_setup_cq(struct our_control *conn, struct ibv_context *verbs, int queue_pairs);
/*
 * What a queue pair on those of `base` is to be like. It takes its receives from `srq`, or from a queue of its own
 * if that is NULL.
 */
struct ibv_qp_init_attr our_init_attr(const struct our_control *base, const struct our_options *options,
                                      enum ibv_qp_type type, struct ibv_srq *srq);
/* Creates such a queue pair of a connection, which may be `base`. */
void our_create_qp_on(const struct our_control *base, struct our_control *conn, enum ibv_qp_type type,
                      struct ibv_srq *srq);

#endif
