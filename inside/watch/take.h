/* SPDX-License-Identifier: MIT */
/*
 * A watch's hit, in the signal's handler (abi/watch.h): which watch, what was written, whether that
 * is wanted, and the event. This code never waits, takes a lock or touches errno; it is compiled as
 * the hit path is, and reads memory that may be unmapped through the kernel.
 */
#ifndef INSIDE_WATCH_TAKE_H
#define INSIDE_WATCH_TAKE_H

#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define TAKE_TRAP_PERF 6      /* si_code (asm-generic/siginfo.h, Linux 5.13) */
#define TAKE_PERF_ASYNC 1u    /* TRAP_PERF_FLAG_ASYNC (5.18) */
#define TAKE_PERF_DATA_AT 24u /* in siginfo_t, for libc's headers may be older */
#define TAKE_PERF_FLAGS_AT 36u

/*
 * A SIGTRAP came, to a handler at stack pointer `sp`. Returns whether it was one of our watches',
 * live or past; then it is done. Else it is the program's. The caller may have changed to another
 * stack since (trap.c).
 */
int take_signal(const siginfo_t *info, ucontext_t *context, uintptr_t sp);

/* control_watch_table.kept_at */
void take_keep(void);

#endif
