/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_DETOUR_TESTING_RETURN_THROW_H
#define INSIDE_DETOUR_TESTING_RETURN_THROW_H

#ifdef __cplusplus
extern "C" {
#endif

/* Throws `value`. */
void return_throw(long value);

/* trial_calls(value, fn); what was thrown out of it, or -1. */
long return_catch(long value, long (*fn)(long));

/* The same, in the frame that calls trial_calls(). */
long return_catch_directly(long value, long (*fn)(long));

/* Objects that the unwinding destroyed on its way. */
extern long return_destroyed;

#ifdef __cplusplus
}
#endif

#endif
