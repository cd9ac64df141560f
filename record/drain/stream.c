/* SPDX-License-Identifier: MIT */
#include "record/drain/stream.h"

void stream_begin(struct stream *stream, const struct wm_slot *slot, uint64_t instance)
{
	*stream = (struct stream){
		.instance = instance,
		.pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED),
		.tid = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED),
		.depth = __atomic_load_n(&slot->depth, __ATOMIC_RELAXED),
	};
}

void stream_count(struct stream *stream, const uint64_t *discarded)
{
	uint64_t now = __atomic_load_n(discarded, __ATOMIC_RELAXED);

	if (now > stream->discarded)
		stream->discarded = now;
}

uint64_t stream_skip(struct stream *stream, uint64_t position)
{
	uint64_t skipped = position > stream->at ? position - stream->at : 0;

	stream->lost += skipped;
	stream->at += skipped;
	return skipped;
}

void stream_pass(struct stream *stream, uint64_t before, uint64_t events)
{
	if (before + events > stream->at)
		stream->at = before + events;
}
