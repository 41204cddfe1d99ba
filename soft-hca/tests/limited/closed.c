/*
 * Closes all descriptors but the standard ones, becomes a daemon's child, and opens the first device:
 *
 *   closed close|close_range|closefrom|dup2
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096 };

static void close_all(const char *how)
{
    if (!strcmp(how, "close"))
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
            close(fd);
    else if (!strcmp(how, "close_range"))
        close_range(STDERR_FILENO + 1, ~0U, 0);
    else if (!strcmp(how, "closefrom"))
        closefrom(STDERR_FILENO + 1);
    else
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS / 4; fd++)
            dup2(STDIN_FILENO, fd);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    close_all(argv[1]);
    pid_t child = fork();
    int status = 0;
    if (child)
        return waitpid(child, &status, 0) == child && !status ? 0 : 1;
    setsid();
    /* Only this process could keep the fabric alive: a daemon that is to end gets the time to do so. */
    usleep(300000);
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
    if (!context) {
        perror("ibv_open_device");
        return 1;
    }
    puts(ibv_get_device_name(devices[0]));
    return ibv_close_device(context);
}
