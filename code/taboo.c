/* SPDX-License-Identifier: MIT */
/*
 * Code that may not be replaced although nothing jumps into it, and functions whose return address must
 * stay what it is.
 */
#include "abi/site.h"
#include "code/file.h"
#include "code/gather.h"
#include "code/symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

/* As the kernel has it (linux/rseq.h, struct rseq_cs). */
struct restartable {
	uint32_t version, flags;
	uint64_t start, bytes, abort;
};

/*
 * Names without the underscores before them. These return twice, or elsewhere, or ask who called them to
 * know for which module to look something up.
 */
static const char *const return_names[] = {
	"clone",  "clone3",	"dl_iterate_phdr", "dlmopen",	  "dlopen", "dlsym",
	"dlvsym", "fentry__",	"getcontext",	   "makecontext", "mcount", "savectx",
	"setjmp", "setcontext", "sigsetjmp",	   "swapcontext", "vfork",  "vforkx",
};

/*
 * What signal handlers know by their instruction pointer: glibc's cancellation point (2.41 and later),
 * where a pending cancellation is acted upon between two of its addresses.
 */
static const char *const whole_names[] = { "syscall_cancel_arch" };

static void taboo_add(struct gather *gather, uint64_t start, uint64_t end, int refusal)
{
	struct sweep *sweep = gather->sweep;

	if (!(sweep->taboo_count & 255)) {
		struct sweep_taboo *taboos = realloc(sweep->taboos,
						     (sweep->taboo_count + 256) * sizeof(*taboos));

		if (!taboos) {
			gather->err = -ENOMEM;
			return;
		}
		sweep->taboos = taboos;
	}
	sweep->taboos[sweep->taboo_count++] = (struct sweep_taboo){ start, end, refusal };
}

/* The value of a field that is relative to itself. */
static uint64_t self_relative(uint64_t address, size_t offset, int32_t value)
{
	return address + offset + (uint64_t)(int64_t)value;
}

/* The agent writes markers' sites itself; and in the file nothing jumps where an armed one does. */
static void sites_take(struct gather *gather, const struct code_section *section)
{
	struct wm_site site;

	for (uint64_t at = section->address; at - section->address < section->bytes;
	     at += sizeof(site)) {
		uint64_t start;

		if (image_read(&gather->sweep->image, at, &site, sizeof(site)))
			return;
		if (!site.site)
			continue;
		start = self_relative(at, offsetof(struct wm_site, site), site.site);
		taboo_add(gather, start, start + SITE_BYTES, -WM_E_SPAN_MARKER);
		gather_target(gather, self_relative(at, offsetof(struct wm_site, cold), site.cold));
	}
}

static void restartable_add(struct gather *gather, uint64_t at, uint64_t start)
{
	struct restartable sequence;

	if (!image_read(&gather->sweep->image, at, &sequence, sizeof(sequence)) &&
	    sequence.bytes < UINT64_MAX - start)
		taboo_add(gather, start, start + sequence.bytes, -WM_E_RESTARTABLE);
}

/*
 * The kernel sends a thread to the abort address only from between two addresses: who was moved away
 * would go on with what is no longer true. Their starts are relocated, unless the program is fixed.
 */
static void restartables_take(struct gather *gather, const struct code_section *section)
{
	const struct image *image = &gather->sweep->image;
	struct restartable sequence;
	Elf64_Rela rela;

	for (uint64_t at = section->address; at - section->address < section->bytes;
	     at += sizeof(sequence))
		if (!image_read(image, at, &sequence, sizeof(sequence)) && sequence.start)
			restartable_add(gather, at, sequence.start);
	for (uint64_t i = 0; i + sizeof(rela) <= image->relocation_bytes; i += sizeof(rela)) {
		uint64_t offset;

		if (image_read(image, image->relocations + i, &rela, sizeof(rela)))
			return;
		offset = rela.r_offset - section->address;
		if (offset < section->bytes && ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE &&
		    offset % sizeof(sequence) == offsetof(struct restartable, start))
			restartable_add(gather, rela.r_offset - offsetof(struct restartable, start),
					(uint64_t)rela.r_addend);
	}
}

static bool is_named(const struct code_symbols *symbols, const struct code_function *function,
		     const char *const *names, size_t count)
{
	for (size_t i = 0; i < function->count; i++) {
		const char *name = symbols->all[function->first + i].name;

		name += strspn(name, "_");
		for (size_t j = 0; j < count; j++)
			if (!strcmp(name, names[j]))
				return true;
	}
	return false;
}

static void names_take(struct gather *gather, const struct code_symbols *symbols)
{
	struct address_list list = { 0 };

	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		if (is_named(symbols, function, return_names,
			     sizeof(return_names) / sizeof(*return_names)))
			address_add(gather, &list, function->address);
		if (is_named(symbols, function, whole_names,
			     sizeof(whole_names) / sizeof(*whole_names)))
			taboo_add(gather, function->address, function->address + function->bytes,
				  -WM_E_RESTARTABLE);
	}
	address_sort(&list);
	gather->sweep->return_taboos = list.all;
	gather->sweep->return_taboo_count = list.count;
}

static int taboo_order(const void *a, const void *b)
{
	const struct sweep_taboo *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void gather_taboos(struct gather *gather, struct code_file *file,
		   const struct code_symbols *symbols)
{
	const struct code_section *sites = code_file_section(file, "waymark_sites");
	const struct code_section *restartables = code_file_section(file, "__rseq_cs");
	struct sweep *sweep = gather->sweep;

	if (sites && sites->type != SHT_NOBITS)
		sites_take(gather, sites);
	if (restartables && restartables->type != SHT_NOBITS)
		restartables_take(gather, restartables);
	if (symbols)
		names_take(gather, symbols);
	if (sweep->taboo_count)
		qsort(sweep->taboos, sweep->taboo_count, sizeof(*sweep->taboos), taboo_order);
}
