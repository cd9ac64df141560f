/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/perf.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int kernel_open(struct perf_event_attr *attr, pid_t tid)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int kernel_map(void **memory, size_t bytes, int fd, size_t offset)
{
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (*memory != MAP_FAILED)
		return 0;
	*memory = NULL;
	return -errno;
}

static void kernel_unmap(void *memory, size_t bytes)
{
	munmap(memory, bytes);
}

static int kernel_control(int fd, unsigned long request)
{
	return ioctl(fd, request, 0) < 0 ? -errno : 0;
}

static void kernel_close(int fd)
{
	close(fd);
}

const struct perf_calls perf_kernel = {
	.open = kernel_open,
	.map = kernel_map,
	.unmap = kernel_unmap,
	.control = kernel_control,
	.close = kernel_close,
};
