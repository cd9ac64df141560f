/* SPDX-License-Identifier: MIT */
#include "inside/marker/careful.h"

#include "abi/page.h"
#include "base/syscall.h"
#include "inside/runtime/seccomp_yield.h"
#include "inside/store/thread_writer.h"

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>

#define FIRST_BYTES 128u
#define PAGE_BYTES 4096u

static int32_t allowed_pid;

/* 0: not at all. A child of a fork that is about to have a filter has no control thread yet. */
static int32_t reader_pid(void)
{
	return seccomp_yield_has_begun() ? 0 : __atomic_load_n(&allowed_pid, __ATOMIC_ACQUIRE);
}

void careful_allow(int32_t pid)
{
	__atomic_store_n(&allowed_pid, pid, __ATOMIC_RELEASE);
}

int careful_is_allowed(void)
{
	return __atomic_load_n(&allowed_pid, __ATOMIC_RELAXED) != 0;
}

/*
 * As many bytes as are there. In two parts, since a part that isn't all there may not come at all.
 * By its number the kernel finds the main thread, which has no memory any more once it has ended.
 */
static long read_some(int32_t pid, unsigned char *to, uintptr_t from, size_t bytes)
{
	size_t first = PAGE_BYTES - from % PAGE_BYTES;
	struct iovec local = { to, bytes };
	struct iovec remote[2] = { { (void *)from, first < bytes ? first : bytes },
				   { (void *)(from + first), bytes - first } };

	long count = first < bytes ? 2 : 1;
	long got = syscall_raw6(SYS_process_vm_readv, pid, (long)&local, 1, (long)remote, count, 0);

	if (got == -ESRCH)
		got = syscall_raw6(SYS_process_vm_readv, syscall_raw(SYS_gettid, 0, 0, 0, 0),
				   (long)&local, 1, (long)remote, count, 0);
	return got;
}

long careful_read_some(void *to, uintptr_t from, size_t bytes)
{
	int32_t pid = reader_pid();

	return pid ? read_some(pid, to, from, bytes) : 0;
}

uint64_t careful_keep(unsigned char *to, uint32_t bytes, uint64_t from)
{
	long got = from ? careful_read_some(to, (uintptr_t)from, bytes) : 0;

	if (!from)
		return KEPT_NULL;
	for (long i = 0; i < got; i++)
		if (!to[i])
			return from;
	return got == (long)bytes ? from : KEPT_UNREADABLE;
}

int careful_read(void *to, uintptr_t from, size_t bytes)
{
	int32_t pid = reader_pid();

	return pid && read_some(pid, to, from, bytes) == (long)bytes ? 0 : -1;
}

static unsigned char *put_state(unsigned char *to, unsigned char state)
{
	to[0] = state;
	to[1] = 0;
	return to + 2;
}

unsigned char *careful_string(unsigned char *to, const unsigned char *limit, const char *from,
			      uint32_t cap)
{
	int32_t pid = reader_pid();
	unsigned char *start = to + 1;
	uint32_t have = 0, want = FIRST_BYTES;

	if (to + 2 > limit)
		return NULL;
	if (!from)
		return put_state(to, FIELD_NULL);
	if (!pid)
		return put_state(to, FIELD_UNREADABLE);
	for (;;) {
		long got;

		want = want < cap + 1 ? want : cap + 1;
		if (start + want > limit)
			want = (uint32_t)(limit - start);
		if (have == want)
			break;
		got = read_some(pid, start + have, (uintptr_t)from + have, want - have);
		if (got <= 0)
			return put_state(to, FIELD_UNREADABLE);
		for (uint32_t end = have + (uint32_t)got; have < end; have++) {
			if (!start[have]) {
				*to = FIELD_WHOLE;
				return start + have + 1;
			}
		}
		want = have + PAGE_BYTES;
	}
	if (have <= cap)
		return NULL; /* the page was too small for it */
	*to = FIELD_CUT;
	start[cap] = 0;
	return start + cap + 1;
}
