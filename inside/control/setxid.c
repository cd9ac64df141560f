/* SPDX-License-Identifier: MIT */
/*
 * libc's calls that change users and groups make the same system call in every thread, and end the
 * process where the results differ. The results differ where the caller has other capabilities
 * than the agent's threads: PR_SET_KEEPCAPS and capset(2) are of a single thread. The agent's
 * threads end before such a call, and nothing differs.
 *
 * The dynamic linker finds these in place of libc's in programs that are started with the agent.
 * They are no default version: programs linked with the agent name libc's. In a program that links
 * libwaymark-agent.a, or was attached to, libc's are called.
 */
#include "base/kernel.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/seccomp_yield.h"

#include <waymark/error.h>

#include <dlfcn.h>
#include <linux/capability.h>
#include <sys/types.h>

/* Whether the thread has the capability; 0: the caller. */
static int has(int32_t tid, unsigned int capability)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, tid };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	kernel_call(SYS_capget, (long)&header, (long)data, 0, 0);
	return data[0].effective >> capability & 1;
}

/*
 * 1: the agent's threads had to end; 0: they did not. -1, with errno: the call fails. A caller that
 * has given up the capability tries the call alone: what it is allowed, all threads are.
 */
static int begin(unsigned int capability, long number, long a, long b, long c)
{
	int32_t tid = __atomic_load_n(&control_life.tid, __ATOMIC_ACQUIRE);
	int is_able;

	/* a child of vfork(2) has our memory, but no threads */
	if (!tid || syscall_raw(SYS_tgkill, kernel_getpid(), tid, 0, 0))
		return 0;
	is_able = has(0, capability);
	if (is_able == has(tid, capability))
		return 0;
	if (!is_able)
		return kernel_call(number, a, b, c, 0) < 0 ? -1 : 0;
	seccomp_yield_begin(-WM_E_CAPABILITIES);
	return 1;
}

#define SETXID(name, parameters, arguments, ...)                                                   \
	__attribute__((visibility("default"))) int setxid_##name parameters;                       \
	__asm__(".symver setxid_" #name "," #name "@GLIBC_2.2.5");                                 \
	int setxid_##name parameters                                                               \
	{                                                                                          \
		int(*libcs) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name);               \
		int state = begin(__VA_ARGS__), result = state < 0 ? -1 : libcs arguments;         \
                                                                                                   \
		if (state > 0)                                                                     \
			seccomp_yield_end();                                                       \
		return result;                                                                     \
	}

/* With the capability and the system call of each. */
SETXID(setuid, (uid_t uid), (uid), CAP_SETUID, SYS_setuid, uid, 0, 0)
SETXID(setgid, (gid_t gid), (gid), CAP_SETGID, SYS_setgid, gid, 0, 0)
SETXID(seteuid, (uid_t uid), (uid), CAP_SETUID, SYS_setresuid, -1, uid, -1)
SETXID(setegid, (gid_t gid), (gid), CAP_SETGID, SYS_setresgid, -1, gid, -1)
SETXID(setreuid, (uid_t real, uid_t uid), (real, uid), CAP_SETUID, SYS_setreuid, real, uid, 0)
SETXID(setregid, (gid_t real, gid_t gid), (real, gid), CAP_SETGID, SYS_setregid, real, gid, 0)
SETXID(setresuid, (uid_t real, uid_t uid, uid_t saved), (real, uid, saved), CAP_SETUID,
       SYS_setresuid, real, uid, saved)
SETXID(setresgid, (gid_t real, gid_t gid, gid_t saved), (real, gid, saved), CAP_SETGID,
       SYS_setresgid, real, gid, saved)
SETXID(setgroups, (size_t count, const gid_t *groups), (count, groups), CAP_SETGID, SYS_setgroups,
       (long)count, (long)groups, 0)
SETXID(initgroups, (const char *user, gid_t group), (user, group), CAP_SETGID, SYS_setgroups, 0, 0,
       0)
