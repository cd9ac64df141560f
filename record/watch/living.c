/* SPDX-License-Identifier: MIT */
#include "record/watch/living.h"

#include "base/cfi.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#define STOP_MS 500
#define FRAMES_DEEP_MAX 4096

struct looking {
	pid_t pid;
	struct code_module *const *modules;
	size_t count;
	void (*take)(const struct living *living, void *data);
	void *data;
	int err;
};

static int read_memory(void *data, uint64_t address, void *to, size_t bytes)
{
	const struct looking *looking = data;
	struct iovec local = { to, bytes };
	struct iovec remote = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(looking->pid, &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

/* The .eh_frame_hdr of the module that has this code; 0: none. */
static uint64_t header_of(const struct looking *looking, uint64_t pc)
{
	for (size_t i = 0; i < looking->count; i++) {
		const struct code_module *module = looking->modules[i];
		const struct code_file *file = module->file;

		if (!code_file_segment(file, pc - module->base))
			continue;
		for (size_t j = 0; j < file->segment_count; j++)
			if (file->segments[j].type == PT_GNU_EH_FRAME)
				return file->segments[j].address + module->base;
	}
	return 0;
}

static void load(struct cfi_registers *registers, const struct user_regs_struct *from)
{
	*registers = (struct cfi_registers){
		.values = { from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
			    from->rbp, from->rsp, from->r8, from->r9, from->r10, from->r11,
			    from->r12, from->r13, from->r14, from->r15, from->rip },
		.known = (1u << CFI_REGISTERS) - 1,
		.is_exact = 1,
	};
}

static void walk(const struct looking *looking, pid_t tid, struct cfi_registers *registers)
{
	struct cfi_reader reader = { read_memory, (void *)looking };
	struct living living = { .tid = (pid_t)target_status_number(tid, "NSpid") };

	for (unsigned int depth = 0; depth < FRAMES_DEEP_MAX; depth++) {
		uint64_t pc = registers->values[CFI_RETURN] - !registers->is_exact, cfa;
		struct cfi_function function;
		struct cfi_row row;

		if (cfi_find(&reader, header_of(looking, pc), pc, &function) ||
		    function.is_signal) {
			if (cfi_interrupted(&reader, registers))
				return;
			continue;
		}
		if (cfi_row(&reader, &function, pc, &row, NULL) ||
		    cfi_cfa(&reader, &row, registers, &cfa))
			return;
		living.pc = pc;
		living.cfa = cfa;
		looking->take(&living, looking->data);
		if (cfi_step(&reader, &row, cfa, registers) != CFI_OUT)
			return;
	}
}

static int look_at(const struct looking *looking, pid_t tid)
{
	struct user_regs_struct regs;
	struct cfi_registers registers;
	int err = tracee_seize(tid);

	if (!err)
		err = tracee_stop(tid, tracee_deadline(STOP_MS));
	if (err)
		return err == -ESRCH ? 0 : err;
	if (!ptrace(PTRACE_GETREGS, tid, NULL, &regs)) {
		load(&registers, &regs);
		walk(looking, tid, &registers);
	}
	tracee_detach(tid);
	return 0;
}

static void *look_at_all(void *data)
{
	struct looking *looking = data;
	pid_t *tids;
	int count = target_threads(looking->pid, &tids);

	looking->err = count < 0 ? count : 0;
	for (int i = 0; i < count; i++) {
		int err = look_at(looking, tids[i]);

		looking->err = looking->err ? looking->err : err;
	}
	free(tids);
	return NULL;
}

/*
 * In a thread of its own: if a tracee could not be detached, the kernel does so when this thread
 * ends.
 */
int living_find(pid_t pid, struct code_module *const *modules, size_t count,
		void (*take)(const struct living *living, void *data), void *data)
{
	struct looking looking = { pid, modules, count, take, data, 0 };
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&thread, NULL, look_at_all, &looking);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return err;
	pthread_join(thread, NULL);
	return looking.err;
}
