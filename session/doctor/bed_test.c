/* SPDX-License-Identifier: MIT */
#include "session/doctor/bed_test.h"

#include "base/array.h"
#include "session/claim/ledger.h"
#include "session/trail/sample_perf.h"
#include "trace/sample.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UPROBE 8
#define FD_PLAIN 1000
#define FD_BREAKPOINT 2000

struct bed bed;

/* perf_copy_attr(), perf_allow_kernel(), perf_allow_cpu(), hw_breakpoint.c, perf_uprobe_event_init() */
static int perf_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int may_kernel = bed.has_capability || bed.level <= 1;
	int is_breakpoint = attr->type == PERF_TYPE_BREAKPOINT;

	cr_expect(attr->disabled, "what is tried must not fire");
	cr_expect((tid == -1) == (cpu >= 0));
	if (bed.perf_error)
		return bed.perf_error;
	if (attr->type == UPROBE)
		return bed.has_capability ? -EINVAL : -EACCES;
	if ((bed.level > 2 && !bed.has_capability) || (!attr->exclude_kernel && !may_kernel) ||
	    (cpu >= 0 && bed.level > 0 && !bed.has_capability))
		return -EACCES;
	if (attr->type == PERF_TYPE_HARDWARE && !bed.has_counters)
		return -ENOENT;
	if (attr->sigtrap && (!bed.has_sigtrap || !attr->remove_on_exec))
		return -EINVAL;
	if (is_breakpoint && bed.held >= bed.registers)
		return -ENOSPC;
	bed.held += is_breakpoint;
	bed.open++;
	return is_breakpoint ? FD_BREAKPOINT : FD_PLAIN;
}

static void perf_close(int fd)
{
	bed.open--;
	bed.held -= fd == FD_BREAKPOINT;
}

static int perf_ring(int fd, size_t bytes)
{
	cr_expect_eq(fd, FD_PLAIN);
	cr_expect_eq(bytes & (bytes - 1), 0);
	return bed.ring;
}

static int origin_perf_open(struct perf_event_attr *attr, pid_t tid)
{
	return perf_open(attr, tid, -1);
}

static int dumpable(void)
{
	return bed.dumpable;
}

static int tsc(void)
{
	return bed.tsc;
}

static int sync_core(void)
{
	return bed.sync_core;
}

static int write_code(int by_mprotect)
{
	return by_mprotect ? bed.by_mprotect : bed.by_mem;
}

static int new_code(int is_writable)
{
	return is_writable ? bed.writable : bed.plain;
}

static int trace_child(void)
{
	return bed.child;
}

static int trace_stranger(void)
{
	return bed.stranger;
}

static int trace_others(int *others)
{
	*others = bed.others;
	return bed.granted;
}

static int memfd(void)
{
	return bed.memfd;
}

static void holders(pid_t tid, int cpu, char *text, size_t bytes)
{
	(void)tid;
	(void)cpu;
	snprintf(text, bytes, "%s", bed.holders);
}

static int claims(struct claim_list *list)
{
	list->damaged = bed.damaged;
	for (size_t i = 0; i < bed.claims; i++) {
		cr_assert_eq(array_grow(&list->rows, &list->room, list->count + 1,
					sizeof(*list->rows)),
			     0);
		list->rows[list->count++] = (struct claim_row){
			.claim = { .resource = CLAIM_DEBUG_REGISTER,
				   .count = 2,
				   .what = "watch:counter" },
			.owner = { .pid = 812 + (pid_t)i, .comm = "waymark" },
		};
	}
	return bed.claims_error;
}

static void launch(struct launched *launched, char *const argv[])
{
	cr_expect_str_eq(argv[0], "/trial");
	*launched = bed.launched;
}

static void record(struct launched *launched, char *const argv[])
{
	cr_expect_str_eq(argv[0], "/trial");
	*launched = bed.recorded;
}

static const struct machine_calls calls = {
	.perf_open = perf_open,
	.perf_close = perf_close,
	.perf_ring = perf_ring,
	.dumpable = dumpable,
	.tsc = tsc,
	.sync_core = sync_core,
	.write_code = write_code,
	.new_code = new_code,
	.trace_child = trace_child,
	.trace_stranger = trace_stranger,
	.trace_others = trace_others,
	.memfd = memfd,
	.holders = holders,
	.claims = claims,
	.launch = launch,
	.record = record,
};

static const struct perf_calls origin_perf = { .open = origin_perf_open, .close = perf_close };

void bed_put(const char *path, const char *text)
{
	sample_machine_put(bed.root, path, text);
}

static void path_of(const char *path, char full[512])
{
	snprintf(full, 512, "%s%s", bed.root, path);
}

void bed_remove(const char *path)
{
	char full[512];

	path_of(path, full);
	cr_assert_eq(unlink(full), 0);
}

void bed_link(const char *path, const char *to)
{
	char full[512];

	bed_put(path, ""); /* the folders on the way */
	path_of(path, full);
	unlink(full);
	cr_assert_eq(symlink(to, full), 0);
}

void bed_self(const char *capabilities, int seccomp)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Name:\tx\nTracerPid:\t0\nCapEff:\t%s\nSeccomp:\t%d\nSeccomp_filters:\t%d\n",
		 capabilities, seccomp, seccomp ? 3 : 0);
	bed_put("/proc/self/status", text);
}

void bed_limits(const char *memlock, const char *files, const char *addresses, const char *size)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "Limit                     Soft Limit           Hard Limit           Units     \n"
		 "Max file size             %-20s unlimited            bytes     \n"
		 "Max open files            %-20s 1048576              files     \n"
		 "Max locked memory         %-20s unlimited            bytes     \n"
		 "Max address space         %-20s unlimited            bytes     \n",
		 size, files, memlock, addresses);
	bed_put("/proc/self/limits", text);
}

void bed_cpu(const char *flags)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
		 "flags\t\t: fpu %s sse\n\nprocessor\t: 1\nflags\t\t: other\n",
		 flags);
	bed_put("/proc/cpuinfo", text);
}

void bed_level(int level)
{
	char text[16];

	bed.level = level;
	snprintf(text, sizeof(text), "%d\n", level);
	bed_put("/proc/sys/kernel/perf_event_paranoid", text);
}

void bed_make(void)
{
	static char trial[] = "/trial";
	static char *argv[] = { trial, NULL };

	bed = (struct bed){ .has_sigtrap = 1,
			    .has_counters = 1,
			    .registers = 4,
			    .dumpable = 1,
			    .others = 7,
			    .holders = "",
			    .launched.way = 1,
			    .recorded.branches = 4711 };
	sample_folder(bed.root);
	bed.machine = (struct machine){ .origin = { bed.root, &origin_perf },
					.calls = &calls,
					.trial = argv };
	bed_cpu("constant_tsc tsc nonstop_tsc");
	bed_self("0000000000000000", 0);
	bed_limits("8388608", "20000", "unlimited", "unlimited");
	bed_level(2);
	bed_put("/proc/sys/kernel/yama/ptrace_scope", "0\n");
	bed_put("/proc/sys/kernel/nmi_watchdog", "0\n");
	bed_put("/proc/sys/kernel/perf_event_mlock_kb", "516\n");
	bed_put("/proc/sys/kernel/perf_event_max_sample_rate", "100000\n");
	bed_put("/sys/devices/system/cpu/online", "0-2,4\n");
	bed_put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	bed_put("/sys/devices/system/clocksource/clocksource0/available_clocksource",
		"tsc hpet acpi_pm \n");
	bed_put("/sys/bus/event_source/devices/cpu/type", "4\n");
	bed_put("/sys/bus/event_source/devices/uprobe/type", "8\n");
	bed_put("/sys/kernel/tracing/available_events", "sched:sched_switch\n");
	bed_link("/proc/self/ns/pid", "pid:[4026531836]");
	bed_link("/proc/self/ns/user", "user:[4026531837]");
	setenv("WAYMARK_ENGINE", ENGINE, 1);
}

void bed_end(void)
{
	cr_expect_eq(bed.open, 0, "all that was opened is closed");
	finding_list_release(&bed.list);
	sample_folder_remove(bed.root);
}

void bed_look(look_fn *look)
{
	finding_list_release(&bed.list);
	look(&bed.list, &bed.machine);
}

void bed_expect(const char *name, enum finding_state state, const char *found, const char *change)
{
	const struct finding *finding = finding_of(&bed.list, name);

	cr_assert(finding, "%s is not there", name);
	cr_expect_eq(finding->state, state, "%s: it is %s, not %s: %s", name,
		     finding_state_name(finding->state), finding_state_name(state), finding->found);
	cr_expect(strstr(finding->found, found), "%s: found: %s; expected: %s", name,
		  finding->found, found);
	if (*change)
		cr_expect(strstr(finding->change, change), "%s: change: %s; expected: %s", name,
			  finding->change, change);
	else
		cr_expect_str_eq(finding->change, "", "%s", name);
}
