/* SPDX-License-Identifier: MIT */
/* Channels filled as no engine would. */
#include "record/trail/testing/soft_fixture.h"

#include "base/testing/await.h"
#include "record/trail/soft/soft_follow.h"
#include "record/trail/soft/soft_traced.h"
#include "target/process/target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(soft_refused, .init = blocking, .fini = end, .timeout = 60);

static void expect_refused(const char *what)
{
	cr_expect_eq(soft_reader_take(&reader), -EPROTO, "%s", what);
}

Test(soft_refused, a_log_of_more_than_there_is)
{
	head->log_put = LOG_BYTES + 8;
	expect_refused("more than the log holds");
}

Test(soft_refused, an_entry_of_no_size)
{
	struct engine_entry *entry = entry_begin(ENGINE_ENTRY_TRACE, 64);

	entry->bytes = 0;
	entry_end();
	expect_refused("0 bytes");
}

Test(soft_refused, an_entry_over_the_end)
{
	struct engine_entry *entry = entry_begin(ENGINE_ENTRY_TRACE, 64);

	entry->bytes = 72;
	entry_end();
	expect_refused("longer than what was put");
}

Test(soft_refused, an_entry_of_unknown_kind)
{
	entry_begin(77, 64);
	entry_end();
	expect_refused("kind 77");
}

Test(soft_refused, an_id_that_was_given_before)
{
	trace(0, 2);
	next_id = 2;
	trace(9, 1);
	expect_refused("id 2 again");
}

Test(soft_refused, an_id_far_beyond)
{
	next_id = 1u << 30;
	trace(0, 1);
	expect_refused("id 2^30");
}

Test(soft_refused, more_blocks_than_bytes)
{
	struct engine_trace *made = entry_begin(ENGINE_ENTRY_TRACE, 64);

	made->first_id = 1;
	made->blocks = 65535;
	made->exits = 1;
	entry_end();
	expect_refused("65535 blocks in 64 bytes");
}

Test(soft_refused, an_exit_behind_the_last_block)
{
	uint32_t bytes = (uint32_t)sizeof(struct engine_trace) + 34;
	uint8_t *at;

	trace(0, 1);
	at = channel.base + channel.log_at + bytes - 2;
	*at = 2;
	expect_refused("the path of 2 of 1 blocks");
}

Test(soft_refused, a_block_that_cannot_be)
{
	trace(0, 1);
	channel.base[channel.log_at + sizeof(struct engine_trace) +
		     offsetof(struct trail_entry, instructions)] = 0;
	expect_refused("no instruction");
}

Test(soft_refused, a_prefix_of_nothing)
{
	prefix(77, 1);
	expect_refused("of id 77");
}

Test(soft_refused, a_prefix_longer_than_its_trace)
{
	prefix(trace(0, 2), 3);
	expect_refused("3 of 2 blocks");
}

Test(soft_refused, a_module_whose_path_does_not_end)
{
	struct engine_module *made = entry_begin(ENGINE_ENTRY_MODULE, sizeof(*made) + 8);

	memset(made + 1, 'x', 8);
	entry_end();
	expect_refused("no end");
}

/* ---- hostile ---- */

static uint64_t random_state;

static uint32_t random_to(uint32_t end)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % end;
}

/* Something of what is not content: heads, the log, slots; or words. */
static void bend(void)
{
	static const uint32_t values[] = { 0,	       1,	   2,	       0x7fffffff,
					   0x80000000, 0xffffffff, 0x80080009, 0x800800ff,
					   4096,       1024 };
	uint64_t at = random_to(3)
			      ? random_to((uint32_t)channel.rings_at)
			      : channel.rings_at +
					random_to((uint32_t)(channel.bytes - channel.rings_at));
	uint32_t value = random_to(2) ? values[random_to(10)] : random_to(UINT32_MAX);

	at &= ~UINT64_C(3);
	memcpy(channel.base + at, &value, sizeof(value));
}

static void bend_somewhere(void)
{
	static const size_t fields[] = { offsetof(struct engine_segment, number),
					 offsetof(struct engine_segment, words),
					 offsetof(struct engine_segment, ended_ticks),
					 offsetof(struct engine_segment, began_blocks) };
	struct engine_slot *slot = soft_channel_slot(&channel, random_to(SLOTS));

	bend();
	if (!random_to(4))
		slot->state = random_to(5);
	if (!random_to(4)) {
		uint32_t value = random_to(2) ? random_to(9) : random_to(UINT32_MAX);

		memcpy((char *)&slot->segments[random_to(SEGMENTS)] + fields[random_to(4)], &value,
		       sizeof(value));
	}
	if (!random_to(8))
		head->log_put += random_to(3) * 8;
}

static void torture(enum engine_policy policy, uint64_t seed)
{
	uint32_t id;

	random_state = seed;
	open_with(policy);
	id = trace(0, 5);
	prefix(id, 4);
	thread_begin(0);
	for (uint32_t i = 0; i < 3 * SEGMENT_WORDS; i++) {
		write_id(id + i % 6);
		if (!(i % 100))
			write_event(TRAIL_SYSCALLED, 0, 1);
	}
	for (int i = 0; i < 20; i++) {
		for (uint32_t n = random_to(30); n; n--)
			bend_somewhere();
		soft_reader_take(&reader);
	}
	soft_reader_end(&reader, random_to(2) ? &killed : NULL);
	end();
}

Test(soft_hostile, no_channel_does_us_harm, .timeout = 120)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		torture(ENGINE_BLOCK, seed);
		torture(ENGINE_CYCLIC, seed);
		torture(ENGINE_DISCARD, seed);
	}
}

/* ---- a child's memfd ---- */

/* Of a process that has it, as its parent's 5th child. */
static int channel_of(int fd)
{
	int number = 0, got = soft_follow_channel(getpid(), 1234, 5, &number, 1);

	cr_expect(got < 0 ? !number : number == fd);
	if (got >= 0) {
		close(got);
		got = soft_follow_channel(getpid(), 1234, 5, &number, 0);
	}
	close(fd);
	if (got >= 0)
		close(got);
	return got;
}

static int memfd_of(const char *name, unsigned int flags, int seals)
{
	int fd = memfd_create(name, flags);

	cr_assert_geq(fd, 0);
	if (seals)
		cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(soft_hostile, a_memfd_is_taken_for_a_channel_by_its_name_and_if_no_one_else_uses_it)
{
	static const char name[] = ENGINE_CHANNEL_NAME "-1234-5";
	char path[] = "/dev/shm/waymark-trail-XXXXXX";
	int fd;

	cr_expect_geq(channel_of(memfd_of(name, MFD_ALLOW_SEALING, 0)), 0);
	fd = memfd_of(name, MFD_ALLOW_SEALING, 0);
	cr_assert_eq(fchmod(fd, 0), 0); /* as the engine's is */
	cr_expect_geq(channel_of(fd), 0);
	fd = memfd_of(name, MFD_ALLOW_SEALING, 0);
	if (!fchown(fd, 65534, (gid_t)-1))
		cr_expect_eq(channel_of(dup(fd)), -ENOENT, "another user has made it");
	close(fd);
	cr_expect_eq(channel_of(memfd_of(ENGINE_CHANNEL_NAME "-1234-55", MFD_ALLOW_SEALING, 0)),
		     -ENOENT);
	cr_expect_eq(channel_of(memfd_of(ENGINE_CHANNEL_NAME, MFD_ALLOW_SEALING, 0)), -ENOENT);
	cr_expect_eq(channel_of(memfd_of(name, 0, 0)), -ENOENT, "it can't be sealed");
	cr_expect_eq(channel_of(memfd_of(name, MFD_ALLOW_SEALING, F_SEAL_SHRINK)), -ENOENT,
		     "it has seals");
	fd = memfd_create(name, MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd >= 0)
		cr_expect_eq(channel_of(fd), -ENOENT, "of huge pages");
	fd = mkstemp(path);
	unlink(path);
	cr_expect_eq(channel_of(fd), -ENOENT, "no memfd");
}

Test(soft_hostile, no_process_has_a_channel_that_was_closed)
{
	const struct soft_channel closed = { .fd = -1 };

	blocking();
	cr_expect_eq(soft_follow_is_thread(&channel, getpid(), getpid()), 1);
	cr_expect_eq(soft_follow_is_thread(&closed, getpid(), getpid()), 0);
	end();
}

/* Have a stopped process leave the engine, which it never does. Whether it ran meanwhile. */
static int lead(pid_t pid, uint64_t *late_ns)
{
	uint64_t before = head->log_put;

	cr_assert_eq(soft_traced_lead(&channel, pid, late_ns), 1);
	cr_assert_eq(head->is_led, 0);
	cr_assert(AWAIT(target_thread_state(pid, pid) == 'T'));
	return head->log_put != before;
}

Test(soft_hostile, stopped_processes_that_stay_hold_the_tool_a_bounded_time)
{
	uint64_t late_ns = 0;
	unsigned int count = 0;
	pid_t pid;

	blocking();
	head->places.bytes = UINT64_MAX; /* no code of its is the program's */
	head->places.own_signals = 1;
	pid = fork();
	if (!pid) {
		for (raise(SIGSTOP);; getppid())
			__atomic_add_fetch(&head->log_put, 1, __ATOMIC_RELAXED);
	}
	cr_assert(AWAIT(target_thread_state(pid, pid) == 'T'));
	while (lead(pid, &late_ns) && count < 10)
		count++;
	cr_expect(count > 0 && count < 10, "%u", count);
	cr_expect_not(lead(pid, &late_ns));
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	end();
}

/* Its parent is killed once it has made the child: it may have said the child's number, or not. */
static struct soft_process *child_of_killed(struct soft_follow *follow,
					    struct soft_control *control, int is_named)
{
	static const struct soft_image none;

	blocking();
	cr_assert_eq(soft_control_open(control), 0);
	cr_assert_eq(soft_follow_init(follow, control, &channel, &reader, &none), 0);
	follow->processes[0].use = SOFT_LIVE;
	follow->processes[0].pid = 1234;
	head->children[5] = (struct engine_child){ ENGINE_USE_MADE, .first_id = 2,
						   .born = UINT64_C(7) << 32 };
	cr_assert_eq(soft_follow_children(follow, &follow->processes[0]), 1);
	if (is_named)
		head->children[5].born |= (uint64_t)getpid();
	soft_follow_children(follow, &follow->processes[0]);
	follow->processes[0].life++; /* its channel is gone */
	return &follow->processes[1];
}

/* The tracer may know a child before the tool does. */
Test(soft_hostile, new_child_is_known_before_another_may_trace_it)
{
	struct soft_control control;
	struct soft_follow follow;
	struct soft_process *child = child_of_killed(&follow, &control, 0);

	follow.processes[0].life--;
	head->trace_tid = (uint32_t)getpid();
	head->trace = ENGINE_TRACE_ASKED;
	cr_expect_eq(soft_traced_look(&follow, &follow.processes[0]), 1);
	cr_expect_eq(head->trace, ENGINE_TRACE_ASKED);
	head->children[5].born |= (uint64_t)getpid();
	soft_follow_children(&follow, &follow.processes[0]);
	cr_assert_eq(child->pid, getpid());
	soft_traced_look(&follow, &follow.processes[0]);
	cr_expect_eq(head->trace, ENGINE_TRACE_ASKED, "it is not out yet");
	/* one call was made since, and the next is for a process that we do not record */
	head->trace_tid = (uint32_t)getppid();
	cr_expect_eq(soft_traced_look(&follow, &follow.processes[0]), 1);
	cr_expect_eq(soft_traced_look(&follow, &follow.processes[0]), 1);
	cr_expect_eq(head->trace, ENGINE_TRACE_ALLOWED);
	soft_follow_release(&follow);
	soft_control_close(&control);
	end();
}

Test(soft_hostile, a_child_of_a_killed_parent_that_has_named_it_is_known)
{
	struct soft_control control;
	struct soft_follow follow;

	cr_expect_eq(child_of_killed(&follow, &control, 1)->pid, getpid());
	soft_follow_release(&follow);
	soft_control_close(&control);
	end();
}

Test(soft_hostile, a_child_of_a_killed_parent_that_has_not_named_it_is_refused)
{
	struct soft_control control;
	struct soft_follow follow;
	struct soft_process *child = child_of_killed(&follow, &control, 0);
	uint64_t orphan = ENGINE_OFFSPRING(1234, 7);

	cr_expect_eq(soft_follow_expected(&follow, child), 1);
	cr_expect_eq(control.page->refused[orphan % ENGINE_REFUSALS], orphan);
	cr_expect_eq(follow.unfollowed, 1);
	soft_follow_release(&follow);
	soft_control_close(&control);
	end();
}

/* The recorded process itself: its channel stays, with the child as it was. */
Test(soft_hostile, a_child_of_the_first_process_that_has_ended_is_refused)
{
	struct soft_control control;
	struct soft_follow follow;
	struct soft_process *child = child_of_killed(&follow, &control, 0);

	follow.processes[0].life--;
	cr_expect_eq(soft_follow_expected(&follow, child), 0);
	soft_follow_end(&follow, &follow.processes[0], NULL);
	cr_expect_eq(soft_follow_expected(&follow, child), 1);
	cr_expect_eq(follow.unfollowed, 1);
	cr_expect_not(soft_follow_has(&follow));
	soft_follow_release(&follow);
	soft_control_close(&control);
	end();
}

/* A process that was sent the channel, and has mapped it, does not borrow its parent's memory. */
Test(soft_hostile, a_process_with_its_own_memory_is_no_child_of_vfork)
{
	struct soft_control control;
	struct soft_follow follow;
	struct soft_process *child = child_of_killed(&follow, &control, 0);
	pid_t pid = fork();

	if (!pid)
		for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
			pause();
	follow.processes[0].life--;
	child->shares_parent = 1;
	child->ppid = getpid();
	head->children[5].born |= (uint64_t)pid;
	cr_expect_eq(soft_follow_expected(&follow, child), 1);
	cr_expect_eq(follow.unfollowed, 1);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	soft_follow_release(&follow);
	soft_control_close(&control);
	end();
}
