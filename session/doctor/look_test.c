/* SPDX-License-Identifier: MIT */
/* Machines that differ in one thing each: clocks, code, rights, limits, files. */
#include "session/doctor/bed_test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define SOURCES "/sys/devices/system/clocksource/clocksource0/"
#define SCOPE "/proc/sys/kernel/yama/ptrace_scope"

TestSuite(doctor, .init = bed_make, .fini = bed_end);

/* ---- clock ---- */

Test(doctor, takes_the_tsc_that_the_kernel_trusts)
{
	bed_look(look_clock);
	bed_expect("tsc", FINDING_FINE, "invariant; the kernel's own clock is tsc", "");
	bed_put(SOURCES "current_clocksource", "kvm-clock\n");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_FINE, "the kernel trusts it, though its own clock is kvm-clock",
		   "");
}

Test(doctor, knows_a_tsc_that_the_kernel_gave_up)
{
	bed_put(SOURCES "available_clocksource", "hpet acpi_pm\n");
	bed_put(SOURCES "current_clocksource", "hpet\n");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_LIMITED,
		   "the kernel does not trust it: its clock is hpet, and it offers hpet acpi_pm",
		   "tsc=reliable");
	bed_remove(SOURCES "available_clocksource");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_LIMITED, "whether the kernel trusts it can't be read", "");
}

Test(doctor, knows_a_tsc_that_varies)
{
	bed_cpu("tsc nonstop_tsc");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_LIMITED, "not invariant (the processor has no constant_tsc)", "");
	bed_cpu("tsc constant_tsc hypervisor");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_LIMITED, "no nonstop_tsc", "the virtual machine's host");
	bed_remove("/proc/cpuinfo");
	bed_look(look_clock);
	bed_expect("tsc", FINDING_UNKNOWN, "/proc/cpuinfo: ENOENT", "");
}

Test(doctor, knows_a_tsc_that_must_not_be_read)
{
	bed.tsc = -EACCES;
	bed_look(look_clock);
	bed_expect("tsc", FINDING_ABSENT, "PR_SET_TSC", "a shell that may");
	cr_expect_eq(finding_lacks(&bed.list), 1, "it is basic");
}

/* ---- code ---- */

Test(doctor, tells_how_code_is_written)
{
	bed_look(look_code);
	bed_expect("patching", FINDING_FINE, "by /proc/self/mem; mprotect(2) would do too", "");
	bed_expect("membarrier", FINDING_FINE, "SYNC_CORE", "");
	bed_expect("new code", FINDING_FINE, "can be mapped", "");
	bed_expect("policies", FINDING_FINE, "no SELinux", "");
	bed.by_mprotect = -EACCES;
	bed_look(look_code);
	bed_expect("patching", FINDING_FINE, "by /proc/self/mem", "");
	bed.by_mprotect = 0;
	bed.by_mem = -EIO;
	bed_look(look_code);
	bed_expect("patching", FINDING_LIMITED, "not by /proc/self/mem: EIO",
		   "proc_mem.force_override");
	bed.by_mprotect = -EACCES;
	bed_look(look_code);
	bed_expect("patching", FINDING_ABSENT, "nor by mprotect(2): EACCES", "--prearm");
	cr_expect_eq(finding_lacks(&bed.list), 1);
}

Test(doctor, tells_what_membarrier_lacks)
{
	bed.sync_core = -EINVAL;
	bed_look(look_code);
	bed_expect("membarrier", FINDING_LIMITED, "no SYNC_CORE: EINVAL", "Linux 4.16");
	bed.sync_core = -ECANCELED;
	bed_look(look_code);
	bed_expect("membarrier", FINDING_LIMITED, "whoever tries is killed", "allow membarrier(2)");
	bed_self("0", 2);
	bed.sync_core = -EPERM;
	bed_look(look_code);
	bed_expect("membarrier", FINDING_LIMITED, "EPERM, and we are under a seccomp filter",
		   "filter");
}

Test(doctor, tells_what_policies_refuse)
{
	bed_put("/sys/fs/selinux/enforce", "1");
	bed_put("/proc/self/attr/current", "user_u:user_r:user_t:s0");
	bed.writable = -EACCES;
	bed_look(look_code);
	bed_expect("new code", FINDING_LIMITED, "(EACCES), which trail/soft/ needs", "execmem");
	bed_expect("policies", FINDING_LIMITED,
		   "SELinux enforces its rules; we are user_u:user_r:user_t:s0", "ausearch");
	bed.plain = -EACCES;
	bed_look(look_code);
	bed_expect("new code", FINDING_ABSENT, "no memory can be made executable (EACCES)",
		   "execmem");
	bed_put("/sys/fs/selinux/enforce", "0");
	bed_look(look_code);
	bed_expect("policies", FINDING_FINE, "SELinux only warns", "");
	bed_remove("/sys/fs/selinux/enforce");
	bed_put("/proc/self/attr/current", "docker-default (enforce)\n");
	bed_look(look_code);
	bed_expect("policies", FINDING_LIMITED, "we are docker-default (enforce)", "aa-complain");
}

/* ---- rights ---- */

Test(doctor, tells_capabilities)
{
	bed_look(look_rights);
	bed_expect("capabilities", FINDING_LIMITED, "none of those", "setcap");
	bed_self("0000004000080000", 0);
	bed_look(look_rights);
	bed_expect("capabilities", FINDING_FINE, "CAP_PERFMON CAP_SYS_PTRACE", "");
	bed_self("0000000000080000", 0);
	bed_look(look_rights);
	bed_expect("capabilities", FINDING_LIMITED, "CAP_SYS_PTRACE", "setcap");
	bed_self("000001ffffffffff", 0);
	bed_link("/proc/self/ns/user", "user:[4026532000]");
	bed_look(look_rights);
	bed_expect("capabilities", FINDING_LIMITED, "count for nothing with perf", "");
	bed_expect("namespaces", FINDING_LIMITED,
		   "in a container (pid:[4026531836] user:[4026532000])", "outside");
	bed_remove("/proc/self/status");
	bed_look(look_rights);
	bed_expect("capabilities", FINDING_UNKNOWN, "can't be read", "");
	bed_expect("seccomp", FINDING_UNKNOWN, "has no line Seccomp", "");
}

Test(doctor, tells_namespaces)
{
	bed_look(look_rights);
	bed_expect("namespaces", FINDING_FINE, "the machine's own", "");
	bed_link("/proc/self/ns/pid", "pid:[4026532111]");
	bed_look(look_rights);
	bed_expect("namespaces", FINDING_LIMITED, "in a container", "outside");
	bed_remove("/proc/self/ns/pid");
	bed_look(look_rights);
	bed_expect("namespaces", FINDING_UNKNOWN, "can't be read", "");
}

Test(doctor, tells_what_yama_allows)
{
	bed.stranger = -EPERM;
	bed_put(SCOPE, "1\n");
	bed_look(look_rights);
	bed_expect("programs it starts", FINDING_FINE, "may be traced", "");
	bed_expect("programs of this user", FINDING_ABSENT,
		   "may not be attached to: EPERM; kernel.yama.ptrace_scope is 1",
		   "sysctl kernel.yama.ptrace_scope=0");
	cr_expect_eq(finding_lacks(&bed.list), 0, "what it starts is enough");
	bed.child = -EPERM;
	bed_put(SCOPE, "2\n");
	bed_look(look_rights);
	bed_expect("programs it starts", FINDING_ABSENT, "kernel.yama.ptrace_scope is 2",
		   "CAP_SYS_PTRACE");
	cr_expect_eq(finding_lacks(&bed.list), 1);
	bed_put(SCOPE, "3\n");
	bed_look(look_rights);
	bed_expect("programs it starts", FINDING_ABSENT, "kernel.yama.ptrace_scope is 3",
		   "until the machine is started anew");
	/* without Yama there is nothing to blame it on */
	bed_remove(SCOPE);
	bed_look(look_rights);
	bed_expect("programs it starts", FINDING_ABSENT, "may not be traced: EPERM", "");
}

Test(doctor, tells_whose_programs)
{
	bed_look(look_rights);
	bed_expect("programs of others", FINDING_LIMITED, "0 of 7 may be attached to",
		   "CAP_SYS_PTRACE");
	bed.granted = 7;
	bed_look(look_rights);
	bed_expect("programs of others", FINDING_FINE, "7 of 7", "");
	bed.others = bed.granted = 0;
	bed_look(look_rights);
	bed_expect("programs of others", FINDING_UNKNOWN, "none runs", "");
	bed.dumpable = 0;
	bed_look(look_rights);
	bed_expect("dumpable", FINDING_LIMITED, "may not be traced (0)", "file capabilities");
}

Test(doctor, tells_filters)
{
	bed_look(look_rights);
	bed_expect("seccomp", FINDING_FINE, "no filter", "");
	bed_self("0", 2);
	bed.child = -EPERM;
	bed_look(look_rights);
	bed_expect("seccomp", FINDING_LIMITED, "of them there are 3", "--cap-add SYS_PTRACE");
	bed_expect("programs it starts", FINDING_ABSENT, "we are under a seccomp filter",
		   "allow ptrace(2) in the filter");
}

/* ---- limits ---- */

Test(doctor, tells_limits)
{
	bed_look(look_limits);
	bed_expect("shared memory", FINDING_FINE, "a memfd, sealed", "");
	bed_expect("open files", FINDING_FINE, "20000 (RLIMIT_NOFILE)", "");
	bed_expect("locked memory", FINDING_FINE, "8192 KiB a process", "ulimit -l");
	bed_expect("addresses", FINDING_FINE, "any", "");
	bed_limits("0", "1024", "1073741824", "1048576");
	bed_look(look_limits);
	bed_expect("shared memory", FINDING_LIMITED, "at most 1024 KiB (RLIMIT_FSIZE)",
		   "ulimit -f");
	bed_expect("open files", FINDING_LIMITED, "1024 (RLIMIT_NOFILE)", "ulimit -n");
	bed_expect("locked memory", FINDING_LIMITED, "0 KiB a process", "ulimit -l");
	bed_expect("addresses", FINDING_LIMITED,
		   "1024 MiB (RLIMIT_AS); trail/soft/ takes 35840 MiB", "ulimit -v");
	bed_limits("unlimited", "20", "unlimited", "unlimited");
	bed_look(look_limits);
	bed_expect("open files", FINDING_ABSENT, "20 (RLIMIT_NOFILE)", "ulimit -n");
	bed_expect("locked memory", FINDING_FINE, "any (RLIMIT_MEMLOCK)", "");
	bed_limits("0", "20", "unlimited", "unlimited");
	bed_self("0000000000004000", 0);
	bed_look(look_limits);
	bed_expect("locked memory", FINDING_FINE, "any (CAP_IPC_LOCK)", "");
	bed_link("/proc/self/ns/user", "user:[4026532000]");
	bed_look(look_limits);
	bed_expect("locked memory", FINDING_LIMITED, "0 KiB a process", "ulimit -l");
	bed_remove("/proc/self/limits");
	bed_look(look_limits);
	bed_expect("open files", FINDING_UNKNOWN, "/proc/self/limits: Max open files: ENOENT", "");
}

Test(doctor, tells_why_there_is_no_shared_memory)
{
	bed.memfd = -EACCES;
	bed_look(look_limits);
	bed_expect("shared memory", FINDING_ABSENT, "no memfd: EACCES", "vm.memfd_noexec");
	cr_expect_eq(finding_lacks(&bed.list), 1);
	bed.memfd = -ENOSYS;
	bed_look(look_limits);
	bed_expect("shared memory", FINDING_ABSENT, "no memfd: ENOSYS", "filter");
}

/* ---- Waymark's own ---- */

Test(doctor, tells_what_files_are_from)
{
	setenv("WAYMARK_AGENT", AGENT, 1);
	setenv("WAYMARK_ENGINE", OTHER, 1);
	bed_look(look_files);
	bed_expect("agent", FINDING_FINE, ", " WAYMARK_VERSION " as we are; WAYMARK_AGENT names it",
		   "");
	bed_expect("engine", FINDING_LIMITED, "is 9.9.9 (control ", "install both");
	setenv("WAYMARK_AGENT", "/proc/self/exe", 1);
	setenv("WAYMARK_ENGINE", "/nowhere/engine.so", 1);
	bed_look(look_files);
	bed_expect("agent", FINDING_LIMITED, "does not say its version", "install both");
	bed_expect("engine", FINDING_ABSENT, "looked for last: /nowhere/engine.so",
		   "WAYMARK_ENGINE");
	setenv("WAYMARK_AGENT", "/proc/self/status", 1);
	bed_look(look_files);
	bed_expect("agent", FINDING_ABSENT, wm_error_text(-WM_E_NOT_ELF), "install both");
}

Test(doctor, tells_whether_the_agent_comes_up)
{
	bed_look(look_files);
	bed_expect("preload", FINDING_FINE, "which writes code by /proc/self/mem", "");
	bed.launched.way = 3;
	bed_look(look_files);
	bed_expect("preload", FINDING_LIMITED, "can't write code", "--prearm");
	bed.launched.way = 17;
	bed_look(look_files);
	bed_expect("preload", FINDING_LIMITED, "did not say", "");
	bed.launched = (struct launched){ .error = -WM_E_AGENT_SILENT, .words = "/trial" };
	bed_look(look_files);
	bed_expect("preload", FINDING_ABSENT, "the agent does not answer; /trial", "state in ps");
	bed.machine.trial = NULL;
	bed_look(look_files);
	bed_expect("preload", FINDING_UNKNOWN, "not tried", "");
	cr_expect(finding_is_lack(finding_of(&bed.list, "preload")),
		  "what was not tried may not work");
}

Test(doctor, tells_of_a_folder_that_others_may_enter)
{
	char dir[128];

	setenv("XDG_RUNTIME_DIR", bed.root, 1);
	bed_look(look_files);
	bed_expect("sockets", FINDING_FINE, "/waymark, ours alone", "");
	snprintf(dir, sizeof(dir), "%s/waymark", bed.root);
	cr_assert_eq(chmod(dir, 0755), 0);
	bed_look(look_files);
	bed_expect("sockets", FINDING_ABSENT, wm_error_text(-WM_E_SOCKET_DIR), "0700");
	cr_expect_geq(finding_lacks(&bed.list), 1);
}
