// Receives from a peer by a large send and by an RDMA write, and looks at all that has come: memory of the heap that
// nobody else has written. `received PORT` waits for its peer, `received PORT ADDRESS` is the peer.

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64 << 10 };

// Where the peer may write.
struct place {
    unsigned long address;
    unsigned key;
};

static void check(int failed, const char *what) {
    if (failed) {
        perror(what);
        exit(1);
    }
}

static void done(int count, const struct ibv_wc *wc, const char *what) {
    check(count != 1, what);
    if (wc->status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
        exit(1);
    }
}

// The bytes that are not 0: a branch for each.
static int count(const char *buffer) {
    int found = 0;
    for (int i = 0; i < BYTES; i++)
        if (buffer[i])
            found++;
    return found;
}

static void serve(struct rdma_cm_id *id, char *received, struct ibv_mr *mr, char *written) {
    struct ibv_mr *remote = rdma_reg_write(id, written, BYTES);
    check(!remote, "rdma_reg_write");
    struct place *place = calloc(1, BYTES);
    struct ibv_mr *told = rdma_reg_msgs(id, place, BYTES);
    check(!told, "rdma_reg_msgs");
    *place = (struct place){(unsigned long)written, remote->rkey};
    struct ibv_wc wc;
    check(rdma_post_send(id, NULL, place, sizeof *place, told, 0), "rdma_post_send");
    done(rdma_get_send_comp(id, &wc), &wc, "the place is told");
    // It comes behind the write.
    done(rdma_get_recv_comp(id, &wc), &wc, "a message is received");
    printf("received %d, written %d\n", count(received), count(written));
    rdma_dereg_mr(told);
    rdma_dereg_mr(remote);
    rdma_dereg_mr(mr);
    free(place);
}

static void write_and_send(struct rdma_cm_id *id, char *buffer, struct ibv_mr *mr) {
    struct ibv_wc wc;
    done(rdma_get_recv_comp(id, &wc), &wc, "the place is told");
    struct place place;
    memcpy(&place, buffer, sizeof place);
    memset(buffer, 1, BYTES);
    check(rdma_post_write(id, NULL, buffer, BYTES, mr, 0, place.address, place.key),
          "rdma_post_write");
    check(rdma_post_send(id, NULL, buffer, BYTES, mr, 0), "rdma_post_send");
    done(rdma_get_send_comp(id, &wc), &wc, "it is written");
    done(rdma_get_send_comp(id, &wc), &wc, "it is sent");
    rdma_dereg_mr(mr);
}

int main(int argc, char **argv) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
                                  .ai_flags = argc > 2 ? 0 : RAI_PASSIVE};
    struct rdma_addrinfo *info;
    check(argc < 2, "usage: received PORT [ADDRESS]");
    check(rdma_getaddrinfo(argc > 2 ? argv[2] : NULL, argv[1], &hints, &info), "rdma_getaddrinfo");
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};
    struct rdma_cm_id *listener = NULL, *id;
    check(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
    if (argc == 2) {
        listener = id;
        check(rdma_listen(listener, 1), "rdma_listen");
        check(rdma_get_request(listener, &id), "rdma_get_request");
    }
    char *buffer = malloc(BYTES), *written = malloc(BYTES);
    struct ibv_mr *mr = rdma_reg_msgs(id, buffer, BYTES);
    check(!mr, "rdma_reg_msgs");
    check(rdma_post_recv(id, NULL, buffer, BYTES, mr), "rdma_post_recv");
    check(argc == 2 ? rdma_accept(id, NULL) : rdma_connect(id, NULL), "rdma_connect");
    if (argc == 2)
        serve(id, buffer, mr, written);
    else
        write_and_send(id, buffer, mr);
    rdma_disconnect(id);
    rdma_destroy_ep(id);
    if (listener)
        rdma_destroy_ep(listener);
    rdma_freeaddrinfo(info);
    free(buffer);
    free(written);
    return 0;
}
