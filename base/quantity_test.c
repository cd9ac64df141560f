/* SPDX-License-Identifier: MIT */
#include "base/quantity.h"

#include <criterion/criterion.h>
#include <errno.h>

Test(quantity, sizes_are_read_with_their_units)
{
	uint64_t bytes;

	cr_assert_eq(quantity_size("64M", 1, INT64_MAX, &bytes), 0);
	cr_assert_eq(bytes, 64u << 20);
	cr_assert_eq(quantity_size("1.5k", 1, INT64_MAX, &bytes), 0);
	cr_assert_eq(bytes, 1536);
	cr_assert_eq(quantity_size("4096", 1, INT64_MAX, &bytes), 0);
	cr_assert_eq(bytes, 4096);
	cr_assert_eq(quantity_size("2GiB", 1, INT64_MAX, &bytes), 0);
	cr_assert_eq(bytes, UINT64_C(2) << 30);
}

Test(quantity, times_are_read_with_their_units)
{
	uint64_t ns;

	cr_assert_eq(quantity_time("250ms", 1, &ns), 0);
	cr_assert_eq(ns, 250000000);
	cr_assert_eq(quantity_time("1.5", 1, &ns), 0);
	cr_assert_eq(ns, 1500000000);
	cr_assert_eq(quantity_time("2m", 1, &ns), 0);
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
			cr_expect_eq(quantity_time(units[i].texts[k], 1, &ns), 0, "%s",
				     units[i].texts[k]);
			cr_expect_eq(ns, units[i].ns, "%s: %lu", units[i].texts[k], ns);
		}
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(quantity_time(bad[i], 1, &ns), 0, "%s", bad[i]);
	cr_expect_eq(quantity_time("999999999h", 1, &ns), -ERANGE);
	cr_expect_eq(quantity_time("99999999999999999999999999999999999999999", 1, &ns), -ERANGE);
}

Test(quantity, seconds_are_read_exactly)
{
	static const char *const bad[] = { "", ".", "-1", "1x", "1.5.5", "one", "0x1", "1e3" };
	uint64_t ns;

	cr_assert_eq(quantity_time("1.000000001", 0, &ns), 0);
	cr_expect_eq(ns, 1000000001);
	cr_assert_eq(quantity_time(".5", 0, &ns), 0);
	cr_expect_eq(ns, 500000000);
	cr_assert_eq(quantity_time("0", 0, &ns), 0);
	cr_expect_eq(ns, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_lt(quantity_time(bad[i], 0, &ns), 0, "%s", bad[i]);
}

Test(quantity, nonsense_is_refused)
{
	static const char *const texts[] = { "",   "M",	   "12Q", "-5",	   "+5",
					     " 5", "0x10", "inf", "nan",   "1e",
					     "0",  "0ms",  ".",	  "1.2.3", "5 M" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert_lt(quantity_size(texts[i], 1, INT64_MAX, &value), 0, "%s", texts[i]);
		cr_assert_lt(quantity_time(texts[i], 1, &value), 0, "%s", texts[i]);
	}
	cr_assert_eq(quantity_size("99999999999G", 1, INT64_MAX, &value), -ERANGE);
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

Test(quantity, number_is_decimal_or_hexadecimal)
{
	static const struct {
		const char *text;
		uint64_t number;
	} good[] = {
		{ "0", 0 },
		{ "100", 100 },
		{ "010", 10 },
		{ "0x1f", 31 },
		{ "0XfF", 255 },
		{ "00", 0 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "",	 " 1",	"+1", "-1", "1 ", "1k",
					   "0x", "0xg", "x1", "1.", "\n", "1\n" };
	uint64_t number;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		number = 7;
		cr_expect_eq(quantity_number(good[i].text, 0, UINT64_MAX, &number), 0, "%s",
			     good[i].text);
		cr_expect_eq(number, good[i].number, "%s: %lu", good[i].text, number);
	}
	number = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(quantity_number(bad[i], 0, 100, &number), -EINVAL, "%s", bad[i]);
	cr_expect_eq(number, 7);
}

Test(quantity, bounds_are_allowed_and_nothing_outside)
{
	uint64_t number = 7;

	cr_expect_eq(quantity_number("100", 100, 100, &number), 0);
	cr_expect_eq(quantity_number("99", 100, 200, &number), -ERANGE);
	cr_expect_eq(quantity_number("201", 100, 200, &number), -ERANGE);
	cr_expect_eq(quantity_number("18446744073709551616", 0, UINT64_MAX, &number), -ERANGE);
	cr_expect_eq(quantity_number("0x10000000000000000", 0, UINT64_MAX, &number), -ERANGE);
	cr_expect_eq(quantity_size("63K", 65536, 131072, &number), -ERANGE);
	cr_expect_eq(quantity_size("128.1KiB", 65536, 131072, &number), -ERANGE);
	cr_expect_eq(quantity_time("0.9ms", 1000000, &number), -ERANGE);
	cr_expect_eq(number, 100, "a refused text changed the result");
	cr_expect_eq(quantity_size("64K", 65536, 131072, &number), 0);
	cr_expect_eq(quantity_size("128kb", 65536, 131072, &number), 0);
	cr_expect_eq(number, 131072);
	cr_expect_eq(quantity_time("1ms", 1000000, &number), 0);
}

Test(quantity, number_at_ends_behind_the_number)
{
	uint64_t number;
	const char *end = quantity_number_at("7:8", 100, &number);

	cr_expect_str_eq(end, ":8");
	cr_expect_eq(number, 7);
	cr_expect_null(quantity_number_at(":8", 100, &number));
	cr_expect_null(quantity_number_at("101:8", 100, &number));
	cr_expect_null(quantity_number_at(" 8", 100, &number));
}
