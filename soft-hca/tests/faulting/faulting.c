/*
 * A program with a handler for faults of its own, which receives into memory that it has unmapped:
 *
 *   faulting sigaction|signal|before
 *
 * The handler is set after the device was opened, or before that. Its own faults come to the handler, and a
 * message for memory that is gone is lost, as with an adapter.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../hook/results.h"

enum { MEMORY = 4096, BYTES = 8, GID = 1, PORT = 1 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char *memory;
static sigjmp_buf before_fault;

static void on_fault(int signal)
{
    siglongjmp(before_fault, signal);
}

static void set_handler(const char *how)
{
    if (!strcmp(how, "signal")) {
        check(signal(SIGSEGV, on_fault) != SIG_ERR, "signal");
        check(signal(SIGSEGV, on_fault) == on_fault, "the handler is the program's");
        return;
    }
    struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER }, known;
    sigaddset(&action.sa_mask, SIGUSR1);
    check(!sigaction(SIGSEGV, &action, NULL), "sigaction");
    check(!sigaction(SIGSEGV, NULL, &known), "sigaction");
    check(known.sa_handler == on_fault && !(known.sa_flags & SA_SIGINFO), "the action is the program's");
    check(sigismember(&known.sa_mask, SIGUSR1) == 1, "the mask is the program's");
}

static void prepare(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    check(devices && devices[0] && (context = ibv_open_device(devices[0])), "ibv_open_device");
    check((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 16, NULL, NULL, 0)), "objects");
    memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED && (mr = ibv_reg_mr(pd, memory, MEMORY, IBV_ACCESS_LOCAL_WRITE)), "memory");
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
    check((qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
}

static void connect_to(uint32_t peer)
{
    union ibv_gid gid;
    check(!ibv_query_gid(context, PORT, GID, &gid), "ibv_query_gid");
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
    check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 12,
                               .ah_attr = { .is_global = 1, .port_num = PORT,
                                            .grh = { .dgid = gid, .sgid_index = GID, .hop_limit = 1 } } };
    check(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
    check(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void completion(const char *what)
{
    struct ibv_wc wc;
    int count;
    while (!(count = ibv_poll_cq(cq, 1, &wc)))
        ;
    check(count == 1 && wc.status == IBV_WC_SUCCESS, what);
}

static void post_receive(void)
{
    struct ibv_sge element = { (uintptr_t)memory, BYTES, mr->lkey };
    struct ibv_recv_wr request = { .sg_list = &element, .num_sge = 1 }, *bad;
    check(!ibv_post_recv(qp, &request, &bad), "ibv_post_recv");
}

static void send_one(void)
{
    struct ibv_sge element = { (uintptr_t)memory, BYTES, mr->lkey };
    struct ibv_send_wr request = { .sg_list = &element, .num_sge = 1, .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED }, *bad;
    check(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
    completion("a send");
}

/* One byte to the other process, or from it. */
static void tell(int to[2])
{
    check(write(to[1], "", 1) == 1, "write");
}

static void hear(int from[2])
{
    char byte;
    check(read(from[0], &byte, 1) == 1, "read");
}

int main(int argc, char **argv)
{
    int to_sender[2], to_receiver[2];
    check(argc == 2 && !pipe(to_sender) && !pipe(to_receiver), "usage");
    pid_t sender = fork();
    if (sender && !strcmp(argv[1], "before"))
        set_handler(argv[1]);
    prepare();
    uint32_t peer;
    int *in = sender ? to_receiver : to_sender, *out = sender ? to_sender : to_receiver;
    check(write(out[1], &qp->qp_num, sizeof(peer)) == sizeof(peer), "write");
    check(read(in[0], &peer, sizeof(peer)) == sizeof(peer), "read");
    connect_to(peer);
    if (!sender) {
        for (int i = 0; i < 2; i++) {
            hear(to_sender);
            send_one();
        }
        tell(to_receiver);
        return 0;
    }
    if (strcmp(argv[1], "before"))
        set_handler(argv[1]);
    /* A program that has polled once gets small messages in its next poll. */
    post_receive();
    tell(to_sender);
    completion("the first message");
    post_receive();
    tell(to_sender);
    hear(to_receiver);
    munmap(memory, MEMORY);
    completion("a message for memory that is gone");
    if (sigsetjmp(before_fault, 1) == 0) {
        *(volatile char *)memory = 1;
        puts("no fault");
    } else {
        puts("its own fault");
    }
    int status;
    return waitpid(sender, &status, 0) == sender && !status ? 0 : 1;
}
