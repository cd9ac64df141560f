/* SPDX-License-Identifier: MIT */
/* Finds the separate file that holds what was stripped from a file. */
#include "target/code/fetch.h"
#include "target/code/file.h"

#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACKED_MAX_BYTES (128u << 20) /* unpacked */
#define UNPACK_MEMORY_BYTES (256u << 20)
#define CRC_STEP_BYTES 65536

static int crc_is(const struct code_file *debug, uint32_t wanted)
{
	uint8_t *buffer = malloc(CRC_STEP_BYTES);
	uint32_t crc = 0;
	off_t at = 0;
	ssize_t got = 0;

	while (buffer && (got = pread(debug->fd, buffer, CRC_STEP_BYTES, at)) > 0) {
		crc = lzma_crc32(buffer, (size_t)got, crc);
		at += got;
	}
	free(buffer);
	return buffer && !got && crc == wanted;
}

/* A debug file of another build would give us addresses of other functions. */
static struct code_file *open_if_it_fits(const struct code_file *file, const char *path,
					 const uint32_t *crc)
{
	struct code_file *debug;
	int fits;

	if (code_file_open_as(&debug, path, file->is_shared))
		return NULL;
	if (file->build_id_bytes && debug->build_id_bytes)
		fits = file->build_id_bytes == debug->build_id_bytes &&
		       !memcmp(file->build_id, debug->build_id, file->build_id_bytes);
	else
		fits = crc && crc_is(debug, *crc);
	if (fits)
		return debug;
	code_file_close(debug);
	return NULL;
}

static void build_id_print(const struct code_file *file, char hex[2 * CODE_BUILD_ID_MAX + 1])
{
	for (size_t i = 0; i < file->build_id_bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", file->build_id[i]);
}

/* From a server (target/code/fetch.h). */
static struct code_file *by_server(const struct code_file *file)
{
	char path[PATH_MAX], hex[2 * CODE_BUILD_ID_MAX + 1];

	if (file->build_id_bytes < 2)
		return NULL;
	build_id_print(file, hex);
	return code_fetch_debug(hex, path, sizeof(path)) ? NULL : open_if_it_fits(file, path, NULL);
}

static struct code_file *by_build_id(const struct code_file *file, const char *root)
{
	char path[PATH_MAX], hex[2 * CODE_BUILD_ID_MAX + 1];

	if (file->build_id_bytes < 2)
		return NULL;
	build_id_print(file, hex);
	snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, hex,
		 hex + 2);
	return open_if_it_fits(file, path, NULL);
}

/* As gdb looks for it: beside the file, in .debug/ there, and below /usr/lib/debug. */
static struct code_file *by_link(const struct code_file *file, const char *root, const char *name,
				 uint32_t crc)
{
	static const char *const ways[][2] = { { "", "" },
					       { "", ".debug/" },
					       { "/usr/lib/debug", "" } };
	const char *slash = strrchr(file->path, '/');
	int folder = slash ? (int)(slash - file->path) + 1 : 0;
	struct code_file *debug = NULL;
	char path[PATH_MAX];

	for (size_t i = 0; !debug && i < sizeof(ways) / sizeof(ways[0]); i++) {
		int took = snprintf(path, sizeof(path), "%s%s%.*s%s%s", root, ways[i][0], folder,
				    file->path, ways[i][1], name);

		if (took > 0 && (size_t)took < sizeof(path))
			debug = open_if_it_fits(file, path, &crc);
	}
	return debug;
}

struct code_file *code_file_debug(struct code_file *file)
{
	const struct code_section *link = code_file_section(file, ".gnu_debuglink");
	const void *content = NULL;
	const char *name = NULL;
	size_t bytes = 0, end;
	uint32_t crc = 0;

	if (file->debug_sought)
		return file->debug;
	file->debug_sought = 1;
	if (file->is_vdso)
		return NULL;
	if (link && !code_file_content(file, link, &content, &bytes)) {
		end = (strnlen(content, bytes) + 4) & ~(size_t)3;
		if (end + sizeof(crc) <= bytes && !strchr(content, '/')) {
			name = content;
			memcpy(&crc, name + end, sizeof(crc));
		}
	}
	file->debug = by_build_id(file, file->root);
	if (!file->debug && *file->root)
		file->debug = by_build_id(file, "");
	if (!file->debug && name)
		file->debug = by_link(file, file->root, name, crc);
	if (!file->debug && name && *file->root)
		file->debug = by_link(file, "", name, crc);
	/* one that has debug information needs no other */
	if (!file->debug && !code_file_section(file, ".debug_info"))
		file->debug = by_server(file);
	return file->debug;
}

struct code_file *code_file_shared(const char *root, const char *folder, const char *name,
				   const void *build_id, size_t build_id_bytes)
{
	struct code_file wanted = { .build_id_bytes = build_id_bytes, .is_shared = 1 }, *shared;
	int is_whole = *name == '/';
	char path[PATH_MAX];

	if (build_id_bytes > sizeof(wanted.build_id))
		return NULL;
	memcpy(wanted.build_id, build_id, build_id_bytes);
	shared = by_build_id(&wanted, root);
	if (!shared && snprintf(path, sizeof(path), "%s%s/%s", root, is_whole ? "" : folder, name) <
			       (int)sizeof(path))
		shared = open_if_it_fits(&wanted, path, NULL);
	return shared ? shared : by_server(&wanted);
}

/* Unpack an .xz stream into memory that grows with it, within bounds. */
static int unpack(const void *content, size_t bytes, uint8_t **image, size_t *image_bytes)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	size_t room = bytes * 4 + 4096;
	lzma_ret ret;

	*image = NULL;
	if (lzma_stream_decoder(&stream, UNPACK_MEMORY_BYTES, 0) != LZMA_OK)
		return -ENOMEM;
	stream.next_in = content;
	stream.avail_in = bytes;
	do {
		uint8_t *more = room > PACKED_MAX_BYTES ? NULL : realloc(*image, room);

		if (!more) {
			ret = LZMA_MEM_ERROR;
			break;
		}
		*image = more;
		stream.next_out = more + stream.total_out;
		stream.avail_out = room - stream.total_out;
		ret = lzma_code(&stream, LZMA_FINISH);
		room *= 2;
	} while (ret == LZMA_OK && !stream.avail_out);
	*image_bytes = stream.total_out;
	lzma_end(&stream);
	if (ret == LZMA_STREAM_END)
		return 0;
	free(*image);
	*image = NULL;
	return -EINVAL;
}

struct code_file *code_file_packed(struct code_file *file)
{
	const struct code_section *section = code_file_section(file, ".gnu_debugdata");
	const void *content;
	size_t bytes, image_bytes;
	uint8_t *image;

	if (file->packed_sought)
		return file->packed;
	file->packed_sought = 1;
	if (!section || code_file_content(file, section, &content, &bytes) ||
	    bytes > PACKED_MAX_BYTES / 4 || unpack(content, bytes, &image, &image_bytes))
		return NULL;
	(void)code_file_open_image(&file->packed, file->path, image, image_bytes);
	free(image);
	return file->packed;
}
