/* SPDX-License-Identifier: MIT */
/*
 * Whether threads that wait for room may sleep: inside/store/thread_writer.h says why they ask.
 * Control thread only.
 */
#ifndef INSIDE_CONTROL_PERMIT_H
#define INSIDE_CONTROL_PERMIT_H

/*
 * Answer all that ask, if any store has writers that may wait. Returns after how many milliseconds
 * to come again, -1: not of itself.
 */
int permits_give(void);

#endif
