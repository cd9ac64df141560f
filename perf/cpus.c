/* SPDX-License-Identifier: MIT */
#include "perf/cpus.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CPUS_MAX 65536u

int cpus_parse(const char *text, unsigned int **cpus, size_t *count)
{
	size_t room = 0;
	int err = -EINVAL;

	*cpus = NULL;
	*count = 0;
	while (*text && *text != '\n') {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			goto failed;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text)
				goto failed;
		}
		if (last < first || last >= CPUS_MAX || (*end && *end != ',' && *end != '\n'))
			goto failed;
		text = *end == ',' ? end + 1 : end;
		for (unsigned long cpu = first; cpu <= last; cpu++) {
			if (array_grow(cpus, &room, *count + 1, sizeof(**cpus))) {
				err = -ENOMEM;
				goto failed;
			}
			(*cpus)[(*count)++] = (unsigned int)cpu;
		}
	}
	if (*count)
		return 0;
failed:
	free(*cpus);
	*cpus = NULL;
	*count = 0;
	return err;
}

static int cpus_read(const char *path, unsigned int **cpus, size_t *count)
{
	FILE *file = fopen(path, "re");
	char text[4096] = "";
	int err;

	*cpus = NULL;
	*count = 0;
	if (!file)
		return -errno;
	err = fgets(text, sizeof(text), file) ? 0 : -EIO;
	fclose(file);
	return err ? err : cpus_parse(text, cpus, count);
}

int cpus_online(unsigned int **cpus, size_t *count)
{
	return cpus_read("/sys/devices/system/cpu/online", cpus, count);
}

int cpus_present(unsigned int **cpus, size_t *count)
{
	return cpus_read("/sys/devices/system/cpu/present", cpus, count);
}
