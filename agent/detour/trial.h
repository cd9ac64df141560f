/* SPDX-License-Identifier: MIT */
/*
 * Ground for tests of detours: the agent without its control thread, one session, events and refusals
 * caught, functions made to be diverted, and their trampolines composed by hand.
 */
#ifndef AGENT_DETOUR_TRIAL_H
#define AGENT_DETOUR_TRIAL_H

#include "agent/detour/detour.h"

#define TRIAL_LANE 0u
#define TRIAL_OTHER_LANE 1u
#define TRIAL_TOLD_MAX 4096

struct trial_told {
	uint32_t events, refusals;
	struct {
		uint32_t id;
		char text[96];
		uint8_t types[16];
	} event[TRIAL_TOLD_MAX];
	struct {
		int error;
		uintptr_t address;
	} refusal[TRIAL_TOLD_MAX];
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

/* What to compose. Spans hold position-free instructions only. */
struct trial_wish {
	void (*function)(void);
	unsigned int span;    /* bytes */
	const uint8_t *steps; /* lengths of its instructions */
	unsigned int step_count;
	unsigned int
		argument; /* 1: %rdi is recorded; 2: %rdi and %rsi; 3: %rdi as a string; 0: nothing */
	uint8_t flags;	  /* DETOUR_* */
	int8_t relay;	  /* as in struct control_detour */
	uint8_t pun;	  /* likewise */
	uint8_t point;	  /* offset of the event in the span */
	uint8_t others[DETOUR_CHAIN_MAX]; /* likewise of other points, in order */
	uint8_t other_count;
	uint16_t *semaphore;
	const char *name;
};

void trial_compose(union trial_record *record, const struct trial_wish *wish);

/* detour_place() on it. */
int trial_place(union trial_record *record);

/* Compose, place, commit; fails the test if it is refused. */
void trial_arm_detour(const struct trial_wish *wish);
/* The same with its return, as DETOUR_RETURN says. */
void trial_arm_return(const struct trial_wish *wish);

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

/* ---- functions to divert: trial_target.c; each with a wish for its argument, where it has one ---- */

/* Returns its argument + 1. The span: mov %rdi, %rax; add $1, %rax. */
long trial_victim(long value);
extern const struct trial_wish trial_victim_wish;

/* fn(value) + value; the frame has unwinding information. The span: push %rbx; mov %rdi, %rbx; xor %eax, %eax. */
long trial_calls(long value, long (*fn)(long));
extern const struct trial_wish trial_calls_wish;

/* Jumps to trial_victim with its argument + 1. The span: mov %rdi, %rax; lea 1(%rdi), %rdi. */
long trial_tail(long value);
extern const struct trial_wish trial_tail_wish;

/* Reads `bytes` bytes one by one; returns past them. The span: mov %rdi, %rcx; rep lodsb. */
const char *trial_long(long bytes, const char *at);
extern const struct trial_wish trial_long_wish;

/* Its argument + 1, with room for a short jump alone, and filler TRIAL_SHORT_RELAY + 2 behind its start. */
long trial_short(long value);
#define TRIAL_SHORT_RELAY 8
extern const struct trial_wish trial_short_wish;

/*
 * Its argument + 1. The span of the first is a nop alone, of the second mov %rdi, %rax; behind either there
 * is something that is jumped to, so that a jump must be punned. Where that leads: TRIAL_TIGHT_FAR behind it.
 */
long trial_tight(long value);
long trial_tight_behind(long value); /* trial_tight's second instruction */
long trial_narrow(long value);
#define TRIAL_NARROW_SPAN 3
extern const struct trial_wish trial_tight_wish, trial_behind_wish, trial_narrow_wish;
#define TRIAL_TIGHT_FAR ((int32_t)0xc0478d48)

/* Twice its argument. The span: addsd %xmm0, %xmm0; nop. */
double trial_float(double value);
extern const struct trial_wish trial_float_wish;

/* ---- threads ---- */

/* A flag that one thread sets once. trial_await(): fail the test if that does not happen. */
void trial_tell(int *flag);
void trial_await(int *flag);
/* For threads that the test works on: block until the test sets the flag, however long that takes. */
void trial_stay(int *flag);

/*
 * The test's own runner has a thread that blocks all signals, as our keeper does: it is taken for that. Once
 * in a test's process.
 */
void trial_take_runner_for_keeper(void);

/* ---- threads that run through a function all the while: trial_runners.c ---- */

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
