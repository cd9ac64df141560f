/* SPDX-License-Identifier: MIT */
#include "base/number_file.h"

#include <criterion/criterion.h>
#include <unistd.h>

Test(number_file, read_takes_the_first_number)
{
	cr_expect_eq(number_file_read("/proc/self/stat", -1), getpid());
}

Test(number_file, without_a_number_it_is_absent)
{
	cr_expect_eq(number_file_read("/nowhere", 7), 7);
	cr_expect_eq(number_file_read("/proc/self/comm", 7), 7);
}
