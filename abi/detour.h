/* SPDX-License-Identifier: MIT */
/*
 * Detours: places in code that nobody prepared, made to jump to a trampoline of ours. The outside
 * reads the program's files, decides where a jump can stand and composes the trampoline; the inside
 * finds memory for it within reach, checks the bytes, stops the threads for a moment and stores the jump.
 *
 * A detour replaces a span: whole instructions, 5 bytes or more together, into whose middle nothing
 * jumps. Its trampoline holds moved copies of them, and at the probed point, before, between or
 * behind them, the way into the agent:
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
 * Where 5 bytes are not to be had, a relay may help: the span has 2 to 4, and gets a short jump to 5
 * bytes of filler near by, which nothing ever runs; there the long jump stands. Of the span only the
 * short jump's 2 bytes are written. Two detours can't share the filler.
 *
 * Where there is no such filler either, the jump is punned: the span has 1 to 4 bytes, and the last bytes
 * of the jump's distance are those that follow the span, which stay as they are and are run as before by
 * all who jump there. So the jump leads to an address that can't be chosen, or only its low bytes: with a
 * span of n bytes, n - 1 of the jump's first bytes are free, for prefixes that do nothing or for the
 * distance. The agent maps a page there, if it is free, with a jump to the trampoline. As long as such a
 * detour stands nobody may change what follows its span: no other detour, and no marker.
 *
 * Several events may be wanted at one point: two probes there, two names of one function, two sessions that
 * ask for different fields. Each is a detour of its own, with a trampoline of its own; all of one span and
 * one point are a chain. The jump leads to the first one's, whose event is followed by 5 bytes that do
 * nothing: its link. It becomes a jump to the next one's event when that is armed, and so on; the last that
 * is linked goes on to its moved instructions.
 *
 * Points that are too near to each other for a jump each have a common span: their detours have the same span,
 * and each knows all the points (struct detour_link). They are one chain, too. In a trampoline the moved
 * instructions have a link at every point but its own, whose link is behind its event. A link that stands leads to
 * the first event at that point, or at the trampoline's own point to the next one there. So whoever comes in by
 * the first trampoline passes every event in the order of the points, changing over to the trampoline of each,
 * and runs each moved instruction once, in some trampoline or other.
 *
 * Where a chain that is wanted stands in the way of a detour, but was made for its point, too, the detour's event
 * is a guest in it: its link leads to what follows its point in the first trampoline, and what it has moved itself
 * is never run. When nobody wants that chain any more it has a jump of its own, as another detour.
 *
 * Watches (abi/watch.h) need guards: detours that lead from libc's pthread_sigmask() and sigaction(), and where it can be had
 * prctl() and syscall(), to the agent's own. Their code is a jump to FIXUP_ENTER, then the moved instructions; they are
 * no events, and their texts are never reported.
 *
 * Messages (abi/control.h): any number of CONTROL_PLACE, each with as many detours as fit, prepare;
 * nothing is changed yet but memory of the agent's own. CONTROL_COMMIT arms all that this session has
 * prepared in one batch, with the threads stopped once. An event's id is told by CONTROL_EVENT, as a
 * marker's; what can't be placed by CONTROL_REFUSED with the place's address, and the others go on.
 * The same place asked for again with the same code, also by another session, or in the child of a
 * fork, which inherits code and trampolines (and may have all at once, CONTROL_ADOPT), is one detour
 * with one more consumer. QUIET and LEAVE let go of a session's detours, as do hanging up and death of
 * the tool.
 *
 * Trampolines are never freed, for no one can prove that no thread will come back to one: a detour that
 * comes again at the same place takes up its old one. There are DETOUR_MEMORY_MAX_BYTES at most.
 */
#ifndef ABI_DETOUR_H
#define ABI_DETOUR_H

#include <stdint.h>

#define DETOUR_GO_BYTES 10
#define DETOUR_SPAN_MAX 48
#define DETOUR_CODE_MAX 2048
#define DETOUR_FIXUPS_MAX 64
#define DETOUR_MOVES_MAX 16
#define DETOUR_LINK                                                                                \
	{                                                                                          \
		0x0f, 0x1f, 0x44, 0x00, 0x00                                                       \
	}		    /* nopl 0(%rax,%rax), one instruction */
#define DETOUR_CHAIN_MAX 16 /* events in one */
#define DETOUR_PUN_MAX 4    /* bytes of a distance */
#define DETOUR_MEMORY_MAX_BYTES (64u << 20)

enum detour_tier {
	TIER_FILLER = 1,  /* no-operations that the compiler put there for this */
	TIER_ONE = 2,	  /* one instruction of 5 bytes or more */
	TIER_SEVERAL = 3, /* several, moved */
	TIER_PUNNED = 4, /* a jump that ends in the bytes that follow: it may be refused in a process */
	TIER_REFUSED = 5,
};

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

/* For a thread that stands in the span when it is replaced: it goes on at the moved copy. */
struct detour_move {
	uint16_t from; /* offset in the span */
	uint16_t to;   /* offset in the code */
};

/* Where the moved copy has room for a jump to the events of another point. */
struct detour_link {
	uint16_t point; /* offset in the span */
	uint16_t at;	/* offset in the code, of DETOUR_LINK */
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

/*
 * One detour of a CONTROL_PLACE message, padded to 8 bytes. Behind it, without gaps: the code, padded to
 * 8 bytes; the fixups; the moves, padded to 8 bytes; the links, in order of their points, padded to 8
 * bytes; the texts (abi/site.h, with kind 'm', or 'b' and 'e' where the return is wanted, and way 'd'),
 * NUL-terminated: the event's, then the return's; padded to 8.
 */
struct control_detour {
	uint32_t bytes; /* of all, this struct included */
	uint16_t code_bytes, fixup_count, move_count;
	uint8_t span_bytes;
	uint8_t tier;
	uint8_t flags;
	int8_t relay; /* 0: none; else the filler begins at address + 2 + relay */
	uint8_t pun; /* 0: none; else how many bytes behind the span stay and may end the distance */
	uint8_t link_count; /* of the other points of a common span; 0: it is this one's alone */
	uint64_t address;   /* of the span, where the jump will stand */
	uint64_t point;	    /* the probed address itself; in or at the end of the span */
	uint64_t semaphore; /* 16 bits, counted up while armed; 0: none */
	uint8_t original
		[DETOUR_SPAN_MAX]; /* span_bytes of them, what must stand there; then the filler's 5, or `pun` */
	uint8_t types[2][16]; /* of the event, of the return; WM_TYPE_*. Strings are read with care */
	uint16_t event_at;    /* offset in the code: where the event begins */
	uint16_t link_at; /* behind it: DETOUR_LINK; 0: there is none, and no other event can be here */
	uint32_t guard_bytes; /* of a guarded function, from the point on */
};

/* The links of a whole record. */
static inline const struct detour_link *detour_links(const struct control_detour *detour)
{
	uintptr_t at = (uintptr_t)(detour + 1);

	at += (detour->code_bytes + 7u) & ~7u;
	at += detour->fixup_count * sizeof(struct detour_fixup);
	at += (detour->move_count * sizeof(struct detour_move) + 7u) & ~(uintptr_t)7;
	return (const struct detour_link *)at;
}

/* Whether an offset in its span is one of the points that it knows. */
static inline int detour_has_point(const struct control_detour *detour, uint64_t offset)
{
	const struct detour_link *links = detour_links(detour);
	unsigned int i = 0;

	if (detour->point - detour->address == offset)
		return 1;
	while (i < detour->link_count && links[i].point != offset)
		i++;
	return i < detour->link_count;
}

/* Whether both know the same points of the same span, as a chain's do. */
static inline int detour_same_points(const struct control_detour *a, const struct control_detour *b)
{
	const struct detour_link *links = detour_links(a);
	unsigned int i = 0;

	if (a->link_count != b->link_count || !detour_has_point(b, a->point - a->address))
		return 0;
	while (i < a->link_count && detour_has_point(b, links[i].point))
		i++;
	return i == a->link_count;
}

struct control_place {
	uint32_t count;
	uint32_t reserved;
};

_Static_assert(sizeof(struct detour_fixup) == 16, "fixed");
_Static_assert(sizeof(struct detour_move) == 4, "fixed");
_Static_assert(sizeof(struct detour_link) == 4, "fixed");
_Static_assert(sizeof(struct control_detour) == 128, "fixed");

#endif
