/* SPDX-License-Identifier: MIT */
#include "cli/quantity.h"

#include <criterion/criterion.h>
#include <errno.h>

Test(quantity, sizes_are_read_with_their_units)
{
	uint64_t bytes;

	cr_assert_eq(quantity_bytes("64M", &bytes), 0);
	cr_assert_eq(bytes, 64u << 20);
	cr_assert_eq(quantity_bytes("1.5k", &bytes), 0);
	cr_assert_eq(bytes, 1536);
	cr_assert_eq(quantity_bytes("4096", &bytes), 0);
	cr_assert_eq(bytes, 4096);
	cr_assert_eq(quantity_bytes("2GiB", &bytes), 0);
	cr_assert_eq(bytes, UINT64_C(2) << 30);
}

Test(quantity, times_are_read_with_their_units)
{
	uint64_t ns;

	cr_assert_eq(quantity_time_ns("250ms", &ns), 0);
	cr_assert_eq(ns, 250000000);
	cr_assert_eq(quantity_time_ns("1.5", &ns), 0);
	cr_assert_eq(ns, 1500000000);
	cr_assert_eq(quantity_time_ns("2m", &ns), 0);
	cr_assert_eq(ns, UINT64_C(120000000000));
}

Test(quantity, each_unit_of_time_has_its_names)
{
	static const struct {
		const char *texts[6];
		uint64_t ns;
	} units[] = {
		{ { "7ns", "7nsec", "0.007us", "0.000000007" }, 7 },
		{ { "10us", "10usec", "10\u00b5s", ".01ms", "10.0000us" }, 10000 },
		{ { "10ms", "10msec", "0.01", "10MS" }, 10000000 },
		{ { "10", "10s", "10sec", "10secs", "10seconds", "10.s" }, UINT64_C(10000000000) },
		{ { "1.5", "1.5s", "1.5sec", "1500ms" }, 1500000000 },
		{ { "3m", "3min", "3minutes", "180" }, UINT64_C(180000000000) },
		{ { "1h", "1hr", "1hour", "60min" }, UINT64_C(3600000000000) },
		{ { "2d", "2days", "48h" }, UINT64_C(172800000000000) },
		{ { "1.000000001", "1.0000000019s" }, 1000000001 },
	};
	static const char *const bad[] = { "10 s", "10se", "10xs", "s", "10ss", "1e3", "-1s", "ns" };
	uint64_t ns;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		for (size_t k = 0; k < 6 && units[i].texts[k]; k++) {
			ns = 0;
			cr_expect_eq(quantity_time_ns(units[i].texts[k], &ns), 0, "%s",
				     units[i].texts[k]);
			cr_expect_eq(ns, units[i].ns, "%s: %lu", units[i].texts[k], ns);
		}
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(quantity_time_ns(bad[i], &ns), 0, "%s", bad[i]);
	cr_expect_eq(quantity_time_ns("999999999h", &ns), -ERANGE);
	cr_expect_eq(quantity_time_ns("99999999999999999999999999999999999999999", &ns), -ERANGE);
}

Test(quantity, seconds_are_read_exactly)
{
	static const char *const bad[] = { "", ".", "-1", "1x", "1.5.5", "one", "0x1", "1e3" };
	uint64_t ns;

	cr_assert_eq(quantity_since_ns("1.000000001", &ns), 0);
	cr_expect_eq(ns, 1000000001);
	cr_assert_eq(quantity_since_ns(".5", &ns), 0);
	cr_expect_eq(ns, 500000000);
	cr_assert_eq(quantity_since_ns("0", &ns), 0);
	cr_expect_eq(ns, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(quantity_since_ns(bad[i], &ns), 0, "%s", bad[i]);
}

Test(quantity, nonsense_is_refused)
{
	static const char *const texts[] = { "",   "M",	   "12Q", "-5",	   "+5",
					     " 5", "0x10", "inf", "nan",   "1e",
					     "0",  "0ms",  ".",	  "1.2.3", "5 M" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert_lt(quantity_bytes(texts[i], &value), 0, "%s", texts[i]);
		cr_assert_lt(quantity_time_ns(texts[i], &value), 0, "%s", texts[i]);
	}
	cr_assert_eq(quantity_bytes("99999999999G", &value), -ERANGE);
}

Test(quantity, figures_are_shown_for_people)
{
	char text[32];

	cr_assert_str_eq(quantity_show_count(0, text, sizeof(text)), "0");
	cr_assert_str_eq(quantity_show_count(1234567, text, sizeof(text)), "1,234,567");
	cr_assert_str_eq(quantity_show_bytes(999, text, sizeof(text)), "999 B");
	cr_assert_str_eq(quantity_show_bytes(16700000, text, sizeof(text)), "16.7 MB");
	cr_assert_str_eq(quantity_show_bytes(680000000, text, sizeof(text)), "680 MB");
}

Test(quantity, reads_whole_numbers_and_nothing_else)
{
	static const char *const wrong[] = { "",    " 1",  "+1",
					     "-1",  "1 ",  "1k",
					     "0x1", "101", "99999999999999999999" };
	uint64_t number = 0;
	const char *end;

	cr_expect_eq(quantity_number("100", 100, &number), 0);
	cr_expect_eq(number, 100);
	cr_expect_eq(quantity_number("18446744073709551615", UINT64_MAX, &number), 0);
	cr_expect_eq(number, UINT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(quantity_number(wrong[i], 100, &number), -EINVAL, "%s", wrong[i]);
	end = quantity_number_at("7:8", 100, &number);
	cr_expect_str_eq(end, ":8");
	cr_expect_eq(number, 7);
	cr_expect_null(quantity_number_at(":8", 100, &number));
}

Test(quantity, id_is_a_whole_positive_number_of_32_bits)
{
	static const char *const bad[] = { "",	   "0",		 "-1",
					   "+1",   " 1",	 "1x",
					   "0x10", "4294967296", "99999999999999999999" };
	uint32_t id = 7;

	cr_expect_eq(quantity_id("4294967295", &id), 0);
	cr_expect_eq(id, UINT32_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(quantity_id(bad[i], &id), -EINVAL, "%s", bad[i]);
	cr_expect_eq(id, UINT32_MAX);
}
