/* SPDX-License-Identifier: MIT */
/*
 * Code that may not be replaced although nothing jumps into it, and functions whose return address
 * must stay what it is.
 */
#include "abi/site.h"
#include "target/code/file.h"
#include "target/code/gather.h"
#include "target/code/symbol.h"

#include "base/sorted.h"

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
 * Functions of libc, and of what belongs to it. The names are without the underscores before them.
 * These look at their return address, or return twice. A program's own of such a name is judged by
 * its code (return_look.c).
 */
static const char *const looking_names[] = {
	"Unwind_Backtrace", "backtrace", "dl_iterate_phdr", "dlmopen", "dlopen", "dlsym",
	"dlvsym",	    "fentry__",	 "getcontext",	    "mcount",  "setjmp", "sigsetjmp",
	"swapcontext",	    "vfork",
};

static const char *const library_names[] = {
	"libc.so.6",	 "ld-linux-x86-64.so.2", "libdl.so.2",	   "libpthread.so.0",
	"libgcc_s.so.1", "libstdc++.so.6",	 "libc++abi.so.1",
};

/*
 * Others leave two threads with one stack's content, or don't return at all: who waited for it
 * would be kept for ever. With a * at its end: what begins so.
 */
static const struct {
	const char *name;
	int refusal;
} return_names[] = {
	{ "clone", -WM_E_RETURN_LOOKED_AT },
	{ "clone3", -WM_E_RETURN_LOOKED_AT },
	{ "makecontext", -WM_E_RETURN_LOOKED_AT },

	{ "Exit", -WM_E_NO_RETURN },
	{ "Unwind_ForcedUnwind*", -WM_E_NO_RETURN },
	{ "Unwind_Resume*", -WM_E_NO_RETURN },
	{ "Unwind_RaiseException", -WM_E_NO_RETURN },
	{ "abort", -WM_E_NO_RETURN },
	{ "assert_fail*", -WM_E_NO_RETURN },
	{ "assert_perror_fail", -WM_E_NO_RETURN },
	{ "chk_fail", -WM_E_NO_RETURN },
	{ "cxa_rethrow", -WM_E_NO_RETURN },
	{ "cxa_throw", -WM_E_NO_RETURN },
	{ "execl", -WM_E_NO_RETURN },
	{ "execle", -WM_E_NO_RETURN },
	{ "execlp", -WM_E_NO_RETURN },
	{ "execv*", -WM_E_NO_RETURN },
	{ "exit", -WM_E_NO_RETURN },
	{ "fexecve", -WM_E_NO_RETURN },
	{ "fortify_fail", -WM_E_NO_RETURN },
	{ "libc_fatal", -WM_E_NO_RETURN },
	{ "libc_longjmp", -WM_E_NO_RETURN },
	{ "libc_siglongjmp", -WM_E_NO_RETURN },
	{ "libc_start_call_main", -WM_E_NO_RETURN },
	{ "libc_start_main*", -WM_E_NO_RETURN },
	{ "longjmp*", -WM_E_NO_RETURN },
	{ "pthread_exit", -WM_E_NO_RETURN },
	{ "quick_exit", -WM_E_NO_RETURN },
	{ "setcontext", -WM_E_NO_RETURN },
	{ "siglongjmp*", -WM_E_NO_RETURN },
	{ "stack_chk_fail*", -WM_E_NO_RETURN },
	{ "start_thread", -WM_E_NO_RETURN },
	{ "thrd_exit", -WM_E_NO_RETURN },
};

/*
 * Runtimes whose just-in-time compilers' code calls them: they find that code's frame by the return
 * address of the call, on the stack.
 */
static const char *const walker_names[] = {
	"J9VMDllMain",	      "JNI_CreateJavaVM", "JSGlobalContextCreate",
	"coreclr_initialize", "mono_jit_init",
};

static const char *const go_sections[] = {
	".note.go.buildid",
	".gopclntab",
	".data.rel.ro.gopclntab",
	".go.buildinfo",
};

/*
 * What signal handlers know by their instruction pointer: glibc's cancellation point (2.41 and
 * later), where a pending cancellation is acted upon between two of its addresses.
 */
static const char whole_name[] = "syscall_cancel_arch";

static void unpatchable_add(struct gather *gather, struct sweep_unpatchable **list, size_t *count,
			    struct sweep_unpatchable unpatchable)
{
	if (!(*count & 255)) {
		struct sweep_unpatchable *more = realloc(*list, (*count + 256) * sizeof(*more));

		if (!more) {
			gather->err = -ENOMEM;
			return;
		}
		*list = more;
	}
	(*list)[(*count)++] = unpatchable;
}

static void code_excluded_add(struct gather *gather, uint64_t start, uint64_t bytes, int refusal)
{
	unpatchable_add(gather, &gather->sweep->unpatchables, &gather->sweep->unpatchable_count,
			(struct sweep_unpatchable){ start, start + bytes, refusal });
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
		code_excluded_add(gather, start, SITE_BYTES, -WM_E_SPAN_MARKER);
		sweep_gather_target(gather,
				    self_relative(at, offsetof(struct wm_site, cold), site.cold));
	}
}

static void restartable_add(struct gather *gather, uint64_t at, uint64_t start)
{
	struct restartable sequence;

	if (!image_read(&gather->sweep->image, at, &sequence, sizeof(sequence)) &&
	    sequence.bytes < UINT64_MAX - start)
		code_excluded_add(gather, start, sequence.bytes, -WM_E_RESTARTABLE);
}

/*
 * The kernel sends a thread to the abort address only if its PC is between two addresses. A thread
 * in moved code would continue with stale data. The sequences' starts are relocated, unless the
 * program is fixed.
 */
static void restartables_take(struct gather *gather, const struct code_section *section)
{
	const struct image *image = &gather->sweep->image;
	struct restartable sequence;
	Elf64_Rela rela;

	for (uint64_t at = section->address; at - section->address < section->bytes;
	     at += sizeof(sequence)) {
		if (image_read(image, at, &sequence, sizeof(sequence)))
			break;
		if (sequence.start)
			restartable_add(gather, at, sequence.start);
	}
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

static void return_excluded_add(struct gather *gather, uint64_t start, uint64_t end, int refusal)
{
	struct sweep *sweep = gather->sweep;

	unpatchable_add(gather, &sweep->return_excluded, &sweep->return_excluded_count,
			(struct sweep_unpatchable){ start, end, refusal });
}

int code_file_is_go(const struct code_file *file)
{
	int is_go = 0;

	for (size_t i = 0; i < sizeof(go_sections) / sizeof(*go_sections); i++)
		is_go |= code_file_section(file, go_sections[i]) != NULL;
	return is_go;
}

/*
 * Go's own code is unpatchable. A goroutine's stack may end some hundred bytes below. The Go
 * runtime identifies the frames on it by PC, which must not be a trampoline's, and some begin in a
 * function's middle (runtime.goexit). The C code of such a program runs on stacks as usual.
 */
static void go_take(struct gather *gather, struct code_file *file)
{
	uint64_t start = 0, end = UINT64_MAX;

	if (!code_file_is_go(file))
		return;
	if (code_symbol_value(file, "runtime.text", &start) ||
	    code_symbol_value(file, "runtime.etext", &end)) {
		start = 0;
		end = UINT64_MAX;
	}
	code_excluded_add(gather, start, end - start, -WM_E_GO_CODE);
}

static bool name_fits(const char *name, const char *pattern)
{
	size_t bytes = strlen(pattern);

	if (pattern[bytes - 1] == '*')
		return !strncmp(name, pattern, bytes - 1);
	return !strcmp(name, pattern);
}

bool unpatchable_name_looks(const char *name)
{
	for (size_t i = 0; i < sizeof(looking_names) / sizeof(*looking_names); i++)
		if (!strcmp(name, looking_names[i]))
			return true;
	return false;
}

static void library_name_take(struct gather *gather, uint64_t address, const char *name)
{
	if (unpatchable_name_looks(name))
		return_excluded_add(gather, address, address + 1, -WM_E_RETURN_LOOKED_AT);
	for (size_t i = 0; i < sizeof(return_names) / sizeof(*return_names); i++)
		if (name_fits(name, return_names[i].name))
			return_excluded_add(gather, address, address + 1, return_names[i].refusal);
}

bool unpatchable_is_library(const struct image *image)
{
	const char *soname = image_text(image, image->soname);

	for (size_t i = 0; i < sizeof(library_names) / sizeof(*library_names); i++)
		if (!strcmp(soname, library_names[i]))
			return true;
	return false;
}

static void name_take(struct gather *gather, const struct code_function *function, const char *name)
{
	if (name_fits(name, whole_name))
		code_excluded_add(gather, function->address, function->bytes, -WM_E_RESTARTABLE);
	if (!strcmp(name, "mcount") || !strcmp(name, "fentry__"))
		sweep_import_add(gather, (struct sweep_import){ .at = function->address,
								.name = name,
								.looks = true,
								.profiles = true });
	for (size_t i = 0; i < sizeof(walker_names) / sizeof(*walker_names); i++)
		if (!strcmp(name, walker_names[i]))
			return_excluded_add(gather, 0, UINT64_MAX, -WM_E_RETURN_LOOKED_AT);
}

static void names_take(struct gather *gather, const struct code_symbols *symbols)
{
	bool is_known = unpatchable_is_library(&gather->sweep->image);

	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		for (size_t j = 0; j < function->count; j++) {
			const char *name = symbols->all[function->first + j].name;

			name += strspn(name, "_");
			name_take(gather, function, name);
			if (is_known)
				library_name_take(gather, function->address, name);
		}
	}
}

void unpatchable_gather(struct gather *gather, struct code_file *file,
			const struct code_symbols *symbols)
{
	const struct code_section *sites = code_file_section(file, "waymark_sites");
	const struct code_section *restartables = code_file_section(file, "__rseq_cs");
	struct sweep *sweep = gather->sweep;

	if (sites && sites->type != SHT_NOBITS)
		sites_take(gather, sites);
	if (restartables && restartables->type != SHT_NOBITS)
		restartables_take(gather, restartables);
	go_take(gather, file);
	if (symbols)
		names_take(gather, symbols);
	sorted_make(sweep->unpatchables, sweep->unpatchable_count, sizeof(*sweep->unpatchables));
	sorted_make(sweep->return_excluded, sweep->return_excluded_count,
		    sizeof(*sweep->return_excluded));
}
