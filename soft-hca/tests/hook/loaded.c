/*
 * The cases of hook.c in a program that is not linked with libibverbs, but loads it and looks its
 * functions up, as libraries do that are to run without RDMA, too:
 *
 *   loaded LIBRARY CASE
 *
 * LIBRARY is a name or a path. If it is a path, the receiver says in the end whether no other libibverbs is
 * loaded, and the provider is that of the same folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

/* A function of the library, with the version that programs are linked with. */
static void *find(const char *name)
{
    void *function = dlvsym(library, name, "IBVERBS_1.1");
    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return function;
}

/* What hook.c calls leads to the library that was loaded. No other library sees these names. */
#define LEADS(type, name, parameters, arguments) \
    type name parameters { return ((type (*) parameters)find(#name)) arguments; }

#undef ibv_reg_mr
LEADS(struct ibv_device **, ibv_get_device_list, (int *count), (count))
LEADS(void, ibv_free_device_list, (struct ibv_device **list), (list))
LEADS(int, ibv_close_device, (struct ibv_context *context), (context))
LEADS(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context))
LEADS(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
LEADS(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *begin, size_t length, int access), (pd, begin, length, access))
LEADS(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr))
LEADS(struct ibv_cq *, ibv_create_cq, (struct ibv_context *context, int cqe, void *of, struct ibv_comp_channel *channel, int vector), (context, cqe, of, channel, vector))
LEADS(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq))
LEADS(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *init), (pd, init))
LEADS(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
LEADS(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp))
LEADS(int, ibv_query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid), (context, port, index, gid))
LEADS(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))

/* The context that was opened last. */
static struct ibv_context *opened;

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*open)(struct ibv_device *) = find("ibv_open_device");
    return opened = open(device);
}

/* Whether a file lies in a folder. */
static int is_in(const char *folder, const char *file)
{
    size_t length = strlen(folder);
    return !strncmp(folder, file, length) && strrchr(file, '/') == file + length;
}

/* Looks at a library that is loaded: there is no libibverbs from elsewhere. */
static int look(struct dl_phdr_info *loaded, size_t size, void *folder)
{
    (void)size;
    return strstr(loaded->dlpi_name, "/libibverbs.so") && !is_in(folder, loaded->dlpi_name);
}

#define main hook_main
#include "hook.c"
#undef main

int main(int count, char **arguments)
{
    pid_t receiver = getpid();
    check(count == 3, "arguments");
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    check(library != NULL, "dlopen");
    int status = hook_main(count - 1, arguments + 1);
    char *slash = strrchr(arguments[1], '/');
    if (slash && getpid() == receiver) {
        Dl_info provider = {0};
        *slash = 0;
        check(dladdr((void *)opened->ops.req_notify_cq, &provider), "dladdr");
        print("no other libibverbs", !dl_iterate_phdr(look, arguments[1]));
        print("its own provider", is_in(arguments[1], provider.dli_fname));
    }
    return status;
}
