/* SPDX-License-Identifier: MIT */
/*
 * shut TIMES [MS]: calls serve() for so many milliseconds, then allows itself nothing but write(2)
 * and its end, and calls it so often. Tells in the end how often it did in all.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) int serve(int number);

int serve(int number)
{
	/* an instruction that has room for a jump in any process */
	__asm__ volatile("test $0x12345678, %%rdi" : "+r"(number));
	return number + 1;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	int times = argc > 1 ? atoi(argv[1]) : 1, before = 0, bad = 0, bytes;
	long end_ms = now_ms() + (argc > 2 ? atoi(argv[2]) : 0);
	char words[32];

	for (; now_ms() < end_ms; before++)
		bad |= serve(before) != before + 1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
		return 77;
	for (int i = 0; i < times; i++)
		bad |= serve(i) != i + 1;
	bytes = snprintf(words, sizeof(words), "%d\n", before + times);
	_exit(bad || write(1, words, (size_t)bytes) != bytes);
}
