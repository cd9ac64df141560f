/* SPDX-License-Identifier: MIT */
/* Breakpoints of other tools on armed jumps and in the bytes behind them. */
#include "inside/detour/foreign_bytes.h"

#include "base/testing/await.h"
#include "inside/detour/testing/fixture.h"
#include "inside/runtime/lock.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BREAKPOINT DETOUR_BREAKPOINT
#define FORMS 3

typedef long (*fn)(long);

/* In order of enum detour_form. */
static const struct trial_wish *const wishes[FORMS] = { &trial_victim_wish, &trial_behind_wish,
							&trial_first_wish };
static const fn functions[FORMS] = { trial_victim, trial_behind, trial_first };

struct bytes {
	uint8_t of[DETOUR_INSN_MAX];
};

static struct bytes file, armed;
static const struct trial_wish *wish;
static fn function;
static uint8_t *at; /* the jump */

static void begin_with(const struct trial_wish *its_wish, fn its_function)
{
	union trial_record unused;

	wish = its_wish;
	function = its_function;
	at = trial_jump(wish);
	trial_begin();
	trial_compose(&unused, wish); /* the trial remembers the file's bytes */
	memcpy(&file, at, sizeof file);
}

static void begin(int form)
{
	begin_with(wishes[form], functions[form]);
}

static void begin_armed(int form)
{
	begin(form);
	trial_arm_detour(wish);
	memcpy(&armed, at, sizeof armed);
	cr_assert_eq(detour_first()->jump.form, form + 1);
}

static void look_now(void)
{
	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	foreign_bytes_look(&trial_text);
	lock_release(&agent_lock);
}

static int is_there(struct bytes bytes)
{
	return !memcmp(at, &bytes, sizeof bytes);
}

/* The same bytes with a breakpoint at the first. */
static struct bytes held(struct bytes bytes)
{
	bytes.of[0] = BREAKPOINT;
	return bytes;
}

static void expect_events(uint64_t count)
{
	uint64_t before = trial_events(0);

	cr_assert_eq(function(41), 42);
	cr_assert_eq(trial_events(0) - before, count);
	cr_assert(!count || trial_last[0] == 41);
}

/* A look on a busy machine may fail to stop the threads in time: the next one tries again. */
static void expect_armed_again(void)
{
	cr_assert(AWAIT((look_now(), is_there(armed))));
	cr_assert_eq(trial_told.holds, 2);
	cr_assert_eq(trial_told.hold[1].id, trial_told.hold[0].id);
	cr_assert_eq(trial_told.hold[1].begin_ns, trial_told.hold[0].begin_ns);
	cr_assert_geq(trial_told.hold[1].end_ns, trial_told.hold[1].begin_ns);
	expect_events(1);
}

static void expect_held(uint64_t since_ns)
{
	cr_assert_eq(trial_told.holds, 1);
	cr_assert_eq(trial_told.hold[0].lane, TRIAL_LANE);
	cr_assert_eq(trial_told.hold[0].id, 0);
	cr_assert_geq(trial_told.hold[0].begin_ns, since_ns);
	cr_assert_leq(trial_told.hold[0].begin_ns, lock_now_ns());
	cr_assert_eq(trial_told.hold[0].end_ns, 0);
}

/* ---- on the jump ---- */

static void come_and_go(int form)
{
	uint64_t begin_ns = lock_now_ns();

	begin_armed(form);
	look_now();
	cr_assert_eq(trial_told.holds, 0);
	trial_write(at, BREAKPOINT);
	look_now();
	look_now();
	expect_held(begin_ns);
	/* the tool restores one byte, so the others must be the file's in the form "first" */
	cr_assert(is_there(held(detour_first()->jump.form == FORM_FIRST ? file : armed)));
	trial_write(at, file.of[0]);
	expect_armed_again();
	look_now();
	cr_assert_eq(trial_told.holds, 2);
}

Test(foreign_bytes_look, byte_form_is_stored_again_after_breakpoint)
{
	come_and_go(0);
}

Test(foreign_bytes_look, behind_form_is_stored_again_after_breakpoint)
{
	come_and_go(1);
}

Test(foreign_bytes_look, first_form_is_stored_again_after_breakpoint)
{
	come_and_go(2);
}

Test(foreign_bytes_look, breakpoint_between_two_looks_is_reported)
{
	uint64_t before_ns, looked_ns;

	begin_armed(0);
	before_ns = lock_now_ns();
	look_now();
	looked_ns = lock_now_ns();
	trial_write(at, file.of[0]);
	expect_armed_again();
	cr_assert_geq(trial_told.hold[0].begin_ns, before_ns, "since the look before");
	cr_assert_leq(trial_told.hold[0].begin_ns, looked_ns);
}

/* The kernel restores the first byte when a uprobe goes; the others are still the jump's. */
Test(foreign_bytes_look, first_form_with_first_byte_restored_is_mended)
{
	begin_armed(2);
	trial_write(at, file.of[0]);
	look_now();
	cr_assert(is_there(file));
	cr_assert_eq(trial_told.holds, 1);
	expect_armed_again();
}

/* Debuggers restore the byte that they found. */
Test(foreign_bytes_look, jump_restored_by_debugger_ends_hold)
{
	begin_armed(0);
	trial_write(at, BREAKPOINT);
	look_now();
	trial_write(at, armed.of[0]);
	expect_armed_again();
}

Test(foreign_bytes_look, each_session_gets_its_own_events)
{
	struct trial_wish other, returning;

	begin(0);
	trial_other_begin();
	other = returning = *wish;
	other.name = "other";
	returning.name = "returning";
	returning.flags = DETOUR_RETURN;
	trial_arm_detour(wish);	      /* id 0 */
	trial_arm_detour(&returning); /* ids 1 and 2 */
	trial_other_arm(&other);      /* its id 0 */
	trial_write(at, BREAKPOINT);
	look_now();
	cr_assert_eq(trial_told.holds, 4);
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(trial_told.hold[i].lane, TRIAL_LANE);
		cr_assert_eq(trial_told.hold[i].id, i);
	}
	cr_assert_eq(trial_told.hold[3].lane, TRIAL_OTHER_LANE);
	cr_assert_eq(trial_told.hold[3].id, 0);
}

Test(foreign_bytes_look, unwanted_jump_is_not_stored_again)
{
	begin_armed(0);
	detour_release(TRIAL_LANE);
	trial_write(at, file.of[0]);
	look_now();
	cr_assert(is_there(file));
	cr_assert_eq(trial_told.holds, 0);
}

/* ---- behind the jump ---- */

/* The jump replaces the ret, so the function never runs the bytes behind it. */
long look_return(long value);
__asm__(".text\n"
	".balign 64\n"
	".globl look_return\n"
	"look_return:\n\tlea 1(%rdi), %rax\n\tret\n\tnop\n\tnop\n\tnop\n\tnop\n");

static const struct trial_wish return_wish = { .function = (void (*)(void))look_return,
					       .skipped = 4,
					       .insn_bytes = 1,
					       .starts = 0xf,
					       .argument = 1,
					       .name = "return" };

static void write_kept(unsigned int set)
{
	for (unsigned int i = 0; i < DETOUR_KEPT_MAX; i++)
		trial_write(at + 1 + i, set >> i & 1 ? BREAKPOINT : file.of[1 + i]);
}

Test(foreign_bytes_look, breakpoints_in_kept_bytes_lead_to_the_event)
{
	begin_with(&return_wish, look_return);
	trial_arm_detour(wish);
	cr_assert_eq(detour_first()->jump.count, 16);
	for (unsigned int set = 0; set < 16; set++) {
		write_kept(set);
		expect_events(1);
		look_now();
	}
	cr_assert_eq(trial_told.holds, 0, "no event is missing");
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(*at, file.of[0]);
	expect_events(0);
}

Test(foreign_bytes_look, breakpoints_in_kept_bytes_do_not_prevent_arming)
{
	begin_with(&return_wish, look_return);
	write_kept(5);
	trial_arm_detour(wish);
	expect_events(1);
	write_kept(0);
	expect_events(1);
}

/* ---- the program's own changes ---- */

/* Any other byte keeps the event from being recorded as a breakpoint does. */
Test(foreign_bytes_look, jump_overwritten_with_other_byte_is_reported)
{
	uint64_t begin_ns = lock_now_ns();

	begin_armed(0);
	look_now();
	trial_write(at + 1, (uint8_t)(file.of[1] ^ 1));
	trial_write(at, 0x90);
	look_now();
	expect_held(begin_ns);
	trial_write(at, file.of[0]);
	look_now();
	cr_assert_eq(at[0], file.of[0], "the agent stores nothing between others' bytes");
	trial_write(at + 1, file.of[1]);
	expect_armed_again();
}

Test(foreign_bytes_look, jump_whose_distance_changes_is_taken_away)
{
	uint64_t begin_ns = lock_now_ns();

	begin_with(&return_wish, look_return);
	trial_arm_detour(wish);
	memcpy(&armed, at, sizeof armed);
	trial_write(at + 1, 0x66);
	look_now();
	cr_assert_eq(*at, file.of[0]);
	expect_held(begin_ns);
	look_now();
	cr_assert_eq(*at, file.of[0]);
	trial_write(at + 1, file.of[1]);
	expect_armed_again();
}

static void write_distance(int32_t distance)
{
	uint8_t bytes[sizeof distance];

	memcpy(bytes, &distance, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes; i++)
		trial_write(at + 1 + i, bytes[i]);
}

/* Its opcode is ours by chance: without it, its distance would be left alone. */
Test(foreign_bytes_look, whole_jump_of_another_tool_is_left)
{
	uint64_t begin_ns = lock_now_ns();
	int32_t before;

	begin_with(&return_wish, look_return);
	trial_arm_detour(wish);
	memcpy(&armed, at, sizeof armed);
	memcpy(&before, at + 1, sizeof before);
	write_distance((int32_t)((uintptr_t)trial_victim - ((uintptr_t)at + DETOUR_JUMP_BYTES)));
	look_now();
	cr_assert_eq(*at, 0xe9);
	expect_held(begin_ns);
	cr_assert_neq(trial_let_go(), 0);
	cr_assert_eq(*at, 0xe9);
	write_distance(before);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(*at, file.of[0]);
}

#define PAGE_BYTES 4096

static void *landing_page(void)
{
	return (void *)(detour_first()->jump.landings[0] & ~(uintptr_t)(PAGE_BYTES - 1));
}

static void look_at_landings(void)
{
	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	foreign_bytes_landings(&trial_text);
	lock_release(&agent_lock);
}

static void expect_taken_away(uint64_t since_ns)
{
	look_at_landings();
	cr_assert(is_there(file));
	expect_held(since_ns);
	expect_events(0);
	/* the jump is refused to the next session, which gets its event elsewhere or nowhere */
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_lt(landing_error(&detour_first()->jump), 0);
}

Test(foreign_bytes_look, jump_whose_landing_the_program_replaces_is_taken_away)
{
	uint64_t begin_ns = lock_now_ns();

	begin_armed(0);
	look_at_landings();
	cr_assert_eq(trial_told.holds, 0);
	cr_assert_neq(mmap(landing_page(), PAGE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		      MAP_FAILED);
	expect_taken_away(begin_ns);
}

Test(foreign_bytes_look, jump_whose_landing_the_program_unmaps_is_taken_away)
{
	uint64_t begin_ns = lock_now_ns();

	begin_armed(0);
	cr_assert_eq(munmap(landing_page(), PAGE_BYTES), 0);
	expect_taken_away(begin_ns);
}

/* ---- arming and disarming beside one ---- */

static void arm_beside(int form)
{
	uint64_t begin_ns = lock_now_ns();
	struct trial_wish other;

	begin(form);
	trial_other_begin();
	other = *wish;
	other.name = "other";
	trial_write(at, BREAKPOINT);
	trial_arm_detour(wish);
	cr_assert(is_there(held(file)));
	expect_held(begin_ns);
	look_now();
	cr_assert_eq(trial_told.holds, 1);
	/* the agent informs the second session at once, and only this one */
	trial_other_arm(&other);
	cr_assert_eq(trial_told.holds, 2);
	cr_assert_eq(trial_told.hold[1].lane, TRIAL_OTHER_LANE);
	cr_assert_eq(trial_told.hold[1].end_ns, 0);
	trial_write(at, file.of[0]);
	cr_assert(AWAIT((look_now(), !is_there(file))));
	cr_assert_eq(trial_told.holds, 4);
	cr_assert_neq(trial_told.hold[2].end_ns, 0);
	cr_assert_neq(trial_told.hold[3].end_ns, 0);
	expect_events(1);
	cr_assert_eq(trial_other_events(), 1);
}

Test(foreign_bytes_look, byte_form_is_armed_after_breakpoint)
{
	arm_beside(0);
}

Test(foreign_bytes_look, behind_form_is_armed_after_breakpoint)
{
	arm_beside(1);
}

Test(foreign_bytes_look, first_form_is_armed_after_breakpoint)
{
	arm_beside(2);
}

static void disarm_beside(int form)
{
	begin_armed(form);
	trial_write(at, BREAKPOINT);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert(is_there(held(file)));
	trial_write(at, file.of[0]);
	look_now();
	cr_assert(is_there(file));
	cr_assert_eq(trial_told.holds, 0);
	expect_events(0);
	trial_arm_detour(wish);
	expect_events(1);
}

Test(foreign_bytes_look, byte_form_is_disarmed_beside_breakpoint)
{
	disarm_beside(0);
}

Test(foreign_bytes_look, behind_form_is_disarmed_beside_breakpoint)
{
	disarm_beside(1);
}

Test(foreign_bytes_look, first_form_is_disarmed_beside_breakpoint)
{
	disarm_beside(2);
}

/* Fork a process that traces this one until the pipe is closed. */
static pid_t trace_us(int *release)
{
	int ready[2], go[2];
	pid_t tracer;
	char byte;

	cr_assert_eq(pipe(ready) | pipe(go), 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	tracer = fork();
	if (!tracer) {
		close(go[1]);
		byte = ptrace(PTRACE_SEIZE, getppid(), 0, 0) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	*release = go[1];
	close(go[0]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	if (byte != 'y')
		cr_skip_test("ptrace is not allowed here");
	return tracer;
}

/* A debugger restores our first byte, which needs the bytes behind it, and its landings. */
static void stay_while_traced(int form)
{
	int release;
	pid_t tracer;

	begin_armed(form);
	tracer = trace_us(&release);
	trial_write(at, BREAKPOINT);
	look_now();
	cr_assert(is_there(held(armed)));
	cr_assert_eq(trial_let_go(), 1);
	cr_assert(detour_waits());
	cr_assert(is_there(held(armed)));
	trial_write(at, armed.of[0]);
	expect_events(0);
	close(release);
	waitpid(tracer, NULL, 0);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert(is_there(file));
}

Test(foreign_bytes_look, byte_form_stays_until_debugger_detaches)
{
	stay_while_traced(0);
}

Test(foreign_bytes_look, first_form_stays_until_debugger_detaches)
{
	stay_while_traced(2);
}

/* Looks while the size of files is limited, as another process of the user's may have it. */
Test(foreign_bytes_look, limit_on_files_hides_nothing)
{
	struct rlimit limit = { .rlim_cur = 3, .rlim_max = RLIM_INFINITY };
	uint64_t begin_ns = lock_now_ns();

	begin_armed(0);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	trial_write(at, BREAKPOINT);
	look_now();
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	expect_held(begin_ns);
}
