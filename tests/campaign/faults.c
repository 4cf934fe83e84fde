/* Makes writes to one database fail from the nth on, as a full or broken disk does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int seen = 0, first = -1, code = 0;
static char needle[512] = "";

int fault_arm(int number, int error, const char *part) {
    int before = seen;
    seen = 0;
    first = number;
    code = error;
    strncpy(needle, part, sizeof needle - 1);
    return before;
}

static int fails(int fd) {
    char link[64], target[4096];
    ssize_t length;
    if (!needle[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    if (!strstr(target, needle)) return 0;
    if (first >= 0 && seen >= first) {
        errno = code;
        return 1;
    }
    seen++;
    return 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    return fails(fd) ? -1 : NEXT(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return fails(fd) ? -1 : NEXT(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    return fails(fd) ? -1 : NEXT(pwrite64)(fd, data, size, at);
}
int fsync(int fd) { return fails(fd) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return fails(fd) ? -1 : NEXT(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fails(fd) ? -1 : NEXT(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails(fd) ? -1 : NEXT(ftruncate64)(fd, size); }
