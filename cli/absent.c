/* SPDX-License-Identifier: MIT */
/* Stands in for commands that are not written yet; goes when all are. */
#include "cli/cli.h"

#define ABSENT(name)                                                                               \
	__attribute__((weak)) int cmd_##name(int argc, char **argv)                                \
	{                                                                                          \
		(void)argc;                                                                        \
		return complain_usage(NULL, "%s is not there yet", argv[0]);                       \
	}

ABSENT(record)
ABSENT(list)
ABSENT(report)
ABSENT(dump)
