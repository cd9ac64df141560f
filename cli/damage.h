/* SPDX-License-Identifier: MIT */
/*
 * Telling what could not be read of a trace.
 */
#ifndef CLI_DAMAGE_H
#define CLI_DAMAGE_H

#include "trace/reader.h"

/* Say on stderr what was damaged. Returns CLI_FINE when nothing was, else CLI_FAILED. */
int damage_complain(const struct trace_reader *reader, const char *dir);

#endif
