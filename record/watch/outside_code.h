/* SPDX-License-Identifier: MIT */
/*
 * Read a program's code for a hit that a perf ring reports after the instruction has run: from the
 * process while it lives, else from its files. Also find where the instruction begins that ended at
 * an address, from the function starts in .eh_frame or in the symbols.
 *
 * Code that was read is kept for one round of hits. If a program changes its code, the next round
 * reads the change.
 */
#ifndef RECORD_WATCH_OUTSIDE_CODE_H
#define RECORD_WATCH_OUTSIDE_CODE_H

#include "target/process/loaded.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct outside_code;

/* Take the modules that `pid` has mapped now. 0, -ENOMEM, -ESRCH, -errno. */
int outside_code_new(struct outside_code **code, pid_t pid);
void outside_code_free(struct outside_code *code); /* NULL is allowed */

/* The modules of this round; they stay valid until the next one. */
const struct loaded_list *outside_code_modules(const struct outside_code *code);

/* Whether the program's memory is gone: it has ended, or executed another program. */
int outside_code_is_gone(const struct outside_code *code);

/* A new round of hits begins. */
void outside_code_round(struct outside_code *code);

/* Whether an address is in some module's code. */
int outside_code_is(struct outside_code *code, uint64_t address);

/*
 * For the members `code` and `before` of struct access_decode_reads (arch/access_decode.h); `data`
 * is the code.
 */
const uint8_t *outside_code_at(void *data, uint64_t address, size_t bytes, int has_run,
			       uint8_t *room);
unsigned int outside_code_before(void *data, uint64_t end, int *is_start);

#endif
