/* SPDX-License-Identifier: MIT */
/*
 * Where a process's program is while it runs as translations of the engine's, which the engine
 * describes in the process's memory (abi/engine_code.h). That is read when an address is asked for,
 * and the answer kept: of a process that has ended only addresses are known that were met before.
 */
#ifndef RECORD_KERNEL_TASK_ENGINE_H
#define RECORD_KERNEL_TASK_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Zeroed: nothing is known. */
struct task_engine {
	struct task_engine_area *areas;
	size_t count, room;
	struct task_engine_known *known; /* addresses, by hash; NULL: none */
	uint64_t looked_ns;
};

/*
 * The place in the program of a thread that was at `address` at that time; 0: it is not known.
 */
uint64_t task_engine_place(struct task_engine *engine, pid_t pid, uint64_t address,
			   uint64_t time_ns);

void task_engine_release(struct task_engine *engine);

#endif
