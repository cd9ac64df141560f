/* SPDX-License-Identifier: MIT */
#include "cli/samples_view.h"

#include "cli/trail_view.h"

void complain_samples(struct samples *samples)
{
	for (uint32_t i = 0; i <= samples->reader->meta.process_count; i++)
		if (samples_image_known(samples, i))
			complain_files(samples_image_known(samples, i));
}
