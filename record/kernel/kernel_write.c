/* SPDX-License-Identifier: MIT */
/* Records of the kernel, written as events. */
#include "record/kernel/kernel_own.h"

#include "arch/perf_registers.h"
#include "base/condition.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "target/code/callstack.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/marker/field.h>

#define CALLERS_MAX 256u
#define CALLERS_BYTES (5 + 8 * CALLERS_MAX) /* of a field: state, count, addresses */
#define BRANCHES_MAX 32u		    /* a processor has no more */

_Static_assert(CALLSTACK_REGISTERS == PERF_REGISTERS_DWARF, "both are DWARF's");

/* Fields of an event, one behind the other. */
struct kernel_fields {
	uint8_t bytes[OWN_STORE_FIELDS_MAX];
	size_t count;
};

static void put(struct kernel_fields *fields, const void *value, size_t bytes)
{
	if (bytes > sizeof(fields->bytes) - fields->count)
		return; /* kernel_event_text() and the limits here leave room for all */
	memcpy(fields->bytes + fields->count, value, bytes);
	fields->count += bytes;
}

static void put_u8(struct kernel_fields *fields, uint8_t value)
{
	put(fields, &value, sizeof(value));
}

static void put_u32(struct kernel_fields *fields, uint32_t value)
{
	put(fields, &value, sizeof(value));
}

static void put_u64(struct kernel_fields *fields, uint64_t value)
{
	put(fields, &value, sizeof(value));
}

static void put_thread(struct kernel_fields *fields, pid_t pid, pid_t tid)
{
	put_u32(fields, (uint32_t)pid);
	put_u32(fields, (uint32_t)tid);
}

/* A string of at most `bytes`, which need have no NUL. */
static void put_string(struct kernel_fields *fields, const char *text, size_t bytes)
{
	size_t length = text ? strnlen(text, bytes) : 0;
	size_t room = sizeof(fields->bytes) / 2;

	put_u8(fields, !text ? FIELD_UNREADABLE : length > room ? FIELD_CUT : FIELD_WHOLE);
	put(fields, text ? text : "", length > room ? room : length);
	put_u8(fields, 0);
}

static void put_run(struct kernel_fields *fields, const void *at, size_t bytes)
{
	size_t room = sizeof(fields->bytes) / 2;

	put_u8(fields, !at ? FIELD_UNREADABLE : bytes > room ? FIELD_CUT : FIELD_WHOLE);
	bytes = !at ? 0 : bytes > room ? room : bytes;
	put_u32(fields, (uint32_t)bytes);
	put(fields, at, bytes);
}

/*
 * An address of the thread, of whose process the trace then knows the files, as the program has it.
 * 0: of the engine's own code, which is no place of the program's.
 */
static uint64_t met(struct kernel *kernel, const struct sampler_record *record, uint64_t address,
		    int is_caller)
{
	kernel_tasks_meet(kernel->tasks, record->pid, record->time_ns, address);
	return kernel_tasks_place(kernel->tasks, record->pid, record->time_ns, address, is_caller);
}

/*
 * The kernel's callers, then the program's by its stack, in chain[]. Returns how many; 0: the stack
 * was not recorded, or, with *is_cut, can't be read.
 */
static size_t unwind_callers(struct kernel *kernel, const struct sampler_record *record,
			     uint64_t chain[CALLERS_MAX], int *is_cut)
{
	struct callstack_thread thread = { .stack = record->stack,
					   .stack_bytes = record->stack_bytes };
	size_t count = 0, got;

	if (!record->stack_bytes)
		return 0;
	*is_cut = 1;
	if (record->user_regs_abi != PERF_SAMPLE_REGS_ABI_64)
		return 0;
	for (unsigned int i = 0; i < CALLSTACK_REGISTERS; i++)
		thread.registers[i] = record->user_regs[perf_registers_dwarf[i]];
	for (size_t i = 0; i < record->caller_count && count < CALLERS_MAX / 2; i++) {
		if (record->callers[i] >> 63)
			chain[count++] = record->callers[i];
		else
			break;
	}
	met(kernel, record, thread.registers[CALLSTACK_RIP], 0);
	got = kernel_tasks_unwind(kernel->tasks, record->pid, record->time_ns, &thread,
				  chain + count, CALLERS_MAX - count, is_cut);
	return got ? count + got : 0;
}

static void put_callers(struct kernel *kernel, struct kernel_fields *fields,
			const struct sampler_record *record)
{
	uint64_t unwound[CALLERS_MAX];
	int is_program = 0, is_cut = record->caller_count > CALLERS_MAX;
	size_t at, count = unwind_callers(kernel, record, unwound, &is_cut);
	const uint64_t *callers = count ? unwound : record->callers;
	uint32_t kept = 0;

	if (!count)
		count = record->caller_count < CALLERS_MAX ? record->caller_count : CALLERS_MAX;
	put_u8(fields, is_cut ? FIELD_CUT : FIELD_WHOLE);
	at = fields->count;
	put_u32(fields, 0);
	for (size_t i = 0; i < count; i++) {
		uint64_t address = callers[i];

		if (address >= PERF_CONTEXT_MAX)
			continue; /* a mark between kernel and user */
		address = met(kernel, record, address, is_program);
		if (!address && kept && is_program)
			continue; /* the engine's own callers */
		is_program |= address < UINT64_C(1) << 63;
		put_u64(fields, address);
		kept++;
	}
	memcpy(fields->bytes + at, &kept, sizeof(kept));
}

/*
 * The rings may have more than the store has room for, as after the recorder had to wait for a
 * CPU. Then take what is in the store meanwhile, where the trace is a folder.
 */
static void store(struct kernel *kernel, int lane, uint64_t time_ns, uint32_t id,
		  const struct kernel_fields *fields)
{
	own_store_write(kernel->store, lane, time_ns, id, fields->bytes, fields->count);
	kernel->taken++;
	kernel->stored_bytes += fields->count + EVENT_EXTENDED_BYTES;
	if (kernel->stored_bytes < kernel->session->options.buffer_bytes / 8)
		return;
	kernel->stored_bytes = 0;
	drain_session_aside(kernel->session, kernel->process);
}

/*
 * Wakes are read apart, so that they would be out of order among a CPU's other events: they have a
 * lane of their own.
 */
static void kernel_write_wake(struct kernel *kernel, unsigned int cpu, uint64_t time_ns,
			      const struct kernel_fields *fields)
{
	if (kernel_declare(kernel, KERNEL_WAKE))
		return;
	store(kernel, OWN_STORE_CPU_APART(cpu), time_ns, KERNEL_WAKE, fields);
}

/* On a CPU, or with cpu -1 on none. */
static void event_write(struct kernel *kernel, int cpu, uint64_t time_ns, uint32_t id,
			const struct kernel_fields *fields)
{
	if (id < KERNEL_SPECS && kernel_declare(kernel, id))
		return;
	if (kernel->end_ns && time_ns > kernel->end_ns)
		time_ns = kernel->end_ns;
	store(kernel, cpu < 0 ? OWN_STORE_NO_CPU : OWN_STORE_CPU(cpu), time_ns, id, fields);
}

/* `lane` is the ring's. */
static void lose(struct kernel *kernel, pid_t lane, const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };

	put_thread(&fields, 0, 0);
	put_u64(&fields, record->count);
	if (!kernel_declare(kernel, KERNEL_LOST))
		own_store_write(kernel->store, lane, record->time_ns, KERNEL_LOST, fields.bytes,
				fields.count);
	own_store_lose(kernel->store, lane, record->count);
}

/* ---- conditions that the kernel can't test ---- */

/* `record` has the registers; NULL: no registers. */
static int tests_hold(const struct kernel_request *request, pid_t pid, pid_t tid,
		      const struct sampler_record *record)
{
	for (unsigned int i = 0; i < request->test_count; i++) {
		const struct kernel_test *test = &request->tests[i];
		unsigned int bytes = test->of == KERNEL_PID || test->of == KERNEL_TID ? 4 : 8;
		uint64_t value = 0;

		if (test->of == KERNEL_PID)
			value = (uint32_t)pid;
		else if (test->of == KERNEL_TID)
			value = (uint32_t)tid;
		else if (record && test->of == KERNEL_RESULT)
			value = record->regs[perf_register_result];
		else if (record)
			value = record->regs[perf_registers_arguments[test->of - KERNEL_ARGUMENT]];
		if (!condition_holds(&test->condition, 0, value, bytes, tid))
			return 0;
	}
	return 1;
}

/* Whether a spec of switches takes those of the thread. */
static int switches_hold(const struct kernel *kernel, pid_t pid, pid_t tid)
{
	const struct spec_list *specs = kernel->session->specs;

	for (size_t i = 0; i < specs->count && kernel->has_switch_tests; i++) {
		const struct kernel_request *request = specs->all[i].kernel;

		if (request && request->kind == KERNEL_SWITCH &&
		    tests_hold(request, pid, tid, NULL))
			return 1;
	}
	return !kernel->has_switch_tests;
}

/* ---- threads: what they are called, who started them, their end ---- */

static void name(struct kernel *kernel, uint32_t id, int cpu, uint64_t time_ns, pid_t pid,
		 pid_t tid, const char *comm)
{
	struct kernel_fields fields = { .count = 0 };

	put_thread(&fields, pid, tid);
	put_string(&fields, comm, strlen(comm));
	event_write(kernel, cpu, time_ns, id, &fields);
}

static void end(struct kernel *kernel, const struct sampler_record *record, pid_t tid)
{
	struct kernel_fields fields = { .count = 0 };

	put_thread(&fields, record->pid, tid);
	event_write(kernel, (int)record->cpu, record->time_ns, KERNEL_EXIT, &fields);
}

/*
 * A thread that executes a program gets the tid of the process's first, and the kernel reports no
 * end of its own. The ends of all others were reported by then.
 */
static void execute(struct kernel *kernel, const struct sampler_record *record)
{
	pid_t before = known_exec(&kernel->known, record->pid);
	struct kernel_fields fields = { .count = 0 };

	if (!before)
		return;
	end(kernel, record, before);
	known_add(&kernel->known, record->tid, record->pid);
	if (!kernel->has_switches || !switches_hold(kernel, record->pid, record->tid))
		return;
	put_thread(&fields, record->pid, record->tid);
	event_write(kernel, (int)record->cpu, record->time_ns, KERNEL_ARRIVE, &fields);
}

static void task_take(struct kernel *kernel, const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };
	int cpu = (int)record->cpu;

	switch (record->kind) {
	case SAMPLER_COMM:
		if (record->is_exec)
			execute(kernel, record);
		name(kernel, KERNEL_NAME, cpu, record->time_ns, record->pid, record->tid,
		     record->text);
		break;
	case SAMPLER_FORK:
		put_thread(&fields, record->pid, record->tid);
		put_thread(&fields, record->ppid, record->ptid);
		known_add(&kernel->known, record->tid, record->pid);
		event_write(kernel, cpu, record->time_ns, KERNEL_FORK, &fields);
		break;
	case SAMPLER_EXIT:
		known_end(&kernel->known, record->tid);
		end(kernel, record, record->tid);
		break;
	default:
		break;
	}
}

static void each_of_process(struct kernel *kernel, pid_t pid,
			    void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++)
		take(kernel, pid, tids[i]);
	free(tids);
}

/* Of a cgroup and of those below it. */
static void each_of_group(struct kernel *kernel, int group,
			  void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	int list = openat(group, "cgroup.threads", O_RDONLY | O_CLOEXEC), below, tid;
	struct dirent *entry;
	FILE *threads;
	DIR *folder;

	if (list < 0)
		list = openat(group, "tasks", O_RDONLY | O_CLOEXEC); /* of version 1 */
	threads = list < 0 ? NULL : fdopen(list, "r");
	while (threads && fscanf(threads, "%d", &tid) == 1)
		take(kernel, (pid_t)target_status_number(tid, "Tgid"), tid);
	if (threads)
		fclose(threads);
	else if (list >= 0)
		close(list);
	below = openat(group, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	folder = below < 0 ? NULL : fdopendir(below);
	while (folder && (entry = readdir(folder))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		below = openat(group, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below < 0)
			continue; /* removed meanwhile */
		each_of_group(kernel, below, take);
		close(below);
	}
	if (folder)
		closedir(folder);
	else if (below >= 0)
		close(below);
}

/* Of the threads that are recorded. */
static void each_thread(struct kernel *kernel,
			void (*take)(struct kernel *kernel, pid_t pid, pid_t tid))
{
	int is_of_all = kernel->is_of_cpus && kernel->cgroup_fd < 0;
	pid_t *pids = NULL;
	int count = is_of_all ? target_processes(&pids) : 0;

	if (kernel->cgroup_fd >= 0)
		each_of_group(kernel, kernel->cgroup_fd, take);
	for (int i = 0; i < count; i++)
		each_of_process(kernel, pids[i], take);
	free(pids);
	for (size_t i = 0; i < kernel->pid_count; i++)
		each_of_process(kernel, kernel->pids[i], take);
}

static void write_name(struct kernel *kernel, pid_t pid, pid_t tid)
{
	char comm[16] = "";

	known_add(&kernel->known, tid, pid);
	target_comm(pid, tid, comm);
	if (comm[0])
		name(kernel, KERNEL_NAME, -1, ticks_monotonic_ns(), pid, tid, comm);
}

/* Write the name of a thread that woke a recorded one. */
static void name_waker(struct kernel *kernel, pid_t pid, pid_t tid)
{
	char comm[16] = "";

	if (tid <= 0 || known_pid(&kernel->known, tid) || known_pid(&kernel->named, tid))
		return;
	known_add(&kernel->named, tid, pid);
	target_comm(pid, tid, comm);
	if (comm[0])
		name(kernel, KERNEL_WAKER, -1, ticks_monotonic_ns(), pid, tid, comm);
}

void kernel_write_names(struct kernel *kernel)
{
	each_thread(kernel, write_name);
}

static void write_wait(struct kernel *kernel, pid_t pid, pid_t tid)
{
	struct kernel_fields fields = { .count = 0 };
	struct target_times times;

	if (!switches_hold(kernel, pid, tid))
		return;
	if (target_thread_times(pid, tid, &times))
		return; /* it has ended */
	put_thread(&fields, pid, tid);
	put_u64(&fields, times.waited_ns);
	event_write(kernel, -1, ticks_monotonic_ns(), KERNEL_RUNNABLE, &fields);
}

void kernel_write_joined(struct kernel *kernel, pid_t pid)
{
	each_of_process(kernel, pid, write_name);
	if (kernel->has_switches)
		each_of_process(kernel, pid, write_wait);
}

void kernel_write_runnable(struct kernel *kernel)
{
	each_thread(kernel, write_wait);
}

/* ---- switches ---- */

static struct departing *departing_of(struct kernel *kernel, unsigned int cpu)
{
	return &kernel->departing[cpu % COUNT_CPUS_MAX];
}

/* As the kernel's TASK_* bits, include/linux/sched.h, fs/proc/array.c. */
static char state_letter(uint64_t bits)
{
	static const char letters[] = "SDTtXZPI";

	for (unsigned int i = 0; i < sizeof(letters) - 1; i++)
		if (bits >> i & 1)
			return letters[i];
	return 'R';
}

/* They are the record's until the next one is read: keep them as the event has them. */
static void note_callers(struct kernel *kernel, struct departing *departing,
			 const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };

	if (!departing->callers)
		departing->callers = malloc(CALLERS_BYTES);
	if (!departing->callers)
		return;
	put_callers(kernel, &fields, record);
	memcpy(departing->callers, fields.bytes, fields.count);
	departing->callers_bytes = fields.count;
}

static void note_departing(struct kernel *kernel, const struct kernel_source *source,
			   const struct sampler_record *record)
{
	struct departing *departing = departing_of(kernel, record->cpu);
	const struct tracepoint_field *state = tracepoint_find(&source->format, "prev_state");

	departing->tid = record->tid;
	departing->place = record->user_ip;
	departing->state = '?';
	departing->callers_bytes = 0;
	if (kernel->switch_wants & SAMPLER_CALLERS)
		note_callers(kernel, departing, record);
	if (source->role == KERNEL_STATES && state)
		departing->state = state_letter(
			(uint64_t)tracepoint_number(state, record->raw, record->raw_bytes));
}

static void depart(struct kernel *kernel, const struct sampler_record *record)
{
	struct departing *departing = departing_of(kernel, record->cpu);
	int is_known = departing->tid == record->tid;
	struct kernel_fields fields = { .count = 0 };

	if (!switches_hold(kernel, record->pid, record->tid))
		return;
	put_thread(&fields, record->pid, record->tid);
	put_u8(&fields, record->is_preempted != 0);
	put_u8(&fields, (uint8_t)(record->is_preempted ? 'R' : is_known ? departing->state : '?'));
	put_u64(&fields, is_known ? met(kernel, record, departing->place, 0) : 0);
	if (kernel->switch_wants & SAMPLER_CALLERS && is_known && departing->callers_bytes)
		put(&fields, departing->callers, departing->callers_bytes);
	else if (kernel->switch_wants & SAMPLER_CALLERS)
		put_run(&fields, NULL, 0);
	event_write(kernel, (int)record->cpu, record->time_ns, KERNEL_DEPART, &fields);
	departing->tid = 0;
}

static void arrive(struct kernel *kernel, const struct sampler_record *record)
{
	struct kernel_fields fields = { .count = 0 };

	known_add(&kernel->known, record->tid, record->pid);
	if (!switches_hold(kernel, record->pid, record->tid))
		return;
	put_thread(&fields, record->pid, record->tid);
	event_write(kernel, (int)record->cpu, record->time_ns, KERNEL_ARRIVE, &fields);
}

int kernel_take_wake(const struct sampler_record *record, void *data)
{
	struct kernel *kernel = data;
	const struct tracepoint_field *field = tracepoint_find(&kernel->wakes_format, "pid");
	pid_t tid = (pid_t)tracepoint_number(field, record->raw, record->raw_bytes);
	pid_t pid = known_pid(&kernel->known, tid);
	struct kernel_fields fields = { .count = 0 };

	if (record->kind == SAMPLER_LOST)
		lose(kernel, OWN_STORE_CPU_APART(record->cpu), record);
	if (record->kind != SAMPLER_SAMPLE ||
	    (kernel->end_ns && record->time_ns > kernel->end_ns) ||
	    (!pid && (!kernel->is_of_cpus || kernel->cgroup_fd >= 0)) ||
	    !switches_hold(kernel, pid, tid))
		return 0;
	put_thread(&fields, pid, tid);
	put_thread(&fields, record->pid, record->tid);
	kernel_write_wake(kernel, record->cpu, record->time_ns, &fields);
	name_waker(kernel, record->pid, record->tid);
	return 0;
}

/* ---- samples ---- */

static void put_tracepoint(struct kernel_fields *fields, const struct tracepoint *format,
			   const struct sampler_record *record)
{
	for (unsigned int i = 0; i < format->count; i++) {
		const struct tracepoint_field *field = &format->fields[i];
		uint64_t zero = 0;
		size_t bytes;
		const void *at = tracepoint_bytes(field, record->raw, record->raw_bytes, &bytes);

		if (field->type == WM_TYPE_STR)
			put_string(fields, at, bytes);
		else if (field->type == WM_TYPE_BYTES)
			put_run(fields, at, bytes);
		else
			put(fields, at ? at : &zero, field->bytes);
	}
}

static void put_registers(struct kernel_fields *fields, const struct kernel_request *request,
			  const struct sampler_record *record)
{
	for (unsigned int i = 0; request->has_args && i < PERF_REGISTERS_ARGUMENTS; i++)
		put_u64(fields, record->regs[perf_registers_arguments[i]]);
	if (request->is_return)
		put_u64(fields, record->regs[perf_register_result]);
}

/* In the order of their numbers. */
static void put_all_registers(struct kernel_fields *fields, const struct sampler_record *record)
{
	uint64_t mask = perf_registers_general | PERF_REGISTER_IP_BIT, left;
	int has = record->regs_abi != PERF_SAMPLE_REGS_ABI_NONE;

	put_u8(fields, has ? FIELD_WHOLE : FIELD_UNREADABLE);
	put_u32(fields, has ? (uint32_t)__builtin_popcountll(mask) : 0);
	for (left = has ? mask : 0; left; left &= left - 1)
		put_u64(fields, record->regs[__builtin_ctzll(left)]);
}

/* Of each, from where and to where; the newest first. */
static void put_branches(struct kernel_fields *fields, const struct sampler_record *record)
{
	size_t count = record->branch_count < BRANCHES_MAX ? record->branch_count : BRANCHES_MAX;

	put_u8(fields, count < record->branch_count ? FIELD_CUT : FIELD_WHOLE);
	put_u32(fields, (uint32_t)(2 * count));
	for (size_t i = 0; i < count; i++) {
		struct perf_branch_entry branch;

		memcpy(&branch, (const char *)record->branches + i * sizeof(branch),
		       sizeof(branch));
		put_u64(fields, branch.from);
		put_u64(fields, branch.to);
	}
}

static void sample(struct kernel *kernel, const struct kernel_source *source,
		   const struct sampler_record *record)
{
	const struct kernel_request *request = source->request;
	struct kernel_fields fields = { .count = 0 };

	if (!tests_hold(request, record->pid, record->tid, record))
		return;
	put_thread(&fields, record->pid, record->tid);
	if (request->kind == KERNEL_TRACEPOINT)
		put_tracepoint(&fields, &source->format, record);
	else
		put_u64(&fields, met(kernel, record, record->ip, 0));
	if (request->kind == KERNEL_SAMPLE)
		put_u64(&fields, record->period);
	if (request->kind == KERNEL_KPROBE)
		put_registers(&fields, request, record);
	if (request->event.wants & SAMPLER_ADDRESS)
		put_u64(&fields, record->address);
	else if (request->kind == KERNEL_WATCH)
		put_u64(&fields, request->event.bp_address);
	if (request->has_callers)
		put_callers(kernel, &fields, record);
	if (request->has_regs)
		put_all_registers(&fields, record);
	if (request->event.wants & SAMPLER_BRANCHES)
		put_branches(&fields, record);
	event_write(kernel, (int)record->cpu, record->time_ns, source->id, &fields);
}

static void take_sample(struct kernel *kernel, const struct sampler_record *record)
{
	const struct kernel_source *source = &kernel->sources[record->event];

	switch (source->role) {
	case KERNEL_PLACES:
	case KERNEL_STATES:
		note_departing(kernel, source, record);
		break;
	case KERNEL_RECORDS:
		sample(kernel, source, record);
		break;
	}
}

static void throttled(struct kernel *kernel, const struct sampler_record *record)
{
	const struct kernel_request *request = kernel->sources[record->event].request;
	const char *name = !request			   ? "switch"
			   : request->kind == KERNEL_FAULT ? "fault"
							   : request->name;
	struct kernel_fields fields = { .count = 0 };

	put_thread(&fields, record->pid, record->tid);
	put_string(&fields, name, COUNT_NAME_BYTES);
	event_write(kernel, (int)record->cpu, record->time_ns, KERNEL_THROTTLED, &fields);
}

int kernel_take(const struct sampler_record *record, void *data)
{
	struct kernel *kernel = data;

	if (kernel->end_ns && record->time_ns > kernel->end_ns && record->kind != SAMPLER_LOST)
		return 0;
	/* a CPU's idle thread; or one that has ended: KERNEL_EXIT was written for it */
	if (record->tid <= 0 && (record->kind == SAMPLER_DEPART || record->kind == SAMPLER_ARRIVE))
		return 0;
	switch (record->kind) {
	case SAMPLER_SAMPLE:
		take_sample(kernel, record);
		break;
	case SAMPLER_DEPART:
		depart(kernel, record);
		break;
	case SAMPLER_ARRIVE:
		arrive(kernel, record);
		break;
	case SAMPLER_LOST:
		lose(kernel, OWN_STORE_CPU(record->cpu), record);
		break;
	case SAMPLER_THROTTLED:
		throttled(kernel, record);
		break;
	case SAMPLER_EXIT:
		if (kernel_tasks_is_privileged(kernel->tasks, record)) {
			/* it runs on; its own events have ended, and those of CPUs have not */
			kernel->privileged += !kernel->is_of_cpus;
			if (kernel->is_of_cpus)
				break;
		}
		/* falls through */
	default:
		kernel_tasks_take(kernel->tasks, record);
		task_take(kernel, record);
		break;
	}
	return 0;
}

/* ---- counts ---- */

void kernel_write_counts(struct kernel *kernel)
{
	uint64_t time_ns = ticks_monotonic_ns();

	if (!kernel->counts || counts_read(kernel->counts, kernel->count_values))
		return;
	for (size_t i = 0; i < kernel->count_count;) {
		const struct count_value *value = &kernel->count_values[i];
		const uint32_t id = kernel->count_groups[i];
		struct kernel_fields fields = { .count = 0 };

		put_thread(&fields, kernel->pid_count == 1 ? kernel->pids[0] : 0, 0);
		for (; i < kernel->count_count && kernel->count_groups[i] == id; i++)
			put_u64(&fields, kernel->count_values[i].count);
		put_u64(&fields, value->enabled_ns);
		put_u64(&fields, value->running_ns);
		event_write(kernel, -1, time_ns, id, &fields);
	}
}

/* ---- what events are called ---- */

struct declaring {
	char *text;
	size_t room, used;
	uint8_t *types;
	unsigned int count;
};

static void declare(struct declaring *to, const char *name, uint8_t type)
{
	int took;

	if (to->count == WM_FIELDS_MAX) {
		to->used = to->room; /* too many */
		return;
	}
	took = snprintf(to->text + to->used, to->room - to->used, "%s%s", to->count ? "," : "",
			name);
	to->used += took > 0 && (size_t)took < to->room - to->used ? (size_t)took
								   : to->room - to->used;
	to->types[to->count++] = type;
}

/* A field for each event of the group: "page_faults". "count": it is alone. */
static void declare_count(struct declaring *to, const struct kernel_request *request,
			  unsigned int which)
{
	char name[COUNT_NAME_BYTES];
	size_t i = 0;

	for (const char *at = request->group[which].name; *at; at++, i++)
		name[i] = (char)(isalnum((unsigned char)*at) ? *at : '_');
	name[i] = '\0';
	declare(to, request->group_count == 1 ? "count" : name, WM_TYPE_U64);
}

static void declare_request(struct declaring *to, const struct kernel_request *request,
			    const struct tracepoint *format)
{
	if (request->kind == KERNEL_COUNT) {
		for (unsigned int i = 0; i < request->group_count; i++)
			declare_count(to, request, i);
		declare(to, "enabled_ns", WM_TYPE_U64);
		declare(to, "running_ns", WM_TYPE_U64);
		return;
	}
	if (request->kind == KERNEL_TRACEPOINT)
		for (unsigned int i = 0; i < format->count; i++)
			declare(to, format->fields[i].name, format->fields[i].type);
	else
		declare(to, "ip", WM_TYPE_PTR);
	if (request->kind == KERNEL_SAMPLE)
		declare(to, "period", WM_TYPE_U64);
	for (int i = 1; request->has_args && i <= PERF_REGISTERS_ARGUMENTS; i++)
		declare(to, (char[]){ 'a', 'r', 'g', (char)('0' + i), 0 }, WM_TYPE_U64);
	if (request->is_return)
		declare(to, "ret", WM_TYPE_U64);
	if (request->event.wants & SAMPLER_ADDRESS || request->kind == KERNEL_WATCH)
		declare(to, "address", WM_TYPE_PTR);
	if (request->has_callers)
		declare(to, "callchain", WM_TYPE_ADDRESSES);
	if (request->has_regs)
		declare(to, "regs", WM_TYPE_ADDRESSES);
	if (request->event.wants & SAMPLER_BRANCHES)
		declare(to, "branches", WM_TYPE_ADDRESSES);
}

static void declare_own(struct declaring *to, uint32_t id, int has_callers)
{
	switch (id) {
	case KERNEL_DEPART:
		declare(to, "is_preempted", WM_TYPE_BOOL);
		declare(to, "state", WM_TYPE_CHAR);
		declare(to, "place", WM_TYPE_PTR);
		if (has_callers)
			declare(to, "callchain", WM_TYPE_ADDRESSES);
		break;
	case KERNEL_WAKE:
		declare(to, "waker_pid", WM_TYPE_I32);
		declare(to, "waker_tid", WM_TYPE_I32);
		break;
	case KERNEL_RUNNABLE:
		declare(to, "wait_ns", WM_TYPE_U64);
		break;
	case KERNEL_NAME:
	case KERNEL_WAKER:
		declare(to, "name", WM_TYPE_STR);
		break;
	case KERNEL_FORK:
		declare(to, "parent_pid", WM_TYPE_I32);
		declare(to, "parent_tid", WM_TYPE_I32);
		break;
	case KERNEL_LOST:
		declare(to, "count", WM_TYPE_U64);
		break;
	case KERNEL_THROTTLED:
		declare(to, "event", WM_TYPE_STR);
		break;
	default:
		break;
	}
}

/* "SUBSYSTEM\nEVENT" */
static void name_of(uint32_t id, const struct kernel_request *request, char *name, size_t bytes)
{
	static const char *const own[] = {
		[KERNEL_DEPART] = "switch\ndepart", [KERNEL_ARRIVE] = "switch\narrive",
		[KERNEL_WAKE] = "switch\nwake",	    [KERNEL_RUNNABLE] = "switch\nrunnable",
		[KERNEL_NAME] = "task\nname",	    [KERNEL_WAKER] = "task\nwaker",
		[KERNEL_FORK] = "task\nfork",	    [KERNEL_EXIT] = "task\nexit",
		[KERNEL_LOST] = "kernel\nlost",	    [KERNEL_THROTTLED] = "kernel\nthrottled",
	};
	static const char *const subsystems[] = {
		[KERNEL_COUNT] = "count", [KERNEL_SAMPLE] = "sample", [KERNEL_FAULT] = "fault",
		[KERNEL_TRACEPOINT] = "", [KERNEL_KPROBE] = "kprobe", [KERNEL_WATCH] = "watch",
	};
	char *colon;

	if (!request) {
		snprintf(name, bytes, "%s", own[id]);
	} else if (request->kind == KERNEL_TRACEPOINT) {
		snprintf(name, bytes, "%s", request->name);
		colon = strchr(name, ':');
		if (colon)
			*colon = '\n';
	} else {
		snprintf(name, bytes, "%s\n%s", subsystems[request->kind],
			 request->kind == KERNEL_FAULT ? "page" : request->name);
	}
}

int kernel_event_text(uint32_t id, const struct kernel_request *request,
		      const struct tracepoint *format, int has_callers, char *text, size_t bytes,
		      uint8_t types[16])
{
	char name[2 * COUNT_NAME_BYTES];
	struct declaring to = { .text = text, .room = bytes, .types = types };

	name_of(id, request, name, sizeof(name));
	memset(types, 0, 16);
	to.used = (size_t)snprintf(text, bytes, "mk\n%s\nkernel\n0\n", name);
	declare(&to, "pid", WM_TYPE_I32);
	declare(&to, "tid", WM_TYPE_I32);
	if (request)
		declare_request(&to, request, format);
	else
		declare_own(&to, id, has_callers);
	return to.used < to.room ? 0 : -E2BIG;
}
