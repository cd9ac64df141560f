/* SPDX-License-Identifier: MIT */
/* Lets itself use files only beneath its arguments (Landlock), says "ready" and waits. 77: there is no Landlock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCESS                                                                                     \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_SOCK)

int main(int argc, char **argv)
{
	struct landlock_ruleset_attr rules = { .handled_access_fs = ACCESS };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	for (int i = 1; fd >= 0 && i < argc; i++) {
		struct landlock_path_beneath_attr rule = { .allowed_access = ACCESS,
							   .parent_fd = open(argv[i], O_PATH) };

		if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
			return 1;
	}
	if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_landlock_restrict_self, fd, 0))
		return 77;
	puts("ready");
	fflush(stdout);
	for (;;)
		usleep(1000);
}
