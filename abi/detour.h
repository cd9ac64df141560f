/* SPDX-License-Identifier: MIT */
/*
 * Detours: places in code that nobody prepared, made to jump to a trampoline of ours. The outside reads the
 * program's files, chooses the instruction that the jump replaces and composes the trampoline. The inside finds
 * memory for it, compares the bytes and stores the jump.
 *
 * A detour replaces one instruction. Its trampoline holds the way into the agent, then a moved copy of the
 * instruction, then a jump to what follows:
 *
 *	lea   -128(%rsp), %rsp      over the red zone (not at a function's entry)
 *	...                         keeps the flags and what it uses; the fields packed as abi/site.h says
 *	pushq payload               their address
 *	pushq word(%rip)            FIXUP_WORD
 *	call  *enter(%rip)          FIXUP_ENTER
 *	...                         all as it was
 *
 * For a function whose return is wanted, after that, once more with the address of the stack slot that
 * holds the return address in place of the payload, and FIXUP_RETURN_WORD, FIXUP_RETURN_ENTER. The callee
 * puts addresses where the two words were pushed, and the way in ends with DETOUR_GO_BYTES of
 *
 *	lea   24(%rsp), %rsp	    the return address off the stack, too
 *	notrack jmp *-24(%rsp)	    where the second word was
 *
 * From there the agent comes back, with a return address pushed, to what follows, as the first word says.
 * The callee keeps every register but the flags.
 *
 * The instruction may lie behind the point, where nothing jumps in between: endbr64 and instructions that do
 * nothing stay where they are and run before the event. At a function's entry others may, too, that change nothing
 * which the event reads: pushes, room made on the stack, registers saved. The trampoline finds the entry's stack
 * pointer `stack_bytes` further up. Where the return is wanted, it keeps DETOUR_SAVED_BYTES of these meanwhile.
 *
 * Other tools change code, too. The kernel's uprobes and gdb store a breakpoint in the first byte of an instruction,
 * and put another byte back later: the kernel the byte of the file, gdb what it found. So there are three forms of
 * the jump, from the best on (base/pun.h finds what each may lead to):
 *
 *	byte	 One byte is written: the opcode of the jump. The 4 bytes behind it stay as the file has them and
 *		 become the distance. The jump leads to a landing, 5 bytes that the agent maps where that distance
 *		 leads. The opcode may follow prefixes that the instruction begins with and that mean nothing to a
 *		 jump. Nothing has to stop, since no instruction begins or ends anywhere else for whoever runs
 *		 there. What a uprobe runs and restores is always right.
 *	behind	 Bytes behind the first are written, none behind the instruction. The first is a prefix that
 *		 stays. What a uprobe runs and restores is right, too.
 *	first	 The first byte is written and others of the instruction. While a uprobe stands there, all is right.
 *		 When it goes, the kernel restores the first byte alone: so the agent restores the others as soon as it
 *		 sees the uprobe. It looks every 100 ms, less often where there are more than some 15,000 jumps.
 *
 * The last two have threads stopped while the bytes are stored. Bytes behind the instruction that a distance ends
 * in must not change as long as the jump stands: no other detour and no marker may have them. A breakpoint of other
 * tools may appear in each instruction that begins in these bytes. It changes the distance, so landings for
 * each distance that may come of that are mapped as well.
 *
 * Several events may be wanted at one point: two probes there, two names of one function, two sessions that
 * ask for different fields. Each is a detour of its own, with a trampoline of its own; all that replace one
 * instruction are a chain. The jump leads to the first one's, whose event is followed by its link: a short jump
 * over a long one. When the next one is armed, the distance of the long jump is stored, then that of the short
 * one becomes 0. The last that is linked goes on to its moved instruction.
 *
 * Watches (abi/watch.h) need guards: detours that lead from libc's pthread_sigmask() and sigaction(), and where it can
 * be had prctl() and syscall(), to the agent's own. Their code is a jump to FIXUP_ENTER, then the moved instruction; they
 * are no events, and their texts are never told.
 *
 * Messages (abi/control.h): any number of CONTROL_PLACE, each with as many detours as fit, prepare;
 * nothing is changed yet but memory of the agent's own. CONTROL_COMMIT arms all that this session has
 * prepared. An event's id is told by CONTROL_EVENT, as a marker's; what can't be placed by CONTROL_REFUSED with
 * the place's address, and the others go on. A record with DETOUR_ELSE is another choice for the event of the one
 * before it. The agent takes the first that it can have in the best form. The same place asked for again with the
 * same code, also by another session, or in the child of a
 * fork, which inherits code and trampolines (and may have all at once, CONTROL_ADOPT), is one detour
 * with one more consumer. QUIET and LEAVE let go of a session's detours, as do hanging up and death of
 * the tool.
 *
 * Trampolines and landings are never freed, for no one can prove that no thread will come back to one, and gdb may
 * put a jump back that it has found. There are DETOUR_MEMORY_MAX_BYTES of trampolines at most.
 */
#ifndef ABI_DETOUR_H
#define ABI_DETOUR_H

#include <stdint.h>

#define DETOUR_GO_BYTES 10
#define DETOUR_JUMP_BYTES 5
#define DETOUR_INSN_MAX 15
#define DETOUR_KEPT_MAX 4 /* bytes behind the instruction that a distance may end in */
#define DETOUR_CODE_MAX 2048
#define DETOUR_FIXUPS_MAX 64
#define DETOUR_LINK                                                                                \
	{                                                                                          \
		0xeb, 0x05, 0xe9, 0x00, 0x00, 0x00, 0x00                                           \
	} /* jmp .+7; jmp next */
#define DETOUR_LINK_BYTES 7
#define DETOUR_SAVED_BYTES                                                                         \
	16		     /* of the stack, as the function is gone into whose return is wanted */
#define DETOUR_CHAIN_MAX 16  /* events in one */
#define DETOUR_CHOICES_MAX 8 /* for one event */
#define DETOUR_MEMORY_MAX_BYTES (64u << 20)

enum detour_form { FORM_BYTE = 1, FORM_BEHIND, FORM_FIRST };

/* What the agent fills in once it knows where the code lies. */
enum detour_fixup_kind {
	FIXUP_REL32 = 1,       /* 4 bytes: target - (address of the fixup + 4 + after) */
	FIXUP_ABS64 = 2,       /* 8 bytes: target */
	FIXUP_WORD = 3,	       /* 8 bytes: the agent's word for the event at the point */
	FIXUP_ENTER = 4,       /* 8 bytes: the agent's stub for it */
	FIXUP_RETURN_WORD = 5, /* likewise for the return */
	FIXUP_RETURN_ENTER = 6,
};

struct detour_fixup {
	uint16_t offset; /* in the code */
	uint8_t kind;
	uint8_t after; /* bytes of the instruction that follow the displacement */
	uint32_t reserved;
	uint64_t target; /* an address in the program */
};

#define DETOUR_RETURN 1	      /* the function's return is an event too: types[1] */
#define DETOUR_SECRETIVE 2    /* no event at the point itself, the return alone is wanted */
#define DETOUR_RETURN_FLOAT 4 /* what is returned lies in %xmm0 */
#define DETOUR_CALL 8 /* a moved call pushes its return address itself: not with shadow stacks */
#define DETOUR_GUARD_MASK 16   /* no event: the agent takes the place of pthread_sigmask() */
#define DETOUR_GUARD_ACTION 32 /* likewise, of libc's sigaction() */
#define DETOUR_GUARD_INNER 64  /* or of its inner one, which libc's own signals come through too */
#define DETOUR_GUARD_CALL                                                                          \
	128 /* or of prctl(), syscall(): %eax says which, by the number of its system call; 0: its first argument is it */
#define DETOUR_GUARDS                                                                              \
	(DETOUR_GUARD_MASK | DETOUR_GUARD_ACTION | DETOUR_GUARD_INNER | DETOUR_GUARD_CALL)
#define DETOUR_ELSE 256		 /* another choice for the event of the record before it */
#define DETOUR_SAFE 512		 /* not in the form "first" */
#define DETOUR_RETURN_PARTS 1024 /* what is returned are parts of registers: return_at[] */
#define DETOUR_RETURN_BYTES 32

/*
 * One detour of a CONTROL_PLACE message, padded to 8 bytes. Behind it, without gaps: the code, padded to
 * 8 bytes; the fixups; the texts (abi/site.h, with kind 'm', or 'b' and 'e' where the return is wanted, and
 * way 'd'), NUL-terminated: the event's, then the return's; padded to 8.
 */
struct control_detour {
	uint32_t bytes; /* of all, this struct included */
	uint16_t code_bytes, fixup_count;
	uint16_t link_at; /* offset in the code, behind the event: DETOUR_LINK; 0: there is none, and no other event can be here */
	uint16_t moved_at;    /* behind that: the moved instruction */
	uint16_t stack_bytes; /* from the stack pointer at the jump up to where it is at the point */
	uint8_t insn_bytes;   /* filler included that nothing ever runs */
	uint8_t kept_bytes;   /* behind the instruction, that stay and may end the distance */
	uint16_t flags;
	uint8_t starts; /* bit i: an instruction begins at the kept byte i */
	uint8_t reserved;
	uint32_t guard_bytes; /* of a guarded function, from the point on */
	uint64_t address;     /* of the instruction, where the jump will stand */
	uint64_t point;	      /* the probed address itself, there or before it */
	uint64_t semaphore;   /* 16 bits, counted up while armed; 0: none */
	uint8_t original[24]; /* insn_bytes and kept_bytes, what must stand there */
	uint8_t types[2][16]; /* of the event, of the return; WM_TYPE_*. Strings are read with care */
	/* where each of the return's fields begins in %rax, %rdx, %xmm0, %xmm1, of 8 bytes each */
	uint8_t return_at[16];
};

struct control_place {
	uint32_t count;
	uint32_t reserved;
};

_Static_assert(sizeof(struct detour_fixup) == 16, "fixed");
_Static_assert(sizeof(struct control_detour) == 120, "fixed");

#endif
