/* SPDX-License-Identifier: MIT */
/*
 * program.inc's words for C. Such a program is recorded from its call of begin() on, up to leave().
 */
#ifndef TESTS_TARGETS_TRAIL_PROGRAM_H
#define TESTS_TARGETS_TRAIL_PROGRAM_H

#include <unistd.h>

#define WORDS(section, text)                                                                       \
	__asm__(".pushsection " section ", \"\", @progbits\n.ascii \"" text " \"\n.popsection")
#define EXPECT(labels) WORDS(".expect", labels)
#define EXPECT_THREADS(labels) WORDS(".expect.threads", labels)
/* Its libraries go ways that are not the same each time, so it is not walked. */
#define ATTACHED WORDS(".oracle", "unwalked attached")

/* A place by its name: in a function that is compiled once. */
#define PASS(label) __asm__ volatile(".globl " #label "\n" #label ":" ::: "memory")
#define ONCE __attribute__((noinline))

/* The recorder comes while it waits here. */
static inline void begin(void)
{
	char byte;

	if (read(0, &byte, 1) != 1)
		_exit(99);
}

static inline void leave(int status) __attribute__((noreturn));
static inline void leave(int status)
{
	_exit(status);
}

#endif
