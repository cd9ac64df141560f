/* SPDX-License-Identifier: MIT */
/*
 * What is diverted stays valid for ever: the code jumped to is the agent's own, which is never
 * unloaded, or a page that is never unmapped. So a thread that is on its way may come late.
 */
#define _GNU_SOURCE
#include "agent/marker/hook.h"

#include "agent/marker/shut.h"
#include "agent/marker/linkmap.h"
#include "agent/patch/batch.h"
#include "arch/hook.h"
#include "base/kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u
#define NEAR_STEP ((uintptr_t)4 << 20)
#define NEAR_TRIES 256

static struct {
	uintptr_t at; /* of the jump; 0: not placed */
	uint8_t before[HOOK_BYTES], after[HOOK_BYTES];
	void *far_page;
	void (*changed)(int state);
} hook;

static void handle(void)
{
	void (*changed)(int) = __atomic_load_n(&hook.changed, __ATOMIC_ACQUIRE);
	struct hit_shut shut;
	int error;

	hit_shut(&shut);
	error = errno;
	if (changed)
		changed(linkmap_state_now());
	hit_open(&shut);
	errno = error;
}

/* A page with a jump to our code, close enough to the loader. */
static void *make_far_page(uintptr_t near)
{
	uint8_t jump[HOOK_FAR_BYTES];
	void *page = MAP_FAILED;

	for (uintptr_t i = 1; i < NEAR_TRIES && page == MAP_FAILED; i++) {
		uintptr_t want = (near & ~(uintptr_t)(PAGE_BYTES - 1)) - i * NEAR_STEP;

		page = kernel_map((void *)want, PAGE_BYTES, PROT_READ | PROT_WRITE,
				  MAP_FIXED_NOREPLACE);
	}
	if (page == MAP_FAILED)
		return NULL;
	hook_far_jump((uintptr_t)hook_entry_code, jump);
	memcpy(page, jump, sizeof jump);
	if (kernel_mprotect(page, PAGE_BYTES, PROT_READ | PROT_EXEC)) {
		kernel_munmap(page, PAGE_BYTES);
		return NULL;
	}
	return page;
}

static int encode(uintptr_t at)
{
	if (!hook_jump(at, (uintptr_t)hook_entry_code, hook.after))
		return 0;
	if (!hook.far_page)
		hook.far_page = make_far_page(at);
	if (!hook.far_page)
		return -ENOMEM;
	return hook_jump(at, (uintptr_t)hook.far_page, hook.after);
}

static int write_code(const struct text *text, uintptr_t at, const uint8_t *bytes, size_t count)
{
	return text_write_code(text, at, bytes, count, PROT_READ | PROT_EXEC);
}

int hook_place(const struct text *text, void (*changed)(int state))
{
	uintptr_t start = linkmap_hook_address();
	uint8_t code[HOOK_LOOK_BYTES];
	int offset;

	if (hook.at) {
		__atomic_store_n(&hook.changed, changed, __ATOMIC_RELEASE);
		return 0; /* could not be removed the last time, or never was */
	}
	if (!start || text_read(text, start, code, sizeof code))
		return -ENOSYS;
	offset = hook_find(code);
	if (offset < 0 || encode(start + (uintptr_t)offset))
		return -ENOSYS;
	memcpy(hook.before, code + offset, sizeof hook.before);
	hook_handler = handle;
	__atomic_store_n(&hook.changed, changed, __ATOMIC_RELEASE);
	start += (uintptr_t)offset;

	/* first the displacement, in padding that nobody runs; then the one byte that counts */
	batch_sync_cores();
	if (write_code(text, start + 1, hook.after + 1, HOOK_BYTES - 1) ||
	    write_code(text, start, hook.after, 1)) {
		write_code(text, start, hook.before, HOOK_BYTES);
		return -ENOSYS;
	}
	batch_sync_cores();
	hook.at = start;
	return 0;
}

void hook_remove(const struct text *text)
{
	uint8_t found[HOOK_BYTES];

	if (!hook.at)
		return;
	__atomic_store_n(&hook.changed, NULL, __ATOMIC_RELEASE);
	if (text_read(text, hook.at, found, sizeof found) ||
	    memcmp(found, hook.after, sizeof found))
		/* a debugger's breakpoint: it will put our jump back, which then does nothing */
		return;
	write_code(text, hook.at, hook.before, 1);
	batch_sync_cores();
	write_code(text, hook.at + 1, hook.before + 1, HOOK_BYTES - 1);
	hook.at = 0;
}

int hook_is_placed(void)
{
	return hook.at && __atomic_load_n(&hook.changed, __ATOMIC_RELAXED);
}

int hook_stands_in(uintptr_t start, uintptr_t end)
{
	uintptr_t at = linkmap_hook_address();

	return at && start < at + HOOK_LOOK_BYTES && end > at;
}
