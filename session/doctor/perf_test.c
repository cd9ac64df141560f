/* SPDX-License-Identifier: MIT */
/* Machines that differ in what the kernel's events tell a user. */
#include "session/doctor/bed_test.h"

#include "session/doctor/breakpoints.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define ROOT "000001ffffffffff"
#define PERFMON "0000004000000000"

TestSuite(doctor_perf, .init = bed_make, .fini = bed_end);

static void capable(const char *capabilities)
{
	bed.has_capability = 1;
	bed_self(capabilities, 0);
}

/* What each level gives an ordinary user, and who has the capability. */
Test(doctor_perf, tells_each_level)
{
	static const struct {
		int level;
		enum finding_state state, user, kernel, processors;
		const char *words;
	} levels[] = {
		{ -1, FINDING_FINE, FINDING_FINE, FINDING_FINE, FINDING_FINE, "-1: everything" },
		{ 0, FINDING_FINE, FINDING_FINE, FINDING_FINE, FINDING_FINE,
		  "0: kernel code and whole" },
		{ 1, FINDING_LIMITED, FINDING_FINE, FINDING_FINE, FINDING_ABSENT,
		  "1: user and kernel" },
		{ 2, FINDING_LIMITED, FINDING_FINE, FINDING_ABSENT, FINDING_ABSENT,
		  "2: user code" },
		{ 3, FINDING_ABSENT, FINDING_ABSENT, FINDING_ABSENT, FINDING_ABSENT, "Debian's" },
		{ 4, FINDING_ABSENT, FINDING_ABSENT, FINDING_ABSENT, FINDING_ABSENT, "Ubuntu's" },
	};
	char change[64];

	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
		int level = levels[i].level, open = levels[i].user == FINDING_FINE;

		bed_level(level);
		bed_look(look_perf);
		snprintf(change, sizeof(change), "sysctl kernel.perf_event_paranoid=%d",
			 level > 2 ? 2 : level - 1);
		bed_expect("perf_event_paranoid", levels[i].state, levels[i].words,
			   level < 1 ? "" : change);
		bed_expect("user code", levels[i].user, open ? "own programs" : "EACCES",
			   open ? "" : "kernel.perf_event_paranoid=2");
		bed_expect("kernel code", levels[i].kernel, "",
			   levels[i].kernel == FINDING_FINE ? "" : "kernel.perf_event_paranoid=1");
		bed_expect("whole processors", levels[i].processors, "",
			   levels[i].processors == FINDING_FINE ? ""
								: "kernel.perf_event_paranoid=0");
		bed_look(look_watch);
		bed_expect("breakpoints", levels[i].user,
			   open ? "4 of the processor's 4" : "EACCES",
			   open ? "" : "kernel.perf_event_paranoid=2");
		cr_expect_eq(finding_lacks(&bed.list), !open);
		bed_expect("kernel's stores", levels[i].kernel, "",
			   levels[i].kernel == FINDING_FINE ? "" : "kernel.perf_event_paranoid=1");
		bed_expect("on a processor", levels[i].processors, "",
			   levels[i].processors == FINDING_FINE ? ""
								: "kernel.perf_event_paranoid=0");
	}
}

Test(doctor_perf, knows_whom_a_level_does_not_bind)
{
	bed_level(4);
	capable(PERFMON);
	bed_look(look_perf);
	bed_expect("perf_event_paranoid", FINDING_FINE, "we have the capability", "");
	bed_expect("whole processors", FINDING_FINE, "processor 0 was", "");
	bed_expect("uprobes", FINDING_FINE, "the kernel's own probes", "");
	bed_link("/proc/self/ns/user", "user:[4026532000]");
	bed_look(look_perf);
	bed_expect("perf_event_paranoid", FINDING_ABSENT, "4: nothing but", "sysctl");
	bed_link("/proc/self/ns/user", MACHINE_FIRST_USERS);
	capable(ROOT);
	bed_look(look_watch);
	bed_expect("kernel's stores", FINDING_FINE, "read(2)", "");
}

Test(doctor_perf, tells_a_kernel_without)
{
	bed.perf_error = -ENOSYS;
	bed_remove("/proc/sys/kernel/perf_event_paranoid");
	bed_look(look_perf);
	bed_expect("perf_event_paranoid", FINDING_ABSENT, "perf_event_paranoid: ENOENT",
		   "CONFIG_PERF_EVENTS");
	bed_expect("user code", FINDING_ABSENT, "ENOSYS", "CONFIG_PERF_EVENTS");
	bed_expect("rings", FINDING_ABSENT, "no event to have one of: ENOSYS", "");
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_ABSENT, "ENOSYS", "CONFIG_PERF_EVENTS");
}

Test(doctor_perf, tells_a_filter)
{
	bed.perf_error = -EPERM;
	bed_self("0", 2);
	bed_look(look_perf);
	bed_expect("user code", FINDING_ABSENT, "EPERM, and we are under a seccomp filter",
		   "--cap-add PERFMON");
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_ABSENT, "under a seccomp filter", "--cap-add PERFMON");
	cr_expect_null(strstr(finding_of(&bed.list, "breakpoints")->change, "paranoid"));
	bed_look(look_trail);
	bed_expect("lbr", FINDING_ABSENT, "a seccomp filter", "--cap-add PERFMON");
}

Test(doctor_perf, tells_of_the_watchdog)
{
	bed_look(look_perf);
	bed_expect("counters", FINDING_FINE, "cycles were opened", "");
	bed_put("/proc/sys/kernel/nmi_watchdog", "1\n");
	bed_look(look_perf);
	bed_expect("counters", FINDING_LIMITED, "the kernel's NMI watchdog holds one",
		   "sysctl kernel.nmi_watchdog=0");
	bed.has_counters = 0;
	bed_look(look_perf);
	bed_expect("counters", FINDING_ABSENT, "cycles: ENOENT", "");
	bed_cpu("constant_tsc nonstop_tsc hypervisor");
	bed_look(look_perf);
	bed_expect("counters", FINDING_ABSENT, "cycles: ENOENT", "its host can lend it");
}

Test(doctor_perf, tells_rings_and_rates)
{
	bed_look(look_perf);
	bed_expect(
		"rings", FINDING_FINE,
		"one of 512 KiB was had; kernel.perf_event_mlock_kb gives this user 2064 KiB on 4 "
		"processors; RLIMIT_MEMLOCK each process 8192 KiB more",
		"");
	bed_expect("samples", FINDING_FINE, "100000 a second at most",
		   "perf_event_max_sample_rate");
	bed_expect("units", FINDING_FINE, "cpu uprobe", "");
	bed.ring = -EPERM;
	bed_limits("unlimited", "1024", "unlimited", "unlimited");
	bed_remove("/proc/sys/kernel/perf_event_max_sample_rate");
	bed_look(look_perf);
	bed_expect("rings", FINDING_LIMITED, "not even one of 512 KiB: EPERM", "CAP_IPC_LOCK");
	bed_expect("rings", FINDING_LIMITED, "RLIMIT_MEMLOCK any more", "ulimit -l");
	bed_expect("samples", FINDING_UNKNOWN, "can't be read", "");
}

Test(doctor_perf, tells_of_the_kernels_own_probes)
{
	bed_look(look_perf);
	bed_expect("uprobes", FINDING_LIMITED, "EACCES; waymark needs none", "cap_perfmon");
	bed_expect("tracefs", FINDING_FINE, "can be read", "");
	bed_remove("/sys/bus/event_source/devices/uprobe/type");
	bed_remove("/sys/kernel/tracing/available_events");
	bed_look(look_perf);
	bed_expect("uprobes", FINDING_ABSENT, "uprobe: ENOENT", "CONFIG_UPROBE_EVENTS");
	bed_expect("tracefs", FINDING_LIMITED, "ENOENT", "mount -t tracefs");
}

Test(doctor_perf, counts_the_registers_that_are_left)
{
	bed.registers = 1;
	bed.holders = "gdb 17 traces it";
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_LIMITED,
		   "1 of the processor's 4 can be had; others hold 3; gdb 17 traces it",
		   "who holds them");
	bed_expect("with SIGTRAP", FINDING_LIMITED, "1 of the processor's 4 can be had",
		   "who holds");
	bed_expect("execution", FINDING_FINE, "(1 can be had)", "");
	cr_expect_eq(finding_lacks(&bed.list), 0);
	bed.registers = 0;
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_ABSENT,
		   "0 of the processor's 4 can be had; others hold 4", "who holds them");
	bed_expect("execution", FINDING_ABSENT, "ENOSPC; gdb 17 traces it", "who holds them");
	cr_expect_eq(finding_lacks(&bed.list), 1);
}

Test(doctor_perf, tells_what_sessions_of_ours_hold)
{
	bed_look(look_watch);
	bed_expect("ledger", FINDING_FINE, "no session of ours holds anything", "");
	bed.claims = 4;
	bed_look(look_watch);
	bed_expect("ledger", FINDING_FINE,
		   "waymark 812 holds 2 of kind debug register (watch:counter); waymark 813 holds",
		   "");
	bed_expect("ledger", FINDING_FINE, "4 claims in all: waymark claims lists them", "");
	bed.damaged = 3;
	bed_look(look_watch);
	bed_expect("ledger", FINDING_LIMITED, "3 places of it make no sense", "");
	bed.claims_error = -WM_E_SOCKET_DIR;
	bed_look(look_watch);
	bed_expect("ledger", FINDING_UNKNOWN, "a part of it can't be read", "0700");
}

Test(doctor_perf, knows_a_kernel_before_sigtrap)
{
	bed.has_sigtrap = 0;
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_FINE, "4 of the processor's 4", "");
	bed_expect("with SIGTRAP", FINDING_ABSENT, "EINVAL", "Linux 5.13");
}

Test(doctor_perf, stops_where_descriptors_end)
{
	int count;

	bed.perf_error = -EMFILE;
	cr_expect_eq(breakpoints_free(&bed.machine, 0, -1, 0, &count), -EMFILE);
	cr_expect_eq(count, 0);
	/* a processor with more than ours knows of */
	bed.perf_error = 0;
	bed.registers = 100;
	cr_expect_eq(breakpoints_free(&bed.machine, 0, -1, 0, &count), 0);
	cr_expect_gt(count, BREAKPOINTS);
	bed_look(look_watch);
	bed_expect("breakpoints", FINDING_FINE, "can be had", "");
}

/* The reasons are origin_test.c's; here is only that they come out. */
Test(doctor_perf, tells_the_origins)
{
	bed_look(look_trail);
	bed_expect("soft", FINDING_FINE,
		   "a translation inside of the program, at a small factor; 4711 branches", "");
	bed_expect("branches", FINDING_FINE, "trail/auto/ takes it", "");
	bed_expect("pt", FINDING_ABSENT, "there is no /sys/bus/event_source/devices/intel_pt",
		   "trail/step/ works everywhere");
	bed_put("/proc/sys/kernel/yama/ptrace_scope", "3\n");
	bed_look(look_trail);
	bed_expect("soft", FINDING_ABSENT, "kernel.yama.ptrace_scope is 3", "");
	cr_expect_eq(finding_lacks(&bed.list), 1);
}

/* That its file is there is not all: a program is run under it. */
Test(doctor_perf, tells_whether_the_engine_runs)
{
	bed.recorded = (struct launched){ .error = -WM_E_ENGINE_REFUSED, .words = "no memory" };
	bed_look(look_trail);
	bed_expect(
		"soft", FINDING_ABSENT,
		"a program that was started was not recorded: the program can't be run under the "
		"trail's engine; no memory",
		"trail/step/");
	cr_expect_eq(finding_lacks(&bed.list), 1);
	bed.recorded = (struct launched){ 0 };
	bed_look(look_trail);
	bed_expect("soft", FINDING_ABSENT, "it had no branches", "trail/step/");
	bed.machine.trial = NULL;
	bed_look(look_trail);
	bed_expect("soft", FINDING_FINE, "at a small factor", "");
}

/* Whatever this machine is: each finding has words, what is not fine is explained, and nothing is left open. */
Test(doctor_perf, answers_for_this_machine)
{
	static look_fn *const looks[] = { look_clock, look_code, look_rights, look_trail,
					  look_watch, look_perf, look_limits };

	finding_list_release(&bed.list);
	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++)
		looks[i](&bed.list, &(struct machine){ 0 });
	for (size_t i = 0; i < bed.list.count; i++)
		cr_expect(bed.list.all[i].found[0], "%s", bed.list.all[i].name);
}
