/* SPDX-License-Identifier: MIT */
/*
 * Detours: places in unprepared code, made to jump to one of Waymark's trampolines. The outside
 * reads the program's files, chooses the instruction that the jump replaces and composes the
 * trampoline. The inside finds memory for it, compares the bytes and stores the jump.
 *
 * A detour replaces one instruction. Its trampoline holds the way into the agent, then a moved copy
 * of the instruction, then a jump to what follows:
 *
 *	lea   -128(%rsp), %rsp      over the red zone (not at a function's entry)
 *	pushfq                      and DF and AC cleared
 *	...                         saves %rax; packs the fields as in abi/site.h
 *	pushq payload               their address
 *	pushq word(%rip)            FIXUP_WORD
 *	call  *enter(%rip)          FIXUP_ENTER
 *	...                         all as it was
 *
 * For a function whose return is wanted, after that, once more with the address of the stack slot
 * that holds the return address in place of the payload, and FIXUP_RETURN_WORD, FIXUP_RETURN_ENTER.
 * The callee puts addresses where the two words were pushed, and the way in ends with
 * DETOUR_GO_BYTES of
 *
 *	lea   24(%rsp), %rsp	    the return address off the stack, too
 *	notrack jmp *-24(%rsp)	    where the second word was
 *
 * From there the agent returns, with a return address pushed, to the code that follows, as the
 * first word says. The callee of the return keeps every register and all flags. That of the event
 * finds DF and AC clear, and keeps every register but the flags.
 *
 * The instruction may be behind the point, where nothing jumps in between: endbr64 and instructions
 * that do nothing stay in place and run before the event. At a function's entry so may others that
 * change nothing that the event reads: pushes, room made on the stack, registers saved. The
 * trampoline finds the entry's stack pointer `stack_bytes` further up. For a return event it keeps
 * DETOUR_SAVED_BYTES of these meanwhile.
 *
 * Other tools change code, too. The kernel's uprobes and gdb store a breakpoint in the first byte
 * of an instruction, and put another byte back later: the kernel the byte of the file, gdb what it
 * found. So there are three forms of the jump, from the best on (base/pun.h finds what each may
 * lead to):
 *
 *	byte	 One byte is written: the opcode of the jump. The 4 bytes behind it stay as the file
 *		 has them and become the distance. The jump leads to a landing, 5 bytes that the
 *		 agent maps at that distance. The opcode may follow prefixes that the instruction
 *		 begins with and that mean nothing to a jump. No thread has to stop, since no
 *		 instruction begins or ends anywhere else for a thread that runs there. A uprobe
 *		 always runs and restores the right bytes.
 *	behind	 Bytes behind the first are written, none behind the instruction. The first is a
 *		 prefix that stays. A uprobe runs and restores the right bytes, too.
 *	first	 The first byte and others of the instruction are written. A uprobe at this place is
 *		 harmless until it is removed: then the kernel restores only the first byte. So the
 *		 agent restores the others as soon as it sees the uprobe. It looks every 100 ms,
 *		 less often with more than some 15,000 jumps.
 *
 * The last two need the threads stopped while the bytes are stored. The distance may end in bytes
 * behind the instruction. Those bytes must not change as long as the jump exists: no other detour
 * and no marker may use them. A breakpoint of other tools may appear in each instruction that
 * begins in these bytes. It changes the distance, so landings for each distance that may result are
 * mapped as well.
 *
 * One point may have several events: two probes, two names of one function, two sessions that ask
 * for different fields. Each is a detour of its own, with a trampoline of its own; all that replace
 * one instruction are a chain. The jump leads to the first one's, whose event is followed by its
 * link: a short jump over a long one. To arm the next one, the agent stores the distance of the
 * long jump, and then makes that of the short one 0. The last linked trampoline continues at its
 * moved instruction.
 *
 * Watches (abi/watch.h) need guards: detours that lead from libc's pthread_sigmask() and
 * sigaction(), and if possible from prctl() and syscall(), to the agent's own. Their code is a jump
 * to FIXUP_ENTER, then the moved instruction. They are no events, and their texts are never sent.
 *
 * Messages (abi/control.h): any number of CONTROL_PLACE, each with as many detours as fit, prepare.
 * Until then only the agent's own memory changes. CONTROL_COMMIT arms all that this session has
 * prepared. CONTROL_EVENT carries an event's id, as for a marker. CONTROL_REFUSED carries the
 * address of a place that was refused; the others are still armed. A record with DETOUR_ELSE is
 * another choice for the event of the record before it; the agent takes the first that it can have
 * in the best form. A repeated request for the same place with the same code is one detour with one
 * more consumer. It may come from another session, or from the child of a fork, which inherits code
 * and trampolines and may adopt them all at once (CONTROL_ADOPT). QUIET and LEAVE release a
 * session's detours, and so do the tool's hangup and death.
 *
 * In front of each trampoline, in regions of DETOUR_REGION_BYTES of anonymous memory, is a struct
 * detour_head, from the region's first byte on without gaps but those of DETOUR_ALIGN. So a tool
 * that reads the process's memory can map a thread's address there to the program's instruction,
 * also in a detour that another tool placed.
 *
 * Trampolines and landings are never freed, for no one can prove that no thread will come back to
 * one, and gdb may put a jump back that it has found. There are DETOUR_MEMORY_MAX_BYTES of
 * trampolines at most.
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

#define DETOUR_NAME "waymark-detours" /* of the memory, and of the landings' file */
#define DETOUR_REGION_BYTES 0x40000u
#define DETOUR_ALIGN 16u
#define DETOUR_HEAD_MAGIC 0x44646d57u /* "WmdD" */

struct detour_head {
	uint64_t address; /* of the program's instruction that the jump replaces */
	uint64_t landing; /* that leads here; 0: none */
	uint32_t magic;
	uint16_t code_bytes; /* that follow */
	uint16_t moved_at;   /* offset of the moved instruction; 0: none is */
	uint8_t insn_bytes;  /* of the program's instruction */
	uint8_t reserved[7];
};

enum detour_form { FORM_BYTE = 1, FORM_BEHIND, FORM_FIRST };

/* Filled in by the agent once it knows the code's address. */
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
#define DETOUR_RETURN_FLOAT 4 /* the returned value is in %xmm0 */
#define DETOUR_CALL 8 /* a moved call pushes its return address itself: not with shadow stacks */
#define DETOUR_GUARD_MASK 16   /* no event: the agent takes the place of pthread_sigmask() */
#define DETOUR_GUARD_ACTION 32 /* likewise, of libc's sigaction() */
#define DETOUR_GUARD_INNER 64  /* or of its inner one, which libc's own signals come through too */
#define DETOUR_GUARD_CALL                                                                          \
	128 /* or of prctl(), syscall(): %eax has the call number; 0: its first argument has */
#define DETOUR_GUARDS                                                                              \
	(DETOUR_GUARD_MASK | DETOUR_GUARD_ACTION | DETOUR_GUARD_INNER | DETOUR_GUARD_CALL)
#define DETOUR_ELSE 256		 /* another choice for the event of the record before it */
#define DETOUR_SAFE 512		 /* not in the form "first" */
#define DETOUR_RETURN_PARTS 1024 /* what is returned are parts of registers: return_at[] */
/*
 * One event, at the return. Its fields, types[1], are those of the entry, types[0], then the
 * return's, then the ns since the entry, as WM_TYPE_U64. The entry's strings are kept from then, up
 * to DETOUR_KEPT_TEXTS of them, cut at DETOUR_KEPT_TEXT_BYTES.
 */
#define DETOUR_ONCE 2048
/*
 * Its one event is added up (abi/sum.h): that of DETOUR_ONCE, else that at the point. The record
 * has struct sum_field behind its predicates.
 */
#define DETOUR_SUMS 4096
#define DETOUR_ENTRY 8192 /* the point is a function's entry: the return address is on top */
/*
 * Of DETOUR_ONCE, with a handler: it is called at the entry, and may take the function's place. The
 * event is only of the calls that it has replaced. The instructions
 * before the point change no register but the stack pointer.
 */
#define DETOUR_REPLACE 16384
#define DETOUR_VOID 32768 /* likewise, of a function without a result: its caller's %rax is kept */
#define DETOUR_KEPT_TEXTS 4
#define DETOUR_KEPT_TEXT_BYTES 255
#define DETOUR_RETURN_ERRNO 32
#define DETOUR_RETURN_BYTES 56

/*
 * One detour of a CONTROL_PLACE message, padded to 8 bytes. Behind it, without gaps: the code,
 * padded to 8 bytes; the fixups; the texts (abi/site.h, with kind 'm', or 'b' and 'e' where the
 * return is wanted, and way 'd'), NUL-terminated: the event's, then the return's; padded to 8.
 */
struct control_detour {
	uint32_t bytes; /* of all, this struct included */
	uint16_t code_bytes, fixup_count;
	/* offset in the code, behind the event: DETOUR_LINK; 0: the only event here */
	uint16_t link_at;
	uint16_t moved_at; /* behind that: the moved instruction */
	/* from the stack pointer at the jump up to where it is at the point */
	uint16_t stack_bytes;
	uint8_t insn_bytes; /* filler included that nothing ever runs */
	uint8_t kept_bytes; /* behind the instruction, that stay and may end the distance */
	uint32_t flags;
	uint32_t guard_bytes; /* of a guarded function, from the point on */
	uint64_t address;     /* of the instruction that the jump replaces */
	uint64_t point;	      /* the probed address itself, there or before it */
	uint64_t semaphore;   /* 16 bits, counted up while armed; 0: none */
	uint8_t original[20]; /* insn_bytes and kept_bytes, the bytes expected there */
	uint8_t callers;      /* of a callchain, at most; 0: the events have none */
	uint8_t up_words;     /* from the payload up to the stack pointer at the jump */
	uint8_t reserved2[2];
	/*
	 * of the event, of the return; WM_TYPE_*. Strings are read with care. A callchain is the
	 * last, and in no payload
	 */
	uint8_t types[2][16];
	/*
	 * where each of the return's fields begins in %rax, %rdx, %xmm0, %xmm1, of 8 bytes each;
	 * from DETOUR_RETURN_ERRNO on is errno if %eax is -1, if %rax is -1, if %rax is 0; else 0
	 */
	uint8_t return_at[16];
	uint8_t starts;	    /* bit i: an instruction begins at the kept byte i */
	uint8_t predicates; /* how many struct predicate follow the texts */
	uint8_t sums;	    /* and struct sum_field */
	uint8_t handler;    /* the session's, of its one event (abi/handler.h); 0: none */
	uint8_t reserved[4];
};

/*
 * In one module. Nothing is placed, and nothing refused, if that has been unloaded meanwhile: the
 * session is notified of the one that is there now.
 */
struct control_place {
	uint32_t count;
	uint32_t reserved;
	uint64_t base;	  /* 0: of no module that can be unloaded */
	uint64_t came_ns; /* as in its MODULE; 0: it came before the session's first COMMIT */
};

_Static_assert(DETOUR_INSN_MAX + DETOUR_KEPT_MAX <= 20, "original[] has all of them");
_Static_assert(sizeof(struct detour_head) == 32, "a multiple of DETOUR_ALIGN");
_Static_assert(sizeof(struct detour_fixup) == 16, "fixed");
_Static_assert(sizeof(struct control_detour) == 128, "fixed");

#endif
