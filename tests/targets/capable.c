/* SPDX-License-Identifier: MIT */
/*
 * Changes users and groups by the capabilities of its main thread: capable MODE [PROGRAM]. It calls
 * called() once before, once behind, says "right" or what was wrong, and executes PROGRAM.
 *   kept     keeps its capabilities over setresuid(2), takes up two of them, and changes its groups
 *   raw      likewise, by syscall(2)
 *   forked   likewise, in a child
 *   begins   likewise, by initgroups(3)
 *   less     has given up CAP_SETGID: setgroups(2) is refused, its own group is not
 *   daemon   keeps no capability but CAP_NET_BIND_SERVICE, and can't change its groups again
 *   plain    changes its groups and user as any daemon does
 *   returns  keeps its capabilities, then is root again
 *   none     changes nothing
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define BIT(capability) (1u << (capability))

int capset(struct __user_cap_header_struct *header, const struct __user_cap_data_struct *data);

static const char *mode;

static int is_mode(const char *name)
{
	return !strcmp(mode, name);
}

__attribute__((noinline)) void called(void)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : : "memory");
}

static void want(int is_right, const char *what)
{
	if (is_right)
		return;
	printf("wrong: %s\n", what);
	exit(1);
}

static void take(uint32_t capabilities)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = capabilities, .permitted = capabilities },
	};

	want(!(is_mode("raw") ? syscall(SYS_capset, &header, data) : capset(&header, data)),
	     "capset");
}

static void keep(uint32_t capabilities)
{
	want(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keepcaps");
	want(!setresuid(NOBODY, NOBODY, NOBODY), "setresuid");
	take(capabilities);
}

static void change(void)
{
	if (is_mode("none"))
		return;
	if (is_mode("less")) {
		take(BIT(CAP_SETUID));
		errno = 0;
		want(setgroups(0, NULL) == -1 && errno == EPERM, "groups without CAP_SETGID");
		want(initgroups("root", 0) == -1, "initgroups without CAP_SETGID");
		want(!setgid(getgid()) && !setuid(NOBODY), "what it may");
	} else if (is_mode("daemon")) {
		want(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY), "groups first");
		keep(BIT(CAP_NET_BIND_SERVICE));
		want(setgroups(0, NULL) == -1 && setuid(0) == -1, "no way back");
	} else if (is_mode("plain")) {
		want(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY), "as a daemon");
	} else {
		keep(BIT(CAP_SETUID) | BIT(CAP_SETGID));
		want(!(is_mode("begins") ? initgroups("root", 0) : setgroups(0, NULL)), "groups");
		want(!setresgid(NOBODY, NOBODY, NOBODY) && getegid() == NOBODY, "setresgid");
		want(!is_mode("returns") || !setresuid(0, 0, 0), "root again");
	}
}

int main(int argc, char **argv)
{
	mode = argc > 1 ? argv[1] : "";
	called();
	if (is_mode("forked")) {
		pid_t pid = fork();
		int status = 0;

		if (pid) {
			want(waitpid(pid, &status, 0) == pid && !status, "the child");
			return 0;
		}
	}
	change();
	called();
	puts("right");
	fflush(stdout);
	if (argc > 2)
		execv(argv[2], argv + 2);
	return 0;
}
