/* SPDX-License-Identifier: MIT */
#include "target/claim/limits.h"
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

static char file[128], words[512];
static const struct detail detail = { words, sizeof(words) };

/*
 * Limits count what the user's other ledgers have, those of a recording or of another test: root
 * hides them.
 */
static void hide_other_ledgers(void)
{
	if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return;
	mount("waymark", "/tmp", "tmpfs", 0, "mode=1777");
	mount("waymark", "/run/user", "tmpfs", 0, "mode=755");
}

static void setup(void)
{
	hide_other_ledgers();
	fixture_setup();
	snprintf(file, sizeof(file), "%s/limits", fixture_runtime);
	limits_path = file;
	limits_owner = geteuid();
}

static void teardown(void)
{
	unlink(file);
	fixture_teardown();
}

TestSuite(limits, .init = setup, .fini = teardown, .timeout = 110);

static void write_bytes(const char *text, size_t bytes)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
	close(fd);
	chmod(file, 0644);
}

static int read_text(struct limits *limits, const char *text)
{
	words[0] = '\0';
	write_bytes(text, strlen(text));
	return limits_read(limits, file, geteuid(), detail);
}

Test(limits, a_missing_file_limits_nothing)
{
	struct limits limits;

	cr_expect_eq(limits_read(&limits, file, 0, detail), 0);
	for (int i = 0; i < LIMIT_END; i++)
		cr_expect_eq(limits.most[i], UINT64_MAX);
	cr_expect_eq(limits_check_buffer(UINT64_MAX, detail), 0);
}

Test(limits, keys_comments_and_units_are_read)
{
	struct limits limits;

	cr_assert_eq(read_text(&limits, "# all users\n\n debug-registers-per-user=3 # of four\n"
					"\tlocked-bytes-per-user = 64M\r\n"
					"buffer-bytes-per-session = 4096\ncounters-per-user = 0"),
		     0, "%s", words);
	cr_expect_eq(limits.most[LIMIT_DEBUG_REGISTERS], 3);
	cr_expect_eq(limits.most[LIMIT_LOCKED_BYTES], 64 << 20);
	cr_expect_eq(limits.most[LIMIT_BUFFER_BYTES], 4096);
	cr_expect_eq(limits.most[LIMIT_COUNTERS], 0);
	cr_expect_eq(limits.lines[LIMIT_DEBUG_REGISTERS], 3);
	cr_expect_eq(limits.lines[LIMIT_COUNTERS], 6);
}

Test(limits, a_bad_line_is_refused_by_file_and_line)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "counters-per-user\n", "/limits:1: no KEY = VALUE: counters-per-user" },
		{ "\n\ncounters = 4\n", "/limits:3: no such key: counters" },
		{ "= 4\n", "/limits:1: no such key: " },
		{ "counters-per-user = \n", "/limits:1: counters-per-user takes a number, not " },
		{ "counters-per-user = 4K\n",
		  "/limits:1: counters-per-user takes a number, not 4K" },
		{ "counters-per-user = -1\n",
		  "/limits:1: counters-per-user takes a number, not -1" },
		{ "counters-per-user = 0x\n", "takes a number, not 0x" },
		{ "counters-per-user = 4 5\n", "takes a number, not 4 5" },
		{ "locked-bytes-per-user = 4Q\n", "takes a size, such as 64M, not 4Q" },
		{ "locked-bytes-per-user = 99999999999999999999\n", "takes a size" },
		{ "locked-bytes-per-user = 18446744073709551615\n", "takes a size" },
		{ "locked-bytes-per-user = 18014398509481984K\n", "takes a size" },
		{ "counters-per-user = 1\ncounters-per-user = 2\n",
		  "/limits:2: counters-per-user is in line 1 already" },
	};
	struct limits limits;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(read_text(&limits, cases[i].text), -WM_E_LIMIT, "%s", cases[i].text);
		cr_expect(strstr(words, cases[i].says), "%s: %s", cases[i].says, words);
	}
	write_bytes("counters-per-user = 4\0junk", 26);
	cr_expect_eq(limits_read(&limits, file, geteuid(), detail), -WM_E_LIMIT);
	cr_expect(strstr(words, "no text"), "%s", words);
}

static void refused(const char *says)
{
	struct limits limits;

	cr_expect_eq(limits_read(&limits, file, geteuid(), detail), -WM_E_LIMIT, "%s", says);
	cr_expect(strstr(words, file), "%s", words);
	cr_expect(strstr(words, says), "%s: %s", says, words);
}

Test(limits, a_file_that_others_can_write_is_refused)
{
	struct limits limits;

	cr_assert_eq(read_text(&limits, "counters-per-user = 4\n"), 0);
	chmod(file, 0664);
	refused("root alone may write");
	chmod(file, 0646);
	refused("root alone may write");
	chmod(file, 0444);
	cr_expect_eq(limits_read(&limits, file, geteuid(), detail), 0);
	cr_expect_eq(limits_read(&limits, file, geteuid() + 1, detail), -WM_E_LIMIT);
	unlink(file);
	cr_assert_eq(mkfifo(file, 0600), 0);
	refused("no file of root's");
	unlink(file);
	cr_assert_eq(mkdir(file, 0700), 0);
	refused("no file of root's");
	rmdir(file);
	write_bytes("", 0);
	cr_assert_eq(truncate(file, (off_t)1 << 40), 0);
	refused("more than 64 KiB");
}

static struct ledger *ledger;

static int claim_registers(struct ledger *of, uint64_t count, uint64_t credit, uint64_t *id)
{
	struct claim claim = fixture_claim(getpid(), count, 7, "watch:mine");

	words[0] = '\0';
	return limits_claim(of, &claim, 1, id, credit, detail);
}

static void hold_two(struct ledger *of)
{
	struct claim claim = fixture_claim(getppid(), 2, 7, "watch:theirs");
	uint64_t id;

	ledger_claim(of, &claim, 1, &id);
	ledger_confirm(of, &id, 1);
}

Test(limits, what_exceeds_a_limit_is_refused_with_figures_and_holder)
{
	char is[256];
	uint64_t id, more;
	pid_t owner;

	write_bytes("\ndebug-registers-per-user = 4\n", 30);
	owner = fixture_owner(hold_two);
	cr_assert_eq(ledger_new(&ledger), 0);
	cr_expect_eq(claim_registers(ledger, 2, 0, &id), 0, "%s", words);
	ledger_confirm(ledger, &id, 1);
	cr_expect_eq(claim_registers(ledger, 1, 0, &more), -WM_E_LIMIT);
	snprintf(is, sizeof(is),
		 "1 debug registers asked, user %u has 4, and debug-registers-per-user = 4 in "
		 "%s:2; ",
		 (unsigned int)geteuid(), file);
	cr_expect_eq(strncmp(words, is, strlen(is)), 0, "%s", words);
	snprintf(is, sizeof(is), "claim_limits_te %d holds 2 (watch:theirs)", owner);
	cr_expect(strstr(words, is), "%s", words);
	cr_expect_eq(fixture_count_of(getpid()), 1, "a refused claim stays");
	/* what is handed over counts once */
	cr_expect_eq(claim_registers(ledger, 2, 2, &more), 0, "%s", words);
	ledger_remove(ledger, &more, 1);
	/* it ends with its owner */
	fixture_kill(owner);
	cr_expect_eq(claim_registers(ledger, 2, 0, &more), 0, "%s", words);
	cr_expect_eq(claim_registers(ledger, UINT64_MAX, 0, &more), -WM_E_LIMIT);
	ledger_free(ledger);
}

Test(limits, locked_bytes_and_buffers_are_refused_with_figures)
{
	const char text[] = "locked-bytes-per-user = 1M\nbuffer-bytes-per-session = 1M\n";
	uint64_t id, more;

	write_bytes(text, sizeof(text) - 1);
	cr_assert_eq(ledger_new(&ledger), 0);
	cr_expect_eq(claim_locked_bytes(ledger, 1 << 20, "ring", &id, detail), 0);
	cr_expect_eq(limits_check(CLAIM_LOCKED_MEMORY, detail), 0);
	cr_expect_eq(claim_locked_bytes(ledger, 4096, "ring", &more, detail), -WM_E_LIMIT);
	cr_expect(strstr(words, "4096 bytes of locked memory asked, user "), "%s", words);
	cr_expect(strstr(words, "locked-bytes-per-user = 1048576 in "), "%s", words);
	ledger_change(ledger, id,
		      &(struct claim){ .resource = CLAIM_LOCKED_MEMORY,
				       .scope = CLAIM_OF_USER,
				       .count = 2 << 20 });
	ledger_confirm(ledger, &id, 1);
	cr_expect_eq(limits_check(CLAIM_LOCKED_MEMORY, detail), -WM_E_LIMIT);
	cr_expect_eq(limits_check_buffer(1 << 20, detail), 0);
	cr_expect_eq(limits_check_buffer((1 << 20) + 1, detail), -WM_E_LIMIT);
	cr_expect(strstr(words, "1048577 bytes of buffer asked"), "%s", words);
	ledger_free(ledger);
}

/* Nobody can see then what is held. */
Test(limits, without_a_ledger_nothing_is_allowed_that_is_limited)
{
	struct rlimit limit = { 200, RLIM_INFINITY };
	uint64_t id;

	write_bytes("debug-registers-per-user = 4\n", 29);
	cr_assert_eq(ledger_new(&ledger), 0);
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect_eq(claim_registers(ledger, 1, 0, &id), -WM_E_LIMIT);
	cr_expect(strstr(words, "the ledger can't be written"), "%s", words);
	cr_expect_eq(claim_locked_bytes(ledger, 4096, "ring", &id, detail), 0, "it is not limited");
	ledger_free(ledger);
}

#define CROWD 200
#define ROOM 100

static int enter(struct ledger *of)
{
	uint64_t id;
	int err = claim_registers(of, 1, 0, &id);

	if (!err)
		ledger_confirm(of, &id, 1);
	return err;
}

Test(limits, two_hundred_at_once_never_exceed_a_limit)
{
	static pid_t pids[CROWD];
	unsigned int in = 0, out = 0;
	int ends[2], go[2];

	write_bytes("debug-registers-per-user = 100\n", 31);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(pipe(go), 0);
	for (int i = 0; i < CROWD; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			struct ledger *own;
			char answer;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(go[1]);
			if (ledger_new(&own) || read(go[0], &answer, 1))
				_exit(1);
			answer = (char)(enter(own) == 0);
			if (write(ends[1], &answer, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
	}
	close(go[1]);
	close(go[0]);
	for (int i = 0; i < CROWD; i++) {
		char answer;

		cr_assert_eq(read(ends[0], &answer, 1), 1);
		in += answer == 1;
		out += answer == 0;
	}
	cr_expect_leq(in, ROOM, "%u", in);
	cr_expect_gt(in, 0);
	cr_expect_eq(in + out, CROWD);
	for (int i = 0; i < CROWD; i++)
		fixture_kill(pids[i]);
	close(ends[0]);
	close(ends[1]);
	fprintf(stderr, "%u of %u are in\n", in, ROOM);
}
