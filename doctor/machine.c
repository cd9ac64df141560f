/* SPDX-License-Identifier: MIT */
#include "doctor/machine.h"

#include "perf/instance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The registers come first: where our thread inherited breakpoints and has children that ended,
 * Linux counts those breakpoints as free (instance_keeps_place()), and trials are such children.
 */
void machine_try(struct machine *machine)
{
	machine->registers = instance_free_registers(gettid(), -1);
	machine->trials_us = trial_ask_all(machine->trials);
	machine->is_filtered = machine_is_filtered();
}

int machine_line(const char *path, char *line, size_t bytes)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return -errno;
	errno = 0;
	if (fgets(line, (int)bytes, file))
		line[strcspn(line, "\n")] = '\0';
	else
		err = errno ? -errno : -EINVAL;
	fclose(file);
	return err;
}

int machine_number(const char *path, long *number)
{
	char line[64], *end;
	int err = machine_line(path, line, sizeof(line));
	long value;

	if (err)
		return err;
	value = strtol(line, &end, 10);
	if (end == line)
		return -EINVAL;
	*number = value;
	return 0;
}

int machine_status(const char *name, int base, uint64_t *number)
{
	FILE *file = fopen("/proc/self/status", "re");
	size_t length = strlen(name);
	int err = -ENOENT;
	char line[256];

	if (!file)
		return -errno;
	while (err && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		*number = strtoull(line + length + 1, NULL, base);
		err = 0;
	}
	fclose(file);
	return err;
}

int machine_is_filtered(void)
{
	uint64_t mode = 0;

	machine_status("Seccomp", 10, &mode);
	return mode != 0;
}

int machine_is_apart(const char *namespace)
{
	/* include/linux/proc_ns.h of Linux */
	const char *first = strcmp(namespace, "user") ? "pid:[4026531836]" : "user:[4026531837]";
	char path[64], text[64];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", namespace);
	got = readlink(path, text, sizeof(text) - 1);
	if (got < 0)
		return -errno;
	text[got] = '\0';
	return strcmp(text, first) != 0;
}

uint64_t machine_capabilities(void)
{
	uint64_t all = 0;

	machine_status("CapEff", 16, &all);
	return machine_is_apart("user") > 0 ? 0 : all;
}
