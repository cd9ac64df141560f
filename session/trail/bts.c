/* SPDX-License-Identifier: MIT */
#include "session/trail/bts.h"

#include <string.h>

struct taken {
	uint64_t from, to,
		flags; /* flags: bit 4, predicted, of BTS; perf_branch_entry's bits of a stack */
};

_Static_assert(sizeof(struct taken) == BTS_RECORD_BYTES, "a record's layout");

int bts_take(struct weave *weave, const uint8_t *bytes, size_t count)
{
	struct taken taken;
	int err = 0;

	for (; count >= sizeof(taken) && !err; count -= sizeof(taken), bytes += sizeof(taken)) {
		memcpy(&taken, bytes, sizeof(taken));
		/* bts_buffer_pad_out() of the kernel fills up with zeros */
		if (taken.from || taken.to)
			err = weave_branch(weave, taken.from, taken.to);
	}
	return err || !count ? err : weave_lost(weave);
}

int bts_take_sample(struct weave *weave, const struct perf_record *sample)
{
	return weave_branch(weave, sample->ip, sample->address);
}

int lbr_take_sample(struct weave *weave, const struct perf_record *sample)
{
	struct taken taken;
	int err;

	if (!sample->count)
		return 0;
	/* once is enough: each ends with one */
	err = weave->losses && !weave->before.instructions && !weave->next ? 0 : weave_lost(weave);
	for (uint64_t i = sample->count; i-- > 0 && !err;) {
		memcpy(&taken, sample->stack + i * sizeof(taken), sizeof(taken));
		if (taken.from || taken.to)
			err = weave_branch(weave, taken.from, taken.to);
	}
	if (!err && (sample->ip < TRAIL_KERNEL || weave->codes->has_kernel))
		err = weave_reach(weave, sample->ip);
	return err < 0 ? err : weave_lost(weave);
}
