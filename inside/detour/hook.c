/* SPDX-License-Identifier: MIT */
/*
 * A diversion stays valid for ever: the jump leads to the agent's own code, which is never
 * unloaded, or to memory that is never given back. So a thread on its way may arrive late.
 */
#include "inside/detour/hook.h"

#include "abi/detour.h"
#include "arch/divert.h"
#include "base/debug_trace.h"
#include "inside/detour/memory.h"
#include "inside/marker/linkmap.h"
#include "inside/patch/batch.h"
#include "inside/runtime/reentrancy_guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* of a near jump, less the jump itself and what is rounded */
#define HOOK_REACH (((uintptr_t)2 << 30) - ((uintptr_t)1 << 20))

static struct {
	uintptr_t at; /* of the jump; 0: not placed */
	uint8_t before[DIVERT_BYTES], after[DIVERT_BYTES];
	uintptr_t far_jump; /* 0: none yet */
	void (*changed)(int state);
} hook;

static void handle(void)
{
	void (*changed)(int) = __atomic_load_n(&hook.changed, __ATOMIC_ACQUIRE);
	struct reentrancy_guard guard;
	int error;

	reentrancy_guard_enter(&guard);
	error = errno;
	if (changed)
		changed(linkmap_state_now());
	reentrancy_guard_leave(&guard);
	errno = error;
}

static int write_code(const struct text *text, uintptr_t at, const uint8_t *bytes, size_t count)
{
	return text_write_code(text, at, bytes, count, PROT_READ | PROT_EXEC);
}

/*
 * A jump to our code, close enough to the loader. Where the trail's engine is, its rings fill what
 * is below.
 */
static int make_far_jump(const struct text *text, uintptr_t near)
{
	struct {
		struct detour_head head;
		uint8_t jump[DIVERT_FAR_BYTES];
	} made = { .head = { .address = near,
			     .magic = DETOUR_HEAD_MAGIC,
			     .code_bytes = DIVERT_FAR_BYTES } };
	uintptr_t low = near > HOOK_REACH ? near - HOOK_REACH : 0, start;
	int error = memory_take(low, near + HOOK_REACH, near, sizeof made.jump, &start);

	if (error)
		return error;
	divert_far_jump((uintptr_t)divert_entry_code, made.jump);
	error = write_code(text, start - sizeof made.head, (const uint8_t *)&made,
			   sizeof made.head + sizeof made.jump);
	if (error)
		memory_untake(start, sizeof made.jump);
	else
		hook.far_jump = start;
	return error;
}

static int encode(const struct text *text, uintptr_t at)
{
	int error = 0;

	if (!divert_jump(at, (uintptr_t)divert_entry_code, hook.after))
		return 0;
	if (!hook.far_jump)
		error = make_far_jump(text, at);
	return error ? error : divert_jump(at, hook.far_jump, hook.after);
}

int hook_place(const struct text *text, void (*changed)(int state))
{
	uintptr_t start = linkmap_hook_address();
	uint8_t code[DIVERT_LOOK_BYTES];
	int offset;

	if (hook.at) {
		__atomic_store_n(&hook.changed, changed, __ATOMIC_RELEASE);
		return 0; /* could not be removed the last time, or never was */
	}
	if (!start || text_read(text, start, code, sizeof code))
		return -ENOSYS;
	offset = divert_find(code);
	DEBUG_TRACE("agent/hook", "the loader's hook at %x, offset %d", start, offset);
	if (offset < 0 || encode(text, start + (uintptr_t)offset))
		return -ENOSYS;
	memcpy(hook.before, code + offset, sizeof hook.before);
	hook_handler = handle;
	__atomic_store_n(&hook.changed, changed, __ATOMIC_RELEASE);
	start += (uintptr_t)offset;

	/* first the displacement, in padding that no thread runs; then the one byte that counts */
	batch_sync_cores();
	if (write_code(text, start + 1, hook.after + 1, DIVERT_BYTES - 1) ||
	    write_code(text, start, hook.after, 1)) {
		write_code(text, start, hook.before, DIVERT_BYTES);
		return -ENOSYS;
	}
	batch_sync_cores();
	hook.at = start;
	return 0;
}

void hook_remove(const struct text *text)
{
	uint8_t found[DIVERT_BYTES];

	if (!hook.at)
		return;
	__atomic_store_n(&hook.changed, NULL, __ATOMIC_RELEASE);
	if (text_read(text, hook.at, found, sizeof found) ||
	    memcmp(found, hook.after, sizeof found))
		/* a debugger's breakpoint: it will put our jump back, which then does nothing */
		return;
	write_code(text, hook.at, hook.before, 1);
	batch_sync_cores();
	write_code(text, hook.at + 1, hook.before + 1, DIVERT_BYTES - 1);
	hook.at = 0;
}

int hook_is_placed(void)
{
	return hook.at && __atomic_load_n(&hook.changed, __ATOMIC_RELAXED);
}

int hook_stands_in(uintptr_t start, uintptr_t end)
{
	uintptr_t at = linkmap_hook_address();

	return at && start < at + DIVERT_LOOK_BYTES && end > at;
}
