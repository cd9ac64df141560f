/* SPDX-License-Identifier: MIT */
/* The program's action for each signal. The kernel has the engine's handlers instead. */
#ifndef INSIDE_ENGINE_ACTION_H
#define INSIDE_ENGINE_ACTION_H

#include <signal.h>
#include <stdint.h>

#define ACTION_SIGNALS 65
#define ACTION_SET_BYTES 8 /* of the kernel's sigset_t */

#define ACTION_RESTORER 0x04000000u

/* As rt_sigaction(2) has it. */
struct action {
	uint64_t handler, flags, restorer, mask;
};

#define ACTION_BIT(number) (UINT64_C(1) << ((number)-1))

/*
 * The engine's own signals: they are handled whatever the program asks, and never blocked for long.
 */
extern const uint64_t action_own;

/* The kernel's mask where the program's is this. */
static inline uint64_t action_mask(uint64_t blocked)
{
	return blocked & ~action_own;
}

/* The kernel's mask of the calling thread, from now on. */
void action_mask_set(uint64_t mask);

/* The program did it itself, at that instruction: it can't be blocked, nor ignored. */
int action_is_fault(const siginfo_t *info);

/*
 * A watch was hit (send_sig_perf() of the kernel): the program did it, at the instruction before;
 * but it is blocked as what is sent is, and says then that it is late. Of the engine, if that was
 * it.
 */
int action_is_hit(const siginfo_t *info);
int action_is_late_hit(const siginfo_t *info);
void action_hit_is_late(siginfo_t *info);
void action_hit_is_ours(siginfo_t *info);

/* What SIG_DFL does. */
enum action_default { ACTION_ENDS, ACTION_STOPS, ACTION_NOTHING };
enum action_default action_standard(int number);

/* Take over what the process has. 0 or -errno. `handler`: ours. */
int action_open(void (*handler)(int, void *, void *));

/* rt_sigaction(2) of the program's: 0 or -errno. */
long action_call(uint64_t number, uint64_t asked, uint64_t old, uint64_t set_bytes);

/* The kernel reaps children by itself. */
int action_reaps(void);

/* The action for a signal that is about to be handled; SA_RESETHAND is done with it. */
struct action action_take(int number);

/* Let the kernel do what it does by default, from now on. */
void action_default(int number);

/* Signals in `set`: to the kernel as the program asked. */
void action_restore(uint64_t set);

/* All that are not ignored: to the kernel's default. */
void action_clear(void);

/* As in leave.h. */
void action_copy_begin(void);
void action_copy_end(void);

/* All that are not ignored: the program asks for the default. */
void action_reset(void);

/* The process begins to leave: all but the engine's own go to the kernel as the program asks. */
void action_leave(void);

/*
 * Of the engine's own signals, those that the program ignores, as a new program inherits them; or
 * back.
 */
void action_exec(int is_over);

#endif
