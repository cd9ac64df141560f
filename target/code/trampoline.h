/* SPDX-License-Identifier: MIT */
/*
 * A place made into a detour: the instruction that the jump replaces, and the code that takes its
 * place (abi/detour.h).
 *
 * The way in at a point:
 *
 *	lea   -128(%rsp), %rsp	     the red zone; not at a function's entry
 *	pushfq			     then DF and AC are cleared, if one of them is set
 *	lea   -payload-8(%rsp), %rsp
 *	mov   %rax, payload(%rsp)
 *	mov   ..., ...(%rsp)	     each field; what isn't in a register comes through %rax
 *	push  %rsp		     the payload's address
 *	push  word(%rip)
 *	call  *enter(%rip)	     the agent keeps every register
 *	mov   payload+24(%rsp), %rax
 *	...			     popfq, if DF or AC was set; sahf
 *	mov   payload+16(%rsp), %rax
 *	lea   down+16(%rsp), %rsp
 */
#ifndef TARGET_CODE_TRAMPOLINE_H
#define TARGET_CODE_TRAMPOLINE_H

#include "abi/detour.h"
#include "target/code/emit.h"
#include "target/code/probe_place.h"
#include "target/code/span.h"
#include "target/code/sweep.h"

#include <stddef.h>
#include <stdint.h>

#define TRAMPOLINE_DETAIL_BYTES SPAN_DETAIL_BYTES

/* Addresses are as linked: one serves for the module in any process. */
struct trampoline {
	struct control_detour detour; /* but for `bytes` */
	struct emit emit;
	char detail[TRAMPOLINE_DETAIL_BYTES]; /* of a refusal, or "" */
	uint32_t guarded_call;		      /* of DETOUR_GUARD_CALL */
};

/*
 * Judge a place and compose the detour of its choice with this number, from 0 on; that is
 * DETOUR_ELSE from the second on. Returns 0; -WM_E_*, why there is not even the first, with detail;
 * -EINVAL for a field that makes no sense; -ENOENT: there are no more.
 */
int trampoline_compose(const struct sweep *sweep, const struct code_place *place,
		       unsigned int number, struct trampoline *trampoline);

/*
 * Likewise, the detour of a function of libc's that the agent guards: one of DETOUR_GUARDS. `call`:
 * of DETOUR_GUARD_CALL, the number of the system call that it makes, 0 where the caller says.
 * `bytes`: from its start on, which no thread may be in.
 */
int trampoline_compose_guard(const struct sweep *sweep, uint64_t function, uint64_t bytes,
			     uint32_t guard, uint32_t call, unsigned int number,
			     struct trampoline *trampoline);

/*
 * Write the detour as CONTROL_PLACE wants it, for a module whose base is `base`. The texts are
 * abi/site.h's; return_text is NULL where no return is wanted. Returns the bytes it takes; if that
 * is more than `room`, it writes nothing.
 */
size_t trampoline_write(const struct trampoline *trampoline, uint64_t base, const char *text,
			const char *return_text, void *buffer, size_t room);

#endif
