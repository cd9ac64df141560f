/* SPDX-License-Identifier: MIT */
/*
 * The functions at sampled addresses of processes that run: by /proc/PID/maps, read when a process
 * is first seen and again when an address is in no module of it; of the kernel by /proc/kallsyms.
 */
#ifndef CLI_TOP_SYMBOLS_H
#define CLI_TOP_SYMBOLS_H

#include "cli/top_count.h"

#include <stdint.h>
#include <sys/types.h>

struct top_symbols;

int top_symbols_open(struct top_symbols **symbols);  /* 0 or -ENOMEM */
void top_symbols_close(struct top_symbols *symbols); /* NULL is allowed */

/* A process is there, and may soon not be: keep its map. */
void top_symbols_see(struct top_symbols *symbols, pid_t pid);

/* The name of the function there, as long as the symbols know the process; "?": not known. */
const char *top_symbols_name(struct top_symbols *symbols, pid_t pid, uint64_t ip);

struct top_function {
	const char *name;   /* "?": not known */
	const char *module; /* the last part of its path; "?": none */
	uint64_t samples;
};

/*
 * The functions of an interval's samples, the most frequent first, each once for all processes.
 * Returns how many, or -ENOMEM; *functions and its texts are the symbols' until the next call.
 */
int top_symbols_functions(struct top_symbols *symbols, const struct top_count *count,
			  const struct top_function **functions);

#endif
