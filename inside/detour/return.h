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
 *	bound     where a copied stack may come back many times: for ever of one function, one
 *		  place, one return address
 *
 * A call that is left by longjmp or an exception leaves its unit live. The thread's next call with
 * its return address in the same place takes it over. The pool is bounded: if it is empty, a return
 * is lost and counted.
 */
#ifndef INSIDE_DETOUR_RETURN_H
#define INSIDE_DETOUR_RETURN_H

#include <stdint.h>

struct writer;

#define RETURN_UNITS 32768u /* one in 256 of them is no stub */

/*
 * For callers that need only the end of a call: put a stub in the place of its return address.
 * Returns the stub's address, or 0: nothing was changed. Hit path; the thread whose stack it is.
 */
uintptr_t return_put(uintptr_t *slot, uintptr_t sp);

/* Called when such a call returns, with where its return address was. Hit path. */
void frame_returned(uintptr_t slot);

/* The return address behind a stub's address; 0: it is no stub's. Hit path. */
uintptr_t return_original(uintptr_t address);

/*
 * What FIXUP_RETURN_ENTER is: a stub that is given the detour, and the address of the stack slot.
 */
uint64_t return_entry(void);

/*
 * Whether returns can be had at all here: not with shadow stacks. 0 or -errno. To be called before
 * the first is asked for: from then on the free units of a thread that ends go to the pool. Control
 * side.
 */
int return_check(void);

/*
 * A library is there that copies stacks away and back: from now on no unit is taken over or looked
 * for, since what is not on a stack now may be again. RETURN_STACKS_MANY: one copy may come back
 * many times, as continuations do; each unit that is taken is then bound, and the pool only grows
 * emptier.
 */
enum return_stacks { RETURN_STACKS_STAY, RETURN_STACKS_ONCE, RETURN_STACKS_MANY };

void return_stacks_move(enum return_stacks how);

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

/* Live and bound units, as of about now. */
uint32_t return_live(void);

#endif
