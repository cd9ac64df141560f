/* SPDX-License-Identifier: MIT */
/* Which file a process runs, whatever has become of its path. */
#include "target/code/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define VDSO_MAX_BYTES (1u << 20)
#define CHECKED_BYTES 4096

/* Whether the notes in memory that a file says are its own hold the file's build id. */
static int build_id_is(const struct code_file *file, uint64_t base,
		       const struct code_memory *memory)
{
	uint8_t notes[CHECKED_BYTES];

	for (size_t i = 0; i < file->segment_count; i++) {
		const struct code_segment *segment = &file->segments[i];

		if (segment->type != PT_NOTE || segment->file_bytes > sizeof(notes) ||
		    memory->read(memory->data, base + segment->address, notes, segment->file_bytes))
			continue;
		if (memmem(notes, segment->file_bytes, file->build_id, file->build_id_bytes))
			return 1;
	}
	return 0;
}

/*
 * Without a build id: the header's page up to the first code, which may be patched. It holds the
 * segments, most often symbols and their hash, and where the section table is. A rebuilt program
 * has another.
 */
static int header_is(const struct code_file *file, uint64_t start, const struct code_memory *memory)
{
	uint8_t mine[CHECKED_BYTES], its[CHECKED_BYTES];
	const struct code_segment *first = NULL;
	uint64_t bytes = sizeof(mine);

	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_LOAD && !file->segments[i].offset)
			first = &file->segments[i];
	if (!first)
		return 0;
	bytes = first->file_bytes < bytes ? first->file_bytes : bytes;
	for (size_t i = 0; i < file->section_count; i++)
		if (file->sections[i].flags & (SHF_EXECINSTR | SHF_WRITE) &&
		    file->sections[i].offset < bytes)
			bytes = file->sections[i].offset;
	return bytes >= sizeof(file->header) &&
	       !code_file_read(file, first->address, mine, bytes) &&
	       !memory->read(memory->data, start, its, bytes) && !memcmp(mine, its, bytes);
}

/* The base of a module whose header is at `start`: it is added to addresses as linked. */
static uint64_t base_of(const struct code_file *file, uint64_t start)
{
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_LOAD)
			return start - (file->segments[i].address - file->segments[i].offset);
	return start;
}

static int is_the_one(const struct code_file *file, uint64_t start,
		      const struct code_memory *memory)
{
	if (file->build_id_bytes)
		return build_id_is(file, base_of(file, start), memory);
	return header_is(file, start, memory);
}

static int vdso_open(struct code_file **file, uint64_t start, const struct code_memory *memory)
{
	char *image = malloc(VDSO_MAX_BYTES);
	size_t bytes = 0;
	int err;

	*file = NULL;
	if (!image)
		return -ENOMEM;
	while (bytes < VDSO_MAX_BYTES &&
	       !memory->read(memory->data, start + bytes, image + bytes, CHECKED_BYTES))
		bytes += CHECKED_BYTES;
	err = code_file_open_image(file, "[vdso]", image, bytes);
	free(image);
	if (!err)
		(*file)->is_vdso = 1;
	return err;
}

/*
 * The links under map_files are named by the mapping's bounds; its start is known, its end is in
 * maps.
 */
static int map_link(char *link, size_t bytes, pid_t pid, uint64_t start)
{
	char line[PATH_MAX + 128];
	unsigned long from, to;
	int found = 0;
	FILE *maps;

	snprintf(link, bytes, "/proc/%d/maps", (int)pid);
	maps = fopen(link, "re");
	if (!maps)
		return -errno;
	while (!found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= start && start < to;
	fclose(maps);
	if (!found)
		return -ENOENT;
	snprintf(link, bytes, "/proc/%d/map_files/%lx-%lx", (int)pid, from, to);
	return 0;
}

/* Open one candidate; what is not the one the process runs is closed again. */
static int candidate_open(struct code_file **file, const char *path, uint64_t start,
			  const struct code_memory *memory)
{
	int err = code_file_open(file, path);

	if (err || is_the_one(*file, start, memory))
		return err;
	code_file_close(*file);
	*file = NULL;
	return -WM_E_FILE_REPLACED;
}

/* The file goes by the name it has in the process, not by the way we found it. */
static int name_as(struct code_file *file, pid_t pid, const char *path)
{
	char name[256], root[64];
	char *texts[3];

	code_file_short_name(path, name, sizeof(name));
	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	texts[0] = strdup(path);
	texts[1] = strdup(name);
	texts[2] = strdup(root);
	if (!texts[0] || !texts[1] || !texts[2]) {
		for (int i = 0; i < 3; i++)
			free(texts[i]);
		return -ENOMEM;
	}
	free(file->path);
	free(file->name);
	free(file->root);
	file->path = texts[0];
	file->name = texts[1];
	file->root = texts[2];
	return 0;
}

int code_file_open_process(struct code_file **file, pid_t pid, uint64_t start, const char *path,
			   const struct code_memory *memory)
{
	char candidate[PATH_MAX + 64];
	int err, second;

	*file = NULL;
	if (!strcmp(path, "[vdso]"))
		return vdso_open(file, start, memory);
	/* Exact, but needs privileges. */
	err = map_link(candidate, sizeof(candidate), pid, start);
	if (!err)
		err = candidate_open(file, candidate, start, memory);
	if (err) {
		snprintf(candidate, sizeof(candidate), "/proc/%d/root%s", (int)pid, path);
		err = candidate_open(file, candidate, start, memory);
	}
	if (err) {
		snprintf(candidate, sizeof(candidate), "/proc/%d/exe", (int)pid);
		second = candidate_open(file, candidate, start, memory);
		/* Of a library the first answer says more than that it isn't the program. */
		err = second ? err : 0;
	}
	if (!err)
		err = name_as(*file, pid, path);
	if (err) {
		code_file_close(*file);
		*file = NULL;
	}
	return err;
}
