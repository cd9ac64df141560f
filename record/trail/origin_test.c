/* SPDX-License-Identifier: MIT */
/*
 * Machines made of folders and of a perf_event_open() that returns what the test sets: each reason
 * once. ENGINE: an engine's file.
 */
#include "record/perf/refused.h"
#include "record/trail/origin.h"
#include "record/trail/testing/perf.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define UNITS "/sys/bus/event_source/devices/"
#define VENDOR "only Intel's processors have the unit, and this one is "
#define HOST "the virtual machine's host does not lend it the unit: "

static char root[64];
static struct origin_state states[ORIGINS];
static int answer, asked;

static int fake_open(struct perf_event_attr *attr, pid_t tid)
{
	(void)tid;
	asked++;
	cr_expect(attr->exclude_kernel && attr->disabled);
	return answer < 0 ? answer : 100;
}

static void fake_close(int fd)
{
	cr_expect_eq(fd, 100);
}

static const struct perf_calls fake = { .open = fake_open, .close = fake_close };

static void put(const char *path, const char *text)
{
	sample_machine_put(root, path, text);
}

static void cpu(const char *vendor, int model, const char *flags)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "processor\t: 0\nvendor_id\t: %s\ncpu family\t: 6\nmodel\t\t: %d\n"
		 "model name\t: one\nflags\t\t: fpu %s tsc\n\nprocessor\t: 1\nvendor_id\t: other\n",
		 vendor, model, flags);
	put("/proc/cpuinfo", text);
}

static void self(const char *capabilities, int seccomp)
{
	char text[128];

	snprintf(text, sizeof(text), "Name:\tx\nCapEff:\t%s\nSeccomp:\t%d\nSeccomp_filters:\t1\n",
		 capabilities, seccomp);
	put("/proc/self/status", text);
}

/* An Intel machine that gives all. */
static void machine(void)
{
	sample_folder(root);
	setenv("WAYMARK_ENGINE", ENGINE, 1);
	cpu("GenuineIntel", 0x8f, "vmx");
	self("0000000000000000", 0);
	put("/proc/sys/kernel/perf_event_paranoid", "1\n");
	put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
	put(UNITS "intel_pt/type", "8\n");
	put(UNITS "intel_bts/type", "9\n");
}

static void machine_end(void)
{
	sample_folder_remove(root);
}

TestSuite(origin, .init = machine, .fini = machine_end);

static int look(void)
{
	origins_look(states, &(struct origin_machine){ .root = root, .perf = &fake });
	return origin_best(states);
}

static void expect(enum origin origin, int error, const char *detail)
{
	cr_expect_eq(states[origin].error, -error, "%s: %s", origin_name(origin),
		     wm_error_name(states[origin].error));
	cr_expect_str_eq(states[origin].detail, detail);
}

Test(origin, soft_needs_its_engine)
{
	setenv("WAYMARK_ENGINE", "/nowhere/engine.so", 1);
	look();
	expect(ORIGIN_SOFT, WM_E_NO_ENGINE, "/nowhere/engine.so");
	setenv("WAYMARK_ENGINE", "/bin/true", 1);
	look();
	cr_expect_eq(states[ORIGIN_SOFT].error, -WM_E_ENGINE_FILE, "auto would take it else");
}

Test(origin, auto_takes_the_best)
{
	cr_expect_eq(look(), ORIGIN_PT);
	expect(ORIGIN_PT, 0, "");
	expect(ORIGIN_BTS, 0, "");
	expect(ORIGIN_SOFT, 0, "");
	cr_expect_eq(asked, 2);
	states[ORIGIN_PT].error = -1;
	cr_expect_eq(origin_best(states), ORIGIN_BTS);
	states[ORIGIN_BTS].error = -1;
	cr_expect_eq(origin_best(states), ORIGIN_SOFT);
	states[ORIGIN_SOFT].error = -WM_E_NO_ENGINE;
	cr_expect_eq(origin_best(states), -1);
}

Test(origin, names_what_a_virtual_machine_is_not_lent)
{
	machine_end();
	sample_folder(root);
	cpu("GenuineIntel", 0x8f, "hypervisor");
	self("000001ffffffffff", 0);
	put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	cr_expect_eq(look(), ORIGIN_SOFT);
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, HOST "there is no " UNITS "intel_pt");
	expect(ORIGIN_BTS, WM_E_TRAIL_NO_UNIT, HOST "there is no " UNITS "intel_bts");
	cr_expect_eq(asked, 0);
	cpu("GenuineIntel", 0x8f, "nothypervisor");
	look();
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, "there is no " UNITS "intel_pt");
}

Test(origin, of_hardware_are_intels_alone)
{
	cpu("AuthenticAMD", 17, "svm");
	cr_expect_eq(look(), ORIGIN_SOFT);
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, VENDOR "AuthenticAMD");
	expect(ORIGIN_BTS, WM_E_TRAIL_NO_UNIT, VENDOR "AuthenticAMD");
}

Test(origin, knows_the_erratum)
{
	cpu("GenuineIntel", 0x3a, "vmx");
	cr_expect_eq(look(), ORIGIN_PT);
	expect(ORIGIN_BTS, WM_E_TRAIL_NO_UNIT,
	       "this processor's branch records can be wrong (Intel's erratum AAJ122)");
}

Test(origin, names_the_setting_and_the_capability)
{
	put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	cr_expect_eq(look(), ORIGIN_PT);
	expect(ORIGIN_BTS, WM_E_PERF_DENIED, PERF_PARANOID " is 2, and at most 1 is needed");
	put("/proc/sys/kernel/perf_event_paranoid", "3\n");
	cr_expect_eq(look(), ORIGIN_SOFT);
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_PARANOID " is 3, and at most 2 is needed");
	self("0000004000000000", 0); /* CAP_PERFMON */
	cr_expect_eq(look(), ORIGIN_PT);
	expect(ORIGIN_BTS, 0, "");
	self("0000000000200000", 0); /* CAP_SYS_ADMIN */
	cr_expect_eq(look(), ORIGIN_PT);
}

Test(origin, says_what_the_call_said)
{
	answer = -ENOSYS;
	cr_expect_eq(look(), ORIGIN_SOFT);
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, PERF_IS_MISSING);
	answer = -EACCES;
	look();
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_PARANOID " is 1");
	answer = -EPERM;
	look();
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_PARANOID " is 1");
	answer = -ENOENT;
	look();
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, "perf_event_open(2): ENOENT");
	answer = -EOPNOTSUPP;
	cpu("GenuineIntel", 0x8f, "hypervisor");
	look();
	expect(ORIGIN_PT, WM_E_TRAIL_NO_UNIT, HOST "perf_event_open(2): EOPNOTSUPP");
	answer = -EMFILE;
	look();
	expect(ORIGIN_PT, EMFILE, "perf_event_open(2)");
}

Test(origin, tells_a_filter_from_a_lack)
{
	self("0000000000000000", 2);
	answer = -EPERM;
	cr_expect_eq(look(), ORIGIN_SOFT);
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_IS_FILTERED);
	answer = -ENOSYS;
	look();
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_IS_FILTERED);
	answer = -EACCES;
	look();
	expect(ORIGIN_PT, WM_E_PERF_DENIED, PERF_PARANOID " is 1");
}

Test(origin, names_who_may_have_it)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_DUMMY,
					.exclude_kernel = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	pid_t holder;

	if (fd < 0)
		cr_skip_test("perf_event_open(2): %s", strerror(errno));
	holder = fork();
	if (!holder) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(127);
	}
	close(fd);
	answer = -EBUSY;
	look();
	cr_expect_eq(states[ORIGIN_PT].error, -WM_E_PERF_TAKEN);
	cr_expect(strstr(states[ORIGIN_PT].detail, "perf event") != NULL, "%s",
		  states[ORIGIN_PT].detail);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
}

Test(origin, is_not_to_be_had_where_nobody_may_trace)
{
	put("/proc/sys/kernel/yama/ptrace_scope", "3\n");
	cr_expect_eq(look(), ORIGIN_PT);
	expect(ORIGIN_SOFT, EPERM, "kernel.yama.ptrace_scope is 3: no process may trace");
}

/* On any machine: an answer for each, and a reason with a text where there is no origin. */
Test(origin, answers_for_this_machine)
{
	origins_look(states, NULL);
	for (int i = 0; i < ORIGINS; i++) {
		printf("%s: %s%s%s\n", origin_name((enum origin)i),
		       states[i].error ? wm_error_text(states[i].error) : "usable",
		       states[i].detail[0] ? ": " : "", states[i].detail);
		cr_expect(states[i].error <= 0);
	}
}

Test(origin, of_the_kernel_are_fewer)
{
	struct origin_state kept[ORIGINS] = { [ORIGIN_SOFT] = { .error = -ENODEV } };

	put("/proc/sys/kernel/perf_event_paranoid", "1\n");
	put("/proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n");
	origins_need_kernel(kept, &(struct origin_machine){ .root = root });
	cr_expect_eq(kept[ORIGIN_PT].error, 0);
	cr_expect_eq(kept[ORIGIN_BTS].error, 0);
	cr_expect_eq(kept[ORIGIN_SOFT].error, -ENODEV, "as it was");
	put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	origins_need_kernel(kept, &(struct origin_machine){ .root = root });
	cr_expect_eq(kept[ORIGIN_PT].error, -WM_E_PERF_DENIED);
	cr_expect_str_eq(kept[ORIGIN_PT].detail,
			 PERF_PARANOID " is 2, and at most 1 is needed for the kernel's branches");
	put("/proc/self/status", "CapEff:\t0000004000000000\nSeccomp:\t0\n");
	memset(kept, 0, sizeof(kept));
	origins_need_kernel(kept, &(struct origin_machine){ .root = root });
	cr_expect_eq(kept[ORIGIN_PT].error, 0, "CAP_PERFMON");
}
