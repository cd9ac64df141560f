/* SPDX-License-Identifier: MIT */
#include "read/history/jit.h"

#include "base/array.h"
#include "base/kernel_image.h"
#include "trace/kernel_names.h"
#include "trace/perf_map.h"
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUNCTIONS_MAX (1u << 20)

/* The whole file, with a NUL behind. NULL: it does not exist, or *err. */
static char *load(int folder, const char *name, int *err)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t bytes = 0, done = 0;
	struct stat about;
	char *text = NULL;

	*err = 0;
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0 &&
	    about.st_size <= PERF_MAP_BYTES_MAX) {
		bytes = (size_t)about.st_size;
		text = malloc(bytes + 1);
		*err = text ? 0 : -ENOMEM;
	}
	while (text && done < bytes) {
		ssize_t got = read(fd, text + done, bytes - done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	close(fd);
	if (text)
		text[done] = '\0';
	return text;
}

/* START BYTES NAME. 1; 0: it is no such line. */
static int take_line(char *line, struct code_symbol *symbol)
{
	char *end, *name;

	*symbol = (struct code_symbol){ .unit = "", .bind = BIND_LOCAL };
	symbol->address = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return 0;
	symbol->bytes = strtoull(end, &name, 16);
	if (name == end || *name != ' ' || !symbol->bytes ||
	    symbol->bytes > UINT64_MAX - symbol->address)
		return 0;
	name += strspn(name, " ");
	symbol->name = name;
	return *name != '\0';
}

/* Lines without a newline are not whole. */
static int take_lines(struct jit *jit)
{
	struct code_symbols *symbols = &jit->symbols;

	for (char *line = jit->text, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct code_symbol symbol;

		*end = '\0';
		if (!take_line(line, &symbol) || symbols->count == FUNCTIONS_MAX)
			continue;
		if (array_grow(&symbols->all, &symbols->room, symbols->count + 1,
			       sizeof(*symbols->all)))
			return -ENOMEM;
		symbols->all[symbols->count++] = symbol;
	}
	return 0;
}

/* Names lie in the text in the order of the lines. */
static int by_address(const void *one, const void *other)
{
	const struct code_symbol *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

/* Of functions that overlap, the one that was made last. */
static int make_functions(struct code_symbols *symbols)
{
	size_t kept = 0;

	symbols->functions = calloc(symbols->count + 1, sizeof(*symbols->functions));
	if (!symbols->functions)
		return -ENOMEM;
	if (symbols->count)
		qsort(symbols->all, symbols->count, sizeof(*symbols->all), by_address);
	for (size_t i = 0; i < symbols->count; i++) {
		const struct code_symbol symbol = symbols->all[i];

		while (kept &&
		       symbols->all[kept - 1].address + symbols->all[kept - 1].bytes >
			       symbol.address &&
		       symbols->all[kept - 1].name < symbol.name)
			kept--;
		if (!kept ||
		    symbols->all[kept - 1].address + symbols->all[kept - 1].bytes <= symbol.address)
			symbols->all[kept++] = symbol;
	}
	symbols->count = symbols->function_count = kept;
	for (size_t i = 0; i < kept; i++)
		symbols->functions[i] = (struct code_function){ .address = symbols->all[i].address,
								.bytes = symbols->all[i].bytes,
								.first = i,
								.count = 1 };
	return 0;
}

int jit_open(struct jit *jit, const struct trace_reader *trace, uint32_t pid, int is_kernel)
{
	char name[PERF_MAP_NAME_BYTES];
	int err;

	*jit = (struct jit){ 0 };
	perf_map_name(pid, name);
	if (is_kernel)
		snprintf(jit->path, sizeof(jit->path), "%s", KERNEL_PATH);
	else
		snprintf(jit->path, sizeof(jit->path), "/tmp/%s", name + 1);
	jit->mapped.seen = (struct image_module){ .path = jit->path,
						  .name = is_kernel ? jit->path
								    : jit->path + strlen("/tmp/"),
						  .error = -ENOENT,
						  .symbols = &jit->symbols };
	if (!trace)
		return 0;
	jit->text = load(trace->dir, is_kernel ? KERNEL_NAMES_FILE : name, &err);
	if (!jit->text)
		return err;
	err = take_lines(jit);
	return err ? err : make_functions(&jit->symbols);
}

void jit_release(struct jit *jit)
{
	code_symbols_release(&jit->symbols);
	free(jit->text);
	*jit = (struct jit){ 0 };
}
