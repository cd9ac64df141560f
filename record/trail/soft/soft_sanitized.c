/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_sanitized.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* With the NUL before and behind: what strings of dynamic symbols have. */
static int has_name(const Elf_Data *strings)
{
	static const char *const names[] = { "\0__asan_init", "\0__tsan_init", "\0__msan_init",
					     "\0__hwasan_init" };

	for (size_t i = 0; strings && strings->d_buf && i < sizeof(names) / sizeof(names[0]); i++)
		if (memmem(strings->d_buf, strings->d_size, names[i], strlen(names[i] + 1) + 2))
			return 1;
	return 0;
}

/* A compiler has the names too, but in its data. */
static int imports(Elf *elf)
{
	Elf_Scn *section = NULL;
	int is = 0;

	while (!is && (section = elf_nextscn(elf, section))) {
		GElf_Shdr head;

		if (gelf_getshdr(section, &head) && head.sh_type == SHT_DYNSYM)
			is = has_name(elf_rawdata(elf_getscn(elf, head.sh_link), NULL));
	}
	return is;
}

int soft_is_sanitized(pid_t pid)
{
	char path[32];
	Elf *elf = NULL;
	int fd, is;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ, NULL);
	is = elf && imports(elf);
	elf_end(elf);
	close(fd);
	return is;
}
