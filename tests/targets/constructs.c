/* SPDX-License-Identifier: MIT */
/* A library whose constructor waits for the end of standard input. */
#include "target.h"

__attribute__((constructor)) static void construct(void)
{
	target_ready();
	while (!target_over())
		usleep(1000);
}
