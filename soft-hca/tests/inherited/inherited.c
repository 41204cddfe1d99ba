/*
 * Children of a program whose other threads open and close descriptors of the device:
 *
 *   inherited close|dup2|folder|open CHILDREN
 *
 * A child closes all descriptors that it has inherited, puts files over them, reads folders, or opens the device
 * itself. Ends with 1 if one of them does not end.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, DESCRIPTORS = 256, LIMIT_S = 60 };

static struct ibv_context *context;

static void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(2);
    }
}

static struct ibv_context *open_device(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *opened = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
    ibv_free_device_list(devices);
    return opened;
}

static void *open_and_close(void *unused)
{
    (void)unused;
    for (;;) {
        struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
        check(channel != NULL, "ibv_create_comp_channel");
        check(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
    }
    return NULL;
}

static void *read_folders(void *unused)
{
    (void)unused;
    for (;;)
        ibv_free_device_list(ibv_get_device_list(NULL));
    return NULL;
}

static int child(const char *what)
{
    if (!strcmp(what, "close")) {
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
            close(fd);
    } else if (!strcmp(what, "dup2")) {
        int null = open("/dev/null", O_RDONLY);
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
            if (fd != null && fcntl(fd, F_GETFD) != -1 && dup2(null, fd) != fd)
                return 1;
    } else if (!strcmp(what, "folder")) {
        DIR *folder = opendir("/proc/self/fd");
        int count = 0;
        while (folder && readdir(folder))
            count++;
        return !count || closedir(folder);
    } else {
        struct ibv_context *own = open_device();
        struct ibv_comp_channel *channel = own ? ibv_create_comp_channel(own) : NULL;
        return !channel || ibv_destroy_comp_channel(channel) || ibv_close_device(own);
    }
    return 0;
}

int main(int argc, char **argv)
{
    check(argc == 3, "usage");
    context = open_device();
    check(context != NULL, "ibv_open_device");
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    check(!pthread_sigmask(SIG_BLOCK, &ends, NULL), "pthread_sigmask");
    int is_folder = !strcmp(argv[1], "folder");
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        check(!pthread_create(&thread, NULL, is_folder ? read_folders : open_and_close, NULL), "thread");
    }
    for (int number = 0; number < atoi(argv[2]); number++) {
        pid_t pid = fork();
        check(pid >= 0, "fork");
        if (!pid)
            _exit(child(argv[1]));
        struct timespec limit = { .tv_sec = LIMIT_S };
        int status = 0;
        if (sigtimedwait(&ends, NULL, &limit) != SIGCHLD || waitpid(pid, &status, WNOHANG) != pid) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            printf("child %d hangs\n", number);
            return 1;
        }
        if (status) {
            printf("child %d ends with %#x\n", number, status);
            return 1;
        }
    }
    puts("all have ended");
    /* Other threads may still use the device: no handlers for exit run. */
    fflush(stdout);
    _exit(0);
}
