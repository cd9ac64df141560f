/* SPDX-License-Identifier: MIT */
/*
 * What to do at a watch's hits, and at which: the options of its spec (record/spec/kinds.c). A
 * test's number is written as C does: 5, -1, 0x1f, 1.5, 'a', true, NULL, or an enumerator of the
 * value's type. If there are several tests, all must hold.
 */
#ifndef TARGET_EXPRESSION_OPTION_H
#define TARGET_EXPRESSION_OPTION_H

#include "target/expression/trouble.h"

#include <stdint.h>
#include <sys/types.h>

#define WATCH_TESTS_MAX 4
#define WATCH_FRAMES_DEFAULT 10
#define WATCH_FRAMES_MAX 10
#define WATCH_THREAD_MAIN ((pid_t)-1)

enum watch_subject { WATCH_IF_CHANGED, WATCH_IF_VALUE, WATCH_IF_OLD, WATCH_IF_TID };

enum watch_relation {
	WATCH_IS, /* == */
	WATCH_IS_NOT,
	WATCH_BELOW,
	WATCH_AT_MOST,
	WATCH_ABOVE,
	WATCH_AT_LEAST,
	WATCH_HAS_BITS, /* & */
};

/* A test as written: what its number is depends on the variable's type. */
struct watch_test {
	enum watch_subject subject;
	enum watch_relation relation; /* not of WATCH_IF_CHANGED */
	char number[64];	      /* "" of WATCH_IF_CHANGED */
	size_t at, bytes;	      /* in the spec's text */
};

struct watch_options {
	struct watch_test tests[WATCH_TESTS_MAX];
	unsigned int test_count;
	unsigned int frames; /* of the backtrace; 0: none */
	int counts;	     /* `count` */
	int signal;	     /* 0: none */
	int trail;
	int is_outside;
	int has_kernel; /* is_outside then, too */
	int follows;	/* `follow`, which is refused where the pointers are known */
	pid_t thread;	/* 0: none named; WATCH_THREAD_MAIN */
};

/* How a test compares. */
enum watch_number {
	WATCH_NUMBER_SIGNED,
	WATCH_NUMBER_UNSIGNED,
	WATCH_NUMBER_F32,
	WATCH_NUMBER_F64
};

/*
 * A test ready to be made: of the value's `bytes` low bytes (or of its bits,
 * expression_type_bits()), as such a number.
 */
struct watch_bound_test {
	enum watch_subject subject;
	enum watch_relation relation;
	enum watch_number number;
	uint64_t bits; /* of the number: a double's for F64, a float's for F32; a tid's */
};

struct watch_type;

/*
 * Bind a test to the type of what is watched. 0; -WM_E_WATCH_OPTION where the number is invalid or
 * does not fit the type, or the value is no number that could be compared (a structure: only
 * `changed` is for that).
 */
int expression_test_bind(const struct watch_test *test, const struct watch_type *type,
			 struct watch_bound_test *bound, struct watch_trouble *trouble);

/*
 * Whether it holds, of a value and the one before, each expression_type_bits() of what was read, or
 * both of `bytes` bytes of memory for WATCH_IF_CHANGED. The agent makes its own of the bound test;
 * this one is for values that are seen from outside, and says what it should come to.
 */
int expression_test_holds(const struct watch_bound_test *test, uint64_t value, uint64_t old,
			  int changed, pid_t tid);

#endif
