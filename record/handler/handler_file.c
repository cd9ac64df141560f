/* SPDX-License-Identifier: MIT */
/* Objects of handlers, from their files. */
#include "record/handler/handler_file.h"

#include "base/regular_file.h"
#include "target/code/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

static int bytes_read(struct handler_object *object)
{
	struct stat about;
	int fd = regular_file_open(object->path, &about), err = 0;

	if (fd < 0)
		return fd;
	if (about.st_size > HANDLER_FILE_BYTES_MAX)
		err = -EFBIG;
	object->bytes = err ? NULL : malloc((size_t)about.st_size + 1);
	if (!err && !object->bytes)
		err = -ENOMEM;
	while (!err && object->byte_count < (size_t)about.st_size) {
		ssize_t got = read(fd, object->bytes + object->byte_count,
				   (size_t)about.st_size - object->byte_count);

		if (got <= 0)
			err = got < 0 ? -errno : -WM_E_NOT_ELF;
		else
			object->byte_count += (size_t)got;
	}
	close(fd);
	return err;
}

/* An object that another version's header, or anyone, wrote. */
static int is_sound(const struct wm_handler *record)
{
	return record->magic == WM__HANDLER_MAGIC && record->version == WM__HANDLER_VERSION &&
	       record->kind && strchr("mbeufrx", record->kind) && !record->types[16] &&
	       memchr(record->module, 0, sizeof(record->module)) && record->name[0] &&
	       memchr(record->name, 0, sizeof(record->name));
}

static int records_read(struct handler_object *object, struct code_file *file, struct detail detail)
{
	const struct code_section *section = code_file_section(file, HANDLER_SECTION);
	const void *content;
	size_t bytes;
	int err;

	if (!section || !section->bytes)
		return detail_set(detail, -WM_E_HANDLER, "it has no handlers");
	err = code_file_content(file, section, &content, &bytes);
	if (err)
		return err;
	object->count = (unsigned int)(bytes / sizeof(struct wm_handler));
	if (bytes % sizeof(struct wm_handler) || object->count > HANDLERS_MAX)
		return detail_set(detail, -WM_E_HANDLER,
				  "its handlers are damaged, or more than %d", HANDLERS_MAX);
	object->all = calloc(object->count, sizeof(*object->all));
	object->modules = calloc(object->count, sizeof(*object->modules));
	if (!object->all || !object->modules)
		return -ENOMEM;
	for (unsigned int i = 0; i < object->count; i++) {
		struct wm_handler record;

		memcpy(&record, (const char *)content + i * sizeof(record), sizeof(record));
		if (!is_sound(&record))
			return detail_set(detail, -WM_E_HANDLER,
					  "it was built with another version of handler.h");
		object->all[i] = (struct control_handler){
			.at = section->address + i * sizeof(record), .kind = record.kind
		};
		memcpy(object->all[i].types, record.types, sizeof(object->all[i].types));
		memcpy(object->all[i].name, record.name, sizeof(record.name));
		memcpy(object->modules[i], record.module, sizeof(record.module));
		if (!strcmp(record.module, "any"))
			object->modules[i][0] = 0;
	}
	return 0;
}

int handler_object_read(struct handler_object *object, const char *path, struct detail detail)
{
	struct code_file *file = NULL;
	struct elf elf;
	int err;

	*object = (struct handler_object){ .path = strdup(path) };
	if (!object->path)
		return -ENOMEM;
	err = elf_open(&elf, path);
	if (!err)
		object->build_id_bytes = elf_build_id(&elf, object->build_id);
	elf_release(&elf);
	/* what is checked here is what is sent */
	if (!err)
		err = bytes_read(object);
	if (!err)
		err = code_file_open_image(&file, path, object->bytes, object->byte_count);
	if (!err)
		err = records_read(object, file, detail);
	code_file_close(file);
	if (!err && getrandom(&object->key, sizeof(object->key), 0) != sizeof(object->key))
		err = -errno;
	return err;
}

void handler_object_release(struct handler_object *object)
{
	free(object->path);
	free(object->bytes);
	free(object->all);
	free(object->modules);
	*object = (struct handler_object){ 0 };
}

/* ---- types ---- */

/* As specs have them. */
static const char *type_word(uint8_t type)
{
	static const char *const words[] = {
		[WM_TYPE_I8] = "i8",   [WM_TYPE_U8] = "u8",	[WM_TYPE_I16] = "i16",
		[WM_TYPE_U16] = "u16", [WM_TYPE_I32] = "i32",	[WM_TYPE_U32] = "u32",
		[WM_TYPE_I64] = "i64", [WM_TYPE_U64] = "u64",	[WM_TYPE_BOOL] = "bool",
		[WM_TYPE_F32] = "f32", [WM_TYPE_F64] = "f64",	[WM_TYPE_PTR] = "ptr",
		[WM_TYPE_STR] = "str", [WM_TYPE_CHAR] = "char",
	};

	return type < sizeof(words) / sizeof(words[0]) ? words[type] : NULL;
}

const char *handler_types(const uint8_t types[16], char *text, size_t bytes)
{
	size_t used = (size_t)snprintf(text, bytes, "(");

	for (int i = 0; i < 16 && types[i] && used < bytes; i++) {
		const char *word = type_word(types[i] & WM_TYPE_MASK);

		used += (size_t)snprintf(text + used, bytes - used, "%s%s%s", i ? ", " : "",
					 word ? word : "bytes",
					 types[i] & WM_TYPE_ARRAY ? "[]" : "");
	}
	if (used < bytes)
		snprintf(text + used, bytes - used, ")");
	return text;
}

int handler_spec(const struct handler_object *object, unsigned int number, char *text, size_t bytes)
{
	const struct control_handler *handler = &object->all[number];
	const char *module = object->modules[number];
	char name[16];
	size_t used;
	int count = 0;

	while (count < 16 && handler->types[count])
		count++;
	if (strchr("mbe", handler->kind)) {
		snprintf(text, bytes, "marker:%s", handler->name);
		return 0;
	}
	/* the last one is its duration, which needs no word */
	count -= handler_is_at_return(handler);
	used = (size_t)snprintf(text, bytes, "%s:%s%s%s%s", handler->kind == 'u' ? "usdt" : "func",
				handler->name, module[0] ? "@" : "", module, count ? "/" : "");
	for (int i = 0; i < count && used < bytes; i++) {
		const char *word = type_word(handler->types[i]);

		if (!word)
			return -WM_E_HANDLER;
		snprintf(name, sizeof(name), "arg%d", i + 1);
		if (handler_is_at_return(handler) && i == count - 1)
			strcpy(name, "ret");
		used += (size_t)snprintf(text + used, bytes - used, "%s%s:%s", i ? "," : "", name,
					 word);
	}
	if (count && used < bytes)
		used += (size_t)snprintf(text + used, bytes - used, "/");
	return used < bytes ? 0 : -WM_E_HANDLER;
}
