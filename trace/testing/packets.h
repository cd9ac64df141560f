/* SPDX-License-Identifier: MIT */
/*
 * Packets made by hand, for tests and benches: what the agent would have written.
 */
#ifndef TRACE_TESTING_PACKETS_H
#define TRACE_TESTING_PACKETS_H

#include "trace/writer.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A packet being filled. Its head's ticks and identity are the caller's to set; end_ticks follows.
 */
struct sample {
	struct wm_packet head;
	uint8_t *content;
	size_t bytes, room;
	uint64_t ticks; /* of the last event */
	uint32_t events;
};

/* Begin a packet of a thread at `ticks`; seq counts from what head has. Keeps the memory. */
void sample_begin(struct sample *sample, uint64_t ticks);

/* An event's header, compact where it can be, else (or if `extended`) extended. */
void sample_event(struct sample *sample, uint32_t id, uint64_t ticks, int extended);

void sample_put(struct sample *sample, const void *bytes, size_t count);
void sample_u8(struct sample *sample, uint8_t value);
void sample_u32(struct sample *sample, uint32_t value);
void sample_u64(struct sample *sample, uint64_t value);

/* A string, whole; NULL is put as such. A run of bytes. */
void sample_string(struct sample *sample, const char *string);
void sample_run(struct sample *sample, const void *bytes, uint32_t count);

/* Write it as the next packet of its stream; content may be empty. */
int sample_write(struct sample *sample, struct trace_writer *writer, int process);

void sample_release(struct sample *sample);

/* A number from a seed, the same on every machine (SplitMix64). */
uint64_t sample_random(uint64_t *seed);

/* The types of up to 16 fields, as WM_TYPE_*. */
#define SAMPLE_TYPES(...) ((const uint8_t[16]){ __VA_ARGS__ })

/* A folder of its own under /tmp, gone with all that is in it at sample_folder_remove(). */
void sample_folder(char path[64]);
void sample_folder_remove(const char *path);

/* Have these bytes in a file below it ("/proc/modules"), and the folders on the way. */
void sample_folder_put(const char *folder, const char *path, const void *content, size_t bytes);

#endif
