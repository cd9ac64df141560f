/* SPDX-License-Identifier: MIT */
/*
 * waymark trail --calls and --functions, and waymark export, of tests/targets/calling.c as it ran.
 */
#include "cli/command_test.h"
#include "record/trail/testing/steps.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static char tree[1 << 14]; /* what was printed, without columns and counts */

/* The program's calls, without what differs from compiler to compiler. */
static const char calls[] = "? _start {\n"
			    "  main_calls {\n"
			    "    leaf  x 10\n"
			    "    recursive {\n"
			    "      recursive {\n"
			    "        recursive\n"
			    "      } recursive\n"
			    "    } recursive\n"
			    "    tails, jumps on\n"
			    "    -> leaf\n"
			    "    through {\n"
			    "      leaf\n"
			    "    } through\n"
			    "    sets {\n"
			    "      jumps {\n"
			    "        jumps, passed by\n"
			    "      } jumps, passed by\n"
			    "      leaf\n"
			    "    } sets\n"
			    "    signals {\n"
			    "      signal 10: handler {\n"
			    "        leaf\n"
			    "      } handler\n"
			    "      leaf\n"
			    "    } signals\n"
			    "    -- ended: exited with 7\n"
			    "  } main_calls, not over\n"
			    "} _start, not over\n";

static void begin(void)
{
	int status = sample_steps(folder, (char *[]){ (char *)PROGRAM, NULL });

	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x",
		  (unsigned int)status);
}

static void end(void)
{
	sample_folder_remove(folder);
}

TestSuite(calling, .init = begin, .fini = end, .timeout = 60);

static int run(const char *arguments)
{
	return run_on(folder, "", arguments);
}

/* A number of the JSON that was printed. */
static unsigned long field(const char *name)
{
	char key[64];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(printed, key);
	cr_assert_not_null(at, "no %s in: %s", key, printed);
	return strtoul(at + strlen(key), NULL, 10);
}

static void cut(char *line, const char *from, size_t bytes)
{
	char *at = strstr(line, from);

	if (at)
		memmove(at, at + bytes, strlen(at + bytes) + 1);
}

/* Without the columns, the module, and counts of blocks. */
static void prune(void)
{
	char *line, *save;

	tree[0] = '\0';
	line = strtok_r(printed, "\n", &save); /* the thread's */
	cr_assert_not_null(strstr(line, "by step"), "%s", line);
	while ((line = strtok_r(NULL, "\n", &save))) {
		char *count;

		cr_assert_gt(strlen(line), 28, "%s", line);
		cut(line, " [calling]", strlen(" [calling]"));
		count = strstr(line + 28, " block");
		if (count) {
			char *to = count + strlen(" block");

			while (*--count != ' ')
				;
			to += *to == 's';
			memmove(count - 1, to, strlen(to) + 1);
		}
		snprintf(tree + strlen(tree), sizeof(tree) - strlen(tree), "%s\n", line + 28);
	}
}

Test(calling, shows_all_calls_as_they_went)
{
	cr_expect_eq(run("trail --calls -n 0 %s"), 0);
	prune();
	cr_expect_str_eq(tree, calls, "got:\n%s", tree);
}

Test(calling, shows_the_last_with_those_that_they_are_in)
{
	cr_expect_eq(run("trail --calls -n 2 %s"), 0);
	prune();
	cr_expect_str_eq(tree,
			 "? _start {\n"
			 "  main_calls {\n"
			 "    signals {\n"
			 "      signal 10: handler {\n"
			 "        leaf\n"
			 "      } handler\n"
			 "      leaf\n"
			 "    } signals\n"
			 "    -- ended: exited with 7\n"
			 "  } main_calls, not over\n"
			 "} _start, not over\n",
			 "got:\n%s", tree);
}

Test(calling, shows_calls_down_to_a_depth)
{
	cr_expect_eq(run("trail --calls -n 0 --depth 2 %s"), 0);
	prune();
	cr_expect_str_eq(tree,
			 "? _start {\n"
			 "  main_calls {\n"
			 "    -- ended: exited with 7\n"
			 "  } main_calls, not over\n"
			 "} _start, not over\n",
			 "got:\n%s", tree);
}

Test(calling, counts_what_each_function_ran)
{
	cr_expect_eq(run("trail --functions --json %s | grep '\"recursive\"'"), 0);
	expect("\"calls\":3,");
	cr_expect_eq(run("trail --functions --json %s | grep '\"leaf\"'"), 0);
	expect("\"calls\":15,");
	expect("\"blocks\":15,");
	cr_expect_eq(field("instructions"), field("total_instructions"));
	cr_expect_eq(field("instructions") % 15, 0);
	cr_expect_eq(run("trail --functions --json %s | grep '\"recursive\"'"), 0);
	cr_expect_eq(field("instructions"), field("total_instructions"), "counted once");
	cr_expect_eq(run("trail --functions --json %s | grep '\"_start\"'"), 0);
	expect("\"total_percent\":100,");
	cr_expect_eq(run("trail --functions -n 1 %s | wc -l"), 0);
	expect("3\n");
	cr_expect_eq(run("trail --functions -n 1 %s | tail -1"), 0);
	expect(" more: ran less; -n 0 shows all\n");
	cr_expect_eq(run("trail --functions -n 0 %s | tail -1 | grep more"), 1);
}

/* All forms count the same. */
Test(calling, is_exported_whole)
{
	unsigned long all, some;

	cr_expect_eq(run("trail --functions --json -n 0 %s | grep '\"_start\"'"), 0);
	all = field("total_instructions");
	cr_expect_gt(all, 100);
	cr_expect_eq(run("export --format=folded %s | awk '{ all += $NF } END { print all }'"), 0);
	some = strtoul(printed, NULL, 10);
	cr_expect_eq(some, all);
	cr_expect_eq(run("export --format=folded %s"), 0);
	expect("\ncalling;_start;main_calls;signals;handler;leaf ");
	expect("\ncalling;_start;main_calls;recursive;recursive;recursive ");
	cr_expect_eq(run("export --format=speedscope %s"), 0);
	cr_expect_eq(field("endValue"), all);
}

Test(calling, is_exported_into_a_file_that_is_whole_or_not_there)
{
	char path[128], arguments[256];

	snprintf(path, sizeof(path), "%s.folded", folder);
	snprintf(arguments, sizeof(arguments), "export --format=folded -o %s %%s", path);
	cr_expect_eq(run(arguments), 0);
	cr_expect_str_eq(printed, "");
	cr_expect_eq(access(path, F_OK), 0);
	cr_expect_eq(unlink(path), 0);
	cr_expect_eq(run("export --format=folded -o /nonexistent/x %s"), 1);
	expect("/nonexistent/x");
	cr_expect_eq(run("export --format=folded %s >/dev/full"), 1);
	expect("No space left");
	snprintf(arguments, sizeof(arguments), "export --format=speedscope -o %s %%s", path);
	cr_expect_eq(run_on(folder, "trap '' XFSZ; ulimit -f 1;", arguments), 1);
	expect("File too large");
	cr_expect_eq(access(path, F_OK), -1, "half a file is left");
	cr_expect_eq(symlink("/dev/full", path), 0);
	cr_expect_eq(run(arguments), 1);
	expect("No space left");
	cr_expect_eq(unlink(path), 0, "what is no file is left alone");
}

Test(calling, says_what_is_wrong_with_the_command_line)
{
	cr_expect_eq(run("export --format=foldde %s"), 2);
	expect("--format takes folded, perf-script, speedscope or perfetto, not foldde");
	expect("did you mean folded?");
	cr_expect_eq(run("export %s"), 2);
	expect("say which form");
	cr_expect_eq(run("export --format=folded"), 2);
	expect("name the trace's folder");
	cr_expect_eq(run("export --format=folded --weight=time %s"), 2);
	expect("--weight takes instructions, blocks, period or samples, not time");
	cr_expect_eq(run("export --format=folded --tid x %s"), 2);
	expect("--tid takes a number from 1 to 2147483647, not x");
	cr_expect_eq(run("export --format=folded --tid 1 %s"), 1);
	expect("no such thing: a trail of");
	cr_expect_eq(run("export --format=folded /nonexistent"), 1);
	cr_expect_eq(run("trail --calls --depth x %s"), 2);
	expect("--depth takes a number from 0 to 4294967295, not x");
}

/* The compiler's own reader takes it, and counts the calls that there were. */
Test(calling, is_read_by_llvm_profgen)
{
	int status;

	if (system("command -v llvm-profgen-14 >/dev/null"))
		cr_skip_test("there is no llvm-profgen-14");
	status = shell("cd %s && %s export --format=perf-script -o script . && { timeout 60 "
		       "llvm-profgen-14 --perfscript script --binary %s --skip-symbolization "
		       "--output profile; cat profile; }",
		       folder, WAYMARK_COMMAND, PROGRAM);
	cr_expect_eq(status, 0, "%s", printed);
	/* the loop jumps back nine times, and so does main_calls call leaf ten times */
	cr_expect_not_null(strstr(printed, ":10\n"), "%s", printed);
	cr_expect_not_null(strstr(printed, ":9\n"), "%s", printed);
}
