/* SPDX-License-Identifier: MIT */
#include "target/code/usdt.h"

#include "base/array.h"
#include "target/code/operand.h"
#include "target/code/symbol.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NOTE_OWNER "stapsdt"
#define NOTE_TYPE 3
#define ARGUMENT_MAX 1024

/* In a note's description, three texts follow these three. */
struct stapsdt {
	uint64_t address, base, semaphore;
};

static int add(struct code_usdt_list *list, const struct code_usdt *usdt)
{
	if (list->count >= CODE_USDT_MAX)
		return -WM_E_MODULE_DAMAGED;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	list->all[list->count++] = *usdt;
	return 0;
}

/* The text at *at, which moves behind its NUL; NULL: no NUL before the end. */
static const char *text_take(const char **at, const char *end)
{
	const char *text = *at;
	const char *nul = memchr(text, 0, (size_t)(end - text));

	*at = nul ? nul + 1 : end;
	return nul ? text : NULL;
}

/* Names go into other texts; what could end or split one is no name. */
static int is_name(const char *text)
{
	if (!text || !*text)
		return 0;
	for (; *text; text++)
		if (!isgraph((unsigned char)*text) || *text == ':')
			return 0;
	return 1;
}

static int note_take(struct code_usdt_list *list, const struct code_section *base,
		     const char *description, size_t bytes)
{
	const char *at = description + sizeof(struct stapsdt), *end = description + bytes;
	struct code_usdt usdt;
	struct stapsdt fixed;
	uint64_t moved;

	if (bytes < sizeof(fixed))
		return -WM_E_MODULE_DAMAGED;
	memcpy(&fixed, description, sizeof(fixed));
	moved = base && fixed.base ? base->address - fixed.base : 0;
	usdt.address = fixed.address + moved;
	usdt.semaphore = fixed.semaphore ? fixed.semaphore + moved : 0;
	usdt.provider = text_take(&at, end);
	usdt.name = text_take(&at, end);
	usdt.arguments = text_take(&at, end);
	if (!is_name(usdt.provider) || !is_name(usdt.name) || !usdt.arguments)
		return -WM_E_MODULE_DAMAGED;
	return add(list, &usdt);
}

/* Where the linker drops a function that it had a copy of, it leaves the note, with address 0. */
static int is_discarded(const struct code_usdt *usdt)
{
	return !usdt->address;
}

static int section_read(struct code_usdt_list *list, const struct code_section *base,
			struct code_file *holder, const struct code_section *section)
{
	const void *content;
	const char *notes;
	size_t bytes;
	int err = code_file_content(holder, section, &content, &bytes);

	if (err)
		return err == -ENOMEM ? err : err == -ENOENT ? 0 : -WM_E_MODULE_DAMAGED;
	notes = content;
	for (uint64_t at = 0; !err && at < bytes;) {
		Elf64_Nhdr note;
		uint64_t name = at + sizeof(note), description;

		if (bytes - at < sizeof(note))
			return -WM_E_MODULE_DAMAGED;
		memcpy(&note, notes + at, sizeof(note));
		description = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		if (description > bytes || note.n_descsz > bytes - description)
			return -WM_E_MODULE_DAMAGED;
		if (note.n_type == NOTE_TYPE && note.n_namesz == sizeof(NOTE_OWNER) &&
		    !memcmp(notes + name, NOTE_OWNER, sizeof(NOTE_OWNER)))
			err = note_take(list, base, notes + description, note.n_descsz);
		if (!err && list->count && is_discarded(&list->all[list->count - 1]))
			list->count--;
		at = description + (((uint64_t)note.n_descsz + 3) & ~3ull);
	}
	return err;
}

static int by_name(const void *one, const void *other)
{
	const struct code_usdt *a = one, *b = other;
	int order = strcmp(a->provider, b->provider);

	if (!order)
		order = strcmp(a->name, b->name);
	if (!order && a->address != b->address)
		order = a->address < b->address ? -1 : 1;
	return order ? order : strcmp(a->arguments, b->arguments);
}

static void drop_doubles(struct code_usdt_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (!kept || by_name(&list->all[kept - 1], &list->all[i]))
			list->all[kept++] = list->all[i];
	list->count = kept;
}

static int holder_read(struct code_usdt_list *list, struct code_file *file,
		       struct code_file *holder)
{
	const struct code_section *base = code_file_section(file, ".stapsdt.base");
	int err = 0;

	for (size_t i = 0; !err && i < holder->section_count; i++)
		if (holder->sections[i].type == SHT_NOTE &&
		    !strcmp(holder->sections[i].name, ".note.stapsdt"))
			err = section_read(list, base, holder, &holder->sections[i]);
	return err;
}

int code_usdt_read(struct code_usdt_list *list, struct code_file *file)
{
	struct code_file *debug;
	int err;

	*list = (struct code_usdt_list){ 0 };
	err = holder_read(list, file, file);
	debug = !err && !list->count ? code_file_debug(file) : NULL;
	if (debug)
		err = holder_read(list, file, debug);
	if (list->count)
		qsort(list->all, list->count, sizeof(*list->all), by_name);
	drop_doubles(list);
	return err;
}

void code_usdt_release(struct code_usdt_list *list)
{
	free(list->all);
	*list = (struct code_usdt_list){ 0 };
}

static int find_symbol(void *data, const char *name, uint64_t *address)
{
	return code_symbol_value(data, name, address) ? -ENOENT : 0;
}

int code_usdt_fields(const struct code_usdt *usdt, struct code_file *file,
		     struct code_field *fields, int max)
{
	const struct operand_symbols symbols = { .find = find_symbol,
						 .data = file,
						 .is_fixed = file->header.e_type == ET_EXEC };
	const char *at = usdt->arguments;
	char text[ARGUMENT_MAX];
	int count = 0, ret;

	while ((ret = operand_next(&at, text, sizeof(text))) != 0) {
		struct code_field *field = &fields[count];

		if (count++ >= max)
			continue;
		*field = (struct code_field){ 0 };
		snprintf(field->name, sizeof(field->name), "arg%d", count);
		if (ret < 0 || operand_parse(text, &symbols, &field->from, &field->type))
			field->type = 0;
	}
	return count;
}

void code_usdt_argument(const struct code_usdt *usdt, int number, char *text, size_t bytes)
{
	const char *at = usdt->arguments;

	*text = 0;
	while (number-- > 0)
		if (operand_next(&at, text, bytes) == 0)
			return;
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}
