/* SPDX-License-Identifier: MIT */
/* Events of threads made by hand, for tests of their states: of one process, with one waker. */
#ifndef READ_STATES_TESTING_STATES_H
#define READ_STATES_TESTING_STATES_H

#include "read/states/thread_states.h"

#include <stdint.h>

#define STATES_PID 10
#define STATES_WAKER 99
#define STATES_WAITS_AT 0x1000
#define STATES_PREEMPTED_AT 0x2000

/* The test's; begun and released by these. */
extern struct thread_states states;

void states_begin(uint64_t ns);
void states_put(const struct thread_event *event);
void states_arrive(uint32_t tid, int32_t cpu, uint64_t ns);
/* It departs in the state of that letter. */
void states_wait(char letter, uint32_t tid, int32_t cpu, uint64_t ns);
void states_preempt(uint32_t tid, int32_t cpu, uint64_t ns);
void states_wake(uint32_t tid, int32_t cpu, uint64_t ns);
void states_delay(uint32_t tid, uint64_t ns, uint64_t delay_ns);
void states_fork(uint32_t tid, uint64_t ns);
void states_leave(uint32_t tid, int32_t cpu, uint64_t ns);
void states_name(uint32_t tid, int32_t cpu, uint64_t ns);
/* Events of a CPU are lost. */
void states_lose(int32_t cpu, uint64_t from_ns, uint64_t to_ns, uint64_t events);
/* The thread itself records something. */
void states_mark(uint32_t tid, uint64_t ns);
/* The latest thread of that number. */
const struct thread_record *states_thread(uint32_t tid);
void states_expect(uint32_t tid, uint64_t running, uint64_t runnable, uint64_t asleep,
		   uint64_t waiting, uint64_t unknown);
/* Nothing is missing, nothing was lost. */
void states_expect_whole(uint32_t tid);
void states_end(void);

#endif
