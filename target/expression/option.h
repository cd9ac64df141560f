/* SPDX-License-Identifier: MIT */
/*
 * What to do at a watch's hits, and at which: the options of its spec (record/spec/kinds.c). A
 * test's number is written as C does: 5, -1, 0x1f, 1.5, 'a', true, NULL, or an enumerator of the
 * value's type. If there are several tests, all must hold.
 */
#ifndef TARGET_EXPRESSION_OPTION_H
#define TARGET_EXPRESSION_OPTION_H

#include "abi/watch.h"
#include "target/expression/trouble.h"

#include <stdint.h>
#include <sys/types.h>

#define WATCH_FRAMES_DEFAULT 10
#define WATCH_FRAMES_MAX 10
#define WATCH_THREAD_MAIN ((pid_t)-1)

/* A test as written: what its number is depends on the variable's type. */
struct watch_test {
	enum watch_of subject;
	enum watch_by relation; /* not of WATCH_OF_CHANGE */
	char number[64];	/* "" of WATCH_OF_CHANGE */
	size_t at, bytes;	/* in the spec's text */
};

struct watch_options {
	struct watch_test tests[WATCH_CONDITIONS_MAX];
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

struct watch_type;

/*
 * Bind a test to the type of the watched place, without its bits: the caller knows how the value is
 * read. 0; -WM_E_WATCH_OPTION where the number is invalid or
 * does not fit the type, or the value is no number that could be compared (a structure: only
 * `changed` is for that).
 */
int expression_test_bind(const struct watch_test *test, const struct watch_type *type,
			 struct watch_condition *bound, struct watch_trouble *trouble);

/* A literal of C that is no number: 'a', '\n', true, false, NULL. Returns 1 when it is one. */
int expression_literal_read(const char *text, int64_t *value);

#endif
