/* SPDX-License-Identifier: MIT */
/* The processor that we run on. */
#ifndef INSIDE_ENGINE_PROCESSOR_H
#define INSIDE_ENGINE_PROCESSOR_H

#include "inside/engine/vector.h"

/* Once, before all else here. */
void processor_look(void);

/* Which vector registers programs may use. */
enum vector_width processor_width(void);

/* AMD's near branches obey an operand size of 16 bits. */
int processor_is_amd(void);

#endif
