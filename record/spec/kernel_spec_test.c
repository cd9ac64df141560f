/* SPDX-License-Identifier: MIT */
/* Specs of kernel events, right and wrong. */
#include "base/tracefs.h"
#include "record/perf/tracepoint.h"
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static struct spec spec;
static struct kernel_request request;
static char words[512];

static int reads(const char *text)
{
	int err;

	spec_release(&spec);
	err = spec_read(&spec, text, (struct detail){ words, sizeof(words) });
	if (spec.kernel)
		request = *spec.kernel;
	return err;
}

Test(kernel_spec, sample_has_a_rate)
{
	cr_assert_eq(reads("sample:page-faults"), 0);
	cr_assert_eq(request.event.freq_hz, 1000);
	cr_assert_eq(request.event.period, 0);
	cr_assert_eq(reads("sample:cpu-clock:u/freq=99,callchain/"), 0);
	cr_assert_str_eq(request.name, "cpu-clock:u");
	cr_assert_eq(request.event.freq_hz, 99);
	cr_assert_eq(request.event.what.excludes_kernel, 1);
	cr_assert_eq(request.event.wants, SAMPLER_CALLERS);
	cr_assert_eq(reads("sample:faults/period=3,addr/"), 0);
	cr_assert_eq(request.event.period, 3);
	cr_assert_eq(request.event.wants, SAMPLER_ADDRESS);
	cr_assert_eq(reads("sample:cpu-clock/callchain=dwarf/"), 0);
	cr_assert(request.event.wants & SAMPLER_STACK);
	cr_assert_gt(request.event.stack_bytes, 0);
}

Test(kernel_spec, fault_and_switch_take_no_name)
{
	cr_assert_eq(reads("fault"), 0);
	cr_assert_eq(request.event.what.config, PERF_COUNT_SW_PAGE_FAULTS);
	cr_assert_eq(request.event.period, 1);
	cr_assert(request.event.wants & SAMPLER_ADDRESS);
	cr_assert_eq(reads("fault/callchain/"), 0);
	cr_assert(request.has_callers);
	cr_assert_eq(reads("switch"), 0);
}

Test(kernel_spec, units_of_sysfs_have_slashes_of_their_own)
{
	if (access("/sys/bus/event_source/devices/msr/events/tsc", F_OK))
		cr_skip("no unit msr here");
	cr_assert_eq(reads("count:msr/tsc/"), 0, "%s", words);
	cr_assert_str_eq(request.name, "msr/tsc/");
	cr_assert_eq(reads("sample:msr/tsc/"), 0, "%s", words);
	cr_assert_eq(reads("sample:msr/tsc//period=7/"), 0, "%s", words);
	cr_assert_str_eq(request.name, "msr/tsc/");
	cr_assert_eq(request.event.period, 7);
}

Test(kernel_spec, counts_may_be_a_group)
{
	cr_assert_eq(reads("count:page-faults+r1a:u+task-clock"), 0, "%s", words);
	cr_assert_eq(request.group_count, 3);
	cr_assert_str_eq(request.group[1].name, "r1a:u");
	cr_assert_eq(request.group[1].config, 0x1a);
	cr_assert_str_eq(request.name, "page-faults+r1a:u+task-clock");
}

Test(kernel_spec, kprobe_names_a_function)
{
	if (access("/sys/bus/event_source/devices/kprobe/type", F_OK))
		cr_skip("no kprobes here");
	cr_assert_eq(reads("kprobe:do_sys_openat2/args/"), 0, "%s", words);
	cr_assert_str_eq((const char *)(uintptr_t)request.event.what.config1, "do_sys_openat2");
	cr_assert(request.has_args);
	cr_assert_eq(reads("kprobe:do_sys_openat2/ret/"), 0, "%s", words);
	cr_assert_eq(request.event.what.config, 1);
	cr_assert_eq(reads("kprobe:f/args,ret/"), -WM_E_SPEC);
	cr_assert(strstr(words, "args or ret"));
}

Test(kernel_spec, watch_of_the_kernel)
{
	int err = reads("watch:do_exit@kernel:x");

	if (err == -WM_E_PERF_DENIED)
		cr_skip("%s", words);
	cr_assert_eq(err, 0, "%s", words);
	cr_assert_eq(request.event.bp_type, HW_BREAKPOINT_X);
	cr_assert_eq(request.event.bp_bytes, sizeof(long));
	cr_assert_neq(request.event.bp_address, 0);
	cr_assert_eq(reads("watch:do_exit/8@kernel"), 0);
	cr_assert_eq(request.event.bp_type, HW_BREAKPOINT_W);
	cr_assert_eq(request.event.bp_bytes, 8);
	cr_assert_eq(reads("watch:do_exit@kernel:rw"), 0);
	cr_assert_eq(request.event.bp_type, HW_BREAKPOINT_RW);
	cr_assert_eq(reads("watch:no_such_symbol_here@kernel:w"), -WM_E_COUNT_EVENT);
	cr_assert(strstr(words, "no_such_symbol_here"));
}

/* The filter that the kernel gets for a tracepoint's conditions. */
static const char *filter_of(const char *text)
{
	cr_assert_eq(reads(text), 0, "%s: %s", text, words);
	cr_assert_eq(spec.kernel->event.filter, spec.kernel->filter);
	return spec.kernel->filter;
}

Test(kernel_spec, conditions_become_a_filter_of_the_kernel)
{
	if (!tracefs_events())
		cr_skip("%s", tracefs_missing());
	cr_assert_str_eq(filter_of("tracepoint:sched:sched_switch/if=prev_pid==7,if=prev_comm~"
				   "\"a?*\",if=cpu<2,if=next_prio&6/"),
			 "prev_pid == 7 && prev_comm ~ \"a?*\" && cpu < 2 && next_prio & 6");
	cr_assert_str_eq(filter_of("tracepoint:sched:sched_switch/if=prev_comm==\"a*\\\"b\"/"),
			 "prev_comm == 'a*\"b'");
	cr_assert_str_eq(filter_of("tracepoint:sched:sched_switch/if=comm~7*/"), "comm ~ \"\\7*\"");
	cr_assert_str_eq(filter_of("tracepoint:sched:sched_switch/if=prev_prio>=-1/"),
			 "prev_prio >= -1");
	if (tracepoint_has_our_pids())
		cr_assert_str_eq(filter_of("tracepoint:sched:sched_switch/if=tid!=1/"),
				 "common_pid != 1");
	cr_assert_eq(reads("tracepoint:sched:sched_switch/if=pid==7/"), 0, "%s", words);
	cr_assert_str_eq(spec.kernel->filter, "");
	cr_assert_eq(spec.kernel->event.filter, NULL);
	cr_assert_eq(spec.kernel->test_count, 1);
	cr_assert_eq(reads("tracepoint:sched:sched_switch/if=prev_comm==1/"), -WM_E_SPEC);
	cr_assert(strstr(words, "can't be compared so"), "%s", words);
	cr_assert_eq(reads("tracepoint:sched:sched_switch/if=cpu&1/"), -WM_E_SPEC);
	cr_assert(strstr(words, "no condition that the kernel can test"), "%s", words);
	cr_assert_eq(reads("tracepoint:sched:sched_switch/if=prev_comm==\"'\\\"\"/"), -WM_E_SPEC);
}

/* An int among them has 8 bytes in the record; the kernel compares all 8. */
Test(kernel_spec, arguments_of_system_calls_are_compared_as_64_bits)
{
	if (!tracefs_events())
		cr_skip("%s", tracefs_missing());
	if (reads("tracepoint:syscalls:sys_enter_read/if=fd==3/") == -WM_E_COUNT_EVENT)
		cr_skip("%s", words);
	cr_assert_str_eq(filter_of("tracepoint:syscalls:sys_enter_read/if=fd==3,if=count>1K/"),
			 "fd == 3 && count > 1024");
	cr_assert_eq(reads("tracepoint:syscalls:sys_enter_read/if=fd==-1/"), -WM_E_SPEC);
	cr_assert_eq(reads("tracepoint:syscalls:sys_enter_read/if=fd<3/"), -WM_E_SPEC);
	cr_assert(strstr(words, "no condition that the kernel can test"), "%s", words);
}

Test(kernel_spec, conditions_on_registers_and_processes_are_tested_by_waymark)
{
	cr_assert_eq(reads("switch/if=pid==7,if=tid!=8/"), 0, "%s", words);
	cr_assert_eq(request.test_count, 2);
	cr_assert_eq(request.tests[1].of, KERNEL_TID);
	cr_assert_eq(request.tests[1].condition.by, WATCH_BY_UNEQUAL);
	cr_assert_eq(request.tests[1].condition.operand, 8);
	if (access("/sys/bus/event_source/devices/kprobe/type", F_OK))
		cr_skip("no kprobes here");
	cr_assert_eq(reads("kprobe:f/args,if=arg3==1,if=comm==\"x\"/"), 0, "%s", words);
	cr_assert_str_eq(spec.kernel->filter, "comm == \"x\"");
	cr_assert_eq(request.tests[0].of, KERNEL_ARGUMENT + 2);
	cr_assert_eq(reads("kprobe:f/ret,if=ret<0/"), 0, "%s", words);
	cr_assert_eq(request.tests[0].of, KERNEL_RESULT);
	cr_assert_eq(request.tests[0].condition.as, WATCH_AS_SIGNED);
	cr_assert_eq(reads("kprobe:f/if=arg1==1/"), -WM_E_SPEC);
}

Test(kernel_spec, wrong_ones_are_named)
{
	static const struct {
		const char *text;
		int error;
		const char *word;
	} rows[] = {
		{ "count:", -WM_E_COUNT_EVENT, "" },
		{ "count:+", -WM_E_COUNT_EVENT, "" },
		{ "count:page-faults+no-such", -WM_E_COUNT_EVENT, "no-such" },
		{ "count:page-faults+task-clock+page-faults", -WM_E_SPEC,
		  "\"page-faults\" (column 30) is there twice" },
		{ "count:r1+r2+r3+r4+r5+r6+r7+r8+r9", -WM_E_SPEC, "8 events at most" },
		{ "sample:cpu-clock/precise/", -WM_E_SPEC, "cycles" },
		{ "sample:cpu-clock/branches/", -WM_E_SPEC, "cycles" },
		{ "count:no-such", -WM_E_COUNT_EVENT, "no-such" },
		{ "sample:no-such/freq=9/", -WM_E_COUNT_EVENT, "no-such" },
		{ "sample:cpu-clock/freq=0/", -WM_E_SPEC, "freq" },
		{ "sample:cpu-clock/freq=-1/", -WM_E_SPEC, "freq" },
		{ "sample:cpu-clock/freq=9999999/", -WM_E_SPEC, "freq" },
		{ "sample:cpu-clock/period=x/", -WM_E_SPEC, "period" },
		{ "sample:cpu-clock/fast/", -WM_E_SPEC, "fast" },
		{ "sample:cpu-clock/args/", -WM_E_SPEC, "args" },
		{ "switch/x/", -WM_E_SPEC, "switch" },
		{ "switch:x", -WM_E_SPEC, "switch" },
		{ "fault/addr/", -WM_E_SPEC, "addr" },
		{ "fault/", -WM_E_SPEC, "fault" },
		{ "kprobe:a b", -WM_E_SPEC, "a b" },
		{ "kprobe:", -WM_E_SPEC, "" },
		{ "tracepoint:cycles", -WM_E_SPEC, "no tracepoint" },
		{ "switch/if=cpu==0/", -WM_E_SPEC, "names no field of the event: it has pid, tid" },
		{ "switch/if=pidd==0/", -WM_E_SPEC, "did you mean pid or tid?" },
		{ "switch/if=pid==5G/", -WM_E_SPEC, "has a value that the field can't have" },
		{ "fault/if=pid==0/", -WM_E_SPEC, "if" },
		{ "watch:a b@kernel:w", -WM_E_SPEC, "SYMBOL" },
		{ "watch:jiffies/3@kernel:w", -WM_E_SPEC, "SYMBOL" },
		{ "watch:jiffies@kernel:w/if=changed/", -WM_E_SPEC, "has no options" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(reads(rows[i].text), rows[i].error, "%s: %s", rows[i].text, words);
		cr_assert(strstr(words, rows[i].word), "%s: %s", rows[i].text, words);
	}
}
