/* SPDX-License-Identifier: MIT */
#include "read/history/image.h"

#include "base/array.h"
#include "base/kernel_image.h"
#include "base/name_match.h"
#include "base/slots.h"
#include "base/sorted.h"
#include "base/texts.h"
#include "read/history/kernel_symbols.h"
#include "target/code/demangle.h"
#include "target/code/fetch.h"
#include "target/code/rows.h"
#include "trace/kernel_names.h"
#include "trace/perf_map.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define PLACES_TOGETHER 512
#define FUNCTIONS_MAX (1u << 20) /* of code made at run time */
#define LOOK_BACK_MAX 64u	 /* modules of the same time that may lie around another's start */
#define PASSED_MAX 4096u	 /* of any time */
#define UNKNOWN_BYTES (1ull << 30) /* that a module may have whose file can't be had */
#define NOWHERE_BYTES 4096	   /* of memory that nothing is ever mapped at */
#define VDSO_MAX_BYTES (64u << 10)
#define ID_BYTES (2 * CODE_BUILD_ID_MAX + 1)

/* ---- a module's file, found again on this machine ---- */

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

/*
 * Open the file that was mapped as `path`, of that build id (in hex; NULL: it has none, and any
 * file will do), below `root` ("": as they are). "[vdso]" is the one in our own memory. Where the
 * file is not there or another, its separate debug file is taken instead, which has names and no
 * code: below /usr/lib/debug of `root`, then of this machine. 0; -ENOENT, -WM_E_FILE_REPLACED, or
 * as code_file_open(). Close with code_file_close().
 */
static int image_file_open(struct code_file **file, const char *root, const char *path,
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

/* ---- files, each read once ---- */

/* A module's file, and what was read of it. */
struct image_read {
	struct code_file *file; /* NULL: it can't be had, or the code is the kernel's */
	int error; /* why: as image_file_open(), kernel_symbols_read() or code_symbols_read() */
	struct code_symbols symbols;
	uint64_t kernel_bytes; /* of the kernel's code: what its symbols cover */
};

struct known {
	struct image_read read; /* first, so that one can get from it to this */
	struct known *next;
	char *path, *build_id; /* build_id NULL: none */
	uint64_t kernel_base;  /* 0: it is a file */
	char *kernel_names;    /* of symbols that no file has */
	struct code_rows rows;
	int has_rows;
};

struct image_files {
	char *root;
	struct known *known; /* what was asked for last comes first */
};

int image_files_open(struct image_files **out, const char *root)
{
	struct image_files *files = *out = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	files->root = strdup(root);
	if (files->root)
		return 0;
	free(files);
	*out = NULL;
	return -ENOMEM;
}

/* Whether the file of that path was written later than at a time, by the wall clock. */
static int image_files_is_later(const struct image_files *files, const char *path, uint64_t ns)
{
	char full[PATH_MAX];
	struct stat about;

	if (path[0] != '/' ||
	    snprintf(full, sizeof(full), "%s%s", files->root, path) >= (int)sizeof(full) ||
	    stat(full, &about))
		return 0;
	return (uint64_t)about.st_mtim.tv_sec * 1000000000u + (uint64_t)about.st_mtim.tv_nsec > ns;
}

static void known_free(struct known *known)
{
	code_rows_release(&known->rows);
	code_symbols_release(&known->read.symbols);
	code_file_close(known->read.file);
	free(known->kernel_names);
	free(known->build_id);
	free(known->path);
	free(known);
}

void image_files_close(struct image_files *files)
{
	if (!files)
		return;
	for (struct known *known = files->known, *next; known; known = next) {
		next = known->next;
		known_free(known);
	}
	free(files->root);
	free(files);
}

static int is_of(const struct known *known, const char *path, const char *build_id,
		 uint64_t kernel_base)
{
	if (known->kernel_base != kernel_base || !known->build_id != !build_id)
		return 0;
	return !strcmp(known->path, path) && (!build_id || !strcmp(known->build_id, build_id));
}

static struct known *known_new(const char *path, const char *build_id, uint64_t kernel_base)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->kernel_base = kernel_base;
	known->path = strdup(path);
	known->build_id = build_id ? strdup(build_id) : NULL;
	if (known->path && !known->build_id == !build_id)
		return known;
	known_free(known);
	return NULL;
}

static void known_read(struct known *known, const char *root)
{
	struct image_read *read = &known->read;

	if (known->kernel_base) {
		read->error = kernel_symbols_read(&read->symbols, &known->kernel_names,
						  &read->kernel_bytes, root, known->path,
						  known->kernel_base, known->build_id);
		return;
	}
	read->error = image_file_open(&read->file, root, known->path, known->build_id);
	if (!read->error)
		read->error = code_symbols_read(&read->symbols, read->file);
}

/*
 * The file that was mapped as `path`, of that build id (in hex; NULL: it has none) and, for the
 * kernel's code, at `base`. Read when it is first asked for. NULL: no memory.
 */
static struct image_read *image_files_get(struct image_files *files, const char *path,
					  const char *build_id, uint64_t base)
{
	uint64_t kernel_base = kernel_symbols_are(path, base) ? base : 0;
	struct known **at = &files->known, *known;

	while (*at && !is_of(*at, path, build_id, kernel_base))
		at = &(*at)->next;
	known = *at;
	if (known) {
		*at = known->next;
	} else {
		known = known_new(path, build_id, kernel_base);
		if (!known)
			return NULL;
		known_read(known, files->root);
	}
	known->next = files->known;
	files->known = known;
	return &known->read;
}

/* The lines of its code, read when they are first asked for; empty for a file without lines. */
static const struct code_rows *image_files_rows(struct image_read *read)
{
	struct known *known = (struct known *)read;

	if (read->file && !known->has_rows) {
		known->has_rows = 1;
		if (code_rows_read(&known->rows, read->file))
			code_rows_release(&known->rows);
	}
	return &known->rows;
}

/* ---- modules: when each was there, and what it covers ---- */

static const struct code_symbols no_symbols;

/*
 * From the event by which a module came to the one by which it went (trail_era); UINT32_MAX: it did
 * not.
 */
struct image_stay {
	uint32_t from, to;
};

struct image_mapped {
	struct image_module seen;	/* first, so that one can get from it to this */
	uint64_t low;			/* what it covers begins there; once it is opened */
	struct image_read *read;	/* once it is opened; NULL: no memory */
	size_t order;			/* in which they came, the last time */
	uint64_t ns;			/* when it came first, by the wall clock; 0: unknown */
	const struct image_stay *stays; /* one behind the other */
	size_t stay_count;
	int is_opened;
};

/* From a time on: the process's modules are those of an era, and no two of them at one place. */
struct image_moment {
	uint64_t ns;
	uint32_t from; /* as in trail_era */
};

struct image_modules {
	struct image_files *files, *own_files; /* the former may be others' */
	struct image_mapped *all;	       /* by start */
	size_t count;
	struct image_stay *stays;
	struct image_moment *moments; /* the first begins at 0 */
	size_t moment_count;
};

/* Of those that begin at one address, the preferred one is last. */
static int by_start(const void *one, const void *other)
{
	const struct image_mapped *a = one, *b = other;

	if (a->seen.start != b->seen.start)
		return a->seen.start < b->seen.start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* A module that came or went, and when. */
struct change {
	const struct fact_module *of;
	uint32_t order;
};

static int by_path(const void *one, const void *other)
{
	const struct change *a = one, *b = other;
	int paths;

	if (a->of->base != b->of->base)
		return a->of->base < b->of->base ? -1 : 1;
	paths = strcmp(a->of->path, b->of->path);
	if (paths)
		return paths;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* What ran at that time was another build than the file; without a build id only its time shows. */
static int is_replaced(const struct image_modules *modules, const char *path, const char *build_id,
		       uint64_t ns)
{
	return !build_id && ns && image_files_is_later(modules->files, path, ns);
}

static int is_same_build(const struct image_modules *modules, const struct image_mapped *last,
			 const struct fact_module *module)
{
	const char *one = last->seen.build_id, *other = module->build_id;

	if (one || other)
		return one && other && !strcmp(one, other);
	return !is_replaced(modules, module->path, NULL, last->ns) ||
	       is_replaced(modules, module->path, NULL, module->ns);
}

/*
 * A module that came: that of `last` again, or another. What lay there until now did not go, but
 * its place is taken.
 */
static struct image_mapped *comes(struct image_modules *modules, struct image_mapped *last,
				  const struct change *change, size_t stays)
{
	struct image_stay *stay = &modules->stays[stays];

	if (last && stay[-1].to == UINT32_MAX)
		stay[-1].to = change->order;
	if (!last || !is_same_build(modules, last, change->of)) {
		last = &modules->all[modules->count++];
		*last = (struct image_mapped){ .seen = { .path = change->of->path,
							 .name = name_last_part(change->of->path),
							 .build_id = change->of->build_id,
							 .base = change->of->base,
							 .start = change->of->base,
							 .symbols = &no_symbols },
					       .ns = change->of->ns,
					       .stays = stay };
	}
	last->order = change->order;
	last->stay_count++;
	*stay = (struct image_stay){ change->order, UINT32_MAX };
	return last;
}

/* What came and went, made modules: each once, and when it was there. */
static void modules_take(struct image_modules *modules, const struct change *changes, size_t count)
{
	struct image_mapped *last = NULL;
	size_t stays = 0;

	for (size_t i = 0; i < count; i++) {
		const struct change *change = &changes[i];

		if (last && (last->seen.base != change->of->base ||
			     strcmp(last->seen.path, change->of->path) != 0))
			last = NULL;
		if (!change->of->gone)
			last = comes(modules, last, change, stays++);
		else if (last && modules->stays[stays - 1].to == UINT32_MAX)
			modules->stays[stays - 1].to = change->order;
	}
}

/*
 * A module that comes may take a place of what went before, or of what was at its base: a moment
 * begins when the last of these went, or it comes. `again` has the orders of those that come to a
 * base that had one.
 */
static void moments_take(struct image_modules *modules, const struct fact_process *process,
			 const uint8_t *again)
{
	uint64_t gone_ns = 0, ns;
	int is_any_gone = 0;

	modules->moment_count = 1;
	for (size_t i = 0; i < process->module_count; i++) {
		const struct fact_module *module = &process->modules[i];
		struct image_moment *moment = &modules->moments[modules->moment_count];

		if (module->gone) {
			is_any_gone = 1;
			gone_ns = module->ns;
			continue;
		}
		ns = is_any_gone && gone_ns ? gone_ns : module->ns;
		if (!ns || (!is_any_gone && !again[i]))
			continue;
		*moment = (struct image_moment){ ns > moment[-1].ns ? ns : moment[-1].ns,
						 (uint32_t)i };
		modules->moment_count++;
		is_any_gone = 0;
	}
}

/* The moment of a time, by the wall clock; its number is that of the era. */
static struct trail_era image_modules_then(const struct image_modules *modules, uint64_t ns)
{
	size_t next = sorted_at_most(modules->moments, modules->moment_count,
				     sizeof(*modules->moments), offsetof(struct image_moment, ns),
				     ns);

	return (struct trail_era){ (uint32_t)next - 1, modules->moments[next - 1].from,
				   next < modules->moment_count ? modules->moments[next].from : 0 };
}

/* As image_open(). Release also after an error. */
static int image_modules_open(struct image_modules *modules, const struct fact_process *process,
			      const struct image_options *options)
{
	struct change *changes = calloc(process->module_count + 1, sizeof(*changes));
	uint8_t *again = calloc(process->module_count + 1, 1);

	*modules = (struct image_modules){
		.all = calloc(process->module_count + 1, sizeof(*modules->all)),
		.stays = calloc(process->module_count + 1, sizeof(*modules->stays)),
		.moments = calloc(process->module_count + 2, sizeof(*modules->moments)),
	};
	modules->files = options ? options->files : NULL;
	if (!modules->files) {
		const char *root = options && options->root ? options->root : "";

		(void)image_files_open(&modules->own_files, root);
		modules->files = modules->own_files;
	}
	if (!changes || !again || !modules->files || !modules->all || !modules->stays ||
	    !modules->moments) {
		free(changes);
		free(again);
		return -ENOMEM;
	}
	for (size_t i = 0; i < process->module_count; i++)
		changes[i] = (struct change){ &process->modules[i], (uint32_t)i };
	qsort(changes, process->module_count, sizeof(*changes), by_path);
	for (size_t i = 1, first = 0; i < process->module_count; i++) {
		size_t later = i;

		if (changes[i].of->base != changes[first].of->base) {
			first = i;
			continue;
		}
		if (changes[i].order < changes[first].order) {
			later = first;
			first = i;
		}
		again[changes[later].order] = 1;
	}
	moments_take(modules, process, again);
	free(again);
	modules_take(modules, changes, process->module_count);
	qsort(modules->all, modules->count, sizeof(*modules->all), by_start);
	free(changes);
	return 0;
}

static void image_modules_release(struct image_modules *modules)
{
	free(modules->all);
	free(modules->stays);
	free(modules->moments);
	image_files_close(modules->own_files);
	*modules = (struct image_modules){ 0 };
}

/* The range that its file's segments cover. */
static void reach_of(struct image_mapped *module)
{
	struct image_module *seen = &module->seen;

	module->low = UINT64_MAX;
	for (size_t i = 0; i < seen->file->segment_count; i++) {
		const struct code_segment *segment = &seen->file->segments[i];
		uint64_t start = seen->base + segment->address, end = start + segment->bytes;

		if (segment->type == PT_LOAD && end > seen->end)
			seen->end = end;
		if (segment->type == PT_LOAD && start < module->low)
			module->low = start;
	}
}

static void module_open(struct image_modules *modules, struct image_mapped *module)
{
	struct image_module *seen = &module->seen;
	struct image_read *read;

	module->is_opened = 1;
	if (is_replaced(modules, seen->path, seen->build_id, module->ns)) {
		seen->error = -WM_E_FILE_REPLACED;
		return;
	}
	read = image_files_get(modules->files, seen->path, seen->build_id, seen->base);
	module->read = read;
	if (!read) {
		seen->error = -ENOMEM;
		return;
	}
	seen->file = read->file;
	seen->error = read->error;
	seen->symbols = &read->symbols;
	if (read->file) {
		reach_of(module);
	} else if (read->kernel_bytes) {
		module->low = seen->base;
		seen->end = seen->base + read->kernel_bytes;
	}
}

/*
 * Whether the module reaches to an address behind its start, which for a program that is not PIE is
 * 0.
 */
static int reaches(struct image_modules *modules, struct image_mapped *module, uint64_t address)
{
	if (!module->is_opened)
		module_open(modules, module);
	if (module->seen.end)
		return address >= module->low && address < module->seen.end;
	return address >= NOWHERE_BYTES && address - module->seen.start < UNKNOWN_BYTES;
}

enum presence { NOT_THERE, WENT, STAYED };

/*
 * Whether a module was there in an era: decided by its last stay that began before the era's end.
 * Stays don't overlap.
 */
static enum presence presence_in(const struct image_mapped *module, const struct trail_era *era)
{
	uint32_t to = era->to ? era->to : UINT32_MAX;
	size_t low = 0, high = module->stay_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (module->stays[middle].from < to)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || module->stays[low - 1].to < era->from)
		return NOT_THERE;
	return module->stays[low - 1].to >= to ? STAYED : WENT;
}

/*
 * The module that begins last before an address and reaches to it, of those that were there in that
 * era. One that was there to its end is taken before one that went, and of two at one place the
 * later. NULL: none.
 */
static struct image_mapped *image_modules_at(struct image_modules *modules,
					     const struct trail_era *era, uint64_t address)
{
	size_t low = sorted_at_most(modules->all, modules->count, sizeof(*modules->all),
				    offsetof(struct image_mapped, seen.start), address);
	size_t passed = 0, seen = 0;
	struct image_mapped *found = NULL;

	while (low-- && passed++ < PASSED_MAX && seen < LOOK_BACK_MAX) {
		struct image_mapped *module = &modules->all[low];
		enum presence presence = presence_in(module, era);

		seen += presence != NOT_THERE;
		if (presence == NOT_THERE || (found && presence == WENT) ||
		    !reaches(modules, module, address))
			continue;
		found = module;
		if (presence == STAYED)
			break;
	}
	if (found)
		found->seen.is_asked = 1;
	return found;
}

/* ---- code made at run time ---- */

/*
 * The functions that a process made at run time, by the copy of its map in the trace's folder
 * (trace/perf_map.h); of the trace's process of the kernel, the kernel's functions
 * (trace/kernel_names.h). The module is not one of the process's: it has no file, and covers no
 * addresses but those of the functions.
 */
struct jit {
	struct image_mapped mapped; /* never opened */
	struct code_symbols symbols;
	char *text, path[64];
};

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

/*
 * Of the process `pid` of a trace, or of the kernel; `trace` NULL: of none. 0 also where there is
 * no map, or a damaged one, whose lines that can't be read are left out; or -ENOMEM. Release also
 * after an error.
 */
static int jit_open(struct jit *jit, const struct trace_reader *trace, uint32_t pid, int is_kernel)
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

static void jit_release(struct jit *jit)
{
	code_symbols_release(&jit->symbols);
	free(jit->text);
	*jit = (struct jit){ 0 };
}

/* ---- images ---- */

struct image {
	struct image *whole;	      /* whose era this is; the whole's own: all the time */
	struct image_modules modules; /* the whole's */
	struct jit jit;		      /* the whole's: code in no module */
	int with_parameters;	      /* the whole's: how functions are named */
	struct image_eras {
		struct image **all; /* by number; NULL: not asked for yet */
		size_t count, room;
	} eras, moments; /* the whole's: of tables, of times */
	struct trail_era era;
	struct slots slots;	     /* of places, by their addresses */
	struct image_place **places; /* chunks of PLACES_TOGETHER, which do not move */
	size_t chunk_room;
	uint32_t place_count;
	struct texts names; /* of functions, shared by all places in them */
};

static struct image *image_new(struct image *whole, const struct trail_era *era)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->whole = whole ? whole : image;
	image->era = *era;
	if (!slots_fit(&image->slots))
		return image;
	free(image);
	return NULL;
}

int image_open(struct image **out, const struct fact_process *process,
	       const struct image_options *options)
{
	struct image *image = *out = image_new(NULL, &(struct trail_era){ 0 });

	if (!image)
		return -ENOMEM;
	image->with_parameters = options && options->with_parameters;
	if (image_modules_open(&image->modules, process, options) ||
	    jit_open(&image->jit, options ? options->trace : NULL, process->pid,
		     process->is_kernel)) {
		image_close(image);
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* NULL: no memory. */
static struct image *era_get(struct image *whole, struct image_eras *eras,
			     const struct trail_era *era)
{
	if (array_grow_zeroed(&eras->all, &eras->room, era->number + 1ul, sizeof(struct image *)))
		return NULL;
	if (era->number >= eras->count)
		eras->count = era->number + 1ul;
	if (!eras->all[era->number])
		eras->all[era->number] = image_new(whole, era);
	return eras->all[era->number];
}

struct image *image_in(struct image *image, const struct trail_table *table)
{
	return table ? era_get(image->whole, &image->whole->eras, &table->era) : image->whole;
}

struct image *image_then(struct image *image, uint64_t ns, uint32_t *number)
{
	struct image *whole = image->whole;
	struct trail_era era = image_modules_then(&whole->modules, ns);

	if (number)
		*number = era.number;
	return whole->modules.moment_count == 1 ? whole : era_get(whole, &whole->moments, &era);
}

static void eras_close(struct image_eras *eras)
{
	for (size_t i = 0; i < eras->count; i++)
		image_close(eras->all[i]);
	free(eras->all);
}

void image_close(struct image *image)
{
	if (!image)
		return;
	eras_close(&image->eras);
	eras_close(&image->moments);
	image_modules_release(&image->modules);
	jit_release(&image->jit);
	for (size_t i = 0; i < image->place_count; i += PLACES_TOGETHER)
		free(image->places[i / PLACES_TOGETHER]);
	free(image->places);
	texts_release(&image->names);
	free(image->slots.all);
	free(image);
}

/* ---- of a trace ---- */

int images_open(struct images *images, struct trace_reader *reader,
		const struct image_options *options)
{
	*images = (struct images){ .reader = reader };
	if (options)
		images->options = *options;
	images->options.trace = reader;
	images->all = calloc(reader->meta.process_count + 1ul, sizeof(struct image *));
	if (!images->all)
		return -ENOMEM;
	return image_files_open(&images->options.files,
				images->options.root ? images->options.root : "");
}

void images_close(struct images *images)
{
	for (uint32_t i = 0; images->all && i <= images->reader->meta.process_count; i++)
		image_close(images->all[i]);
	free(images->all);
	image_files_close(images->options.files);
	*images = (struct images){ 0 };
}

struct image *images_get(struct images *images, uint32_t process)
{
	static const struct fact_process unknown;
	const struct facts *meta = &images->reader->meta;
	uint32_t at = process < meta->process_count ? process : meta->process_count;

	if (!images->all[at])
		(void)image_open(&images->all[at],
				 at < meta->process_count ? &meta->processes[at] : &unknown,
				 &images->options);
	return images->all[at];
}

/* ---- places ---- */

static struct image_mapped *module_at(struct image *image, uint64_t address)
{
	return image_modules_at(&image->whole->modules, &image->era, address);
}

static struct image_place *place_at(const struct image *image, uint32_t number)
{
	return &image->places[number / PLACES_TOGETHER][number % PLACES_TOGETHER];
}

/* NULL: it was not asked for yet. */
static struct image_place *place_known(const struct image *image, uint64_t address)
{
	uint32_t hash = slots_hash(address), number;

	for (uint64_t at = hash; slots_next(&image->slots, hash, &at, &number);)
		if (place_at(image, number)->address == address)
			return place_at(image, number);
	return NULL;
}

static const char *name_add(struct image *image, const char *linkage)
{
	char text[IMAGE_NAME_MAX + 1];

	code_name_text(linkage, image->whole->with_parameters, text, sizeof(text));
	return texts_keep(&image->names, text, strlen(text));
}

static struct image_place *place_new(struct image *image)
{
	size_t chunk = image->place_count / PLACES_TOGETHER;

	if (!(image->place_count % PLACES_TOGETHER)) {
		if (array_grow(&image->places, &image->chunk_room, chunk + 1,
			       sizeof(*image->places)))
			return NULL;
		image->places[chunk] = calloc(PLACES_TOGETHER, sizeof(**image->places));
		if (!image->places[chunk])
			return NULL;
	}
	return place_at(image, image->place_count++);
}

/*
 * The function there; one whose symbol has no size ends with its section: what comes then is a PLT,
 * or data.
 */
static const struct code_function *function_at(const struct image_module *module, uint64_t address)
{
	const struct code_function *function = code_function_at(module->symbols, address);

	if (!function || function->bytes || !module->file ||
	    code_file_section_at(module->file, address) ==
		    code_file_section_at(module->file, function->address))
		return function;
	return NULL;
}

/* The first place of a function has its name made, and all others share it. */
static struct image_place *place_find(struct image *image, uint64_t address)
{
	struct image_mapped *mapped = module_at(image, address);
	struct image_module *module = mapped ? &mapped->seen : &image->whole->jit.mapped.seen;
	const struct code_function *function = function_at(module, address - module->base);
	uint64_t start = function ? module->base + function->address : 0;
	const struct image_place *first = function && start != address ? image_place(image, start)
								       : NULL;
	struct image_place *place = place_new(image);

	if (!place || (!mapped && !function))
		return place;
	place->module = module;
	if (!function)
		return place;
	place->start = start;
	place->bytes = function->bytes;
	place->linkage = module->symbols->all[function->first].name;
	if (first && first->start == start && first->module == module)
		place->function = first->function;
	else
		place->function = name_add(image, place->linkage);
	return place;
}

const struct image_place *image_place(struct image *image, uint64_t address)
{
	struct image_place *place = place_known(image, address);

	if (place)
		return place;
	place = place_find(image, address);
	if (!place || slots_fit(&image->slots))
		return NULL;
	place->address = address;
	slots_add(&image->slots, slots_hash(address), image->place_count - 1);
	return place;
}

const struct image_module *image_module_at(struct image *image, uint64_t address)
{
	struct image_mapped *module = module_at(image, address);

	return module ? &module->seen : NULL;
}

void image_module_line(const struct image_module *seen, uint64_t address, struct image_line *line)
{
	const struct image_mapped *module = (const struct image_mapped *)(const void *)seen;
	const struct code_row *row = NULL;

	if (module->read)
		row = code_row_at(image_files_rows(module->read), address - seen->base);
	*line = row ? (struct image_line){ row->source, row->line } : (struct image_line){ 0 };
}

void image_line(struct image *image, uint64_t address, struct image_line *line)
{
	const struct image_mapped *module = module_at(image, address);

	*line = (struct image_line){ 0 };
	if (module)
		image_module_line(&module->seen, address, line);
}

/* What a module's file has at an address. */
static size_t code_of(const struct image_module *module, uint64_t address, void *buffer,
		      size_t bytes)
{
	const struct code_segment *segment;
	uint64_t linked, left;

	if (!module || !module->file || module->file->is_debug)
		return 0;
	linked = address - module->base;
	segment = code_file_segment(module->file, linked);
	if (!segment || !code_file_is_text(module->file, linked, 1))
		return 0;
	left = segment->address + segment->file_bytes - linked;
	bytes = bytes < left ? bytes : (size_t)left;
	return code_file_read(module->file, linked, buffer, bytes) ? 0 : bytes;
}

size_t image_code(struct image *image, uint64_t address, void *buffer, size_t bytes)
{
	const struct image_mapped *module = module_at(image, address);

	return code_of(module ? &module->seen : NULL, address, buffer, bytes);
}

void image_check(struct image *image, const struct trail_table *table,
		 const struct trail_block *block)
{
	const struct image *whole = image->whole, *in;
	const uint8_t *code = trail_table_code(table, block);
	uint8_t read[TRAIL_BLOCK_BYTES_MAX];
	const struct image_place *place;
	size_t has;

	in = table->era.number < whole->eras.count ? whole->eras.all[table->era.number] : NULL;
	place = in ? place_known(in, block->start) : NULL;
	if (!code || !place || !place->module || block->bytes > sizeof(read))
		return;
	has = code_of(place->module, block->start, read, block->bytes);
	place->module->others += has && memcmp(read, code, has) != 0;
}

struct image_module *image_module(struct image *image, size_t index)
{
	const struct image_modules *modules = &image->whole->modules;
	struct jit *jit = &image->whole->jit;

	if (index == modules->count && jit->symbols.count)
		return &jit->mapped.seen;
	return index < modules->count ? &modules->all[index].seen : NULL;
}

int image_has(struct image *image, const struct image_module *module)
{
	return presence_in((const struct image_mapped *)(const void *)module, &image->era) !=
	       NOT_THERE;
}
