/* SPDX-License-Identifier: MIT */
#include "base/maps.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

Test(maps, our_own_are_read)
{
	struct maps maps;
	const struct map *map;

	cr_assert_eq(maps_read(&maps, getpid()), 0);
	map = maps_find(&maps, (uint64_t)(uintptr_t)maps_read);
	cr_assert_not_null(map);
	cr_assert_eq(map->prot, PROT_READ | PROT_EXEC);
	cr_assert(strstr(map->path, "maps_test"));
	cr_assert_null(maps_find(&maps, 16));
	maps_release(&maps);
}

Test(maps, names_are_taken_as_the_kernel_writes_them)
{
	struct maps maps;
	char *text = strdup(
		"1000-2000 r-xp 00001000 fe:00 12   /a b\\012c (deleted)\n"
		"2000-3000 rw-s 00000000 00:00 0 \n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n");

	cr_assert_eq(maps_parse(&maps, text), 0);
	cr_assert_eq(maps.count, 3);
	cr_assert_str_eq(maps.list[0].path, "/a b\nc");
	cr_assert(maps.list[0].deleted && maps.list[0].inode == 12 && !maps.list[0].shared);
	cr_assert(maps.list[1].shared && !*maps.list[1].path);
	cr_assert_eq(maps_find(&maps, 0x1fff), &maps.list[0]);
	cr_assert_eq(maps_find(&maps, 0x2000), &maps.list[1]);
	cr_assert_null(maps_find(&maps, 0x3000));
	maps_release(&maps);
}

Test(maps, nonsense_and_nobody_are_refused)
{
	struct maps maps;

	cr_assert_eq(maps_parse(&maps, strdup("hello\n")), -EPROTO);
	maps_release(&maps);
	cr_assert_eq(maps_read(&maps, 0x7ffffff0), -ESRCH);
	maps_release(&maps);
}
