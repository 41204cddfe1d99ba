/* What the files of the kit share, and the programs do not need. */
#ifndef INTERNAL_H
#define INTERNAL_H

#include <errno.h>
#include <netdb.h>

#include "kit.h"

/* Where the servers of all lessons listen. Each run has a fabric of its own. */
#define OUR_ADDRESS "127.0.0.1"
#define OUR_PORT "12321"

enum { TIMEOUT = 2000 }; /* of address and route, in milliseconds */

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
struct rdma_cm_id *our_create_id(const struct our_control *conn);
/* The device that the id is bound to. librdmacm does not check that there is one, and crashes. */
struct ibv_context *our_device(const struct our_control *conn);
/* Has a server's id listen, on the connection's event channel if there is one. */
void our_listen(struct our_control *conn);
/* Sleeps until a client asks the listener, and makes its new id that of `conn`, which may be the same. */
void our_await_request(const struct our_control *listener, struct our_control *conn);
/* Ends the program if that is not the event that had to come. */
void our_expect(enum rdma_cm_event_type got, enum rdma_cm_event_type wanted,
                const struct our_options *options);

#endif
