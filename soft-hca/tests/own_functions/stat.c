/* A program with functions of the C library of its own, which call the former names of these functions, as those of
 * clang's ThreadSanitizer do. None of them is called again before it is through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int depth;

/* Calls the next function of this name, whose type is that of the one given. */
#define NEXT(type, name, ...)                                                                       \
    ({                                                                                              \
        type *next = (type *)dlsym(RTLD_NEXT, name);                                                \
        if (++depth > 1)                                                                            \
            _exit(3);                                                                               \
        int status = next(__VA_ARGS__);                                                             \
        depth--;                                                                                    \
        status;                                                                                     \
    })

typedef int by_descriptor(int, int, struct stat *);
typedef int by_path(int, const char *, struct stat *);
typedef int by_both(int, int, const char *, struct stat *, int);

int fstat(int fd, struct stat *buffer) { return NEXT(by_descriptor, "__fxstat", 1, fd, buffer); }
int stat(const char *path, struct stat *buffer) { return NEXT(by_path, "__xstat", 1, path, buffer); }
int lstat(const char *path, struct stat *buffer) { return NEXT(by_path, "__lxstat", 1, path, buffer); }
int fstatat(int dir, const char *path, struct stat *buffer, int flags)
{
    return NEXT(by_both, "__fxstatat", 1, dir, path, buffer, flags);
}

int main(int argc, char **argv)
{
    const char *path = argv[argc - 1];
    struct stat buffer;
    int fd = open(path, O_RDWR), devices = 0;

    devices += fstat(fd, &buffer) == 0 && S_ISCHR(buffer.st_mode);
    devices += stat(path, &buffer) == 0 && S_ISCHR(buffer.st_mode);
    devices += lstat(path, &buffer) == 0 && S_ISCHR(buffer.st_mode);
    devices += fstatat(AT_FDCWD, path, &buffer, 0) == 0 && S_ISCHR(buffer.st_mode);
    printf("%d of 4\n", devices);
    return 0;
}
