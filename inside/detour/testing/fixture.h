/* SPDX-License-Identifier: MIT */
/*
 * Ground for tests of detours: the agent without its control thread, one session, events and
 * refusals caught, functions made to be diverted, and their trampolines composed by hand.
 */
#ifndef INSIDE_DETOUR_TESTING_FIXTURE_H
#define INSIDE_DETOUR_TESTING_FIXTURE_H

#include "inside/detour/detour.h"

#define TRIAL_LANE 0u
#define TRIAL_OTHER_LANE 1u
#define TRIAL_TOLD_MAX 4096

struct trial_told {
	uint32_t events, refusals, holds;
	struct {
		uint32_t id;
		char text[96];
		uint8_t types[16];
	} event[TRIAL_TOLD_MAX];
	struct {
		int error;
		uintptr_t address;
	} refusal[TRIAL_TOLD_MAX];
	struct {
		unsigned int lane;
		uint32_t id;
		uint64_t begin_ns, end_ns;
	} hold[TRIAL_TOLD_MAX];
};

extern struct trial_told trial_told;
extern struct text trial_text;

/* Once in a test's process. */
void trial_begin(void);

/* ---- records ---- */

#define TRIAL_RECORD_BYTES 4096

union trial_record {
	struct control_detour head;
	uint64_t words[TRIAL_RECORD_BYTES / 8];
};

/*
 * What to compose, for an event at a function's entry. All moved instructions must be
 * position-independent.
 */
struct trial_wish {
	void (*function)(void);
	uint8_t skipped;      /* bytes of nops before the pushes */
	uint8_t pushes;	      /* push instructions before the instruction */
	uint8_t pushed_bytes; /* of their code */
	uint8_t insn_bytes;   /* of the instruction that the jump replaces */
	uint8_t starts;	      /* as in struct control_detour */
	unsigned int
		/* 1: %rdi is recorded; 2: %rdi and %rsi; 3: %rdi as a string; 0: nothing */
		argument;
	uint32_t flags; /* DETOUR_* */
	/* with DETOUR_ONCE: of the one event */
	uint8_t callers;
	const struct predicate *predicate;
	uint16_t *semaphore;
	const char *name;
};

void trial_compose(union trial_record *record, const struct trial_wish *wish);

/* The address of the jump. */
uint8_t *trial_jump(const struct trial_wish *wish);

/* detour_place() of one record, or of several choices for one event. */
int trial_place(const union trial_record *record);
int trial_place_choices(const union trial_record *records, unsigned int count);
/* Compose and place. */
int trial_try(const struct trial_wish *wish);

/*
 * Map memory wherever the jump may lead in this form, so that it is refused. Call it before
 * anything is placed.
 */
void trial_deny(const struct trial_wish *wish, enum detour_form form);

/* Compose, place, commit; fails the test if it is refused. */
void trial_arm_detour(const struct trial_wish *wish);
/* The same with its return, as DETOUR_RETURN says. */
void trial_arm_return(const struct trial_wish *wish);

/* Store a byte of code, as another tool does. */
void trial_write(uint8_t *at, unsigned int byte);

/* COMMIT; returns its error. */
int trial_commit(struct detour_result *result);

/* As QUIET does. Returns how many stay. */
uint32_t trial_let_go(void);

/* ---- another session, in TRIAL_OTHER_LANE ---- */

void trial_other_begin(void);
/* Returns why it is refused when it is placed; 0. */
int trial_other_try(const struct trial_wish *wish);
/* As trial_arm_detour(), trial_let_go(). */
void trial_other_arm(const struct trial_wish *wish);
uint32_t trial_other_let_go(void);
/* All its events, whichever their id; the last one's first field. */
uint64_t trial_other_events(void);
extern uint64_t trial_other_last;

/*
 * ---- functions to divert: target_program.c; each with a wish for its argument, where it has one
 * ----
 */

/*
 * Its argument + 1. The instruction: mov %rdi, %rax. Has the form "byte", and "first" if that is
 * denied.
 */
long trial_victim(long value);
extern const struct trial_wish trial_victim_wish;

/*
 * Its argument + 1. The instruction: mov $1, %eax. Has the form "first": in the form "byte" the
 * jump would lead into this function.
 */
long trial_first(long value);
extern const struct trial_wish trial_first_wish;

/*
 * Its argument + 1. The instruction: movabs $0, %rax. Has the form "behind", for the same reason.
 */
long trial_behind(long value);
extern const struct trial_wish trial_behind_wish;

/* Its argument + 1. The instruction: mov %rsp, %rbp, behind nop and push %rbp. */
long trial_pushes(long value);
extern const struct trial_wish trial_pushes_wish;

/* fn(value) + value; the frame has unwinding information. The instruction: push %rbx. */
long trial_calls(long value, long (*fn)(long));
extern const struct trial_wish trial_calls_wish;

/* For trial_calls(): the value, in a child of fork too, for whose end the parent waits. */
long trial_forks(long value);

/* Jumps to trial_victim with its argument + 1. The instruction: mov %rdi, %rax. */
long trial_tail(long value);
extern const struct trial_wish trial_tail_wish;

/* Reads `bytes` bytes one by one; returns past them. The instruction: rep lodsb. */
const char *trial_long(long unused, const char *at, long unused_too, long bytes);
extern const struct trial_wish trial_long_wish;

/* Twice its argument. The instruction: addsd %xmm0, %xmm0. */
double trial_float(double value);
extern const struct trial_wish trial_float_wish;

/* ---- threads ---- */

/* A flag that one thread sets once. trial_await(): fail the test if that does not happen. */
void trial_tell(int *flag);
void trial_await(int *flag);
/*
 * For threads that the test works on: block until the test sets the flag, however long that takes.
 */
void trial_stay(int *flag);

/*
 * The test's own runner has a thread that blocks all signals, as our keeper does: it is taken for
 * that. Once in a test's process.
 */
void trial_take_runner_for_keeper(void);

/* ---- threads that run through a function all the while: runners.c ---- */

#define TRIAL_RUNNERS_MAX 8

/* So many begin to call a function that returns its argument + 1. Once in a test's process. */
void trial_runners_start(long (*function)(long), int count);
/* How often they have called it, to the last hundred of each. */
uint64_t trial_runners_calls(void);
/* They end; fails the test if a call returned anything else. */
void trial_runners_end(void);

/* ---- what was recorded ---- */

/* Events with that id in the session's pages. */
uint64_t trial_events(uint32_t id);
/* The last one's fields. */
extern uint64_t trial_last[3];

#endif
