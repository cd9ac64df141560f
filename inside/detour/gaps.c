/* SPDX-License-Identifier: MIT */
#include "inside/detour/gaps.h"

#include "base/mapped.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

#define PATH_BYTES 16 /* of "[heap]" and "[stack]" */

/* The vsyscall page is above all that a program can map. */
static void report(struct gap *gap, void (*found)(const struct gap *gap, void *data), void *data)
{
	if (gap->start < PUN_LOWEST)
		gap->start = PUN_LOWEST;
	if (gap->end > PUN_HIGHEST - 4096)
		gap->end = PUN_HIGHEST - 4096;
	if (gap->start < gap->end)
		found(gap, data);
}

int gaps_find(void (*found)(const struct gap *gap, void *data), void *data)
{
	static struct mapped line;
	struct gap gap = { 0 };
	char path[PATH_BYTES];
	int error = mapped_open(&line), count = 0;

	if (error)
		return error == -ENOENT || error == -EACCES ? -WM_E_NO_PROC : error;
	for (; mapped_next(&line, path, sizeof path); count++) {
		gap.end = line.start;
		gap.before_stack = !strcmp(path, "[stack]");
		gap.before_data = (line.flags & (MAPPED_WRITABLE | MAPPED_SHARED)) ==
					  MAPPED_WRITABLE &&
				  !line.inode && !line.device[0] && !line.device[1];
		report(&gap, found, data);
		gap.start = line.end;
		gap.after_heap = !strcmp(path, "[heap]");
	}
	mapped_close(&line);
	gap.end = PUN_HIGHEST;
	gap.before_stack = gap.before_data = 0;
	report(&gap, found, data);
	return count;
}
