/* SPDX-License-Identifier: MIT */
/*
 * What the janitor process itself runs. Compiled like the hit path: no libc, no vector register,
 * for libc's own code may be what changes.
 */
#ifndef INSIDE_DETOUR_JANITOR_PROCESS_H
#define INSIDE_DETOUR_JANITOR_PROCESS_H

#include "arch/halt.h"
#include "base/halt_threads.h"
#include "inside/detour/janitor.h"
#include "inside/detour/return.h"

#define STOP_STACK_WORDS 4096u
#define STOP_GROUP 64u

struct stop_job {
	/* given */
	int32_t keeper;	   /* the agent's other thread */
	int32_t memory_fd; /* /proc/self/mem; -1: write by mprotect(2) */
	int arm;
	int sweep;	  /* free return units that were left */
	int looks;	  /* for signals of hits that are still to come */
	int masks;	  /* 0, STOP_MASKS_*: what is done about SIGTRAP in them */
	int32_t filters;  /* seccomp's, that we are under ourselves */
	intptr_t book_at; /* from a thread's pointer to its struct trap_thread */
	uintptr_t main_stack_end;
	struct janitor_site *sites;
	size_t count;
	struct halt_threads halt; /* `tid` is the control thread's */
	/* between them */
	uint32_t go; /* futex: 1 go, 2 give up */
	/* out */
	int32_t result; /* STOP_RUNNING until it is over */
	uint64_t stopped_ns, done_ns;
	/* the janitor's own */
	int has_guards;	 /* to be stored */
	int has_pending; /* a thread is about to be given a SIGTRAP, or has one in hand */
	int32_t self;
	struct return_near near;
	uint64_t words[STOP_STACK_WORDS];
	uint8_t bytes[STOP_GROUP][DETOUR_INSN_MAX + DETOUR_KEPT_MAX];
};

#define STOP_RUNNING 1

#define STOP_MASKS_TAKE 1
#define STOP_MASKS_GIVE 2

/* The whole of it; its argument is a struct stop_job. */
void janitor_stop_main(void *job);

/* See where the threads are; guards that someone is in the function of get -WM_E_DETOUR_BUSY. */
void janitor_spans_clear(struct stop_job *job);

/* Compare and store. */
void janitor_spans_store(struct stop_job *job);

#endif
