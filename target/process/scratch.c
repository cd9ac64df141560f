/* SPDX-License-Identifier: MIT */
#include "target/process/scratch.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <waymark/error.h>

#define PAGE_BYTES UINT64_C(4096)
#define STACK_BYTES (128 * UINT64_C(1024))
/*
 * Of thread-local blocks that modules may yet have: a table that is too small would be grown by
 * free().
 */
#define DTV_SPARE 1024
/* struct pthread of glibc, with room to spare (2.34: 2,304 bytes). */
#define PTHREAD_BYTES (2 * PAGE_BYTES)
#define LOADER_AT 1024 /* in the code page, behind the borrowed thread's code */
#define AGENT_STACK_BYTES (256 * UINT64_C(1024))

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void layout(struct scratch *scratch, const struct glibc *glibc)
{
	uint64_t at = PAGE_BYTES;

	scratch->loader = LOADER_AT;
	scratch->data = at;
	at += pages(sizeof(struct loader_data)) + STACK_BYTES;
	scratch->stack_end = at;
	scratch->dtv = at;
	scratch->dtv_entries = glibc->modules + DTV_SPARE;
	at += pages((scratch->dtv_entries + 2) * 16) + pages(glibc->tls_bytes);
	scratch->tcb = at;
	scratch->bytes = at + PTHREAD_BYTES;
}

static int remote_map(struct scratch *scratch, struct remote_thread *remote, struct detail detail)
{
	const uint64_t map[6] = { 0,
				  scratch->bytes,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				  (uint64_t)-1,
				  0 };
	long result;
	int err = remote_thread_syscall(remote, SYS_mmap, map, &result);

	if (err)
		return err;
	if (result < 0 && result > -4096)
		return detail_set(detail, -WM_E_INJECT, "the process can't map %llu KiB: %s",
				  (unsigned long long)scratch->bytes / 1024,
				  strerror((int)-result));
	scratch->start = (uint64_t)result;
	scratch->loader += scratch->start;
	scratch->data += scratch->start;
	scratch->stack_end += scratch->start;
	scratch->dtv += scratch->start;
	scratch->tcb += scratch->start;
	return 0;
}

static int code_write(const struct scratch *scratch, const struct remote_thread *remote)
{
	unsigned char code[PAGE_BYTES];
	size_t bytes = (size_t)(loader_code_end - loader_code);
	size_t jump = LOADER_AT + (size_t)(loader_restore_jump - loader_code);
	int32_t distance = (int32_t)remote_restore_offset() - (int32_t)(jump + 4);

	if (remote_code_bytes() > LOADER_AT || LOADER_AT + bytes > sizeof(code))
		return -E2BIG;
	memset(code, 0, sizeof(code));
	remote_code_fill(code, &remote->saved, remote->mask);
	memcpy(code + LOADER_AT, loader_code, bytes);
	memcpy(code + jump, &distance, sizeof(distance));
	return remote_thread_write(remote, scratch->start, code, sizeof(code));
}

/*
 * The raw thread's control block: what libc asks of it before its thread-local memory is set up is
 * that it points to itself, has the process's guards and its own number (which the kernel writes).
 */
static int tcb_write(const struct scratch *scratch, const struct remote_thread *remote,
		     uint64_t model)
{
	uint64_t dtv = scratch->dtv + 16;
	const uint32_t yes = 1;
	unsigned char guard[8];
	int err = remote_thread_write(remote, scratch->dtv, &scratch->dtv_entries,
				      sizeof(uint64_t));

	for (int i = 0; i < 2 && !err; i++)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.self[i], &scratch->tcb,
					  sizeof(uint64_t));
	if (!err)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.dtv, &dtv, sizeof(dtv));
	if (!err)
		err = remote_thread_write(remote, scratch->tcb + loader_tcb.multiple_threads, &yes,
					  sizeof(yes));
	for (int i = 0; i < 3 && !err; i++) {
		err = remote_thread_read(remote, model + loader_tcb.alike[i][0], guard,
					 loader_tcb.alike[i][1]);
		if (!err)
			err = remote_thread_write(remote, scratch->tcb + loader_tcb.alike[i][0],
						  guard, loader_tcb.alike[i][1]);
	}
	return err;
}

/*
 * Under PR_SET_MDWE what could be written never becomes executable. There the page is mapped as
 * code, and written as a debugger writes it.
 */
static int code_protect(const struct scratch *scratch, struct remote_thread *remote,
			struct detail detail)
{
	const uint64_t protect[6] = { scratch->start, PAGE_BYTES, PROT_READ | PROT_EXEC };
	const uint64_t map[6] = { scratch->start,	 PAGE_BYTES,
				  PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				  (uint64_t)-1,		 0 };
	long result;
	int err = remote_thread_syscall(remote, SYS_mprotect, protect, &result);

	if (err || !result)
		return err;
	err = remote_thread_syscall(remote, SYS_mmap, map, &result);
	if (!err && (uint64_t)result == scratch->start)
		err = code_write(scratch, remote);
	else if (!err)
		err = detail_set(detail, -WM_E_INJECT, "the process may not execute new memory: %s",
				 strerror((int)-result));
	return err;
}

int scratch_map(struct scratch *scratch, struct remote_thread *remote, const struct glibc *glibc,
		uint64_t tid_offset, struct loader_data *data, struct detail detail)
{
	int err;

	*scratch = (struct scratch){ 0 };
	layout(scratch, glibc);
	err = remote_map(scratch, remote, detail);
	if (err)
		return err;
	data->tcb = scratch->tcb;
	data->tid_at = scratch->tcb + tid_offset;
	data->stack_bytes = AGENT_STACK_BYTES + pages(glibc->tls_bytes);
	err = code_write(scratch, remote);
	if (!err)
		err = remote_thread_write(remote, scratch->data, data, sizeof(*data));
	if (!err)
		err = tcb_write(scratch, remote, halt_thread_pointer(&remote->saved));
	if (!err)
		err = code_protect(scratch, remote, detail);
	if (err)
		scratch_unmap(scratch, remote);
	return err;
}

int scratch_start(const struct scratch *scratch, struct remote_thread *remote, struct detail detail)
{
	const uint64_t flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			       CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_SETTID |
			       CLONE_CHILD_CLEARTID;
	struct halt_regs regs;
	struct loader_data data;
	struct target target;
	long result;
	int err = remote_thread_move(remote, scratch->start);

	if (!err)
		err = remote_thread_read(remote, scratch->data, &data, sizeof(data));
	if (err)
		return err;
	remote_regs_clone(&regs, &remote->saved,
			  scratch->loader + (uint64_t)(loader_clone - loader_code), flags,
			  scratch->stack_end, data.tid_at, scratch->tcb, scratch->data);
	err = remote_thread_run(remote, &regs, &result);
	if (!err && result == -EAGAIN && !target_read(&target, remote->tid))
		return target_thread_limit(&target, -WM_E_INJECT, detail);
	if (!err && result < 0)
		err = detail_set(detail, -WM_E_INJECT, "the process can't start a thread: %s",
				 strerror((int)-result));
	return err;
}

int scratch_unmap(struct scratch *scratch, struct remote_thread *remote)
{
	const uint64_t unmap[6] = { scratch->start, scratch->bytes };
	long result;
	int err;

	if (!scratch->start)
		return 0;
	err = remote_thread_syscall(remote, SYS_munmap, unmap, &result);
	if (err || result)
		return err ? err : (int)result;
	scratch->start = 0;
	return 0;
}
