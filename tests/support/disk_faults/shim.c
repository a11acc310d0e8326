/* Fails a chosen operation on the files of one directory. Loaded with LD_PRELOAD.
 *
 * Counted are open, read, write, truncate and sync. `fault_arm(directory, k, persistent)` lets the
 * k-th operation fail (k = 0: none), and with `persistent` every one after it. A sync that does not
 * fail returns at once: the test kills no power, so it needs no disk to be waited for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char watched[4096];
static int armed, keeps_failing;
static long fails_at, counted, failed;
static char last_failed[64];

void fault_arm(const char *directory, long k, int persistent) {
    pthread_mutex_lock(&lock);
    snprintf(watched, sizeof watched, "%s/", directory);
    fails_at = k, keeps_failing = persistent, counted = 0, failed = 0, armed = 1;
    last_failed[0] = 0;
    pthread_mutex_unlock(&lock);
}
void fault_disarm(void) { armed = 0; }
long fault_counted(void) { return counted; }
long fault_failed(void) { return failed; }
const char *fault_last(void) { return last_failed; }

static int fails(const char *operation, const char *path) {
    int result = 0;
    if (!armed || strncmp(path, watched, strlen(watched)) != 0) return 0;
    pthread_mutex_lock(&lock);
    counted++;
    if (fails_at && (counted == fails_at || (keeps_failing && counted > fails_at))) {
        if (!failed) snprintf(last_failed, sizeof last_failed, "%s %s", operation, strrchr(path, '/') + 1);
        failed++;
        result = 1;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int fails_on(const char *operation, int fd) {
    char link[64], path[4096];
    ssize_t size;
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(operation, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(code) do { errno = code; return -1; } while (0)

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        mode_t mode = 0;                                                  \
        if (flags & (O_CREAT | O_TMPFILE)) {                              \
            va_list rest;                                                 \
            va_start(rest, flags);                                        \
            mode = va_arg(rest, mode_t);                                  \
            va_end(rest);                                                 \
        }                                                                 \
        if (fails("open", path)) FAIL(EIO);                               \
        return REAL(name)(path, flags, mode);                             \
    }
OPEN(open)
OPEN(open64)

#define POSITIONED_READ(name, offset_type)                                \
    ssize_t name(int fd, void *data, size_t size, offset_type offset) {   \
        if (fails_on("read", fd)) FAIL(EIO);                              \
        return REAL(name)(fd, data, size, offset);                        \
    }
POSITIONED_READ(pread, off_t)
POSITIONED_READ(pread64, off64_t)

/* A write that fails first writes half of its bytes, as a disk that has become full does. */
#define POSITIONED_WRITE(name, offset_type)                               \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        if (fails_on("write", fd)) {                                      \
            REAL(name)(fd, data, size / 2, offset);                       \
            FAIL(ENOSPC);                                                 \
        }                                                                 \
        return REAL(name)(fd, data, size, offset);                        \
    }
POSITIONED_WRITE(pwrite, off_t)
POSITIONED_WRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type)                                       \
    int name(int fd, offset_type size) {                                  \
        if (fails_on("truncate", fd)) FAIL(EIO);                          \
        return REAL(name)(fd, size);                                      \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                        \
    int name(int fd) {                                                    \
        if (fails_on("sync", fd)) FAIL(EIO);                              \
        return armed ? 0 : REAL(name)(fd);                                \
    }
SYNC(fsync)
SYNC(fdatasync)

ssize_t read(int fd, void *data, size_t size) {
    if (fails_on("read", fd)) FAIL(EIO);
    return REAL(read)(fd, data, size);
}
ssize_t write(int fd, const void *data, size_t size) {
    if (fails_on("write", fd)) FAIL(ENOSPC);
    return REAL(write)(fd, data, size);
}
