/* The connection manager's events. Each is acknowledged as soon as what it says is copied. See kit.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void our_create_event_channel(struct our_control *conn)
{
    errno = 0;
    conn->event_channel = created(rdma_create_event_channel(), "rdma_create_event_channel", conn);
}

size_t our_event_data(const struct rdma_cm_event *event, unsigned char data[OUR_DATA_LEN])
{
    if (event == NULL || event->param.conn.private_data == NULL)
        return 0;
    memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
    return event->param.conn.private_data_len;
}

/* The next event of an id's channel: 1, or 0 if there is none and the channel's descriptor does not block. */
static int our_event_at(const struct our_control *conn, const struct rdma_cm_id *id,
                        struct our_event *event)
{
    struct rdma_cm_event *got;

    errno = 0;
    int ret = rdma_get_cm_event(id->channel, &got);
    if (ret != 0 && errno == EAGAIN)
        return 0;
    check(ret, "rdma_get_cm_event", conn);
    *event = (struct our_event){ .kind = got->event, .cm_id = got->id };
    event->data_len = our_event_data(got, event->data);
    rdma_ack_cm_event(got);
    return 1;
}

/* The same where there has to be one. */
static struct our_event our_event_of(const struct our_control *conn, const struct rdma_cm_id *id)
{
    struct our_event event;

    if (!our_event_at(conn, id, &event))
        failed("rdma_get_cm_event", -1, &conn->options);
    return event;
}

/* Ends the program if that is not the event that had to come. */
static void our_expect(const struct our_control *conn, const struct our_event *event,
                       enum rdma_cm_event_type wanted)
{
    if (event->kind == wanted)
        return;
    fprintf(stderr, "%s: got the event %s, not %s\n", conn->options.message,
            rdma_event_str(event->kind), rdma_event_str(wanted));
    exit(EXIT_FAILURE);
}

static const struct rdma_cm_id *our_id(const struct our_control *conn)
{
    return conn->listen_id != NULL ? conn->listen_id : conn->cm_id;
}

struct our_event our_get_cm_event(const struct our_control *conn)
{
    return our_event_of(conn, our_id(conn));
}

int our_poll_cm_event(const struct our_control *conn, struct our_event *event)
{
    struct pollfd fd = { .fd = our_id(conn)->channel->fd, .events = POLLIN };

    return poll(&fd, 1, 0) > 0 && our_event_at(conn, our_id(conn), event);
}

int our_try_get_cm_event(const struct our_control *conn, enum rdma_cm_event_type *event)
{
    struct our_event got;

    if (!our_event_at(conn, conn->cm_id, &got))
        return 0;
    *event = got.kind;
    return 1;
}

void our_await_cm_event(const struct our_control *conn, enum rdma_cm_event_type wanted)
{
    struct our_event event = our_event_of(conn, conn->cm_id);

    our_expect(conn, &event, wanted);
}

void our_take_request(struct our_control *conn, const struct our_event *request)
{
    conn->cm_id = request->cm_id;
    conn->peer_data_len = request->data_len;
    memcpy(conn->peer_data, request->data, request->data_len);
}

void our_await_request(const struct our_control *listener, struct our_control *conn)
{
    struct our_event event = our_event_of(listener, listener->listen_id);

    our_expect(listener, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
    our_take_request(conn, &event);
}
