/* SPDX-License-Identifier: MIT */
/*
 * All kinds of event specs and their options: what is parsed, completed, and printed in the manual
 * and by `waymark help spec`.
 */
#include "record/spec/kinds.h"

#include "abi/page.h"
#include "record/spec/spec.h"

#include <linux/perf_event.h>

#define IN(request, member)                                                                        \
	.at = offsetof(struct request, member), .bytes = sizeof(((struct request *)NULL)->member)
#define FLAG(word, request, member, bits, text, ...)                                               \
	{                                                                                          \
		.name = word, .meaning = text, IN(request, member), .flag = bits, ##__VA_ARGS__    \
	}
#define OPTIONS(all) .options = all, .option_count = sizeof(all) / sizeof(all[0])
#define SLOT(member, request) .slot = offsetof(struct spec, member), .bytes = sizeof(struct request)

/* clang-format off */
#define IF								\
	{ "if", SPEC_NAMES, "CONDITION", "only hits for which it is true: FIELD, one of == != < <= > >= & ~, a VALUE",	\
	  .most = PREDICATES_MAX, .read = spec_read_predicate }
#define BT(request, member)								\
	{ "bt", SPEC_NUMBER, "N", "who called, up to N callers; the default is 10",	\
	  IN(request, member), .flag = CALLERS_DEFAULT, .min = 1, .max = FIELD_CALLERS_MAX }
#define SUM(word, value, text, count)							\
	{ word, SPEC_NAMES, value, text, .divider = '+', .most = count, .read = spec_read_sum }
#define SUMS										\
	SUM("sum", "FIELD+FIELD", "no events, but the sums of these fields", SUM_FIELDS_MAX),		\
	SUM("min", "FIELD+FIELD", "and their least values", SUM_FIELDS_MAX),				\
	SUM("max", "FIELD+FIELD", "and their greatest", SUM_FIELDS_MAX),				\
	SUM("avg", "FIELD+FIELD", "the same as sum, which has the mean too", SUM_FIELDS_MAX),		\
	SUM("hist", "FIELD", "how often each size of value came, by four sizes to a power of two", 1),	\
	SUM("by", "FIELD+FIELD", "sums for each value of these fields; also caller, callchain (with bt=N), pid, tid, cpu, comm", SUM_KEYS_MAX)
#define COUNT FLAG("count", code_request, sums.is_wanted, 1, "no events, but how often it was hit", .divider = '+')

static const struct spec_option marker_options[] = {
	BT(spec, callers),
	{ "count", SPEC_NAMES, "NAME+NAME", "what its thread has used so far, by name; alone: no events, but how often it was hit",
	  IN(spec, sums.is_wanted), .flag = 1, .divider = '+', .most = COST_NAMES_MAX,
	  .read = spec_read_cost },
	IF, SUMS,
};

#define SAFE								\
	FLAG("safe", code_request, is_safe, 1, "only where a uprobe of another tool can do no harm")
#define ARGS FLAG("args", code_request, wants_all, 1, "all arguments")

#define EVENT								\
	{ "name", SPEC_NAMES, "SUBSYSTEM:EVENT", "call the event so, as a marker's",	\
	  .divider = '+', .most = 1, .read = spec_read_event }

static const struct spec_option function_options[] = {
	FLAG("ret", code_request, wants_return, 1, "the return too: the call becomes a span; ret:TYPE", .read = spec_read_type),
	ARGS, EVENT, BT(code_request, callers), IF, COUNT, SUMS, SAFE,
};
static const struct spec_option usdt_options[] = {
	ARGS, EVENT, BT(code_request, callers), IF, COUNT, SUMS, SAFE,
};
static const struct spec_option address_options[] = {
	EVENT, BT(code_request, callers), IF, COUNT, SUMS, SAFE,
};

static const struct spec_option trail_options[] = {
	FLAG("auto", trail_request, origins, 1u << ORIGINS, "the best origin that works here; the default"),
	FLAG("soft", trail_request, origins, 1u << ORIGIN_SOFT, "a translator in the process"),
	FLAG("pt", trail_request, origins, 1u << ORIGIN_PT, "Intel Processor Trace"),
	FLAG("bts", trail_request, origins, 1u << ORIGIN_BTS, "Branch Trace Store"),
	{ "last", SPEC_SIZE, "SIZE", "a flight recorder: only the newest SIZE of each process",
	  IN(trail_request, last_bytes), .min = TRAIL_LAST_MIN, .max = TRAIL_LAST_MAX },
	{ "only", SPEC_NAMES, "NAME", "only code of these modules; main is the program; more names may follow",
	  .divider = ',', .most = ONLY_NAMES_MAX, .read = spec_read_module },
	FLAG("kernel", trail_request, has_kernel, 1, "the kernel's branches too; of pt and bts"),
};

static const struct spec_option watch_options[] = {
	{ "if", SPEC_NAMES, "CONDITION", "only hits for which it is true: changed; or value, old or tid, a relation of C, a number",
	  .most = WATCH_CONDITIONS_MAX, .read = spec_read_condition },
	{ "bt", SPEC_NUMBER, "N", "a backtrace, of N callers at most; the default is 10",
	  IN(watch_expr, options.frames), .flag = WATCH_FRAMES_DEFAULT,
	  .min = 1, .max = WATCH_FRAMES_MAX },
	FLAG("count", watch_expr, options.counts, 1, "count hits by their place, and record none"),
	{ "signal", SPEC_SIGNAL, "NAME", "send that signal to the thread after each hit", IN(watch_expr, options.signal) },
	FLAG("trail", watch_expr, options.trail, 1, "keep the flight recorder's trail at each hit"),
	FLAG("follow", watch_expr, options.follows, 1, "go with the pointers of the expression"),
	FLAG("outside", watch_expr, options.is_outside, 1, "read hits from outside: the target gets no SIGTRAP, and no agent"),
	FLAG("kernel", watch_expr, options.has_kernel, 1, "also what the kernel writes there for the target; implies outside"),
	FLAG("thread=main", watch_expr, options.thread, (uint32_t)WATCH_THREAD_MAIN,
	     "the first thread's copy of a thread-local variable"),
	{ "thread", SPEC_NUMBER, "TID", "that thread's copy", IN(watch_expr, options.thread), .min = 1, .max = INT32_MAX },
};

#define CALLCHAIN										\
	FLAG("callchain", kernel_request, event.wants, SAMPLER_CALLERS, "who called, by frame pointers"),	\
	FLAG("callchain=dwarf", kernel_request, event.wants, SAMPLER_CALLERS | SAMPLER_STACK, "who called, by the stack's bytes and debug information")

static const struct spec_option sample_options[] = {
	{ "freq", SPEC_NUMBER, "N", "so many a second of each CPU; the default, with 1000",
	  IN(kernel_request, event.freq_hz), .min = 1, .max = 1000000 },
	{ "period", SPEC_NUMBER, "N", "one each N times", IN(kernel_request, event.period), .min = 1, .max = INT64_MAX },
	CALLCHAIN,
	FLAG("addr", kernel_request, event.wants, SAMPLER_ADDRESS, "the address that was accessed"),
	FLAG("precise", kernel_request, event.precise, 2, "the exact instruction, if the processor has that"),
	FLAG("branches", kernel_request, event.wants, SAMPLER_BRANCHES, "the last branches, if the processor has that"),
	FLAG("regs", kernel_request, has_regs, 1, "the registers"),
};
static const struct spec_option fault_options[] = { CALLCHAIN };
static const struct spec_option callchain_options[] = { CALLCHAIN, IF };
static const struct spec_option kprobe_options[] = {
	FLAG("args", kernel_request, has_args, 1, "the first six arguments"),
	FLAG("ret", kernel_request, is_return, 1, "the function's end, with its result"),
	CALLCHAIN, IF,
};

#define PLACE(kind)										\
	.slashes = SPEC_NAME_PATHS, .variant = kind, SLOT(request, code_request),		\
	.field = spec_read_field, .read = spec_read_place
#define KERNEL(kind) .variant = kind, SLOT(kernel, kernel_request), .read = spec_read_kernel

const struct spec_kind spec_kinds[] = {
	{ "marker", ":SUBSYSTEM:EVENT", "the markers of that name; either part may be a glob; marker: may be left out",
	  OPTIONS(marker_options), .read = spec_read_marker },
	{ "usdt", ":PROVIDER:NAME[@FILE]", "the USDT probes of that name; either part may be a glob",
	  OPTIONS(usdt_options), PLACE(REQUEST_USDT) },
	{ "func", ":NAME[@FILE]", "the functions of that name, which may be a glob",
	  OPTIONS(function_options), PLACE(REQUEST_FUNCTION) },
	{ "addr", ":FILE+OFFSET", "one address, as linked; or SOURCE:LINE, each place where a line's code begins",
	  OPTIONS(address_options), PLACE(REQUEST_OFFSET) },
	{ "trail", "", "the branch trace of each thread",
	  OPTIONS(trail_options), SLOT(trail, trail_request), .read = spec_read_trail },
	{ "watch", ":EXPR[/LEN][@FILE][:w|:rw|:x]", "each write to a variable; rw: reads too; x: each call of a function",
	  OPTIONS(watch_options), .slashes = SPEC_NAME_PATHS, SLOT(watch, watch_expr),
	  .read = spec_read_watch },
	{ "watch", ":SYMBOL[/LEN]@kernel[:w|:rw|:x]", "each write to a variable of the kernel",
	  .slashes = SPEC_NAME_PATHS, KERNEL(KERNEL_WATCH) },
	{ "switch", "", "a thread leaves a CPU, comes to one, is woken",
	  OPTIONS(callchain_options), KERNEL(KERNEL_SWITCH) },
	{ "fault", "", "a page fault, and its address",
	  OPTIONS(fault_options), KERNEL(KERNEL_FAULT) },
	{ "sample", ":NAME", "where the program is, each time that NAME has come so often",
	  OPTIONS(sample_options), .slashes = SPEC_NAME_UNITS, KERNEL(KERNEL_SAMPLE) },
	{ "count", ":NAME[+NAME]...", "how often NAME came; several are counted together",
	  .slashes = SPEC_NAME_ALL, KERNEL(KERNEL_COUNT) },
	{ "tracepoint", ":SUBSYSTEM:NAME", "a tracepoint of the kernel, with its fields",
	  OPTIONS(callchain_options), KERNEL(KERNEL_TRACEPOINT) },
	{ "kprobe", ":SYMBOL", "a function of the kernel",
	  OPTIONS(kprobe_options), KERNEL(KERNEL_KPROBE) },
	{ .name = NULL },
};
/* clang-format on */

_Static_assert(sizeof(spec_kinds) / sizeof(spec_kinds[0]) <= SPEC_KINDS_MAX, "");
