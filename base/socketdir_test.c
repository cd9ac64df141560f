/* SPDX-License-Identifier: MIT */
#include "base/socketdir.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static const char *below(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", root, name);
	return path;
}

static void make_root(void)
{
	strcpy(root, "/tmp/socketdir-test-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
	rmdir(below("waymark"));
	unlink(below("waymark"));
	rmdir(root);
}

TestSuite(socketdir, .init = make_root, .fini = remove_root);

Test(socketdir, lies_in_the_runtime_folder_when_that_is_the_users)
{
	char path[SOCKETDIR_BYTES];

	socketdir_path(geteuid(), root, path);
	cr_assert_str_eq(path, below("waymark"));
	socketdir_path(geteuid() + 1, root, path);
	cr_assert(!strncmp(path, "/tmp/waymark-", 13), "%s", path);
	socketdir_path(geteuid(), NULL, path);
	cr_assert(!strncmp(path, "/tmp/waymark-", 13), "%s", path);
}

Test(socketdir, passes_over_a_runtime_folder_whose_name_is_too_long)
{
	char path[SOCKETDIR_BYTES], deep[200];

	/* the same folder, by a longer way */
	strcpy(deep, root);
	while (strlen(deep) < 120)
		strcat(deep, "/.");
	socketdir_path(geteuid(), deep, path);
	cr_assert(!strncmp(path, "/tmp/waymark-", 13), "%s", path);
}

Test(socketdir, is_made_with_mode_0700_whatever_the_umask)
{
	struct stat found;

	umask(0777);
	cr_assert_eq(socketdir_make(below("waymark"), geteuid()), 0);
	cr_assert(!stat(below("waymark"), &found));
	cr_assert_eq(found.st_mode & 07777, 0700);
	cr_assert_eq(socketdir_make(below("waymark"), geteuid()), 0);
}

Test(socketdir, is_refused_when_others_may_look_in)
{
	cr_assert(!mkdir(below("waymark"), 0700));
	cr_assert(!chmod(below("waymark"), 0750));
	cr_assert_eq(socketdir_make(below("waymark"), geteuid()), -WM_E_SOCKET_DIR);
}

Test(socketdir, is_refused_when_it_belongs_to_another_user)
{
	cr_assert(!mkdir(below("waymark"), 0700));
	cr_assert_eq(socketdir_check(below("waymark"), geteuid() + 1), -WM_E_SOCKET_DIR);
}

Test(socketdir, is_refused_when_it_is_a_link)
{
	cr_assert(!symlink(root, below("waymark")));
	cr_assert_eq(socketdir_make(below("waymark"), geteuid()), -WM_E_SOCKET_DIR);
}

Test(socketdir, says_so_when_it_is_not_there)
{
	cr_assert_eq(socketdir_check(below("waymark"), geteuid()), -ENOENT);
}

Test(socketdir, refuses_an_address_that_would_be_cut)
{
	struct sockaddr_un address;
	char name[sizeof address.sun_path + 1];

	cr_assert_eq(socketdir_address(&address, "/tmp/waymark-0", "7.agent"), 0);
	cr_assert_str_eq(address.sun_path, "/tmp/waymark-0/7.agent");
	memset(name, 'a', sizeof name);
	name[sizeof name - 1] = 0;
	cr_assert_eq(socketdir_address(&address, "/tmp", name), -ENAMETOOLONG);
}

Test(socketdir, the_other_end_of_a_pair_is_ourselves)
{
	struct ucred peer = { 0 };
	int pair[2];

	cr_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	cr_assert_eq(socketdir_peer(pair[0], &peer), 0);
	cr_assert_eq(peer.pid, getpid());
	cr_assert_eq(peer.uid, geteuid());
}

Test(socketdir, an_agents_name_tells_twins_apart)
{
	char name[32];

	socketdir_agent_name(1, 0, name, sizeof name);
	cr_assert_str_eq(name, "1.agent");
	socketdir_agent_name(1, 1, name, sizeof name);
	cr_assert_str_eq(name, "1-1.agent");
	socketdir_agent_name(4194304, SOCKETDIR_TWINS - 1, name, sizeof name);
	cr_assert_str_eq(name, "4194304-15.agent");
}
