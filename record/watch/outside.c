/* SPDX-License-Identifier: MIT */
#include "record/watch/outside.h"

#include "abi/watch.h"
#include "arch/access_decode.h"
#include "arch/perf_registers.h"
#include "base/condition.h"
#include "base/elf.h"
#include "record/drain/own_store.h"
#include "record/drain/watermark.h"
#include "record/kernel/kernel_events.h"
#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "record/watch/outside_code.h"
#include "record/watch/watches.h"
#include "record/watch/watching_own.h"
#include "target/expression/option.h"
#include "target/process/entry.h"
#include "target/process/target.h"
#include "trace/writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define OUTSIDE_EVENT_FIRST 1u /* event ids; each watch with an event has one */

/* One register's worth. */
struct outside_watch {
	struct control_watch about;
	size_t spec;
	uint64_t before; /* the new value of the hit before */
	int has_before;
	int is_before_uncertain; /* that value is not exact */
};

struct outside {
	struct wm_session *session; /* while hits are taken, as its process */
	struct process *process;
	struct own_store *store;
	struct outside_code *code;
	struct entry *entry; /* the program is held there; NULL */
	int why, takes_all;
	int has_records;	    /* 0: only counts are wanted */
	uint64_t last_ns;	    /* of the last hit */
	uint64_t lost;		    /* hits that the store counts as lost */
	uint64_t followed_ns;	    /* when perf_object_follow() last looked for new CPUs */
	struct perf_object *object; /* while armed; owned by watching.c, as is the table */
	struct watch_table *table;
	struct outside_watch all[EVENT_SOURCES_MAX];
	unsigned int count;
};

/* Take a hit from a ring, as inside/watch/take.c takes one from a signal. */

#define SYSCALL_BYTES 2u

/*
 * The kernel accessed the memory: in a system call, whose instruction is before the thread's
 * address, or at a fault of the instruction at that address.
 */
static void find_call(struct outside *outside, struct access_decode *decode, uint64_t end)
{
	uint8_t room[SYSCALL_BYTES];
	const uint8_t *code = outside_code_at(outside->code, end - SYSCALL_BYTES, SYSCALL_BYTES, 1,
					      room);
	int is_call = code && ((code[0] == 0x0f && (code[1] == 0x05 || code[1] == 0x34)) ||
			       (code[0] == 0xcd && code[1] == 0x80));

	decode->ip = is_call ? end - SYSCALL_BYTES : end;
	decode->how |= WATCH_BY_KERNEL;
}

static void look_at_code(struct outside *outside, const struct outside_watch *watch,
			 const struct event_record *record, struct access_decode *decode)
{
	const struct access_decode_reads reads = { .code = outside_code_at,
						   .before = outside_code_before,
						   .data = outside->code };
	ucontext_t context;

	decode->ip = record->ip;
	if (watch->about.on == WATCH_ON_EXECUTE)
		return;
	if (!record->has_regs) { /* not asked for, or the kernel had none */
		decode->ip = record->is_kernel ? 0 : record->ip - 1;
		decode->how |= record->is_kernel ? WATCH_BY_KERNEL | WATCH_IP_UNKNOWN
						 : WATCH_IP_BEHIND;
		return;
	}
	perf_registers_context(record->regs, &context);
	if (record->is_kernel)
		find_call(outside, decode, record->regs[perf_register_ip]);
	else
		access_decode_find(decode, &watch->about, &context, &reads);
}

static void find_values(struct outside_watch *watch, const struct access_decode *decode,
			struct access_decode_values *values)
{
	const struct access_decode_known known = {
		.before = watch->before,
		.has_before = watch->has_before,
		.is_before_uncertain = watch->is_before_uncertain
	};

	values->how = decode->how;
	access_decode_judge(decode, &watch->about, &known, values);
	watch->before = values->now;
	watch->has_before = !(values->how & WATCH_NEW_UNKNOWN);
	watch->is_before_uncertain = !(values->how & WATCH_NEW_EXACT);
}

/* Check the conditions. If a value is unknown, its condition counts as met. */
static int is_wanted(const struct outside_watch *watch, const struct access_decode_values *values,
		     pid_t tid, struct watch_row *row)
{
	static const uint16_t unknown[] = { [WATCH_OF_CHANGE] = WATCH_NEW_UNKNOWN |
								WATCH_OLD_UNKNOWN,
					    [WATCH_OF_NEW] = WATCH_NEW_UNKNOWN,
					    [WATCH_OF_OLD] = WATCH_OLD_UNKNOWN,
					    [WATCH_OF_TID] = 0 };
	int is_left_out = 0, any_uncertain = 0;

	for (unsigned int i = 0; i < WATCH_CONDITIONS_MAX; i++) {
		const struct watch_condition *condition = &watch->about.conditions[i];
		int doubt = condition_is_uncertain(condition, values->how);
		int holds = (values->how & unknown[condition->of]) ||
			    condition_holds(condition, values->old, values->now, watch->about.bytes,
					    tid);

		if (!holds && !doubt)
			return 0;
		is_left_out |= !holds;
		any_uncertain |= doubt;
	}
	row->uncertain += (uint64_t)any_uncertain;
	row->uncertain_filtered += (uint64_t)is_left_out;
	return !is_left_out;
}

static unsigned char *put(unsigned char *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

/* Add the return addresses, up to the first that is in no module's code; 0 for the others. */
static unsigned char *put_callers(struct outside *outside, const struct event_record *record,
				  unsigned int wanted, unsigned char *to)
{
	unsigned int known = 0;
	uint64_t none = 0;

	while (known < record->caller_count &&
	       outside_code_is(outside->code, record->callers[known]))
		known++;
	for (unsigned int i = 0; i < wanted; i++)
		to = put(to, i < known ? &record->callers[i] : &none, sizeof(none));
	return to;
}

/* Write the event with the same fields as inside (struct control_watch). */
static void report(struct outside *outside, const struct outside_watch *watch,
		   const struct event_record *record, const struct access_decode *decode,
		   const struct access_decode_values *values)
{
	const struct control_watch *about = &watch->about;
	size_t width = about->flags & WATCH_WITH_OFFSET ? 8 : about->bytes;
	unsigned char fields[OWN_STORE_FIELDS_MAX], *to = fields;

	to = put(to, &decode->ip, sizeof(decode->ip));
	if (about->on != WATCH_ON_EXECUTE) {
		uint64_t old = watch_field_value(about, values->old);
		uint64_t now = watch_field_value(about, values->now);

		to = put(to, &old, width);
		to = put(to, &now, width);
		to = put(to, &values->how, sizeof(values->how));
	}
	if (about->flags & WATCH_WITH_OFFSET)
		to = put(to, &about->offset, sizeof(about->offset));
	to = put_callers(outside, record, about->callers, to);
	/* the rings may have more than it has room for, as hits of very many threads */
	if (!own_store_has_room(outside->store))
		drain_session_aside(outside->session, outside->process);
	own_store_write(outside->store, record->tid, outside->last_ns,
			OUTSIDE_EVENT_FIRST + about->event, fields, (size_t)(to - fields));
}

/* Hits before this one were lost: what value they left is unknown. */
static void break_chains(struct outside *outside)
{
	for (unsigned int i = 0; i < outside->count; i++)
		outside->all[i].has_before = 0;
}

/* Take one hit: a callback of perf_object_drain(). `outside` is the struct outside. Returns 0. */
static int outside_take(void *data, const struct event_record *record)
{
	struct outside *outside = data;
	struct outside_watch *watch = &outside->all[record->source];
	struct watch_row *row = &outside->table->rows[watch->about.number];
	struct access_decode_values values = { 0 };
	struct access_decode decode = { 0 };

	if (record->after_loss)
		break_chains(outside);
	/* values are chained in the order of times, so, as inside, no two times may be equal */
	outside->last_ns = record->time_ns > outside->last_ns ? record->time_ns
							      : outside->last_ns + 1;
	row->taken++;
	look_at_code(outside, watch, record, &decode);
	if (watch->about.on != WATCH_ON_EXECUTE) {
		find_values(watch, &decode, &values);
		row->inexact += !(values.how & WATCH_NEW_EXACT);
		row->unknown += (values.how & WATCH_NEW_UNKNOWN) != 0;
	}
	if (!is_wanted(watch, &values, record->tid, row))
		row->filtered++;
	else if (watch->about.flags & WATCH_COUNT_ONLY)
		row->counted++;
	else
		report(outside, watch, record, &decode, &values);
	return 0;
}
#define FOLLOW_NS UINT64_C(1000000000)

/* ---- inside or outside ---- */

int outside_is_all(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (!session->specs->all[i].kernel &&
		    (!session->specs->all[i].watch ||
		     !session->specs->all[i].watch->options.is_outside))
			return 0;
	return session->specs->count != 0;
}

int outside_serves(const struct wm_session *session, int error)
{
	static const int causes[] = { WM_E_STATIC_PROGRAM, WM_E_FOREIGN_LIBC, WM_E_SECCOMP,
				      WM_E_TRACED, WM_E_STOPPED };

	for (size_t i = 0; i < session->specs->count; i++)
		if (!session->specs->all[i].watch && !session->specs->all[i].kernel)
			return 0;
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (error == -causes[i])
			return session->specs->count != 0;
	return 0;
}

int outside_wants(const struct process *process, const struct watch_expr *watch)
{
	if (!watch || (process->outside && process->outside->takes_all))
		return watch != NULL;
	return !process->outside == !watch->options.is_outside;
}

void outside_note(const struct wm_session *session, const struct process *process,
		  struct watched_spec *result)
{
	if (!process->outside)
		return;
	result->outside++;
	result->why = process->outside->why;
	result->sees_kernel = (outside_flags(session, process) & EVENT_KERNEL) != 0;
}

#define NEEDS_RECORDS 0x10000u /* beside enum event_flag, only in this file */
#define NEEDS_VALUES 0x20000u

/*
 * Which records a watch needs. If it only counts, the kernel's count suffices. Registers are needed
 * for values.
 */
static unsigned int needs(const struct watch_expr *watch)
{
	const struct watch_options *options = &watch->options;
	unsigned int flags = (options->has_kernel ? EVENT_KERNEL : 0) |
			     (options->frames ? EVENT_CALLERS : 0);

	if (!options->counts || options->test_count)
		flags |= NEEDS_RECORDS;
	for (unsigned int i = 0; i < options->test_count; i++)
		if (options->tests[i].subject != WATCH_OF_TID)
			flags |= NEEDS_VALUES;
	if (!options->counts && watch->kind != WATCH_EXECUTE)
		flags |= NEEDS_VALUES;
	return flags;
}

int outside_is_held(const struct process *process)
{
	return process->outside && process->outside->entry;
}

unsigned int outside_flags(const struct wm_session *session, const struct process *process)
{
	unsigned int flags = 0;

	for (size_t i = 0; i < session->specs->count; i++) {
		const struct watch_expr *watch = session->specs->all[i].watch;

		if (watch && outside_wants(process, watch))
			flags |= needs(watch);
	}
	if (flags & NEEDS_RECORDS)
		flags |= EVENT_RINGS | (flags & NEEDS_VALUES ? 0 : EVENT_NO_REGS);
	else
		flags &= ~(unsigned int)EVENT_CALLERS;
	flags &= ~(NEEDS_RECORDS | NEEDS_VALUES);
	/* it is stopped already, as a tracee of our own thread */
	return process->outside->entry ? flags | EVENT_NO_STOP : flags;
}

/* ---- adding a process ---- */

/* Fill in what an agent's HELLO would report. */
static int describe(struct process *process, const struct target *target)
{
	char path[64];
	struct elf elf;

	process->hello.pid = (uint32_t)target->inner_pid;
	process->hello.ppid = (uint32_t)target->ppid;
	process->hello.start_time = target->start_time;
	process->hello_ns = ticks_monotonic_ns();
	process->exe = strdup(target->exe);
	if (!process->exe)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	if (!elf_open(&elf, path))
		process->build_id_bytes = (uint8_t)elf_build_id(&elf, process->build_id);
	elf_release(&elf);
	return 0;
}

static int fill_in(struct wm_session *session, struct process *process)
{
	const struct wm_session_options *options = &session->options;
	struct target target;
	int err = target_read(&target, process->pid);

	if (!err && target_has_ended(&target))
		err = -WM_E_GONE;
	if (!err)
		err = describe(process, &target);
	process->outside = err ? NULL : calloc(1, sizeof(*process->outside));
	if (!err && !process->outside)
		err = -ENOMEM;
	if (!err)
		err = own_store_new(&process->outside->store, process->pid, options->buffer_bytes,
				    session_store_policy(session));
	if (!err)
		err = drain_new(&process->drain, own_store_fd(process->outside->store),
				(uint32_t)process->pid);
	if (err)
		return err;
	process->invited = 1;
	process->state = PROCESS_OPENED; /* NEW -> OPENED */
	session->processes_ever++;
	err = process_trace(session, process);
	/* last: an entry that failed is freed together with its drain */
	return err || !session->watermark ? err : watermark_add(session->watermark, process->drain);
}

/* Add a process, as the first in the session's list. */
static int join(struct wm_session *session, pid_t pid, int why, struct process **out)
{
	struct link none = { .fd = -1 };
	struct process *process;
	int err = process_new(&process, session, &none, pid);

	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	err = fill_in(session, process);
	if (!err) {
		process->outside->why = why;
		process->outside->takes_all = why != 0;
		*out = process;
		return 0;
	}
	session->processes = process->next;
	outside_free(process);
	process_free(process);
	return session_fail(session, err, "pid %d", (int)pid);
}

int outside_attach(struct wm_session *session, pid_t pid, int why)
{
	char words[512] = "";
	struct detail detail = { words, sizeof(words) };
	struct process *process;
	struct target target;
	int err = target_read(&target, pid);

	if (!err)
		err = target_access(&target, detail);
	if (err)
		return session_fail(session, err, "pid %d%s%s", (int)pid, words[0] ? ": " : "",
				    words);
	err = kernel_join(session, target.pid);
	if (err)
		return err;
	err = join(session, target.pid, why, &process);
	if (err)
		kernel_part(session);
	return err;
}

int outside_launch(struct wm_session *session, const char *path, char *const argv[], int why)
{
	struct entry *entry;
	struct process *process;
	pid_t pid;
	int err = entry_launch(&entry, &pid, path, argv);

	if (err)
		return session_fail(session, err, "%s", path);
	err = kernel_join(session, pid);
	if (!err)
		err = join(session, pid, why, &process);
	if (!err) {
		process->outside->entry = entry;
		return pid;
	}
	kernel_part(session);
	entry_kill(&entry);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return err;
}

static int is_any_outside(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].watch &&
		    session->specs->all[i].watch->options.is_outside)
			return 1;
	return 0;
}

int outside_beside(struct wm_session *session, const struct process *process, int error,
		   struct process **beside)
{
	if ((error && error != -WM_E_WATCH_GO && error != -WM_E_NO_PTRACE) || process->outside ||
	    !process->invited || process->hello.forked || (!error && !is_any_outside(session)))
		return error;
	return join(session, process->pid, error, beside);
}

void outside_go(struct process *process)
{
	entry_go(&process->outside->entry);
	if (process->outside->object)
		perf_object_let_stop(process->outside->object);
}

void outside_free(struct process *process)
{
	struct outside *outside = process->outside;

	if (!outside)
		return;
	entry_kill(&outside->entry);
	own_store_free(outside->store);
	outside_code_free(outside->code);
	free(outside);
	process->outside = NULL;
}

/* ---- requests, in place of an agent ---- */

/* Declare the event, as an agent does with CONTROL_EVENT. */
static int make_event(struct wm_session *session, struct process *process,
		      const struct control_watch *about, const char *text)
{
	uint32_t id = OUTSIDE_EVENT_FIRST + about->event;
	uint8_t types[16] = { 0 };
	int err;

	watch_field_types(about, types);
	err = process_declare(session, process, id, types, text);
	session->markers += !err;
	return err;
}

/* Refuse what has to happen at the hit itself, before the thread continues. */
static int check(struct wm_session *session, const struct spec *spec,
		 const struct control_watch *about, int why)
{
	if (about->owner)
		return session_fail(
			session, -WM_E_WATCH_OPTION,
			"%s: from outside a thread's end is seen too late for its variables",
			spec->text);
	if (spec->watch->options.trail)
		return session_fail(
			session, -WM_E_WATCH_OPTION,
			"%s: from outside a hit is seen too late for its trail to be kept",
			spec->text);
	if (!spec->watch->options.signal)
		return 0;
	return session_fail(
		session, -WM_E_WATCH_OPTION,
		"%s: from outside the signal would come after the thread has gone on%s%s",
		spec->text, why ? "; and it can't be watched from inside: " : "",
		why ? wm_error_text(why) : "");
}

int outside_ask(struct wm_session *session, struct process *process,
		const struct control_watch *about, size_t spec, const char *text)
{
	struct outside *outside = process->outside;
	int err = check(session, &session->specs->all[spec], about, outside->why);

	if (err)
		return err;
	outside->all[outside->count] = (struct outside_watch){ .about = *about, .spec = spec };
	if (text[0])
		err = make_event(session, process, about, text);
	outside->count += !err;
	return err;
}

void outside_unask(struct process *process)
{
	struct outside *outside = process->outside;

	outside_code_free(outside->code);
	outside->code = NULL;
	outside->object = NULL;
	outside->lost = 0;
	outside->count = 0;
}

int outside_table(struct watch_table **table)
{
	void *map;

	if (*table)
		return 0;
	map = mmap(NULL, sizeof(**table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);

	*table = map == MAP_FAILED ? NULL : map;
	return *table ? 0 : -errno;
}

int outside_armed(struct process *process, struct perf_object *object, struct watch_table *table,
		  unsigned int flags)
{
	struct outside *outside = process->outside;

	outside->object = object;
	outside->table = table;
	for (unsigned int i = 0; i < outside->count; i++) {
		outside->all[i].before = table->rows[outside->all[i].about.number].last.value;
		outside->all[i].has_before = table->rows[outside->all[i].about.number].last.ticks !=
					     UINT64_MAX;
	}
	outside->has_records = (flags & EVENT_RINGS) != 0;
	outside->followed_ns = ticks_monotonic_ns();
	return outside_code_new(&outside->code, process->pid);
}

/* ---- hits ---- */

static uint64_t taken(const struct outside *outside)
{
	uint64_t count = 0;

	for (unsigned int i = 0; i < outside->count; i++)
		count += outside->table->rows[outside->all[i].about.number].taken;
	return count;
}

/*
 * Hits that the kernel counted and did not deliver. A ring reports its last losses only with a
 * later record, so compare the counts.
 */
static uint64_t lost_of(const struct outside *outside)
{
	uint64_t reported = taken(outside) + perf_object_stray(outside->object), all = 0, hits;

	for (unsigned int i = 0; i < outside->count; i++)
		if (!perf_object_count(outside->object, i, &hits))
			all += hits;
	return all > reported ? all - reported : 0;
}

static void process_hits_take(struct wm_session *session, struct process *process, int is_last)
{
	struct outside *outside = process->outside;
	uint64_t lost;
	int err;

	outside->session = session;
	outside->process = process;
	outside_code_round(outside->code);
	err = process_modules_note(session, process, outside_code_modules(outside->code));
	if (err && !session->trace_error && session->writer)
		session->trace_error = err;
	perf_object_drain(outside->object, is_last, outside_take, outside);
	if (!outside->has_records)
		return;
	lost = is_last ? lost_of(outside) : perf_object_lost(outside->object);
	if (lost > outside->lost) {
		own_store_lose(outside->store, 0, lost - outside->lost);
		outside->lost = lost;
	}
}

/* Open events on new CPUs. Those that fail are retried at the next look and reported at the end. */
static void follow(struct outside *outside)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (now_ns - outside->followed_ns < FOLLOW_NS)
		return;
	outside->followed_ns = now_ns;
	perf_object_follow(outside->object, (struct detail){ NULL, 0 });
}

static void note_uncovered(struct wm_session *session, const struct outside *outside)
{
	const struct event_uncovered *all;
	size_t count;
	uint64_t ns = 0;

	all = perf_object_uncovered(outside->object, &count);
	for (size_t i = 0; i < count; i++)
		ns += all[i].last_ns - all[i].first_ns;
	for (unsigned int i = 0; i < outside->count && ns; i++)
		if (!i || outside->all[i].spec != outside->all[i - 1].spec)
			watched_result(session, outside->all[i].spec)->uncovered_ns += ns;
}

/* Note how many children were not watched, unless the user asked not to follow children. */
static void note_children(struct wm_session *session, const struct outside *outside)
{
	uint64_t forks = perf_object_forks(outside->object);

	for (unsigned int i = 0; i < outside->count && session->options.follow != WM_FOLLOW_NONE;
	     i++)
		if (!i || outside->all[i].spec != outside->all[i - 1].spec)
			watched_result(session, outside->all[i].spec)->children += forks;
}

/* Without records all hits were only counted, as the user asked. */
static void count_all(struct outside *outside)
{
	for (unsigned int i = 0; i < outside->count; i++) {
		struct watch_row *row = &outside->table->rows[outside->all[i].about.number];

		if (!perf_object_count(outside->object, i, &row->counted))
			row->taken = row->counted;
	}
}

void outside_ended(struct wm_session *session, struct process *process)
{
	struct outside *outside = process->outside;

	if (outside->object && outside->code) {
		process_hits_take(session, process, 1);
		note_uncovered(session, outside);
		note_children(session, outside);
		for (unsigned int i = 0; i < outside->count; i++)
			outside->table->rows[outside->all[i].about.number]
				.dropped = perf_object_stray_of(outside->object, i);
		if (!outside->has_records)
			count_all(outside);
	}
	outside_unask(process);
	own_store_quiet(outside->store);
	process->arming = PROCESS_QUIET; /* any -> QUIET */
}

int outside_pump(struct wm_session *session, struct process *process, int *count)
{
	struct outside *outside = process->outside;
	uint64_t before;

	if (!outside->object || !outside->code)
		return 0;
	if (process->dead) {
		*count = 1;
		return -WM_E_GONE;
	}
	follow(outside);
	before = taken(outside);
	process_hits_take(session, process, 0);
	*count = taken(outside) != before;
	if (outside_code_is_gone(outside->code) && target_has_memory(process->pid))
		return -WM_E_EVENT_EXEC;
	return 0;
}
