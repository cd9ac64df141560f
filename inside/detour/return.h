/* SPDX-License-Identifier: MIT */
/*
 * Function returns. At a function's entry the agent replaces its return address, on the stack, by
 * that of a stub, one for each active call; the stub's cell keeps the original. The stubs are in
 * the agent's own text with their own unwinding information (arch/), so exceptions, backtraces,
 * debuggers and thread cancellation can unwind through them.
 *
 * A unit is a stub, its cell and a record. The cell also has the sessions that recorded the begin
 * of the call: no other session gets its end. A unit is
 *
 *	free      in its writer's list, or in the pool of all
 *	live      its stub's address is on a stack; the return, or a later call at the same place,
 *		  frees it
 *
 * A call that is left by longjmp or an exception leaves its unit live. The thread's next call with
 * its return address in the same place takes it over. The pool is bounded: if it is empty, a return
 * is lost and counted.
 *
 * A library may copy stacks away and back: a stub that is on no stack now may be on one again, and
 * return any number of times. Where one is there, no returns are recorded. If it comes later, no
 * call gets a stub from then on, which counts its return as discarded, and no unit is freed: each
 * stub keeps its return address for ever.
 */
#ifndef INSIDE_DETOUR_RETURN_H
#define INSIDE_DETOUR_RETURN_H

#include <stdint.h>

struct kept;
struct writer;

#define RETURN_UNITS 32768u /* one in 256 of them is no stub */

/*
 * For callers that need only the end of a call: put a stub in the place of its return address.
 * Returns the stub's address, or 0: nothing was changed. Hit path; the thread whose stack it is.
 */
uintptr_t return_put(uintptr_t *slot, uintptr_t sp);

/* Called when such a call returns, with where its return address was. Hit path. */
void frame_returned(uintptr_t slot);

/* arch/: the stubs. */
extern __attribute__((visibility("hidden"))) const unsigned char return_stubs[], return_stubs_end[];

static inline __attribute__((always_inline)) int return_is_stub(uintptr_t address)
{
	return address - (uintptr_t)return_stubs < (uintptr_t)(return_stubs_end - return_stubs);
}

/* The return address behind a stub's address; 0: it is no stub's. Hit path. */
uintptr_t return_original(uintptr_t address);

/*
 * What FIXUP_RETURN_ENTER is: a stub that is given the detour, and the address of the stack slot.
 */
uint64_t return_entry(void);

/*
 * Whether returns can be had at all here: not with shadow stacks (-ENOTSUP), nor after
 * return_stop() (-WM_E_STACKS_COPIED). 0 or an error. To be called before the first is asked for:
 * from then on the free units of a thread that ends go to the pool. Control side.
 */
int return_check(void);

/*
 * The entries of DETOUR_ONCE by unit, RETURN_UNITS of them. Made before the first such
 * detour is armed, and never freed.
 */
extern struct kept *return_kept __attribute__((visibility("hidden")));

/* A library is there that copies stacks away and back. Control side. */
void return_stop(void);

/* The child of a fork, and which thread of the parent made it; 0: it never had a hit. */
void return_forked(int32_t parent_tid, int32_t tid);

/*
 * Calls that were left without returning, whose place no later call of the same thread takes over:
 * when the pool runs low, units whose stubs are no longer where they were put are freed, with every
 * thread stopped. return_look_for_left() marks them, and says how many; 0 as long as the pool is
 * well filled. Control side.
 */
uint32_t return_look_for_left(int32_t pid);

#define RETURN_NEAR_MAX 1024u

/* The stack pointers of stopped threads that are in code that handles units. */
struct return_near {
	uint32_t count; /* RETURN_NEAR_MAX: there may be more */
	uintptr_t of[RETURN_NEAR_MAX];
};

/* With every thread stopped: free those that are marked. `pid` as above. */
void return_free_left(int32_t pid, const struct return_near *near);

/* Whether a PC is in code that handles units. */
int return_is_code(uintptr_t pc);

/* For tests: how many units there are. */
void return_limit(uint32_t units);

/* Live units, as of about now. */
uint32_t return_live(void);

#endif
