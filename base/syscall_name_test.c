/* SPDX-License-Identifier: MIT */
#include "base/syscall_name.h"

#include <criterion/criterion.h>
#include <sys/syscall.h>

Test(syscall_name, is_the_kernels)
{
	cr_expect_str_eq(syscall_name(SYS_read), "read");
	cr_expect_str_eq(syscall_name(SYS_rt_sigreturn), "rt_sigreturn");
	cr_expect_str_eq(syscall_name(SYS_exit_group), "exit_group");
	cr_expect_str_eq(syscall_name(SYS_clone3), "clone3");
}

Test(syscall_name, of_no_call_is_none)
{
	cr_expect_null(syscall_name(400)); /* x86-64 leaves these out */
	cr_expect_null(syscall_name(100000));
	cr_expect_null(syscall_name(UINT64_MAX));
}
