/* SPDX-License-Identifier: MIT */
/* Executes its arguments under a filter that kills for system calls of the agent. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments)
{
	static const unsigned int shut[] = { SYS_memfd_create, SYS_membarrier, SYS_socket,
					     SYS_connect, SYS_prctl };
	struct sock_filter code[16] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { .len = 1, .filter = code };

	for (unsigned int i = 0; i < sizeof(shut) / sizeof(shut[0]); i++) {
		code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								   shut[i], 0, 1);
		code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
								   SECCOMP_RET_KILL_PROCESS);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, 2, &program))
		return 77;
	execv(arguments[1], arguments + 1);
	return 78;
}
