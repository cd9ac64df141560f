/* SPDX-License-Identifier: MIT */
/*
 * What the kernel's events tell this user: each kind is opened for a moment, disabled. The setting and the capabilities only
 * explain what the kernel said.
 */
#include "session/doctor/look.h"
#include "session/doctor/refusal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define UNITS "/sys/bus/event_source/devices"
#define RING_BYTES                                                                                 \
	(512u                                                                                      \
	 << 10) /* the allowance of kernel.perf_event_mlock_kb, as the kernel has it at first */
#define MEANINGS 6
#define PERFMON (UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_SYS_ADMIN)

/* From -1 on: perf_event_paranoid in the kernel's Documentation/admin-guide/sysctl/kernel.rst; 3 and 4 are Debian's and Ubuntu's. */
static const char *const meanings[MEANINGS] = {
	"everything, and rings of any size, for all",
	"kernel code and whole processors for all, raw tracepoints for CAP_PERFMON",
	"user and kernel code of own programs for all, whole processors for CAP_PERFMON",
	"user code of own programs for all, the kernel's for CAP_PERFMON",
	"nothing but for CAP_PERFMON (Debian's level)",
	"nothing but for CAP_PERFMON (Ubuntu's level)",
};

/* Opened and closed: 0 or -errno. */
static int try_event(const struct machine *machine, struct perf_event_attr *attr, pid_t tid,
		     int cpu)
{
	int fd = machine_calls(machine)->perf_open(attr, tid, cpu);

	if (fd < 0)
		return fd;
	machine_calls(machine)->perf_close(fd);
	return 0;
}

/* One that counts nothing, and takes no unit: whether events may be opened at all is seen by it. */
static struct perf_event_attr unitless(void)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
}

static void look_at_level(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "perf_event_paranoid");
	int is_above = !!(machine_wide_capabilities(machine) & PERFMON), err;
	char why[128];
	long level;

	err = machine_number(machine, PARANOID, &level);
	if (err) {
		finding_say(finding, err == -ENOENT ? FINDING_ABSENT : FINDING_UNKNOWN,
			    PARANOID ": %s", machine_refusal(machine, err, why, sizeof(why)));
		if (err == -ENOENT)
			finding_change(finding,
				       "a kernel with CONFIG_PERF_EVENTS, and /proc mounted");
		return;
	}
	finding_say(finding,
		    is_above || level < 1 ? FINDING_FINE
		    : level < 3		  ? FINDING_LIMITED
					  : FINDING_ABSENT,
		    "%ld: %s", level,
		    meanings[level < -1	 ? 0
			     : level > 4 ? MEANINGS - 1
					 : level + 1]);
	if (is_above)
		finding_more(finding, "we have the capability");
	else if (level >= 1)
		finding_change(finding, "sysctl kernel.perf_event_paranoid=%d",
			       level > 2 ? 2 : (int)level - 1);
}

/* A kind of event that this user may have or not. */
static void look_at_kind(struct finding_list *list, const struct machine *machine, const char *name,
			 const char *what, int err, int wanted)
{
	struct finding *finding = finding_add(list, "perf", name);
	char why[128];

	if (!err) {
		finding_say(finding, FINDING_FINE, "%s", what);
		return;
	}
	finding_say(finding, FINDING_ABSENT, "perf_event_open(2): %s",
		    machine_refusal(machine, err, why, sizeof(why)));
	refusal_change(finding, machine, err, wanted);
}

static void look_at_kinds(struct finding_list *list, const struct machine *machine)
{
	struct perf_event_attr attr = unitless();

	look_at_kind(list, machine, "user code", "of own programs (an event was opened)",
		     try_event(machine, &attr, 0, -1), 2);
	attr.context_switch = 1;
	look_at_kind(list, machine, "switches", "when own threads arrive and depart",
		     try_event(machine, &attr, 0, -1), 2);
	attr = unitless();
	attr.exclude_kernel = 0;
	look_at_kind(list, machine, "kernel code", "what the kernel does for own programs",
		     try_event(machine, &attr, 0, -1), 1);
	attr = unitless();
	look_at_kind(list, machine, "whole processors", "all that runs on one (processor 0 was)",
		     try_event(machine, &attr, -1, 0), 0);
}

/* A counter of the processor's, and who has one for good. */
static void look_at_counters(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "counters");
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int err = try_event(machine, &attr, 0, -1);
	char why[128], flags[8192] = "";
	long watchdog = 0;

	machine_number(machine, "/proc/sys/kernel/nmi_watchdog", &watchdog);
	if (!err && watchdog > 0) {
		finding_say(finding, FINDING_LIMITED,
			    "the processor's; the kernel's NMI watchdog holds one");
		finding_change(finding, "sysctl kernel.nmi_watchdog=0 gives it back");
		return;
	}
	if (!err) {
		finding_say(finding, FINDING_FINE, "the processor's (cycles were opened)");
		return;
	}
	finding_say(finding, FINDING_ABSENT, "cycles: %s",
		    machine_refusal(machine, err, why, sizeof(why)));
	refusal_change(finding, machine, err, 2);
	if (err != -ENOENT && err != -ENODEV && err != -EOPNOTSUPP)
		return;
	machine_value(machine, "/proc/cpuinfo", "flags", flags, sizeof(flags));
	if (machine_has_word(flags, "hypervisor"))
		finding_change(finding,
			       "this is a virtual machine: its host can lend it the unit (QEMU: "
			       "-cpu host,pmu=on)");
}

static void look_at_units(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "units");
	char path[PATH_MAX], text[FINDING_BYTES - 64] = "", why[128];
	size_t used = 0, count = 0;
	struct dirent **names;
	int found;

	machine_path(machine, UNITS, path, sizeof(path));
	found = scandir(path, &names, NULL, alphasort);
	if (found < 0) {
		finding_say(finding, FINDING_UNKNOWN, UNITS ": %s",
			    machine_refusal(machine, -errno, why, sizeof(why)));
		return;
	}
	for (int i = 0; i < found; i++) {
		if (names[i]->d_name[0] != '.' && used < sizeof(text)) {
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 count ? " " : "", names[i]->d_name);
			count++;
		}
		free(names[i]);
	}
	free(names);
	finding_say(finding, count ? FINDING_FINE : FINDING_ABSENT, "%s", count ? text : "none");
}

static void look_at_rings(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "rings");
	struct perf_event_attr attr = unitless();
	int fd = machine_calls(machine)->perf_open(&attr, 0, -1), err;
	uint64_t limit;
	char why[128];
	long allowance;

	if (fd < 0) {
		finding_say(finding, FINDING_ABSENT, "no event to have one of: %s",
			    machine_refusal(machine, fd, why, sizeof(why)));
		return;
	}
	err = machine_calls(machine)->perf_ring(fd, RING_BYTES);
	machine_calls(machine)->perf_close(fd);
	if (err)
		finding_say(finding, FINDING_LIMITED, "not even one of %u KiB: %s",
			    RING_BYTES >> 10, machine_refusal(machine, err, why, sizeof(why)));
	else
		finding_say(finding, FINDING_FINE, "one of %u KiB was had", RING_BYTES >> 10);
	if (!machine_number(machine, "/proc/sys/kernel/perf_event_mlock_kb", &allowance))
		finding_more(finding,
			     "kernel.perf_event_mlock_kb gives this user %ld KiB on %ld processors",
			     allowance * machine_processors(machine), machine_processors(machine));
	if (!machine_limit(machine, "Max locked memory", &limit)) {
		if (limit == UINT64_MAX)
			finding_more(finding, "RLIMIT_MEMLOCK any more");
		else
			finding_more(finding, "RLIMIT_MEMLOCK each process %" PRIu64 " KiB more",
				     limit >> 10);
	}
	if (err)
		finding_change(finding, "sysctl kernel.perf_event_mlock_kb, ulimit -l, or "
					"CAP_IPC_LOCK; end who has rings");
}

static void look_at_rate(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "samples");
	long rate = origin_rate_max(&machine->origin);

	if (rate < 0)
		finding_say(finding, FINDING_UNKNOWN,
			    "kernel.perf_event_max_sample_rate can't be read");
	else
		finding_say(finding, FINDING_FINE, "%ld a second at most", rate);
	if (rate >= 0)
		finding_change(finding,
			       "sysctl kernel.perf_event_max_sample_rate, which the kernel "
			       "lowers by itself where samples take long");
}

/*
 * The kernel looks at the capability first, and then at the path (perf_uprobe_event_init()): without one it tells whether
 * we might, and no program is touched.
 */
static void look_at_uprobes(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "uprobes");
	struct perf_event_attr attr = { .size = sizeof(attr), .disabled = 1 };
	char why[128];
	long type;
	int err = machine_number(machine, UNITS "/uprobe/type", &type);

	if (err) {
		finding_say(finding, FINDING_ABSENT, UNITS "/uprobe: %s",
			    machine_refusal(machine, err, why, sizeof(why)));
		finding_change(finding, "a kernel with CONFIG_UPROBE_EVENTS");
		return;
	}
	attr.type = (uint32_t)type;
	err = try_event(machine, &attr, 0, -1);
	if (err != -EACCES && err != -EPERM && err != -ENOSYS && err != -ECANCELED) {
		finding_say(finding, FINDING_FINE, "the kernel's own probes; waymark needs none");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "%s; waymark needs none, but to compare: waymark bench",
		    machine_refusal(machine, err, why, sizeof(why)));
	finding_change(finding, "setcap cap_perfmon+ep waymark, or root");
}

static void look_at_tracefs(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "perf", "tracefs");
	char line[64], why[128];
	int err = machine_line(machine, "/sys/kernel/tracing/available_events", line, sizeof(line));

	if (!err) {
		finding_say(finding, FINDING_FINE, "its events can be read; waymark needs none");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "/sys/kernel/tracing/available_events: %s; waymark needs none, but to compare",
		    machine_refusal(machine, err, why, sizeof(why)));
	finding_change(finding, err == -ENOENT
					? "mount -t tracefs nodev /sys/kernel/tracing"
					: "root, or mount -o remount,mode=755 /sys/kernel/tracing");
}

void look_perf(struct finding_list *list, const struct machine *machine)
{
	look_at_level(list, machine);
	look_at_kinds(list, machine);
	look_at_units(list, machine);
	look_at_counters(list, machine);
	look_at_rings(list, machine);
	look_at_rate(list, machine);
	look_at_uprobes(list, machine);
	look_at_tracefs(list, machine);
}
