/* SPDX-License-Identifier: MIT */
#include "trace/kernel_names.h"

#include "base/sorted.h"
#include "base/kernel_image.h"
#include "base/text_buffer.h"
#include "trace/folder.h"
#include "trace/perf_map.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_BYTES 4096u /* of a function that no symbol follows */

/*
 * The symbol before an address. Symbols come in no order: each is put down at the first address
 * behind it, and lines_make() passes it on to those that follow.
 */
struct below {
	uint64_t start; /* 0: none */
	uint64_t next;	/* the first symbol behind the address; UINT64_MAX: none */
	char *name;	/* NULL: it is not code; owned by the first that has it */
	int is_global;
};

static size_t unique(uint64_t *addresses, size_t count)
{
	size_t kept = 0;

	sorted_make(addresses, count, sizeof(*addresses));
	for (size_t i = 0; i < count; i++)
		if (!kept || addresses[kept - 1] != addresses[i])
			addresses[kept++] = addresses[i];
	return kept;
}

/* Of several symbols at one place a function precedes data, and a global one the others. */
static int take_symbol(struct below *below, const struct kernel_symbol *symbol)
{
	uint64_t start = symbol->address;
	int is_code = strchr("tTwW", symbol->kind) != NULL;
	int is_global = isupper((unsigned char)symbol->kind) != 0;
	size_t bytes = strlen(symbol->name) + strlen(symbol->module) + sizeof(" ");
	char *text;

	if (start < below->start ||
	    (start == below->start && (!is_code || (below->name && below->is_global >= is_global))))
		return 0;
	text = is_code ? malloc(bytes) : NULL;
	if (is_code && !text)
		return -ENOMEM;
	if (text)
		snprintf(text, bytes, *symbol->module ? "%s %s" : "%s", symbol->name,
			 symbol->module);
	free(below->name);
	below->name = text;
	below->start = start;
	below->is_global = is_global;
	return 0;
}

struct search {
	struct below *below; /* of each address */
	const uint64_t *addresses;
	size_t count;
};

static int take_below(const struct kernel_symbol *symbol, void *data)
{
	const struct search *search = data;
	size_t at = sorted_below(search->addresses, search->count, sizeof(uint64_t), 0,
				 symbol->address);

	if (at && symbol->address < search->below[at - 1].next)
		search->below[at - 1].next = symbol->address;
	return at == search->count ? 0 : take_symbol(&search->below[at], symbol);
}

/* The lines of all addresses; one for those of the same function. */
static void lines_make(struct text *lines, struct below *below, const uint64_t *addresses,
		       size_t count)
{
	const struct below *last = NULL;
	uint64_t written = 0;

	for (size_t i = count; i-- > 1;)
		if (below[i - 1].next == UINT64_MAX)
			below[i - 1].next = below[i].next;
	for (size_t i = 0; i < count; i++) {
		uint64_t next = below[i].next;

		if (below[i].start)
			last = &below[i];
		if (!last || !last->name || last->start == written)
			continue;
		if (next == UINT64_MAX)
			next = last->start + LAST_BYTES;
		if (addresses[i] >= next)
			continue;
		written = last->start;
		text_format(lines, "%llx %llx %s\n", (unsigned long long)last->start,
			    (unsigned long long)(next - last->start), last->name);
	}
}

static int file_write(int folder, const struct text *lines)
{
	int fd = folder_create(folder, KERNEL_NAMES_FILE, 0600), err = 0;
	size_t done = 0;

	if (fd < 0)
		return fd;
	while (done < lines->bytes && !err) {
		ssize_t put = write(fd, lines->at + done, lines->bytes - done);

		err = put < 0 ? -errno : put ? 0 : -ENOSPC;
		done += put > 0 ? (size_t)put : 0;
	}
	if (close(fd) && !err)
		err = -errno;
	if (err)
		unlinkat(folder, KERNEL_NAMES_FILE, 0);
	return err;
}

int kernel_names_write(int folder, const char *root, uint64_t *addresses, size_t count)
{
	struct text lines = { 0 };
	struct below *below;
	int err;

	count = unique(addresses, count);
	if (!count)
		return 0;
	below = calloc(count, sizeof(*below));
	if (!below)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		below[i].next = UINT64_MAX;
	err = kernel_image_symbols(root, take_below, &(struct search){ below, addresses, count });
	err = err == -ENOENT ? 0 : err;
	if (!err)
		lines_make(&lines, below, addresses, count);
	if (!err)
		err = lines.error;
	if (!err && lines.bytes > PERF_MAP_BYTES_MAX)
		err = -EFBIG;
	if (!err && lines.bytes)
		err = file_write(folder, &lines);
	for (size_t i = 0; i < count; i++)
		free(below[i].name);
	free(below);
	text_release(&lines);
	return err;
}
