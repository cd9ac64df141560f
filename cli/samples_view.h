/* SPDX-License-Identifier: MIT */
/* What the commands that read samples share. */
#ifndef CLI_SAMPLES_VIEW_H
#define CLI_SAMPLES_VIEW_H

#include "history/samples.h"

/* Say of which files names were wanted and not had. */
void complain_samples(struct samples *samples);

#endif
