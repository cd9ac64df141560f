/* SPDX-License-Identifier: MIT */
/*
 * The other stepper: trail-walk PROGRAM [ARGUMENTS] runs it by single steps and prints the place of
 * each thread.
 *
 * It shares no code with the origin `step`, decodes nothing and hides nothing: the oracle takes its
 * output for the path of the program. A program reads other flags here than without single steps,
 * so programs that look at them are not walked.
 *
 *	I TID RIP RAX RDI CS BYTES   the thread is there; the bytes of code from there on
 *	A TID RIP RAX RDI CS BYTES   a signal comes there, perhaps past the last I, where a trap was
 *				     dropped
 *	S TID SIGNAL                 a signal comes before that instruction
 *	H TID                        a handler was entered: the next I is at its first instruction
 *	E TID                        it became another program
 *	C TID CHILD                  it made a thread
 *	X TID STATUS                 it ended, as wait(2) has it
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_BYTES 15

static void print_place(pid_t tid, char what)
{
	struct user_regs_struct regs;
	uint8_t code[CODE_BYTES + sizeof(long)];
	size_t got = 0;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return;
	/* by words, and no word crosses a page: the next page may be unmapped */
	while (got < CODE_BYTES) {
		size_t skip = (regs.rip + got) % sizeof(long);
		long word;

		errno = 0;
		word = ptrace(PTRACE_PEEKTEXT, tid, regs.rip + got - skip, 0);
		if (errno)
			break;
		memcpy(code + got, (char *)&word + skip, sizeof(word) - skip);
		got += sizeof(word) - skip;
	}
	printf("%c %d %llx %llx %llx %llx ", what, tid, regs.rip, regs.rax, regs.rdi, regs.cs);
	for (size_t i = 0; i < got && i < CODE_BYTES; i++)
		printf("%02x", (unsigned int)code[i]);
	printf("\n");
}

/* Returns the signal with which it continues. */
static int on_stop(pid_t tid, int status)
{
	int signal = WSTOPSIG(status), event = status >> 16;
	unsigned long message = 0;
	siginfo_t info = { 0 };

	if (event == PTRACE_EVENT_CLONE) {
		ptrace(PTRACE_GETEVENTMSG, tid, 0, &message);
		printf("C %d %lu\n", tid, message);
		return 0;
	}
	if (event == PTRACE_EVENT_EXEC) {
		printf("E %d\n", tid);
		return 0;
	}
	if (event == PTRACE_EVENT_STOP || signal == SIGSTOP)
		return 0; /* a new thread */
	ptrace(PTRACE_GETSIGINFO, tid, 0, &info);
	if (signal == SIGTRAP && info.si_code == SIGTRAP) {
		printf("H %d\n", tid);
		print_place(tid, 'I');
		return 0;
	}
	if (signal == SIGTRAP && (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT)) {
		print_place(tid, 'I');
		return 0;
	}
	print_place(tid, signal == SIGTRAP ? 'I' : 'A'); /* int3 has run, a fault has not */
	printf("S %d %d\n", tid, signal);
	return signal;
}

int main(int argc, char **argv)
{
	pid_t pid, got;
	int status;

	if (argc < 2)
		return 2;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0,
		   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) ||
	    ptrace(PTRACE_CONT, pid, 0, 0))
		return 1;
	/* up to the program's first instruction, where the exec's step ends */
	while ((got = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status)) {
			int signal = on_stop(got, status);

			ptrace(PTRACE_SINGLESTEP, got, 0, signal);
		} else {
			printf("X %d %d\n", got, status);
		}
	}
	return errno == ECHILD ? 0 : 1;
}
