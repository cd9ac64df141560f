/* SPDX-License-Identifier: MIT */
#include "base/kernel_image.h"

#include "base/regular_file.h"

#include <elf.h>
#include <limits.h>
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

/* Notes as ELF has them: sizes and type, name, content, each padded to four bytes. */
static size_t build_id_find(const uint8_t *notes, size_t count, uint8_t *id)
{
	size_t at = 0;

	while (at + sizeof(Elf64_Nhdr) <= count) {
		Elf64_Nhdr note;
		size_t name = at + sizeof(note), content;

		memcpy(&note, notes + at, sizeof(note));
		if (note.n_namesz > count || note.n_descsz > count)
			return 0;
		content = name + (note.n_namesz + 3u) / 4 * 4;
		at = content + (note.n_descsz + 3u) / 4 * 4;
		if (at > count)
			return 0;
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(notes + name, "GNU", 4) != 0 || note.n_descsz > KERNEL_IMAGE_ID_BYTES)
			continue;
		memcpy(id, notes + content, note.n_descsz);
		return note.n_descsz;
	}
	return 0;
}

size_t kernel_image_build_id(const char *root, uint8_t *id)
{
	FILE *file = kernel_image_file(root, "/sys/kernel/notes");
	uint8_t notes[NOTES_BYTES];
	size_t count = file ? fread(notes, 1, sizeof(notes), file) : 0;

	if (file)
		fclose(file);
	return build_id_find(notes, count, id);
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
