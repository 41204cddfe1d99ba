/* A client that sends four messages. */
#include <string.h>

#include "kit.h"

enum { COUNT = 4 };
static const char *const TEXTS[COUNT] = { "one", "two", "three", "four" };

int main(void)
{
    struct our_control conn = our_client(OUR_OPTIONS("client"));
    struct ibv_mr *mrs[COUNT];
    for (int at = 0; at < COUNT; at++) {
        size_t len = strlen(TEXTS[at]);
        void *buffer = our_buffer(&conn, len);
        memcpy(buffer, TEXTS[at], len);
        mrs[at] = our_reg_mr(&conn, buffer, len, 0);
    }
    our_connect(&conn, NULL, 0);

    /* each of the requests points at an element of its own */
    struct ibv_sge sges[COUNT];
    struct ibv_send_wr wrs[COUNT];
    for (int at = 0; at < COUNT; at++) {
        sges[at] = our_setup_sge(mrs[at]);
        wrs[at] = our_setup_send_wr(&sges[at], 1);
    }

    /* To do: one call of our_post_send. */
    for (int at = 0; at < COUNT; at++)
        our_post_send(&conn, &wrs[at]);
    for (int at = 0; at < COUNT; at++)
        our_await_completion(&conn);

    our_disconnect(&conn);
    for (int at = 0; at < COUNT; at++)
        our_dereg_mr(&conn, mrs[at]);
    our_unsetup(&conn);
    return 0;
}
