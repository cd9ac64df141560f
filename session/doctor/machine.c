/* SPDX-License-Identifier: MIT */
#include "session/doctor/machine.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct machine_calls *machine_calls(const struct machine *machine)
{
	return machine->calls ? machine->calls : &machine_kernel;
}

void machine_path(const struct machine *machine, const char *path, char *full, size_t bytes)
{
	snprintf(full, bytes, "%s%s", machine->origin.root ? machine->origin.root : "", path);
}

FILE *machine_open(const struct machine *machine, const char *path)
{
	char full[PATH_MAX];

	machine_path(machine, path, full, sizeof(full));
	return fopen(full, "re");
}

int machine_line(const struct machine *machine, const char *path, char *line, size_t bytes)
{
	FILE *file = machine_open(machine, path);
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

int machine_number(const struct machine *machine, const char *path, long *number)
{
	char line[64], *end;
	int err = machine_line(machine, path, line, sizeof(line));

	if (err)
		return err;
	*number = strtol(line, &end, 10);
	return end == line ? -EINVAL : 0;
}

int machine_value(const struct machine *machine, const char *path, const char *name, char *text,
		  size_t bytes)
{
	FILE *file = machine_open(machine, path);
	size_t room = 0, length = strlen(name);
	char *line = NULL;
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && getline(&line, &room, file) > 0) {
		char *at = line + length;

		if (strncmp(line, name, length) != 0)
			continue;
		at += strspn(at, " \t");
		if (*at++ != ':')
			continue;
		at += strspn(at, " \t");
		at[strcspn(at, "\n")] = '\0';
		snprintf(text, bytes, "%s", at);
		err = 0;
	}
	free(line);
	fclose(file);
	return err;
}

int machine_has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		if ((at == text || isspace((unsigned char)at[-1])) &&
		    (!at[length] || isspace((unsigned char)at[length])))
			return 1;
	return 0;
}

uint64_t machine_capabilities(const struct machine *machine)
{
	char text[32];

	return machine_value(machine, "/proc/self/status", "CapEff", text, sizeof(text))
		       ? 0
		       : strtoull(text, NULL, 16);
}

int machine_namespace(const struct machine *machine, const char *kind, char *text, size_t bytes)
{
	char path[64], full[PATH_MAX];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	machine_path(machine, path, full, sizeof(full));
	got = readlink(full, text, bytes - 1);
	text[got > 0 ? got : 0] = '\0';
	return got < 0 ? -errno : 0;
}

uint64_t machine_wide_capabilities(const struct machine *machine)
{
	char users[64];

	if (!machine_namespace(machine, "user", users, sizeof(users)) &&
	    strcmp(users, MACHINE_FIRST_USERS) != 0)
		return 0;
	return machine_capabilities(machine);
}

long machine_seccomp(const struct machine *machine)
{
	char text[32];

	return machine_value(machine, "/proc/self/status", "Seccomp", text, sizeof(text))
		       ? -1
		       : strtol(text, NULL, 10);
}

/* "0-3,6,8-9" */
long machine_processors(const struct machine *machine)
{
	char line[256], *at = line;
	long count = 0;

	if (machine_line(machine, "/sys/devices/system/cpu/online", line, sizeof(line)))
		return 1;
	while (isdigit((unsigned char)*at)) {
		long first = strtol(at, &at, 10), last = first;

		if (*at == '-')
			last = strtol(at + 1, &at, 10);
		if (last >= first)
			count += last - first + 1;
		if (*at == ',')
			at++;
	}
	return count ? count : 1;
}

int machine_limit(const struct machine *machine, const char *name, uint64_t *limit)
{
	FILE *file = machine_open(machine, "/proc/self/limits");
	size_t room = 0, length = strlen(name);
	char *line = NULL;
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && getline(&line, &room, file) > 0) {
		const char *at = line + length;

		if (strncmp(line, name, length) != 0 || !isspace((unsigned char)*at))
			continue;
		at += strspn(at, " \t");
		*limit = strncmp(at, "unlimited", 9) ? strtoull(at, NULL, 10) : UINT64_MAX;
		err = 0;
	}
	free(line);
	fclose(file);
	return err;
}

const char *machine_refusal(const struct machine *machine, int err, char *text, size_t bytes)
{
	const char *name = strerrorname_np(-err);
	int is_filtered = machine_seccomp(machine) > 0;

	if (err == -ECANCELED)
		snprintf(text, bytes, "whoever tries is killed, as by a seccomp filter");
	else if (is_filtered && (err == -EPERM || err == -ENOSYS || err == -EACCES))
		snprintf(text, bytes, "%s, and we are under a seccomp filter", name);
	else
		snprintf(text, bytes, "%s", name ? name : "no such error");
	return text;
}
