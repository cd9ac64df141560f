/* SPDX-License-Identifier: MIT */
#include "base/kernel_image.h"

#include "base/notes.h"
#include "base/regular_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_BYTES 16384u /* of a kernel's notes, which are some hundreds */

FILE *kernel_image_file(const char *root, const char *path)
{
	char full[PATH_MAX];
	struct stat about;
	int fd;

	snprintf(full, sizeof(full), "%s%s", root, path);
	fd = regular_file_open(full, &about);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

/* ADDRESS KIND NAME, and a tab and [MODULE] where it is a module's. 1; 0: it is no such line. */
static int symbol_of(char *line, struct kernel_symbol *symbol)
{
	char *end, *module;

	symbol->address = strtoull(line, &end, 16);
	if (end == line || !symbol->address || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	symbol->kind = end[1];
	symbol->name = end + 3;
	end[3 + strcspn(symbol->name, "\n")] = '\0';
	module = end + 3 + strcspn(symbol->name, "\t");
	if (*module)
		*module++ = '\0';
	symbol->module = module;
	return strcmp(symbol->name, "_text") != 0 && strcmp(symbol->name, "_stext") != 0;
}

int kernel_image_symbols(const char *root,
			 int (*each)(const struct kernel_symbol *symbol, void *data), void *data)
{
	FILE *file = kernel_image_file(root, "/proc/kallsyms");
	struct kernel_symbol symbol;
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	if (!file)
		return -ENOENT;
	while (!ret && getline(&line, &room, file) > 0)
		if (symbol_of(line, &symbol))
			ret = each(&symbol, data);
	free(line);
	fclose(file);
	return ret;
}

uint64_t kernel_image_start(const char *root)
{
	FILE *file = kernel_image_file(root, "/proc/kallsyms");
	unsigned long long address = 0, found = 0;
	char name[KERNEL_NAME_BYTES], kind;

	/* a line may have a module's name behind; a longer name is not the one */
	while (file && !found && fscanf(file, "%llx %c %63s%*[^\n]", &address, &kind, name) == 3)
		if (!strcmp(name, "_stext"))
			found = address;
	if (file)
		fclose(file);
	return found;
}

size_t kernel_image_build_id(const char *root, uint8_t *id)
{
	FILE *file = kernel_image_file(root, "/sys/kernel/notes");
	uint8_t notes[NOTES_BYTES];
	size_t count = file ? fread(notes, 1, sizeof(notes), file) : 0, at = 0;
	struct note note;

	if (file)
		fclose(file);
	while (notes_next(notes, count, 4, &at, &note)) {
		if (!notes_is(&note, "GNU", NT_GNU_BUILD_ID) ||
		    note.body_bytes > KERNEL_IMAGE_ID_BYTES)
			continue;
		memcpy(id, note.body, note.body_bytes);
		return note.body_bytes;
	}
	return 0;
}

int kernel_image_modules(const char *root,
			 int (*each)(const char *name, uint64_t address, void *data), void *data)
{
	FILE *file = kernel_image_file(root, "/proc/modules");
	unsigned long long address;
	char name[KERNEL_NAME_BYTES];
	int ret = 0;

	/* NAME BYTES USES BY STATE ADDRESS */
	while (file && !ret &&
	       fscanf(file, "%63s %*s %*s %*s %*s %llx%*[^\n]", name, &address) == 2)
		if (address)
			ret = each(name, address, data);
	if (file)
		fclose(file);
	return ret;
}
