/* SPDX-License-Identifier: MIT */
/*
 * Whether a kernel uprobe counts: on a file of our own in memory, so that no other process can meet
 * it.
 */
#include "trial/trial_own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TYPE "/sys/bus/event_source/devices/uprobe/type"
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u /* Linux 6.3 */
#endif

static int type_read(void)
{
	char text[16] = "";
	int fd = open(TYPE, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	int err = -errno;

	if (fd >= 0)
		close(fd);
	return got <= 0 ? err : (int)strtol(text, NULL, 10);
}

/* push %rbp; pop %rbp; ret */
static int file_make(void)
{
	static const unsigned char code[] = { 0x55, 0x5d, 0xc3 };
	int fd = memfd_create("waymark-trial", MFD_CLOEXEC | MFD_EXEC);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("waymark-trial", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, code, sizeof(code)) != (ssize_t)sizeof(code)) {
		close(fd);
		fd = -1;
	}
	return fd < 0 ? -errno : fd;
}

static int probe_open(int type, int file)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = (uint32_t)type };
	char path[64];
	long fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	attr.config1 = (uintptr_t)path; /* uprobe_path; the offset is 0 */
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

void trial_group_uprobe(struct trial_answer answers[TRIAL_COUNT])
{
	struct trial_answer *answer = &answers[TRIAL_UPROBE];
	int type = type_read(), file = type < 0 ? type : file_make(), fd;
	void *code = MAP_FAILED;
	uint64_t hits = 0;

	if (file >= 0)
		code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (code == MAP_FAILED) {
		trial_unknown(answer, file < 0 ? file : -errno);
		return;
	}
	fd = probe_open(type, file);
	if (fd < 0) {
		trial_unknown(answer, fd);
		return;
	}
	__asm__ volatile("call *%0" ::"r"(code) : "memory");
	if (read(fd, &hits, sizeof(hits)) != (ssize_t)sizeof(hits))
		hits = 0;
	if (hits == 1)
		trial_says(answer, 1, "%s", "");
	else
		trial_says(answer, 0, "%llu of 1 hits", (unsigned long long)hits);
}
