/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE 65536

/* The first byte that differs, or -1. */
static int64_t compare(int memory, int file, uint64_t start, uint64_t end, uint64_t offset)
{
	static unsigned char here[PIECE], there[PIECE];

	for (uint64_t at = start; at < end; at += PIECE) {
		size_t bytes = end - at < PIECE ? end - at : PIECE;
		ssize_t got = pread(file, there, bytes, (off_t)(at - start + offset));

		if (got <= 0)
			break;
		if (pread(memory, here, (size_t)got, (off_t)at) != got)
			return 0;
		for (ssize_t i = 0; i < got; i++)
			if (here[i] != there[i])
				return (int64_t)(at - start + offset) + i;
	}
	return -1;
}

int text_differs(pid_t pid, int say)
{
	char path[64], line[1024], name[1024], rights[8];
	unsigned long start, end, offset, inode;
	int memory, differing = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (memory < 0 || !maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		int64_t at;
		int file;

		if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %1023[^\n]", &start, &end, rights,
			   &offset, &inode, name) != 6 ||
		    rights[2] != 'x' || name[0] != '/' || strstr(name, "libwaymark-agent"))
			continue;
		file = open(name, O_RDONLY | O_CLOEXEC);
		if (file < 0)
			continue;
		at = compare(memory, file, start, end, offset);
		close(file);
		if (at < 0)
			continue;
		differing++;
		if (say)
			fprintf(stderr, "torture: %s is changed at offset %#llx\n", name,
				(unsigned long long)at);
	}
	fclose(maps);
	close(memory);
	return differing;
}
