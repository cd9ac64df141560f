/* SPDX-License-Identifier: MIT */
#include "base/signal_name.h"

#include <criterion/criterion.h>
#include <signal.h>

Test(signal_name, read_takes_names_and_numbers)
{
	static const char *const term[] = { "TERM", "SIGTERM", "term", "sigTerm", "15", "0xf" };

	for (size_t i = 0; i < sizeof(term) / sizeof(term[0]); i++)
		cr_expect_eq(signal_name_read(term[i]), SIGTERM, "%s", term[i]);
	cr_expect_eq(signal_name_read("sigusr1"), SIGUSR1);
	cr_expect_eq(signal_name_read("RTMIN"), SIGRTMIN);
	cr_expect_eq(signal_name_read("SIGRTMIN+0"), SIGRTMIN);
	cr_expect_eq(signal_name_read("rtmin+1"), SIGRTMIN + 1);
	cr_expect_eq(signal_name_read("RTMIN+30"), SIGRTMAX);
	cr_expect_eq(signal_name_read("64"), SIGRTMAX);
}

Test(signal_name, read_of_another_text_returns_0)
{
	static const char *const bad[] = {
		"",	  "SIG",      "SEGW",	"TERM ",   " TERM",
		"0",	  "-1",	      "65",	"15x",	   "99999999999999999999",
		"RTMIN+", "RTMIN+31", "RTMIN1", "RTMIN-1", "RTMIN+1x"
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(signal_name_read(bad[i]), 0, "%s", bad[i]);
}

Test(signal_name, show_of_each_is_read_again)
{
	char text[32];

	for (int i = 1; i <= SIGRTMAX; i++)
		if (i < 32 || i >= SIGRTMIN)
			cr_expect_eq(signal_name_read(signal_name_show((uint64_t)i, text)), i, "%s",
				     text);
	cr_expect_str_eq(signal_name_show(SIGSEGV, text), "SIGSEGV");
	cr_expect_str_eq(signal_name_show((uint64_t)SIGRTMIN + 2, text), "SIGRTMIN+2");
	cr_expect_str_eq(signal_name_show(99, text), "signal 99");
	cr_expect_str_eq(signal_name_show((UINT64_C(1) << 32) + SIGSEGV, text),
			 "signal 4294967307");
}
