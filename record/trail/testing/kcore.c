/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/kcore.h"

#include "record/trail/testing/perf.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTENT 4096u /* where the segments begin in the file */

const uint8_t sample_kernel[0x40] = {
	[0x00] = 0x0f, 0x01, 0xf8, 0xe8, 0x18, 0x00, 0x00, 0x00, /* swapgs; call 20 */
	0x0f,	       0x01, 0xf8, 0x48, 0x0f, 0x07,		 /* swapgs; sysretq */
	[0x20] = 0x90, 0xc3,					 /* nop; ret */
	[0x30] = 0x90, 0x48, 0xcf,				 /* nop; iretq */
};

static void core_put(const char *root)
{
	const Elf64_Ehdr header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
						 ELFDATA2LSB, EV_CURRENT },
				    .e_type = ET_CORE,
				    .e_machine = EM_X86_64,
				    .e_version = EV_CURRENT,
				    .e_phoff = sizeof(header),
				    .e_phentsize = sizeof(Elf64_Phdr),
				    .e_phnum = 4 };
	/* notes; the direct mapping, which is no code; the text; a module's */
	const Elf64_Phdr segments[4] = {
		{ .p_type = PT_NOTE, .p_offset = 300, .p_filesz = 4 },
		{ .p_type = PT_LOAD,
		  .p_vaddr = UINT64_C(0xffff888000001000),
		  .p_offset = CONTENT,
		  .p_filesz = 64 },
		{ .p_type = PT_LOAD,
		  .p_vaddr = SAMPLE_KERNEL,
		  .p_offset = CONTENT,
		  .p_filesz = sizeof(sample_kernel) },
		{ .p_type = PT_LOAD,
		  .p_vaddr = SAMPLE_KERNEL_MODULE,
		  .p_offset = CONTENT,
		  .p_filesz = sizeof(sample_kernel) },
	};
	char path[512];
	FILE *file;

	sample_machine_put(root, "/proc/kcore", "");
	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	file = fopen(path, "w");
	if (!file || fwrite(&header, sizeof(header), 1, file) != 1 ||
	    fwrite(segments, sizeof(segments), 1, file) != 1 || fseek(file, CONTENT, SEEK_SET) ||
	    fwrite(sample_kernel, sizeof(sample_kernel), 1, file) != 1 || fclose(file))
		abort();
}

void sample_kcore_put(const char *root)
{
	/* a note of another kind, then the build id, as ELF has them */
	static const uint8_t notes[] = "\4\0\0\0\4\0\0\0\1\0\0\0abc\0wxyz"
				       "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\xca\xfe\x01\x02";
	char path[512];
	FILE *file;

	core_put(root);
	sample_machine_put(root, "/proc/kallsyms",
			   "0000000000000000 A fixed_percpu_data\n"
			   "ffffffff81000000 T _stext\n"
			   "ffffffff81000000 T entry_SYSCALL_64\n"
			   "ffffffff81000020 t do_it\n"
			   "ffffffff81000030 T asm_exc_page_fault\n"
			   "ffffffff81000040 T _etext\n"
			   "ffffffff81200000 D jiffies\n"
			   "ffffffffc0000000 t helper\t[sample]\n");
	sample_machine_put(root, "/proc/modules",
			   "sample 16384 1 other, Live 0xffffffffc0000000 (OE)\n");
	sample_machine_put(root, "/sys/kernel/notes", "");
	snprintf(path, sizeof(path), "%s/sys/kernel/notes", root);
	file = fopen(path, "w");
	if (!file || fwrite(notes, sizeof(notes) - 1, 1, file) != 1 || fclose(file))
		abort();
}
