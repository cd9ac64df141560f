/* SPDX-License-Identifier: MIT */
#include "read/history/image_file.h"

#include "target/code/fetch.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <waymark/error.h>

#define VDSO_MAX_BYTES (64u << 10)
#define ID_BYTES (2 * CODE_BUILD_ID_MAX + 1)

static int is_the_one(const struct code_file *file, const char *build_id)
{
	char id[ID_BYTES] = "";

	if (!build_id)
		return 1; /* it is unknown */
	for (size_t i = 0; i < file->build_id_bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", file->build_id[i]);
	return *id && !strncmp(id, build_id, strlen(build_id));
}

/* The kernel's, in our own memory: with its sections, which it maps behind its code. */
static int vdso_open(struct code_file **file)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	size_t bytes;
	int err;

	*file = NULL;
	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG))
		return -ENOENT;
	bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	if (bytes > VDSO_MAX_BYTES)
		return -ENOENT;
	err = code_file_open_image(file, "[vdso]", header, bytes);
	if (!err)
		(*file)->is_vdso = 1;
	return err;
}

static int path_open(struct code_file **file, const char *root, const char *path)
{
	char full[PATH_MAX], *own;
	int err;

	*file = NULL;
	if (path[0] != '/' || snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return -ENOENT;
	err = code_file_open(file, full);
	if (err)
		return err;
	/* so that its debug file is looked for there too */
	own = strdup(root);
	if (own) {
		free((*file)->root);
		(*file)->root = own;
	}
	return 0;
}

static int is_hex(const char *text)
{
	return strspn(text, "0123456789abcdef") == strlen(text) && strlen(text) > 2 &&
	       strlen(text) < ID_BYTES;
}

static int debug_open(struct code_file **file, const char *root, const char *build_id)
{
	char path[PATH_MAX];
	int err;

	*file = NULL;
	if (!build_id || !is_hex(build_id) ||
	    snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, build_id,
		     build_id + 2) >= (int)sizeof(path))
		return -ENOENT;
	err = code_file_open(file, path);
	if (err && !*root && !code_fetch_debug(build_id, path, sizeof(path)))
		err = code_file_open(file, path);
	if (!err)
		(*file)->is_debug = 1;
	return err;
}

/* Close one that is not the one: 0 or why not. */
static int settle(struct code_file **file, int err, const char *build_id)
{
	if (err || is_the_one(*file, build_id))
		return err;
	code_file_close(*file);
	*file = NULL;
	return -WM_E_FILE_REPLACED;
}

int image_file_open(struct code_file **file, const char *root, const char *path,
		    const char *build_id)
{
	int err;

	if (!strcmp(path, "[vdso]"))
		return settle(file, vdso_open(file), build_id);
	err = settle(file, path_open(file, root, path), build_id);
	if (err && path[0] != '/')
		return err;
	if (err && settle(file, debug_open(file, root, build_id), build_id) &&
	    (!*root || settle(file, debug_open(file, "", build_id), build_id)))
		return err;
	return 0;
}
