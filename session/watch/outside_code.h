/* SPDX-License-Identifier: MIT */
/*
 * A program's code, for who is told by a perf ring that an instruction has run: read from the process while it lives, else
 * from its files; and where the instruction begins that ended at an address, by functions' starts from .eh_frame or the symbols.
 *
 * What is read is kept for one round of hits: a program that changes its code is read anew in the next.
 */
#ifndef SESSION_WATCH_OUTSIDE_CODE_H
#define SESSION_WATCH_OUTSIDE_CODE_H

#include "process/loaded.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct outside_code;

/* `pid` is to be mapped as it is by now. 0, -ENOMEM, -ESRCH, -errno. */
int outside_code_new(struct outside_code **code, pid_t pid);
void outside_code_free(struct outside_code *code); /* NULL is allowed */

/* The modules by now; they stay valid until the next round. */
const struct loaded_list *outside_code_modules(const struct outside_code *code);

/* Whether the program's memory is gone: it has ended, or executed another. */
int outside_code_is_gone(const struct outside_code *code);

/* A new round of hits begins. */
void outside_code_round(struct outside_code *code);

/* Whether an address is in some module's code. */
int outside_code_is(struct outside_code *code, uint64_t address);

/* As told_reads has them (arch/told.h); `data` is the code. */
const uint8_t *outside_code_at(void *data, uint64_t address, size_t bytes, int has_run,
			       uint8_t *room);
unsigned int outside_code_before(void *data, uint64_t end, int *is_start);

#endif
