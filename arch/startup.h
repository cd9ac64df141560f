/* SPDX-License-Identifier: MIT */
/*
 * How far a process's start has come, told from what stands on its first thread's stack around the
 * place where the kernel had put its arguments. All C libraries' loaders and start files leave their
 * traces there; none takes them away.
 */
#ifndef ARCH_STARTUP_H
#define ARCH_STARTUP_H

#include <stdint.h>

#define STARTUP_WORDS_BELOW 4 /* of the first stack pointer */
#define STARTUP_WORDS 36

enum startup {
	STARTUP_LOADING,      /* the dynamic loader maps and relocates */
	STARTUP_CONSTRUCTING, /* the libraries' constructors run */
	STARTUP_OVER,	      /* the program's own code has begun */
};

/*
 * `words` begin STARTUP_WORDS_BELOW below the first stack pointer. `entry` and `loader_entry`: where
 * the program's and the dynamic loader's code begin. LOADING is told for sure of a process in which
 * the loader has begun; where a program has a start of its own, CONSTRUCTING may be said of it for ever.
 */
enum startup startup_phase(const uint64_t words[STARTUP_WORDS], uint64_t entry,
			   uint64_t loader_entry);

#endif
