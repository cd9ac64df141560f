/* SPDX-License-Identifier: MIT */
/* What long work says of itself: on a terminal, after a while; to a file nothing. */
#include "cli/pulse.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEATS (3u << 20) /* more than lie between two looks at the clock */

static int terminal = -1; /* the other end of stderr */

static void begin(void)
{
	terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	cr_assert_geq(terminal, 0);
	cr_assert_eq(grantpt(terminal) | unlockpt(terminal), 0);
}

TestSuite(pulse, .init = begin);

static void stderr_is(const char *path)
{
	int fd = open(path, O_RDWR | O_NOCTTY);

	cr_assert_geq(fd, 0);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	close(fd);
}

/* What came to the terminal. */
static const char *shown(void)
{
	static char text[4096];
	ssize_t bytes = read(terminal, text, sizeof(text) - 1);

	text[bytes > 0 ? bytes : 0] = '\0';
	return text;
}

static void beat(uint64_t done)
{
	for (uint32_t i = 0; i < BEATS; i++)
		pulse_beat("counting", done, 200);
}

Test(pulse, says_after_a_while_how_far_it_is)
{
	stderr_is(ptsname(terminal));
	beat(10);
	pulse_end();
	cr_expect_str_eq(shown(), "", "what is over soon has no line, nor one to be taken away");
	sleep(2); /* here and below, the time that passes is the subject */
	beat(50);
	cr_expect_str_eq(shown(), "\rcounting: 25 %\033[K");
	sleep(1);
	beat(300);
	cr_expect_str_eq(shown(), "\rcounting: 100 %\033[K");
	pulse_end();
	cr_expect_str_eq(shown(), "\r\033[K");
	pulse_end();
	cr_expect_str_eq(shown(), "");
}

Test(pulse, of_nothing_to_do_is_no_fraction)
{
	stderr_is(ptsname(terminal));
	pulse_show("reading", 0, 0);
	cr_expect_str_eq(shown(), "\rreading: 0 %\033[K");
}

Test(pulse, is_for_terminals_alone)
{
	char name[] = "/tmp/waymark-pulse-XXXXXX";
	int fd = mkstemp(name);

	cr_assert_geq(fd, 0);
	stderr_is(name);
	beat(10);
	sleep(2);
	beat(50);
	pulse_end();
	cr_expect_eq(lseek(fd, 0, SEEK_END), 0);
	unlink(name);
	close(fd);
}
