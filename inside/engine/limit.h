/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_AS and RLIMIT_DATA as the program asks for them: what we have mapped does not count. The
 * kernel has them higher by that; the hard ones by more than we will ever map, for who has no
 * privilege can't raise them again.
 */
#ifndef INSIDE_ENGINE_LIMIT_H
#define INSIDE_ENGINE_LIMIT_H

#include "inside/engine/engine_thread.h"

/* setrlimit, getrlimit, prlimit64 of the program's; `plain` makes it as it is. */
long limit_call(struct thread *thread, long (*plain)(const struct thread *));

/* What memory_mapped() says has changed. */
void limit_follow(void);

/* The calling process continues without the engine. */
void limit_restore(void);

/* As in leave.h. */
void limit_copy_begin(void);
void limit_copy_end(void);

/*
 * Another program is executed: it begins with the soft limits as they are asked for; or, is_over,
 * it was not.
 */
void limit_exec(int is_over);

#endif
