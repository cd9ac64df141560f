/* SPDX-License-Identifier: MIT */
/*
 * The system calls that the agent makes, past libc. A program may have functions of its own named
 * connect, poll or close, or preload a library that has: the loader would give us those. Arguments,
 * results and errno are libc's, except that errno is set only on failure and no call is a
 * cancellation point.
 */
#ifndef BASE_KERNEL_H
#define BASE_KERNEL_H

#include "base/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define KERNEL_INLINE static inline __attribute__((unused))

KERNEL_INLINE long kernel_result(long result)
{
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

/* Any other, of up to four arguments. */
KERNEL_INLINE long kernel_call(long number, long a, long b, long c, long d)
{
	return kernel_result(syscall_raw(number, a, b, c, d));
}

KERNEL_INLINE int kernel_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	return (int)kernel_result(
		syscall_raw6(SYS_getsockopt, fd, level, option, (long)value, (long)bytes, 0));
}

KERNEL_INLINE int kernel_open(const char *path, int flags)
{
	return (int)kernel_result(syscall_raw(SYS_openat, AT_FDCWD, (long)path, flags, 0));
}

KERNEL_INLINE int kernel_close(int fd)
{
	return (int)kernel_result(syscall_raw(SYS_close, fd, 0, 0, 0));
}

KERNEL_INLINE ssize_t kernel_read(int fd, void *to, size_t bytes)
{
	return kernel_result(syscall_raw(SYS_read, fd, (long)to, (long)bytes, 0));
}

/*
 * The start of a file as text, which ends in a NUL: its length, or -errno and "". The path is below
 * the folder `dir`. Leaves errno alone.
 */
KERNEL_INLINE ssize_t kernel_read_text(int dir, const char *path, char *text, size_t bytes)
{
	long fd = syscall_raw(SYS_openat, dir, (long)path, O_RDONLY | O_CLOEXEC, 0), got = fd;

	if (fd >= 0) {
		got = syscall_raw(SYS_read, fd, (long)text, (long)bytes - 1, 0);
		syscall_raw(SYS_close, fd, 0, 0, 0);
	}
	text[got > 0 ? got : 0] = 0;
	return got;
}

KERNEL_INLINE ssize_t kernel_pread(int fd, void *to, size_t bytes, off_t at)
{
	return kernel_result(syscall_raw(SYS_pread64, fd, (long)to, (long)bytes, at));
}

KERNEL_INLINE ssize_t kernel_pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	return kernel_result(syscall_raw(SYS_pwrite64, fd, (long)from, (long)bytes, at));
}

KERNEL_INLINE int kernel_poll(struct pollfd *fds, unsigned int count, int timeout_ms)
{
	return (int)kernel_result(syscall_raw(SYS_poll, (long)fds, count, timeout_ms, 0));
}

KERNEL_INLINE ssize_t kernel_recvmsg(int fd, struct msghdr *head, int flags)
{
	return kernel_result(syscall_raw(SYS_recvmsg, fd, (long)head, flags, 0));
}

KERNEL_INLINE int kernel_lstat(const char *path, struct stat *found)
{
	return (int)kernel_result(syscall_raw(SYS_newfstatat, AT_FDCWD, (long)path, (long)found,
					      AT_SYMLINK_NOFOLLOW));
}

KERNEL_INLINE int kernel_mkdir(const char *path, mode_t mode)
{
	return (int)kernel_result(syscall_raw(SYS_mkdir, (long)path, (long)mode, 0, 0));
}

KERNEL_INLINE int kernel_chmod(const char *path, mode_t mode)
{
	return (int)kernel_result(syscall_raw(SYS_chmod, (long)path, (long)mode, 0, 0));
}

KERNEL_INLINE int kernel_unlink(const char *path)
{
	return (int)kernel_result(syscall_raw(SYS_unlink, (long)path, 0, 0, 0));
}

KERNEL_INLINE ssize_t kernel_readlink(const char *path, char *to, size_t bytes)
{
	return kernel_result(syscall_raw(SYS_readlink, (long)path, (long)to, (long)bytes, 0));
}

/* No one can open it by /proc/PID/fd: memfd_create(2) gives all the right to read and write. */
KERNEL_INLINE int kernel_memfd_create(const char *name)
{
	int fd = (int)kernel_result(
		syscall_raw(SYS_memfd_create, (long)name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0));

	if (fd >= 0)
		syscall_raw(SYS_fchmod, fd, 0, 0, 0);
	return fd;
}

/* Its length stays from now on, and what `more` says (F_SEAL_WRITE, or 0). 0 or -1. */
KERNEL_INLINE int kernel_memfd_seal(int fd, int more)
{
	return (int)kernel_call(SYS_fcntl, fd, F_ADD_SEALS,
				F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | more, 0);
}

/* One of that many zeros, and of that length for ever. Or -1. */
KERNEL_INLINE int kernel_memfd_sized(const char *name, size_t bytes)
{
	int fd = kernel_memfd_create(name);

	if (fd >= 0 &&
	    (kernel_call(SYS_ftruncate, fd, (long)bytes, 0, 0) || kernel_memfd_seal(fd, 0))) {
		kernel_close(fd);
		return -1;
	}
	return fd;
}

/* One with these bytes, which stay. Or -1. */
KERNEL_INLINE int kernel_memfd_filled(const char *name, const void *from, size_t bytes)
{
	int fd = kernel_memfd_create(name);
	size_t done = 0;

	while (fd >= 0 && done < bytes) {
		ssize_t got = kernel_pwrite(fd, (const char *)from + done, bytes - done,
					    (off_t)done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	if (fd >= 0 && (done < bytes || kernel_memfd_seal(fd, F_SEAL_WRITE))) {
		kernel_close(fd);
		return -1;
	}
	return fd;
}

/* Private, anonymous memory; MAP_FAILED. */
KERNEL_INLINE void *kernel_map(void *at, size_t bytes, int prot, int flags)
{
	return (void *)kernel_result(syscall_raw6(SYS_mmap, (long)at, (long)bytes, prot,
						  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
}

KERNEL_INLINE int kernel_munmap(void *start, size_t bytes)
{
	return (int)kernel_result(syscall_raw(SYS_munmap, (long)start, (long)bytes, 0, 0));
}

KERNEL_INLINE int kernel_mprotect(void *start, size_t bytes, int prot)
{
	return (int)kernel_result(syscall_raw(SYS_mprotect, (long)start, (long)bytes, prot, 0));
}

/*
 * In place of membarrier(2), where a filter forbids it or Linux is older than 4.16. Taking a right
 * away from a page that was touched makes the kernel interrupt every core that runs this process,
 * to flush its TLB, and the return from the interrupt serializes. Processors that broadcast such
 * flushes need no interrupt: there this does nothing.
 */
KERNEL_INLINE void kernel_interrupt_cores(void)
{
	volatile char *page = kernel_map(NULL, 4096, PROT_READ | PROT_WRITE, 0);

	if (page == MAP_FAILED)
		return;
	*page = 1;
	kernel_mprotect((void *)page, 4096, PROT_READ);
	kernel_munmap((void *)page, 4096);
}

KERNEL_INLINE void kernel_sleep_ns(long ns)
{
	struct timespec wait = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	syscall_raw(SYS_nanosleep, (long)&wait, 0, 0, 0);
}

KERNEL_INLINE pid_t kernel_getpid(void)
{
	return (pid_t)syscall_raw(SYS_getpid, 0, 0, 0, 0);
}

KERNEL_INLINE pid_t kernel_getppid(void)
{
	return (pid_t)syscall_raw(SYS_getppid, 0, 0, 0, 0);
}

KERNEL_INLINE pid_t kernel_gettid(void)
{
	return (pid_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
}

KERNEL_INLINE uid_t kernel_geteuid(void)
{
	return (uid_t)syscall_raw(SYS_geteuid, 0, 0, 0, 0);
}

#endif
