/* SPDX-License-Identifier: MIT */
#include "inside/patch/text.h"

#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u

static enum control_way way_found; /* 0: not looked yet */
static enum control_way way_limit = WAY_PROC_MEM;

enum control_way text_way(void)
{
	return way_found ? way_found : WAY_NONE;
}

void text_limit_way(enum control_way way)
{
	way_limit = way;
	way_found = 0;
}

static int write_through_mem(const struct text *text, uintptr_t to, const void *from, size_t bytes)
{
	ssize_t done = kernel_pwrite(text->fd, from, bytes, (off_t)to);

	if (done == (ssize_t)bytes)
		return 0;
	return done < 0 && errno != EIO ? -errno : -EFAULT;
}

/* Copy by way of the scratch file: the kernel accesses the memory; EFAULT if unmapped. */
static int copy_by_scratch(int fd, const void *from, void *to, size_t bytes)
{
	while (bytes) {
		size_t part = bytes < PAGE_BYTES ? bytes : PAGE_BYTES;

		if (kernel_pwrite(fd, from, part, 0) != (ssize_t)part ||
		    kernel_pread(fd, to, part, 0) != (ssize_t)part)
			return -EFAULT;
		from = (const char *)from + part;
		to = (char *)to + part;
		bytes -= part;
	}
	return 0;
}

static int write_by_mprotect(const struct text *text, uintptr_t to, const void *from, size_t bytes,
			     int prot)
{
	uintptr_t start = to & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t length = ((to + bytes + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1)) - start;
	int error;

	/* execution is never taken away: other threads may be in there */
	if (kernel_mprotect((void *)start, length, PROT_READ | PROT_WRITE | PROT_EXEC))
		return errno == ENOMEM ? -EFAULT : -WM_E_NO_TEXT_WRITE;
	error = text_write_data(text, to, from, bytes);
	if (kernel_mprotect((void *)start, length, prot) && !error)
		error = -errno;
	return error;
}

/* A byte of our own code, for the trial; never inlined, so that it has an address in our text. */
static __attribute__((noinline)) int trial_target(void)
{
	__asm__ volatile("");
	return 1;
}

static void find_way(const struct text *text)
{
	uintptr_t at = (uintptr_t)trial_target;
	unsigned char byte;

	way_found = WAY_NONE;
	if (text_read(text, at, &byte, 1))
		return;
	if (text->is_mem && way_limit <= WAY_PROC_MEM && !write_through_mem(text, at, &byte, 1))
		way_found = WAY_PROC_MEM;
	else if (way_limit <= WAY_MPROTECT &&
		 !write_by_mprotect(text, at, &byte, 1, PROT_READ | PROT_EXEC))
		way_found = WAY_MPROTECT;
}

int text_open(struct text *text)
{
	*text = (struct text){ .is_mem = 1 };
	/*
	 * not /proc/self: the program's first thread may have ended, and then nothing is under that
	 */
	text->fd = kernel_open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC);
	if (text->fd < 0 || way_limit != WAY_PROC_MEM) {
		text_release(text);
		text->is_mem = 0;
		text->fd = kernel_memfd_create("waymark-scratch");
		if (text->fd < 0)
			return -errno;
	}
	if (!way_found)
		find_way(text);
	return 0;
}

void text_release(struct text *text)
{
	if (text->fd >= 0)
		kernel_close(text->fd);
	text->fd = -1;
}

int text_read(const struct text *text, uintptr_t from, void *to, size_t bytes)
{
	if (!bytes)
		return 0;
	if (!text->is_mem)
		return copy_by_scratch(text->fd, (const void *)from, to, bytes);
	return kernel_pread(text->fd, to, bytes, (off_t)from) == (ssize_t)bytes ? 0 : -EFAULT;
}

long text_read_string(const struct text *text, uintptr_t from, char *to, size_t limit)
{
	size_t done = 0;

	/* never across a page at once: the next one need not be there */
	while (done < limit) {
		size_t part = PAGE_BYTES - (from + done) % PAGE_BYTES;
		char *end;

		part = part < limit - done ? part : limit - done;
		if (text_read(text, from + done, to + done, part))
			return -EFAULT;
		end = memchr(to + done, 0, part);
		if (end)
			return end - to;
		done += part;
	}
	return -E2BIG;
}

int text_write_data(const struct text *text, uintptr_t to, const void *from, size_t bytes)
{
	if (!bytes)
		return 0;
	if (text->is_mem)
		return write_through_mem(text, to, from, bytes);
	return copy_by_scratch(text->fd, from, (void *)to, bytes);
}

int text_write_code(const struct text *text, uintptr_t to, const void *from, size_t bytes, int prot)
{
	switch (text_way()) {
	case WAY_PROC_MEM:
		if (text->is_mem)
			return write_through_mem(text, to, from, bytes);
		/* this thread could not open it: it changed its user, say */
		return write_by_mprotect(text, to, from, bytes, prot);
	case WAY_MPROTECT:
		return write_by_mprotect(text, to, from, bytes, prot);
	case WAY_NONE:
		break;
	}
	return -WM_E_NO_TEXT_WRITE;
}
