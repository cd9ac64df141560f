/* SPDX-License-Identifier: MIT */
#include "target/process/sealed.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

Test(sealed, only_what_can_not_be_cut_has_a_length)
{
	FILE *plain = tmpfile();
	int fd = memfd_create("test", MFD_ALLOW_SEALING), ends[2];
	uint64_t bytes = 7;

	cr_assert_eq(ftruncate(fd, 4096), 0);
	cr_assert_eq(sealed_bytes(fd, &bytes), -WM_E_PROTOCOL, "no seal yet");
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	cr_assert_eq(sealed_bytes(fd, &bytes), -WM_E_PROTOCOL, "another seal");
	cr_assert_eq(ftruncate(fileno(plain), 4096), 0);
	cr_assert_eq(sealed_bytes(fileno(plain), &bytes), -WM_E_PROTOCOL, "a plain file");
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(sealed_bytes(ends[0], &bytes), -WM_E_PROTOCOL, "a pipe");
	cr_assert_eq(sealed_bytes(-1, &bytes), -WM_E_PROTOCOL, "none at all");
	cr_assert_eq(bytes, 7);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	cr_assert_eq(sealed_bytes(fd, &bytes), 0);
	cr_assert_eq(bytes, 4096);
	fclose(plain);
}
