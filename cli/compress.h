/* SPDX-License-Identifier: MIT */
/* A trace made smaller once it is recorded. */
#ifndef CLI_COMPRESS_H
#define CLI_COMPRESS_H

/*
 * Compress the trace in `dir`, whose writer is closed. CLI_FINE; CLI_FAILED, all being said, and
 * the trace is as it was.
 */
int compress_recorded(const char *dir);

#endif
