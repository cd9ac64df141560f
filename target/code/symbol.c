/* SPDX-License-Identifier: MIT */
#include "target/code/symbol.h"

#include "base/array.h"
#include "base/similar_names.h"
#include "base/sorted.h"
#include "target/code/demangle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AROUND_MAX 4096	     /* labels before an address that it is sought behind */
#define NAME_BYTES_MAX 65536 /* C++ templates have names of thousands */
#define OLD_VERSION '\1'     /* no name begins with it */

/* Demangled names, for those who ask for near ones. */
struct code_written {
	char **names;
	size_t count;
};

/* One symbol table that is being read, and who takes its symbols; a return other than 0 ends it. */
struct table {
	const struct code_file *module;
	const char *strings;
	size_t strings_bytes;
	uint64_t bias; /* added to the table's addresses */
	const char *unit;
	int is_hidden; /* the symbol's version is not the default one */
	int (*take)(struct table *table, const char *name, const Elf64_Sym *symbol);
	void *data;
};

static int add(struct code_symbols *symbols, const struct code_symbol *symbol)
{
	if (array_grow(&symbols->all, &symbols->room, symbols->count + 1, sizeof(*symbols->all)))
		return -ENOMEM;
	symbols->all[symbols->count++] = *symbol;
	return 0;
}

/* foo.cold, foo.cold.3, foo.isra.0.cold */
static int is_part_name(const char *name)
{
	const char *cold = strstr(name, ".cold");

	return cold && cold != name && (!cold[5] || cold[5] == '.');
}

static int take_function(struct table *table, const char *name, const Elf64_Sym *from)
{
	unsigned char type = ELF64_ST_TYPE(from->st_info), bind = ELF64_ST_BIND(from->st_info);
	struct code_symbol symbol = { .name = name, .unit = "", .is_ifunc = type == STT_GNU_IFUNC };

	if (type == STT_FILE)
		table->unit = name;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || from->st_shndx == SHN_UNDEF ||
	    from->st_shndx == SHN_ABS || !*name)
		return 0;
	symbol.address = from->st_value + table->bias;
	symbol.bytes = from->st_size;
	if (!code_file_is_text(table->module, symbol.address, symbol.bytes ? symbol.bytes : 1))
		return 0;
	symbol.bind = bind == STB_LOCAL ? BIND_LOCAL : bind == STB_WEAK ? BIND_WEAK : BIND_GLOBAL;
	if (symbol.bind == BIND_LOCAL)
		symbol.unit = table->unit;
	symbol.is_part = is_part_name(name);
	symbol.is_old = table->is_hidden;
	return add(table->data, &symbol);
}

/*
 * A name in .symtab includes its version: memcpy@@GLIBC_2.14, or memcpy@GLIBC_2.2.5 for an old one.
 * We may cut our copy; a mark behind the cut keeps that it was an old one.
 */
static void cut_versions(char *strings, size_t bytes)
{
	for (char *at = memchr(strings, '@', bytes); at;
	     at = memchr(at, '@', bytes - (size_t)(at - strings))) {
		if (at == strings || !at[-1]) {
			at++;
			continue;
		}
		*at = 0;
		if (at + 1 < strings + bytes && at[1] && at[1] != '@')
			at[1] = OLD_VERSION;
	}
}

static uint64_t bias_of(const struct code_file *module, const struct code_file *holder)
{
	const struct code_section *mine = code_file_section(module, ".text");
	const struct code_section *its = code_file_section(holder, ".text");

	return module != holder && mine && its ? mine->address - its->address : 0;
}

/* The versions of .dynsym's symbols, or NULL. */
static const uint16_t *versions_of(struct code_file *holder, uint32_t type, size_t count)
{
	const void *content;
	size_t bytes;

	for (size_t i = 0; type == SHT_DYNSYM && i < holder->section_count; i++)
		if (holder->sections[i].type == SHT_GNU_versym &&
		    !code_file_content(holder, &holder->sections[i], &content, &bytes) &&
		    bytes / sizeof(uint16_t) >= count)
			return content;
	return NULL;
}

static int is_old_name(const struct table *table, const char *name)
{
	const char *behind = name + strlen(name) + 1;

	return behind < table->strings + table->strings_bytes && *behind == OLD_VERSION;
}

/* Walk the table of the given type in `holder`. -ENOENT: no such table. */
static int table_walk(struct table *table, struct code_file *holder, uint32_t type)
{
	const struct code_section *section = NULL;
	const void *entries, *strings;
	const uint16_t *versions;
	size_t bytes;

	for (size_t i = 0; i < holder->section_count && !section; i++)
		if (holder->sections[i].type == type)
			section = &holder->sections[i];
	if (!section || section->link >= holder->section_count ||
	    code_file_content(holder, section, &entries, &bytes) ||
	    code_file_content(holder, &holder->sections[section->link], &strings,
			      &table->strings_bytes))
		return -ENOENT;
	table->strings = strings;
	table->unit = "";
	table->bias = bias_of(table->module, holder);
	cut_versions((char *)strings, table->strings_bytes);
	versions = versions_of(holder, type, bytes / sizeof(Elf64_Sym));
	for (size_t i = 1; i < bytes / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		const char *name;
		int ret;

		memcpy(&symbol, (const char *)entries + i * sizeof(symbol), sizeof(symbol));
		/*
		 * A NUL ends the strings at the latest: code_file_content() puts one behind them.
		 */
		if (symbol.st_name >= table->strings_bytes)
			continue;
		name = table->strings + symbol.st_name;
		/* All of a forged table's may end at the same NUL, the table's last byte. */
		if (strnlen(name, NAME_BYTES_MAX) == NAME_BYTES_MAX)
			continue;
		table->is_hidden = versions ? versions[i] >> 15 : is_old_name(table, name);
		ret = table->take(table, name, &symbol);
		if (ret)
			return ret;
	}
	return 0;
}

/* Which of two names at one address serves better: the public one, the plainer one. */
static int by_quality(const struct code_symbol *a, const struct code_symbol *b)
{
	size_t a_underscores = strspn(a->name, "_"), b_underscores = strspn(b->name, "_");
	size_t a_bytes = strlen(a->name), b_bytes = strlen(b->name);

	if (a->is_part != b->is_part)
		return a->is_part - b->is_part;
	if (a->bind != b->bind)
		return (int)a->bind - (int)b->bind;
	if (a_underscores != b_underscores)
		return a_underscores < b_underscores ? -1 : 1;
	if (a_bytes != b_bytes)
		return a_bytes < b_bytes ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int by_address(const void *one, const void *other)
{
	const struct code_symbol *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return by_quality(a, b);
}

/* The same symbol is in .symtab and in .dynsym. */
static void drop_doubles(struct code_symbols *symbols)
{
	size_t kept = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		struct code_symbol *last = kept ? &symbols->all[kept - 1] : NULL;
		const struct code_symbol *symbol = &symbols->all[i];

		if (!last || last->address != symbol->address || strcmp(last->name, symbol->name)) {
			symbols->all[kept++] = *symbol;
			continue;
		}
		if (last->bytes < symbol->bytes)
			last->bytes = symbol->bytes;
		if (!*last->unit)
			last->unit = symbol->unit;
		last->is_old |= symbol->is_old;
	}
	symbols->count = kept;
}

static int group(struct code_symbols *symbols)
{
	symbols->functions = calloc(symbols->count + 1, sizeof(*symbols->functions));
	if (!symbols->functions)
		return -ENOMEM;
	for (size_t i = 0; i < symbols->count; i++) {
		const struct code_symbol *symbol = &symbols->all[i];
		struct code_function *last = symbols->functions + symbols->function_count - 1;

		if (!symbols->function_count || last->address != symbol->address) {
			last = &symbols->functions[symbols->function_count++];
			*last = (struct code_function){ .address = symbol->address,
							.first = i,
							.is_part = 1 };
		}
		last->count++;
		last->is_part &= symbol->is_part;
		last->is_ifunc |= symbol->is_ifunc;
		if (last->bytes < symbol->bytes)
			last->bytes = symbol->bytes;
	}
	return 0;
}

/* All tables there are. Returns how many are more than .dynsym, or what take() returned. */
static int tables_walk(struct table *table, struct code_file *file)
{
	const struct {
		struct code_file *holder;
		uint32_t type;
	} sources[] = { { file, SHT_SYMTAB },
			{ file, SHT_DYNSYM },
			{ code_file_debug(file), SHT_SYMTAB },
			{ code_file_packed(file), SHT_SYMTAB } };
	int count = 0;

	table->module = file;
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		int err = sources[i].holder ? table_walk(table, sources[i].holder, sources[i].type)
					    : -ENOENT;

		if (err && err != -ENOENT)
			return err;
		count += !err && sources[i].type == SHT_SYMTAB;
	}
	return count;
}

int code_symbols_read(struct code_symbols *symbols, struct code_file *file)
{
	struct table table = { .take = take_function, .data = symbols };
	int count;

	*symbols = (struct code_symbols){ .written = calloc(1, sizeof(*symbols->written)) };
	if (!symbols->written)
		return -ENOMEM;
	count = tables_walk(&table, file);
	if (count < 0)
		return count;
	symbols->is_stripped = !count;
	if (symbols->count)
		qsort(symbols->all, symbols->count, sizeof(*symbols->all), by_address);
	drop_doubles(symbols);
	return group(symbols);
}

struct wanted {
	const char *name;
	int is_thread; /* a thread-local variable */
	struct code_symbol_found found;
	int is_found;
};

static int take_value(struct table *table, const char *name, const Elf64_Sym *symbol)
{
	struct wanted *wanted = table->data;
	unsigned char type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t address = symbol->st_value + (wanted->is_thread ? 0 : table->bias);

	if (symbol->st_shndx == SHN_UNDEF || (type == STT_TLS) != wanted->is_thread ||
	    type == STT_FILE || type == STT_SECTION || strcmp(name, wanted->name))
		return 0;
	if (wanted->is_found && wanted->found.address != address)
		return -ENOTUNIQ;
	wanted->is_found = 1;
	wanted->found = (struct code_symbol_found){
		.address = address,
		.bytes = symbol->st_size,
		.is_function = type == STT_FUNC || type == STT_GNU_IFUNC,
	};
	return 0;
}

int code_symbol_find(struct code_file *file, const char *name, int is_thread,
		     struct code_symbol_found *found)
{
	struct wanted wanted = { .name = name, .is_thread = is_thread };
	struct table table = { .take = take_value, .data = &wanted };
	int err = tables_walk(&table, file);

	if (err < 0)
		return err;
	*found = wanted.found;
	return wanted.is_found ? 0 : -ENOENT;
}

int code_symbol_value(struct code_file *file, const char *name, uint64_t *address)
{
	struct code_symbol_found found = { 0 };
	int err = code_symbol_find(file, name, 0, &found);

	*address = found.address;
	return err;
}

struct data_names {
	int (*take)(const char *name, void *data);
	void *data;
	int ret;
};

static int take_data(struct table *table, const char *name, const Elf64_Sym *symbol)
{
	struct data_names *names = table->data;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF || !*name)
		return 0;
	names->ret = names->take(name, names->data);
	return names->ret ? -ECANCELED : 0;
}

int code_symbol_data(struct code_file *file, int (*take)(const char *name, void *data), void *data)
{
	struct data_names names = { take, data, 0 };
	struct table table = { .take = take_data, .data = &names };
	int err = tables_walk(&table, file);

	return names.ret ? names.ret : err < 0 ? err : 0;
}

struct data_place {
	uint64_t address;
	char *text;
	size_t room;
};

static int take_data_at(struct table *table, const char *name, const Elf64_Sym *symbol)
{
	const struct data_place *place = table->data;
	uint64_t offset = place->address - symbol->st_value;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF ||
	    !*name || offset >= symbol->st_size)
		return 0;
	if (offset)
		snprintf(place->text, place->room, "%s+0x%" PRIx64, name, offset);
	else
		snprintf(place->text, place->room, "%s", name);
	return -ECANCELED;
}

int code_symbol_data_at(struct code_file *file, uint64_t address, char *text, size_t room)
{
	struct data_place place = { address, text, room };
	struct table table = { .take = take_data_at, .data = &place };
	int err = tables_walk(&table, file);

	return err == -ECANCELED ? 0 : err < 0 ? err : -ENOENT;
}

static void written_release(struct code_written *written)
{
	if (!written)
		return;
	for (size_t i = 0; i < written->count; i++)
		free(written->names[i]);
	free(written->names);
	free(written);
}

void code_symbols_release(struct code_symbols *symbols)
{
	free(symbols->all);
	free(symbols->functions);
	written_release(symbols->written);
	*symbols = (struct code_symbols){ 0 };
}

const struct code_function *code_function_at(const struct code_symbols *symbols, uint64_t address)
{
	size_t low = sorted_at_most(symbols->functions, symbols->function_count,
				    sizeof(*symbols->functions),
				    offsetof(struct code_function, address), address);

	/* A nearer function may end before: an alias of a function's tail, a label in it. */
	for (size_t tries = 0; low-- && tries < AROUND_MAX; tries++) {
		const struct code_function *function = &symbols->functions[low];

		if (!function->bytes || address - function->address < function->bytes)
			return function;
		if (address - function->address > 1u << 20)
			break;
	}
	return NULL;
}

const struct code_function *code_function_named(const struct code_symbols *symbols,
						const char *name)
{
	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		for (size_t j = 0; j < function->count; j++)
			if (!strcmp(symbols->all[function->first + j].name, name))
				return function;
	}
	return NULL;
}

static void written_fill(const struct code_symbols *symbols)
{
	struct code_written *written = symbols->written;
	char text[CODE_NAME_MAX + 1];

	if (written->names)
		return;
	written->names = calloc(symbols->count + 1, sizeof(*written->names));
	for (size_t i = 0; written->names && i < symbols->count; i++) {
		if (!code_demangle(symbols->all[i].name, 0, text, sizeof(text)))
			continue;
		written->names[written->count] = strdup(text);
		written->count += written->names[written->count] != NULL;
	}
}

/* The ends of names, as debuggers take them: Order::add for shop::Order::add. */
static int near_scoped(const struct code_written *written, const char *name, const char **out,
		       size_t max)
{
	size_t count = 0;

	for (size_t i = 0; i < written->count && count < max; i++) {
		const char *whole = written->names[i];
		size_t k = 0;

		if (!similar_is_scoped(name, whole))
			continue;
		while (k < count && strcmp(out[k], whole))
			k++;
		if (k == count)
			out[count++] = whole;
	}
	return (int)count;
}

int code_symbols_near(const struct code_symbols *symbols, const char *name, const char **out,
		      size_t max)
{
	const char **names;
	int count;

	written_fill(symbols);
	count = near_scoped(symbols->written, name, out, max);
	if (count)
		return count;
	if (strstr(name, "::"))
		return similar_list(name, (const char *const *)symbols->written->names,
				    symbols->written->count, out, max);
	names = calloc(symbols->count + 1, sizeof(*names));
	if (!names)
		return 0;
	for (size_t i = 0; i < symbols->count; i++)
		names[i] = symbols->all[i].name;
	count = similar_list(name, names, symbols->count, out, max);
	free(names);
	return count;
}
