/* SPDX-License-Identifier: MIT */
#include "target/process/startup.h"
#include "target/process/target.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

enum startup startup_read(pid_t tid, int mem_fd, const struct glibc *glibc)
{
	uint64_t words[STARTUP_WORDS], stack = target_first_stack(tid);

	if (!stack)
		return STARTUP_LOADING; /* no telling */
	stack -= STARTUP_WORDS_BELOW * sizeof(words[0]);
	if (pread(mem_fd, words, sizeof(words), (off_t)stack) != sizeof(words))
		return STARTUP_OVER; /* only the program itself gives that stack away */
	return start_stage_find(words, glibc->entry, glibc->loader_entry);
}

int startup_in_parent(pid_t pid, pid_t parent)
{
	return !syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0);
}
