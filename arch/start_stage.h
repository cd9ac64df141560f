/* SPDX-License-Identifier: MIT */
/*
 * The stage of a process's start, found in the words on its first thread's stack around the place
 * where the kernel had put its arguments. All C libraries' loaders and start files leave their
 * traces there; none removes them.
 */
#ifndef ARCH_START_STAGE_H
#define ARCH_START_STAGE_H

#include <stdint.h>

#define STARTUP_WORDS_BELOW 4 /* of the first stack pointer */
#define STARTUP_WORDS 36

enum startup {
	STARTUP_LOADING,      /* the dynamic loader maps and relocates */
	STARTUP_CONSTRUCTING, /* the libraries' constructors run */
	STARTUP_OVER,	      /* the program's own code has begun */
};

/*
 * `words` begin STARTUP_WORDS_BELOW below the first stack pointer. `entry` and `loader_entry`: the
 * first instructions of the program and the dynamic loader. LOADING is certain in a process whose
 * loader has begun. A program with a start of its own may seem to be CONSTRUCTING for ever.
 */
enum startup start_stage_find(const uint64_t words[STARTUP_WORDS], uint64_t entry,
			      uint64_t loader_entry);

#endif
