/* A server that takes the messages of two connections into the receives of one queue. */
#include <sched.h>
#include <stdio.h>

#include "kit.h"

enum {
    MESSAGES = 33, /* of both connections together */
    RECEIVES = 16, /* so many have memory */
    LENGTH = 32,   /* bytes of each */
};

/* A shared receive queue, and memory for its receives. */
struct queue {
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    int free[MESSAGES]; /* the places whose receives messages have taken */
    int free_count;     /* how many they are */
};

/* Posts a receive for a place in the buffer, of LENGTH bytes. */
static void post(struct our_control *base, struct queue *queue, int place)
{
    /* To do: the place's part of what our_setup_sge gives, and our_post_srq_recv, with the place as wr_id, so
     * that the completion says which is free again. */
}

/* Arms the limit for one event. */
static void arm(struct our_control *base, struct queue *queue)
{
    /* To do: ibv_modify_srq. */
}

/* Answers by the connection that has this queue pair. */
static void answer(struct our_control conns[2], uint32_t qp_num)
{
    for (int i = 0; i < 2; i++) {
        if (conns[i].queue_pair->qp_num == qp_num) {
            struct ibv_send_wr wr = our_setup_send_wr(NULL, 0);
            our_post_send(&conns[i], &wr);
        }
    }
}

/* Takes all messages and answers each. What is free is posted again when the event comes. */
static void take(struct our_control *base, struct our_control conns[2], struct queue *queue)
{
    struct ibv_wc work_completion;
    int left = MESSAGES;

    while (left > 0) {
        /* To do: if our_poll_async_event has IBV_EVENT_SRQ_LIMIT_REACHED, post what is free. */
        if (!our_poll_cq(base, &work_completion)) {
            sched_yield();
            continue;
        }
        /* answers complete here, too */
        if (work_completion.opcode == IBV_WC_RECV) {
            queue->free[queue->free_count++] = work_completion.wr_id;
            left--;
            answer(conns, work_completion.qp_num);
        }
    }
}

int main(void)
{
    /* listens until the first client calls; there is no queue pair yet */
    struct our_control base = our_shared_server(OUR_OPTIONS("server"));
    void *buffer = our_buffer(&base, RECEIVES * LENGTH);
    struct queue queue = { .free_count = 0 };
    queue.mr = our_reg_mr(&base, buffer, RECEIVES * LENGTH, IBV_ACCESS_LOCAL_WRITE);
    queue.srq = our_create_srq(&base, RECEIVES);
    for (int place = 0; place < RECEIVES; place++)
        post(&base, &queue, place);
    arm(&base, &queue);
    /* the queue pairs of both take their receives from the queue */
    struct our_control conns[2];
    for (int i = 0; i < 2; i++)
        conns[i] = our_accept_next(&base, queue.srq);

    take(&base, conns, &queue);
    printf("%d messages have come\n", MESSAGES);

    for (int i = 0; i < 2; i++) {
        our_disconnect(&conns[i]);
        our_unsetup(&conns[i]);
    }
    our_destroy_srq(&base, queue.srq);
    our_dereg_mr(&base, queue.mr);
    our_unsetup(&base);
    return 0;
}
