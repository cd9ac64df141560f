/* SPDX-License-Identifier: MIT */
/* What the commands that read samples share. */
#ifndef CLI_SAMPLES_VIEW_H
#define CLI_SAMPLES_VIEW_H

#include "read/history/samples.h"

/* Print a line for each file whose names are missing. */
void samples_complain(struct samples *samples);

#endif
