/* SPDX-License-Identifier: MIT */
#include "record/perf/tracepoint.h"

#include "base/integer_type.h"
#include "base/tracefs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <waymark/error.h>

#define FILE_BYTES_MAX 65536
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO, include/linux/proc_ns.h */

struct c_type {
	const char *name;
	unsigned int bytes;
	int is_signed;
};

/* In system calls' tracepoints each argument has 8 bytes; the kernel uses its type's. */
static const struct c_type *narrow_type(const char *type)
{
	static const struct c_type types[] = {
		{ "int", 4, 1 },	  { "long", 8, 1 },	      { "off_t", 8, 1 },
		{ "loff_t", 8, 1 },	  { "pid_t", 4, 1 },	      { "key_t", 4, 1 },
		{ "clockid_t", 4, 1 },	  { "timer_t", 4, 1 },	      { "mqd_t", 4, 1 },
		{ "key_serial_t", 4, 1 }, { "rwf_t", 4, 1 },	      { "__s32", 4, 1 },
		{ "s32", 4, 1 },	  { "short", 2, 1 },	      { "unsigned int", 4, 0 },
		{ "unsigned", 4, 0 },	  { "uid_t", 4, 0 },	      { "gid_t", 4, 0 },
		{ "qid_t", 4, 0 },	  { "__u32", 4, 0 },	      { "u32", 4, 0 },
		{ "uint32_t", 4, 0 },	  { "unsigned short", 2, 0 }, { "umode_t", 2, 0 },
		{ "u16", 2, 0 },	  { "__u16", 2, 0 },	      { "unsigned char", 1, 0 },
		{ "u8", 1, 0 },		  { "__u8", 1, 0 },
	};

	if (!strncmp(type, "const ", 6))
		type += 6;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i].name))
			return &types[i];
	return !strncmp(type, "enum ", 5) ? &types[0] : NULL;
}

/* read(2) and mmap(2) declare descriptors unsigned, and -1 is one that is not open. */
static int is_descriptor(const char *name)
{
	size_t bytes = strlen(name);

	return bytes >= 2 && !strcmp(name + bytes - 2, "fd");
}

static void number_narrow(struct tracepoint_field *field, const char *type)
{
	const struct c_type *narrow = NULL;

	if (field->bytes == 8 && !strchr(type, '*'))
		narrow = narrow_type(is_descriptor(field->name) ? "int" : type);
	if (!narrow)
		return;
	field->is_narrowed = 1;
	field->bytes = narrow->bytes;
	field->type = integer_type(narrow->bytes, narrow->is_signed);
}

static uint8_t number_type(const char *type, unsigned int bytes, int is_signed)
{
	if (strchr(type, '*'))
		return bytes == 8 ? WM_TYPE_PTR : WM_TYPE_U32;
	if (!strcmp(type, "bool") && bytes == 1)
		return WM_TYPE_BOOL;
	return integer_type(bytes, is_signed);
}

/* One line: "field:char comm[16];	offset:8;	size:16;	signed:0;" */
static int field_parse(struct tracepoint_field *field, const char *line)
{
	char text[256], *name, *array;
	unsigned int offset, bytes;
	int is_signed = 0;
	const char *end = strchr(line, ';');
	size_t length = end ? (size_t)(end - line) : 0;

	if (!end || length >= sizeof(text) ||
	    sscanf(end, "; offset:%u; size:%u; signed:%d;", &offset, &bytes, &is_signed) < 2 ||
	    offset > UINT16_MAX || bytes > UINT16_MAX)
		return -EBADMSG;
	memcpy(text, line, length);
	text[length] = '\0';
	name = strrchr(text, ' ');
	if (!name || !name[1])
		return -EBADMSG;
	*name++ = '\0';
	array = strchr(name, '[');
	if (array)
		*array = '\0';
	*field = (struct tracepoint_field){ .offset = offset,
					    .bytes = bytes,
					    .is_dynamic = !strncmp(text, "__data_loc", 10) };
	snprintf(field->name, sizeof(field->name), "%.*s", TRACEPOINT_NAME_BYTES - 1, name);
	if (field->is_dynamic && bytes != 4)
		return -EBADMSG;
	if (field->is_dynamic || array)
		field->type = strstr(text, "char") && !strstr(text, "unsigned") ? WM_TYPE_STR
										: WM_TYPE_BYTES;
	else
		field->type = number_type(text, bytes, is_signed);
	if (!field->is_dynamic && !array)
		number_narrow(field, text);
	return 0;
}

int tracepoint_parse(struct tracepoint *tracepoint, const char *text)
{
	const char *end = strstr(text, "\nprint fmt");

	*tracepoint = (struct tracepoint){ 0 };
	for (const char *at = text; (at = strstr(at, "\tfield:")) && (!end || at < end); at++) {
		struct tracepoint_field field;
		int err = field_parse(&field, at + strlen("\tfield:"));

		if (err)
			return err;
		if (!strncmp(field.name, "common_", 7))
			continue;
		if (tracepoint->count == TRACEPOINT_FIELDS_MAX)
			tracepoint->left_out++;
		else
			tracepoint->fields[tracepoint->count++] = field;
	}
	return 0;
}

static int read_at(struct tracepoint *tracepoint, const char *path)
{
	FILE *file = fopen(path, "re");
	char *text;
	size_t bytes;
	int err = -ENOMEM;

	if (!file)
		return -errno;
	text = calloc(1, FILE_BYTES_MAX + 1);
	if (text) {
		bytes = fread(text, 1, FILE_BYTES_MAX, file);
		err = bytes ? tracepoint_parse(tracepoint, text) : -EBADMSG;
	}
	free(text);
	fclose(file);
	return err;
}

int tracepoint_read(struct tracepoint *tracepoint, const char *name, struct detail detail)
{
	const char *colon = strchr(name, ':'), *folder = tracefs_events();
	char path[PATH_MAX];
	int err;

	if (!colon)
		return detail_set(detail, -EINVAL, "the format of %s", name);
	if (!folder)
		return detail_set(detail, -EACCES, "%s", tracefs_missing());
	snprintf(path, sizeof(path), "%s/%.*s/%s/format", folder, (int)(colon - name), name,
		 colon + 1);
	err = read_at(tracepoint, path);
	if (!err)
		return 0;
	return err == -ENOENT ? detail_set(detail, -WM_E_COUNT_EVENT, "%s", name)
			      : detail_set(detail, err, "the format of %s", name);
}

int tracepoint_has_our_pids(void)
{
	struct stat file;

	return !stat("/proc/self/ns/pid", &file) && file.st_ino == FIRST_PID_NAMESPACE;
}

const struct tracepoint_field *tracepoint_find(const struct tracepoint *tracepoint,
					       const char *name)
{
	for (unsigned int i = 0; i < tracepoint->count; i++)
		if (!strcmp(tracepoint->fields[i].name, name))
			return &tracepoint->fields[i];
	return NULL;
}

const void *tracepoint_bytes(const struct tracepoint_field *field, const void *raw,
			     size_t raw_bytes, size_t *bytes)
{
	size_t offset = field->offset;
	uint32_t where;

	*bytes = field->bytes;
	if (field->is_dynamic) {
		if (offset + sizeof(where) > raw_bytes)
			return NULL;
		memcpy(&where, (const char *)raw + offset, sizeof(where));
		offset = where & 0xffff;
		*bytes = where >> 16;
	}
	if (offset > raw_bytes || *bytes > raw_bytes - offset)
		return NULL;
	return (const char *)raw + offset;
}

int64_t tracepoint_number(const struct tracepoint_field *field, const void *raw, size_t raw_bytes)
{
	size_t bytes;
	const void *at = field ? tracepoint_bytes(field, raw, raw_bytes, &bytes) : NULL;
	uint64_t value = 0;
	unsigned int shift;

	if (!at || bytes > sizeof(value) || !bytes)
		return 0;
	memcpy(&value, at, bytes);
	shift = (unsigned int)(8 * (sizeof(value) - bytes));
	return (int64_t)(value << shift) >> shift;
}
