/* SPDX-License-Identifier: MIT */
#include "record/kernel/task_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static struct task_files *files;

static void begin(void)
{
	files = task_files_new();
}

static void end(void)
{
	task_files_free(files);
}

TestSuite(task_files, .init = begin, .fini = end);

/* Each mapping of a file with code gives the base that the loader has. */
static int check(struct dl_phdr_info *module, size_t bytes, void *data)
{
	unsigned int *checked = data;

	(void)bytes;
	for (unsigned int i = 0; i < module->dlpi_phnum && *module->dlpi_name == '/'; i++) {
		const ElfW(Phdr) *segment = &module->dlpi_phdr[i];
		uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
		struct control_module got;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		cr_assert_eq(task_files_module(files, getpid(), module->dlpi_name,
					       (module->dlpi_addr + segment->p_vaddr) & ~page,
					       segment->p_offset & ~page, &got),
			     0);
		cr_expect_eq(got.base, module->dlpi_addr, "%s", module->dlpi_name);
		cr_expect_gt(got.build_id_bytes, 0, "%s", module->dlpi_name);
		++*checked;
	}
	return 0;
}

Test(task_files, bases_are_the_loaders)
{
	unsigned int checked = 0;

	dl_iterate_phdr(check, &checked);
	cr_expect_gt(checked, 1);
}

Test(task_files, vdso_has_its_own_build_id)
{
	struct control_module got;

	cr_assert_eq(task_files_module(files, 1, "[vdso]", 0x7f0000, 0, &got), 0);
	cr_expect_eq(got.base, 0x7f0000);
	cr_expect_eq(got.build_id_bytes > 0, getauxval(AT_SYSINFO_EHDR) != 0);
}

Test(task_files, what_is_no_module_is_refused)
{
	struct control_module got;

	cr_expect_eq(task_files_module(files, 1, "[heap]", 0x1000, 0, &got), -ENOENT);
	cr_expect_eq(task_files_module(files, 1, "/etc/passwd", 0x1000, 0, &got), -ENOENT);
}

Test(task_files, absent_file_has_a_base_and_no_build_id)
{
	struct control_module got;

	cr_assert_eq(task_files_module(files, 1, "/absent/lib.so", 0x7000, 0x2000, &got), 0);
	cr_expect_eq(got.base, 0x5000);
	cr_expect_eq(got.build_id_bytes, 0);
}

Test(task_files, file_that_was_replaced_is_read_again)
{
	char path[] = "/tmp/task-files-XXXXXX";
	int fd = mkstemp(path);
	struct control_module got;

	cr_assert_eq(write(fd, "text", 4), 4);
	cr_expect_eq(task_files_module(files, 1, path, 0x1000, 0, &got), -ENOENT);
	unlink(path);
	close(fd);
	cr_assert_eq(symlink("/proc/self/exe", path), 0);
	cr_expect_eq(task_files_module(files, 1, path, 0x1000, 0, &got), 0);
	cr_expect_gt(got.build_id_bytes, 0);
	unlink(path);
}

/* A program at a fixed address, whose code is linked elsewhere than it is in the file. */
Test(task_files, fixed_program_has_base_0)
{
	char path[] = "/tmp/task-files-XXXXXX";
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segment;
		char rest[0x3000];
	} file = { .head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					  ELFDATA2LSB, EV_CURRENT },
			     .e_type = ET_EXEC,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof(Elf64_Ehdr),
			     .e_ehsize = sizeof(Elf64_Ehdr),
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_phnum = 1 },
		   .segment = { .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_offset = 0x1040,
				.p_vaddr = 0x402040,
				.p_filesz = 0x1000,
				.p_memsz = 0x1000 } };
	int fd = mkstemp(path);
	struct control_module got;

	cr_assert_eq(write(fd, &file, sizeof(file)), (ssize_t)sizeof(file));
	cr_expect_eq(task_files_module(files, getpid(), path, 0x402000, 0x1000, &got), 0);
	cr_expect_eq(got.base, 0);
	cr_expect_eq(task_files_module(files, getpid(), path, 0x402000, 0x3000, &got), -ENOENT);
	unlink(path);
	close(fd);
}
