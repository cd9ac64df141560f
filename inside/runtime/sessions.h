/* SPDX-License-Identifier: MIT */
/*
 * How many sessions a process has at most. A session's number is its lane: its rules, its store and
 * its bit in each mask of sessions have that number.
 */
#ifndef INSIDE_RUNTIME_SESSIONS_H
#define INSIDE_RUNTIME_SESSIONS_H

#define SESSIONS_MAX 8

#endif
