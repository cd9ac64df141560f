/* SPDX-License-Identifier: MIT */
#include "base/number_file.h"

#include <stdio.h>

long number_file_read(const char *path, long absent)
{
	FILE *file = fopen(path, "re");
	long number;

	if (!file)
		return absent;
	if (fscanf(file, "%ld", &number) != 1)
		number = absent;
	fclose(file);
	return number;
}
