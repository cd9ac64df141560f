/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/bts.h"

#include <string.h>

struct taken {
	uint64_t from, to, flags; /* flags: bit 4, predicted */
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
