/*
 * Creates a completion channel with no descriptor left, with one, and so on.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 10, LIMIT = 256 };

int main(void)
{
    struct rlimit limit = { LIMIT, LIMIT };
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
    if (!context || setrlimit(RLIMIT_NOFILE, &limit)) {
        perror("begin");
        return 1;
    }
    for (int left = 0; left < MOST; left++) {
        int taken[LIMIT], count = 0;
        while ((taken[count] = dup(STDIN_FILENO)) >= 0)
            count++;
        for (int closed = 0; closed < left; closed++)
            close(taken[--count]);
        struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
        while (count)
            close(taken[--count]);
        printf("%d left: %s\n", left, channel ? "made" : "refused");
        if (channel && ibv_destroy_comp_channel(channel)) {
            perror("ibv_destroy_comp_channel");
            return 1;
        }
    }
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    if (!channel || ibv_destroy_comp_channel(channel)) {
        perror("at the end");
        return 1;
    }
    puts("some at the end");
    return ibv_close_device(context);
}
