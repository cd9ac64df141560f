/* SPDX-License-Identifier: MIT */
/* Rows of the kernel's uprobes, by perf_event_open(2): they vanish with their descriptors. */
#include <asm/perf_regs.h>
#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/mechanisms/child.h"
#include "bench/mechanisms/row.h"
#include <waymark/error.h>

#define RING_PAGES 64
#define ARM_RUNS 9
#define SLOWER 20 /* than ours, or more: so many fewer hits are enough */
#define OPCODE_CALL 0xe8

/* /sys/bus/event_source/devices/uprobe/type: a number; or -1. */
static int uprobe_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &type) != 1)
		type = -1;
	fclose(file);
	return type;
}

/* An event that is on from here, in a process; a descriptor or a negative error. */
static int uprobe_open(const struct child *child, uint64_t offset, int is_return)
{
	struct perf_event_attr attr = {
		.type = (uint32_t)uprobe_type(),
		.size = sizeof(attr),
		.config = (uint64_t)is_return,
		.uprobe_path = (uint64_t)(uintptr_t)child->path,
		.probe_offset = offset,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER,
		.sample_regs_user = 1ull << PERF_REG_X86_DI | 1ull << PERF_REG_X86_SI,
		.watermark = 1,
		.wakeup_watermark = RING_PAGES * 4096u,
	};
	long fd = syscall(SYS_perf_event_open, &attr, child->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

struct uprobe {
	int fd;
	void *ring; /* mapped read-only, which has the kernel write over what is old */
};

#define RING_BYTES ((1u + RING_PAGES) * 4096u)

static int uprobe_start(struct uprobe *uprobe, const struct child *child, uint64_t offset,
			int is_return)
{
	uprobe->fd = uprobe_open(child, offset, is_return);
	if (uprobe->fd < 0)
		return uprobe->fd;
	uprobe->ring = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, uprobe->fd, 0);
	return uprobe->ring == MAP_FAILED ? -errno : 0;
}

static void uprobe_release(struct uprobe *uprobe)
{
	if (uprobe->ring && uprobe->ring != MAP_FAILED)
		munmap(uprobe->ring, RING_BYTES);
	if (uprobe->fd >= 0)
		close(uprobe->fd);
	*uprobe = (struct uprobe){ .fd = -1 };
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int measure_arming(const struct child *child, uint64_t offset, struct row *row)
{
	double arm_us[ARM_RUNS];

	for (unsigned int run = 0; run < ARM_RUNS; run++) {
		double start = now_us();
		int fd = uprobe_open(child, offset, 0);

		if (fd < 0)
			return fd;
		arm_us[run] = now_us() - start;
		close(fd);
	}
	row->arm_us = row_median(arm_us, ARM_RUNS);
	return 0;
}

/* A kernel that has it makes the nop of five bytes a call once the probe was hit. */
static int is_call(const struct child *child, uint64_t address)
{
	unsigned char byte = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", child->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (pread(fd, &byte, 1, (off_t)address) != 1)
		byte = 0;
	close(fd);
	return byte == OPCODE_CALL;
}

static int measure(struct child *child, const struct base_line *base, enum row_kernel kind,
		   enum target_way way, struct row *row)
{
	const struct target_leaf *leaf = &child->hello.leaves[way];
	struct uprobe entry = { .fd = -1 }, back = { .fd = -1 };
	uint64_t hits = 0;
	int err = measure_arming(child, leaf->file_offset, row);

	if (!err)
		err = uprobe_start(&entry, child, leaf->file_offset, 0);
	if (!err && kind == KERNEL_RETURN)
		err = uprobe_start(&back, child, leaf->file_offset, 1);
	if (!err)
		err = row_measure_hits(row, child, base, way, 1, base->count / SLOWER + 100);
	/* some machines accept a uprobe that is never hit */
	if (!err && (read(entry.fd, &hits, sizeof(hits)) != sizeof(hits) || !hits)) {
		row->hit_ns = row->arm_us = NAN;
		row_skip(row, "the kernel accepts a uprobe, and it does not count");
	} else if (!err && kind == KERNEL_NOP5 && !is_call(child, leaf->address)) {
		row->hit_ns = row->arm_us = NAN;
		row_skip(row, "this kernel makes a breakpoint of it");
	}
	uprobe_release(&entry);
	uprobe_release(&back);
	return err;
}

void row_measure_kernel(struct row *row, const struct base_line *base, enum row_kernel kind)
{
	static const enum target_way ways[] = {
		[KERNEL_UPROBE] = TARGET_USDT,
		[KERNEL_NOP5] = TARGET_NOP5,
		[KERNEL_RETURN] = TARGET_NONE,
	};
	struct child child;
	int err;

	if (uprobe_type() < 0) {
		row_skip(row, "this kernel has no uprobes");
		return;
	}
	base_line_fill(base, ways[kind], row);
	err = child_start(&child, NULL);
	if (!err)
		err = measure(&child, base, kind, ways[kind], row);
	child_release(&child);
	if (err == -EACCES || err == -EPERM)
		row_skip(row, "uprobes need root, or CAP_PERFMON");
	else if (err < 0)
		row_skip(row, "%s", wm_error_text(err));
}
