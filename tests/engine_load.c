/* SPDX-License-Identifier: MIT */
/*
 * engine_load ENGINE CMD ARGS...: runs a program under the software engine, without a reader of
 * what the engine writes, and ends as the program ended.
 *
 * engine_load --native CMD ARGS...: the same without the engine: same environment, same addresses.
 *
 * engine_load --core FILE: what a core says of the thread that died.
 *
 * Environment: with ENGINE_LOAD_FILTER a filter traps getppid(2), and rt_tgsigqueueinfo(2) ends the
 * program. With ENGINE_LOAD_STOP the engine is asked to leave after so many microseconds. With
 * ENGINE_LOAD_FAR the engine leaves low addresses to the program. With ENGINE_LOAD_CACHE all code
 * is discarded whenever it has so many bytes. This program does not measure the trail's cost; the
 * tool's tests check what it says.
 */
#include "abi/engine.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 64u
#define BELOW_BYTES 1024u /* of the stack, where nothing is yet */
#define SEGMENTS 2u
#define SEGMENT_BYTES 65536u
#define LOG_BYTES (64u << 20)
#define PAGE(bytes) (((bytes) + 4095) & ~(uint64_t)4095)

static void must(int is_fine, const char *what)
{
	if (is_fine)
		return;
	perror(what);
	exit(125);
}

/* A system call made by the stopped process. */
static long call(pid_t pid, long number, long a, long b, long c, long d, long e)
{
	struct user_regs_struct saved, regs;
	long word, result;
	int status;

	ptrace(PTRACE_GETREGS, pid, 0, &saved);
	regs = saved;
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, saved.rip, 0);
	must(!errno, "peek");
	ptrace(PTRACE_POKETEXT, pid, saved.rip, (word & ~0xffffL) | 0x050f);
	regs.rax = (unsigned long)number;
	regs.rdi = (unsigned long)a;
	regs.rsi = (unsigned long)b;
	regs.rdx = (unsigned long)c;
	regs.r10 = (unsigned long)d;
	regs.r8 = (unsigned long)e;
	regs.r9 = 0;
	regs.orig_rax = (unsigned long)-1;
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	result = (long)regs.rax;
	ptrace(PTRACE_POKETEXT, pid, saved.rip, word);
	ptrace(PTRACE_SETREGS, pid, 0, &saved);
	must(result >= 0 || result < -4095, "a call in the program");
	return result;
}

static struct engine_channel *channel_make(int *fd)
{
	uint64_t slots_at = 2 * ENGINE_GUARD_BYTES,
		 rings_at = PAGE(slots_at + SLOTS * sizeof(struct engine_slot));
	uint64_t log_at = rings_at +
			  (uint64_t)SLOTS * SEGMENTS * (SEGMENT_BYTES + ENGINE_GUARD_BYTES);
	struct engine_channel *head;

	*fd = memfd_create("channel", MFD_CLOEXEC);
	must(*fd >= 0 && !ftruncate(*fd, (off_t)(log_at + LOG_BYTES)), "memfd");
	head = mmap(NULL, log_at + LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	must(head != MAP_FAILED, "channel");
	*head = (struct engine_channel){
		.magic = ENGINE_MAGIC,
		.version = ENGINE_VERSION,
		.bytes = log_at + LOG_BYTES,
		.slots_at = slots_at,
		.slot_count = SLOTS,
		.segments_per_slot = SEGMENTS,
		.segment_bytes = SEGMENT_BYTES,
		.rings_at = rings_at,
		.log_at = log_at,
		.log_bytes = LOG_BYTES,
	};
	return head;
}

static long image_load(pid_t pid, int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr parts[16];
	uint64_t end = 0;
	char path[64];
	long base;
	int memory;

	must(header->e_phnum <= 16 &&
		     pread(fd, parts, header->e_phnum * sizeof(*parts), (off_t)header->e_phoff) > 0,
	     "engine");
	for (int i = 0; i < header->e_phnum; i++)
		if (parts[i].p_type == PT_LOAD && parts[i].p_vaddr + parts[i].p_memsz > end)
			end = parts[i].p_vaddr + parts[i].p_memsz;
	base = call(pid, SYS_mmap, 0, (long)PAGE(end), PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDWR);
	for (int i = 0; i < header->e_phnum; i++) {
		char *bytes = malloc(parts[i].p_filesz + 1);

		if (parts[i].p_type == PT_LOAD)
			must(pread(fd, bytes, parts[i].p_filesz, (off_t)parts[i].p_offset) >= 0 &&
				     pwrite(memory, bytes, parts[i].p_filesz,
					    base + (off_t)parts[i].p_vaddr) >= 0,
			     "engine");
		free(bytes);
	}
	close(memory);
	return base;
}

static void engine_enter(pid_t pid, const char *path, struct engine_channel *head, int channel_fd)
{
	int fd = open(path, O_RDONLY);
	struct user_regs_struct r;
	struct engine_boot boot;
	Elf64_Ehdr header;
	long base, channel;

	must(fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header), path);
	base = image_load(pid, fd, &header);
	channel = call(pid, SYS_mmap, 0, (long)head->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       channel_fd);
	ptrace(PTRACE_GETREGS, pid, 0, &r);
	boot = (struct engine_boot){
		.flags = getenv("ENGINE_LOAD_FAR") ? ENGINE_BOOT_FAR : 0,
		.regs = { .gpr = { r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8,
				   r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15 },
			  .rip = r.rip,
			  .rflags = r.eflags },
		.bytes = head->bytes,
		.fd_close = { channel_fd, -1 },
		.policy = ENGINE_CYCLIC,
	};
	r.rdx = (r.rsp - BELOW_BYTES - sizeof(boot)) & ~15ul;
	must(process_vm_writev(pid, &(struct iovec){ &boot, sizeof(boot) }, 1,
			       &(struct iovec){ (void *)r.rdx, sizeof(boot) }, 1,
			       0) == sizeof(boot),
	     "boot");
	r.rip = (unsigned long)base + header.e_entry;
	r.rdi = (unsigned long)channel;
	r.rsi = (unsigned long)base;
	r.orig_rax = (unsigned long)-1;
	ptrace(PTRACE_SETREGS, pid, 0, &r);
}

static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 77),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_tgsigqueueinfo, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "filter");
}

static pid_t begin(char **command, int channel_fd)
{
	pid_t pid = fork();
	int status;

	if (pid) {
		waitpid(pid, &status, 0);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that gives up leaves nothing */
	personality(ADDR_NO_RANDOMIZE);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	if (channel_fd >= 0)
		fcntl(channel_fd, F_SETFD, 0); /* the engine closes it */
	if (getenv("ENGINE_LOAD_FILTER"))
		filter();
	execvp(command[0], command);
	perror(command[0]);
	_exit(127);
}

/* ---- cores ---- */

static void status_print(const prstatus_t *status)
{
	const struct user_regs_struct *r = (const struct user_regs_struct *)&status->pr_reg;

	/* Others hold process ids, or nothing that lives. */
	printf("rip %llx rsp %llx r12 %llx r13 %llx r14 %llx gs %llx\n", r->rip, r->rsp, r->r12,
	       r->r13, r->r14, r->gs_base);
}

static void note_print(const Elf64_Nhdr *note, const char *data, int *is_told)
{
	const siginfo_t *info = (const siginfo_t *)data;

	if (note->n_type == NT_PRSTATUS && !*is_told) { /* the first is who died */
		status_print((const prstatus_t *)data);
		*is_told = 1;
	}
	if (note->n_type == NT_SIGINFO)
		printf("signal %d code %d address %p\n", info->si_signo, info->si_code,
		       info->si_code > 0 ? info->si_addr : NULL);
}

static int core_print(const char *path)
{
	int fd = open(path, O_RDONLY), is_told = 0;
	Elf64_Ehdr header;
	Elf64_Phdr part;

	if (fd < 0) {
		printf("no core\n");
		return 0;
	}
	must(pread(fd, &header, sizeof(header), 0) == sizeof(header), path);
	must(pread(fd, &part, sizeof(part), (off_t)header.e_phoff) == sizeof(part), path);
	if (part.p_type == PT_NOTE) {
		char *notes = malloc(part.p_filesz);
		ssize_t got = pread(fd, notes, part.p_filesz, (off_t)part.p_offset);

		for (ssize_t at = 0; at + (ssize_t)sizeof(Elf64_Nhdr) < got;) {
			Elf64_Nhdr *note = (Elf64_Nhdr *)(notes + at);

			at += (ssize_t)(sizeof(*note) + ((note->n_namesz + 3) & ~3u));
			note_print(note, notes + at, &is_told);
			at += (note->n_descsz + 3) & ~3u;
		}
		free(notes);
	}
	close(fd);
	return 0;
}

int main(int count, char **words)
{
	struct engine_channel *head = NULL;
	int status, channel_fd = -1;
	pid_t pid;

	if (count == 3 && !strcmp(words[1], "--core"))
		return core_print(words[2]);
	if (count < 3)
		return 2;
	if (strcmp(words[1], "--native"))
		head = channel_make(&channel_fd);
	pid = begin(words + 2, channel_fd);
	if (head && getenv("ENGINE_LOAD_CACHE"))
		head->cache_bytes = strtoull(getenv("ENGINE_LOAD_CACHE"), NULL, 0);
	if (head)
		engine_enter(pid, words[1], head, channel_fd);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	if (head && getenv("ENGINE_LOAD_STOP")) {
		usleep((useconds_t)atoi(getenv("ENGINE_LOAD_STOP")));
		((struct engine_control *)((char *)head + ENGINE_GUARD_BYTES))
			->asked = ENGINE_ASKED_STOP;
	}
	waitpid(pid, &status, 0);
	if (getenv("ENGINE_LOAD_STATE") && head)
		fprintf(stderr, "state %u error %d traces %lu\n", head->state, head->error,
			head->traces);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	printf("killed by signal %d%s\n", WTERMSIG(status),
	       WCOREDUMP(status) ? ", with a core" : "");
	return 0;
}
