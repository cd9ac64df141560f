/* SPDX-License-Identifier: MIT */
/*
 * Programs that change under armed probes. Each calls functions and checks what they return; it
 * prints "right", or what was wrong.
 *
 * hostile exec TIMES: executes itself so often hostile reload LIBRARY TIMES: loads the library so
 * often, each time at another address hostile maps FILE: at SIGUSR1 maps memory of its own over
 * what it did not map there itself: FILE is part of the     mapping's name hostile sum: at SIGUSR1
 * prints the sum of its own code hostile sealed: at SIGUSR1 forbids itself to map executable memory
 * The last three run until SIGTERM, and print a line after SIGUSR1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each returns its argument plus 7. */
__asm__(".text\n"
	".globl ho_push, ho_short\n"
	".type ho_push, @function\n.p2align 4\nho_push:\n"
	"	push %rbp\n	mov %rsp, %rbp\n	lea 7(%rdi), %rax\n	pop %rbp\n	ret\n"
	".size ho_push, .-ho_push\n"
	".type ho_short, @function\n.p2align 4\nho_short:\n"
	"	xor %eax, %eax\n	add %rdi, %rax\n	add $7, %rax\n	ret\n"
	".size ho_short, .-ho_short\n");
uint64_t ho_push(uint64_t), ho_short(uint64_t);

static volatile sig_atomic_t asked, over;

static void ask(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		over = 1;
}

static int call(uint64_t i)
{
	return ho_push(i) != i + 7 || ho_short(i) != i + 7;
}

static int end(int bad)
{
	puts(bad ? "WRONG" : "right");
	return bad;
}

static int execute(char **argv)
{
	int left = atoi(argv[2]), bad = 0;
	char number[16];

	for (uint64_t i = 0; i < 300; i++) {
		bad |= call(i);
		usleep(500);
	}
	if (bad || !left)
		return end(bad);
	snprintf(number, sizeof number, "%d", left - 1);
	argv[2] = number;
	execv("/proc/self/exe", argv);
	return end(1);
}

static int reload(const char *path, int times)
{
	int bad = 0;

	for (int round = 0; round < times && !bad; round++) {
		void *library = dlopen(path, RTLD_NOW);
		int (*library_add)(int, int) = library ? (int (*)(int, int))dlsym(library,
										  "library_add")
						       : NULL;
		struct link_map *map = library;

		if (!library_add)
			return end(1);
		for (int i = 0; i < 100; i++) {
			bad |= library_add(i, 7) != i + 7;
			usleep(500);
		}
		dlclose(library);
		/* the loader finds another address for the next one */
		if (round % 2)
			mmap((void *)map->l_addr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		else
			mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	return end(bad);
}

static unsigned int map_over(const char *file)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, stop, all[4096][2];
	unsigned int count = 0;
	char line[4400];

	while (maps && count < 4096 && fgets(line, sizeof line, maps)) {
		if (strstr(line, file) && sscanf(line, "%lx-%lx", &start, &stop) == 2) {
			all[count][0] = start;
			all[count++][1] = stop;
		}
	}
	if (maps)
		fclose(maps);
	for (unsigned int i = 0; i < count; i++)
		mmap((void *)all[i][0], all[i][1] - all[i][0], PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return count;
}

static unsigned long code_sum(void)
{
	extern const unsigned char etext[];
	unsigned long sum = 5381;

	for (const unsigned char *at = (const unsigned char *)ho_push; at < etext; at++)
		sum = sum * 33 + *at;
	return sum;
}

static int forbid(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof rules / sizeof rules[0], rules };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

int main(int argc, char **argv)
{
	int bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "exec"))
		return execute(argv);
	if (argc == 4 && !strcmp(argv[1], "reload"))
		return reload(argv[2], atoi(argv[3]));
	if (argc < 2)
		return 2;
	signal(SIGUSR1, ask);
	signal(SIGTERM, ask);
	puts("ready");
	for (uint64_t i = 0; !over && !bad; i++) {
		if (!asked) {
			bad |= call(i);
			usleep(1000);
			continue;
		}
		asked = 0;
		if (!strcmp(argv[1], "maps")) {
			printf("replaced %u\n", map_over(argv[2]));
			/* it comes to its functions later */
			sleep(3);
			bad |= call(i);
			puts("again");
		} else if (!strcmp(argv[1], "sum")) {
			printf("sum %lx\n", code_sum());
		} else {
			puts(forbid() ? "not forbidden" : "forbidden");
		}
	}
	return end(bad);
}
