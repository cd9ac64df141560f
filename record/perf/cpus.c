/* SPDX-License-Identifier: MIT */
#include "record/perf/cpus.h"

#include "base/array.h"
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MAX 65536u

int cpus_parse(const char *text, unsigned int **cpus, size_t *count)
{
	size_t room = 0;
	int err = -EINVAL;

	*cpus = NULL;
	*count = 0;
	while (*text && *text != '\n') {
		uint64_t first = 0, last;

		text = quantity_number_at(text, CPUS_MAX - 1, &first);
		last = first;
		if (text && *text == '-')
			text = quantity_number_at(text + 1, CPUS_MAX - 1, &last);
		if (!text || last < first || (*text && *text != ',' && *text != '\n'))
			goto failed;
		text += *text == ',';
		for (uint64_t cpu = first; cpu <= last; cpu++) {
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

/* Without /sys, as in some containers: the online ones, in the lines "cpuN " of /proc/stat. */
static int cpus_of_proc(unsigned int **cpus, size_t *count)
{
	FILE *file = fopen("/proc/stat", "re");
	char line[4096];
	size_t room = 0;
	unsigned int cpu;
	int err = 0;

	*cpus = NULL;
	*count = 0;
	while (!err && file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "cpu", 3) || !isdigit((unsigned char)line[3]))
			continue;
		cpu = (unsigned int)strtoul(line + 3, NULL, 10);
		err = array_grow(cpus, &room, *count + 1, sizeof(**cpus)) ? -ENOMEM : 0;
		if (!err)
			(*cpus)[(*count)++] = cpu;
	}
	if (file)
		fclose(file);
	if (!err && *count)
		return 0;
	free(*cpus);
	*cpus = NULL;
	*count = 0;
	return err ? err : -ENOENT;
}

int cpus_online(unsigned int **cpus, size_t *count)
{
	int err = cpus_read("/sys/devices/system/cpu/online", cpus, count);

	return err == -ENOENT ? cpus_of_proc(cpus, count) : err;
}

int cpus_present(unsigned int **cpus, size_t *count)
{
	int err = cpus_read("/sys/devices/system/cpu/present", cpus, count);

	return err == -ENOENT ? cpus_of_proc(cpus, count) : err;
}

int cpus_has(const unsigned int *cpus, size_t count, unsigned int cpu)
{
	for (size_t i = 0; i < count; i++)
		if (cpus[i] == cpu)
			return 1;
	return 0;
}
