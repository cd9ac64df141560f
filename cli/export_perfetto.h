/* SPDX-License-Identifier: MIT */
/*
 * A trace's events as the JSON that ui.perfetto.dev reads: a track for each thread, and one for
 * each CPU with which thread ran when.
 */
#ifndef CLI_EXPORT_PERFETTO_H
#define CLI_EXPORT_PERFETTO_H

#include "base/out.h"
#include "trace/reader.h"

#include <stdint.h>

/*
 * Write the events of this thread and process, 0 for all; CPUs have all threads. 0, -ENOMEM; what
 * can't be written is out->error's. The caller flushes.
 */
int export_perfetto(struct out *out, struct trace_reader *reader, uint32_t tid, uint32_t pid);

#endif
