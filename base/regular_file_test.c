/* SPDX-License-Identifier: MIT */
#include "base/regular_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

Test(regular_file, only_a_regular_file_is_opened)
{
	char dir[] = "/tmp/waymark-test-XXXXXX", fifo[64], plain[64];
	struct stat about;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	snprintf(plain, sizeof(plain), "%s/plain", dir);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	fd = open(plain, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "x", 1), 1);
	close(fd);
	cr_expect_eq(regular_file_open(fifo, &about), -ENODEV);
	cr_expect_eq(regular_file_open("/dev/null", &about), -ENODEV);
	cr_expect_eq(regular_file_open(dir, &about), -EISDIR);
	unlink(fifo);
	cr_expect_eq(regular_file_open(fifo, &about), -ENOENT);
	fd = regular_file_open(plain, &about);
	cr_expect(fd >= 0 && about.st_size == 1);
	cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	unlink(plain);
	rmdir(dir);
}
