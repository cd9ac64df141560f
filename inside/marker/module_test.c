/* SPDX-License-Identifier: MIT */
/* A module of our own making, as a loader would have mapped it, then damaged in every way. */
#include "inside/marker/module.h"

#include "abi/site.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096
#define SITES 4

/* Page 0: headers, note, table, texts. Page 1: code. Page 2: records. */
struct image {
	Elf64_Ehdr head;
	Elf64_Phdr phdrs[4];
	struct {
		Elf64_Nhdr head;
		char owner[8];
		struct wm_site_note bounds;
	} note;
	_Alignas(8) struct wm_site sites[SITES]; /* as marker.h aligns them */
	char texts[SITES][64];
	unsigned char rest[];
};

static unsigned char *map;
static struct image *image;
static struct wm_record *records;
static struct text text = { .fd = -1 };

static int32_t relative(const void *field, const void *to)
{
	return (int32_t)((const char *)to - (const char *)field);
}

static void make_site(int i, size_t at, int record)
{
	struct wm_site *site = &image->sites[i];
	unsigned char *code = map + PAGE_BYTES + at, *cold = map + PAGE_BYTES + 2048 + at;
	int32_t displacement = (int32_t)(cold - code - SITE_BYTES);

	*site = (struct wm_site){ .types = { 5 } };
	site->site = relative(&site->site, code);
	site->cold = relative(&site->cold, cold);
	site->record = relative(&site->record, &records[record]);
	site->text = relative(&site->text, image->texts[i]);
	code[0] = SITE_DORMANT;
	memcpy(code + 1, &displacement, 4);
	snprintf(image->texts[i], sizeof image->texts[i], "mj\nnet\ne%d\nfile.c\n%d\nlen", record,
		 i + 1);
}

static void make_image(void)
{
	map = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	cr_assert_neq(map, MAP_FAILED);
	/* a gap: the search of a damaged segment ends there, whatever is mapped behind it */
	munmap(map + 3 * PAGE_BYTES, PAGE_BYTES);
	image = (struct image *)map;
	records = (struct wm_record *)(map + 2 * PAGE_BYTES);
	memcpy(image->head.e_ident, ELFMAG, SELFMAG);
	image->head.e_ident[EI_CLASS] = ELFCLASS64;
	image->head.e_machine = EM_X86_64;
	image->head.e_phentsize = sizeof(Elf64_Phdr);
	image->head.e_phoff = offsetof(struct image, phdrs);
	image->head.e_phnum = 4;
	for (int i = 0; i < 3; i++)
		image->phdrs[i] = (Elf64_Phdr){ .p_type = PT_LOAD,
						.p_flags = i == 0   ? PF_R
							   : i == 1 ? PF_R | PF_X
								    : PF_R | PF_W,
						.p_vaddr = (size_t)i * PAGE_BYTES,
						.p_memsz = PAGE_BYTES };
	image->phdrs[3] = (Elf64_Phdr){ .p_type = PT_NOTE,
					.p_flags = PF_R,
					.p_vaddr = offsetof(struct image, note),
					.p_filesz = sizeof image->note,
					.p_align = 4 };
	image->note.head = (Elf64_Nhdr){ 8, sizeof image->note.bounds, SITE_NOTE_TYPE };
	memcpy(image->note.owner, SITE_NOTE_OWNER, 8);
	image->note.bounds.sites_start = relative(&image->note.bounds.sites_start, image->sites);
	image->note.bounds.sites_stop = relative(&image->note.bounds.sites_stop,
						 image->sites + SITES);
	image->note.bounds.markers_start = relative(&image->note.bounds.markers_start, records);
	image->note.bounds.markers_stop = relative(&image->note.bounds.markers_stop,
						   records + SITES);
	for (int i = 0; i < SITES; i++)
		make_site(i, (size_t)i * 16, i);
	cr_assert_eq(text_open(&text), 0);
}

static struct module *read_image(void)
{
	struct module_place place = { .base = (uintptr_t)map };
	struct module *module;

	cr_assert_eq(module_read(&text, &place, "test", &module), 0);
	return module;
}

static void expect_refused(const char *why)
{
	struct module *module = read_image();

	cr_expect_eq(module->error, -WM_E_MODULE_DAMAGED, "%s: not refused", why);
	cr_expect_eq(module->site_count, 0, "%s", why);
	module_free(module);
}

TestSuite(module, .init = make_image);

Test(module, is_read_with_its_sites_in_order_of_address)
{
	struct module *module;
	char name[512];

	make_site(0, 100, 0); /* after the others */
	module = read_image();
	cr_assert_eq(module->error, 0);
	cr_assert_eq(module->site_count, SITES);
	cr_assert_eq(module->sites[3].address, (uintptr_t)map + PAGE_BYTES + 100);
	cr_assert_str_eq(module->sites[3].text, image->texts[0]);
	cr_assert_eq(module->sites[3].displacement, 2048 - SITE_BYTES);
	module_site_name(&module->sites[3], name);
	cr_assert_str_eq(name, "net:e0");
	cr_assert_eq(module->sites[0].kind, 'm');
	module_free(module);
}

Test(module, an_empty_table_is_none)
{
	struct module *module;

	image->note.bounds.sites_stop = relative(&image->note.bounds.sites_stop, image->sites);
	module = read_image();
	cr_assert_eq(module->error, 0);
	cr_assert_eq(module->site_count, 0);
	module_free(module);
}

/* As patchelf does: the note is elsewhere, what its words refer to is not. */
static void move_note(size_t to)
{
	memcpy(map + to, &image->note, sizeof image->note);
	image->phdrs[3].p_vaddr = to;
}

Test(module, table_whose_note_was_moved_is_found)
{
	static const size_t places[] = { 1204, 2048, PAGE_BYTES + 1000 };

	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		struct module *module;

		move_note(places[i]);
		module = read_image();
		cr_expect_eq(module->error, 0, "moved to %zu", places[i]);
		cr_assert_eq(module->site_count, SITES);
		cr_assert_str_eq(module->sites[3].text, image->texts[3]);
		cr_assert_eq(module->sites[0].record, (uintptr_t)&records[0]);
		module_free(module);
	}
	image->sites[2].record += 8;
	expect_refused("a moved note, and a record between two");
}

/* Each word of a segment looks like the reference of a table's first entry. */
Test(module, table_sought_among_lookalikes_is_refused)
{
	int32_t word = relative(&image->sites[0].record, &records[0]);

	move_note(1204);
	for (size_t at = PAGE_BYTES; at + 4 <= 2 * PAGE_BYTES; at += 4)
		memcpy(map + at, &word, 4);
	image->sites[0].record += 8;
	expect_refused("lookalikes");
}

Test(module, what_is_no_elf_file_is_told_apart)
{
	struct module_place place = { .base = (uintptr_t)map };
	struct module *module;

	map[0] = 0;
	cr_assert_eq(module_read(&text, &place, "", &module), -ENOEXEC);
	munmap(map, PAGE_BYTES);
	cr_assert_eq(module_read(&text, &place, "", &module), -EFAULT);
}

Test(module, a_table_outside_the_module_is_refused)
{
	image->note.bounds.sites_stop += 100 * PAGE_BYTES;
	expect_refused("sites that continue past the end");
	image->note.bounds.sites_stop -= 100 * PAGE_BYTES;
	image->note.bounds.sites_start += 100 * PAGE_BYTES;
	expect_refused("sites that end before they begin");
	image->note.bounds.sites_start -= 100 * PAGE_BYTES;
	image->note.bounds.sites_stop -= 1;
	expect_refused("part of a site");
	image->note.bounds.sites_stop += 1;
	image->note.bounds.markers_start -= 2 * PAGE_BYTES;
	expect_refused("records in a read-only segment");
	image->note.bounds.markers_start += 2 * PAGE_BYTES + 4;
	expect_refused("records that are not aligned");
}

Test(module, records_that_become_read_only_are_refused)
{
	/* what relocation leaves read-only covers them; no note is needed for the code's segment */
	image->head.e_phnum = 4;
	image->phdrs[0].p_memsz = 2 * PAGE_BYTES; /* serves as the second, too */
	image->phdrs[0].p_flags = PF_R | PF_X;
	image->phdrs[1] = (Elf64_Phdr){
		.p_type = PT_GNU_RELRO, .p_flags = PF_R, .p_vaddr = 2 * PAGE_BYTES, .p_memsz = 64
	};
	expect_refused("records in RELRO");
}

Test(module, a_site_that_points_outside_is_refused)
{
	struct wm_site good = image->sites[1];

	image->sites[1].site += PAGE_BYTES;
	expect_refused("a site in data");
	image->sites[1] = good;
	image->sites[1].site = relative(&image->sites[1].site, map + 2 * PAGE_BYTES - 4);
	expect_refused("a site that leaves its segment");
	image->sites[1] = good;
	image->sites[1].cold += PAGE_BYTES;
	expect_refused("a cold block in data");
	image->sites[1] = good;
	image->sites[1].record += 8;
	expect_refused("a record between two");
	image->sites[1] = good;
	image->sites[1].record += SITES * 32;
	expect_refused("a record past the last");
	image->sites[1] = good;
	image->sites[1].text = INT32_MAX;
	expect_refused("a text outside");
	image->sites[1] = good;
	image->sites[1].types[2] = 3;
	expect_refused("a type after the last");
	image->sites[1] = good;
	image->sites[1].types[0] = 31;
	expect_refused("a type that there isn't");
	for (int flags = 0x20; flags < 0x80; flags += 0x20) {
		image->sites[1].types[0] = (uint8_t)(WM_TYPE_I32 | flags);
		expect_refused("flags that sites don't have");
	}
	image->sites[1].types[0] = WM_TYPE_ARRAY;
	expect_refused("an array of nothing");
	image->sites[1].types[0] = WM_TYPE_ARRAY | WM_TYPE_STR;
	expect_refused("an array of strings");
	image->sites[1].types[0] = WM_TYPE_ARRAY | WM_TYPE_BYTES;
	expect_refused("an array of byte runs");
	image->sites[1] = good;
	image->sites[1].site = 0;
	expect_refused("no site, though it is no end of a scope");
	image->sites[1] = good;
}

Test(module, a_text_that_never_ends_is_refused)
{
	/* to the end of the segment, with no NUL */
	memset(map + PAGE_BYTES - 200, 'x', 200);
	image->sites[2].text = relative(&image->sites[2].text, map + PAGE_BYTES - 200);
	expect_refused("no NUL");
	memcpy(map + PAGE_BYTES - 200, "mj\nnet\nrx\nf\n1\n", 14);
	expect_refused("no NUL after a good beginning");
}

Test(module, a_text_of_another_shape_is_refused)
{
	static const char *const bad[] = {
		"",
		"mj",
		"mj\n",
		"xj\nnet\nrx\nf\n1\n",
		"mx\nnet\nrx\nf\n1\n",
		"mj\n\nrx\nf\n1\n",
		"mj\nnet\n\nf\n1\n",
		"mj\nnet\nrx\nf",
		"mj\nnet\nrx\nf\n1",
		"mj\nn:t\nrx\nf\n1\n",
		"mj\nn t\nrx\nf\n1\n",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		strcpy(image->texts[1], bad[i]);
		expect_refused(bad[i]);
	}
}

Test(module, sites_that_overlap_are_refused)
{
	make_site(1, 16 + 3, 1);
	make_site(0, 16, 0);
	expect_refused("two sites three bytes apart");
	make_site(1, 16, 1);
	expect_refused("two sites in one place");
}

Test(module, a_record_that_two_markers_share_is_refused)
{
	image->sites[1].record = relative(&image->sites[1].record, &records[0]);
	expect_refused("two names");
}

Test(module, a_record_whose_sites_disagree_on_fields_marks_them)
{
	struct module *module;

	make_site(1, 16, 0); /* the same marker as site 0 */
	make_site(2, 32, 0);
	image->sites[2].types[0] = 6;
	module = read_image();
	cr_assert_eq(module->error, 0);
	cr_assert(module->sites[0].conflict && module->sites[1].conflict &&
		  module->sites[2].conflict);
	cr_assert(!module->sites[3].conflict);
	module_free(module);
}

Test(module, sites_of_one_record_with_other_field_names_lose_them)
{
	struct module *module;

	make_site(1, 16, 0);
	make_site(2, 32, 0);
	strcpy(strrchr(image->texts[2], '\n') + 1, "bytes");
	module = read_image();
	cr_assert_eq(module->error, 0);
	for (int i = 0; i < 3; i++) {
		const struct site *site = &module->sites[i];

		cr_assert_not(site->conflict);
		cr_assert_str_eq(site->text + site->fields_at, "");
		cr_assert_eq(site->text_bytes, strlen(site->text) + 1);
	}
	cr_assert_str_eq(module->sites[3].text + module->sites[3].fields_at, "len");
	module_free(module);
}

Test(module, whatever_the_table_says_no_site_lies_outside)
{
	static unsigned char whole[PAGE_BYTES];
	uint64_t seed = 88172645463325252u;
	int kept = 0;

	memcpy(whole, map, PAGE_BYTES);
	for (int round = 0; round < 20000; round++) {
		struct module_place place = { .base = (uintptr_t)map };
		struct module *module = NULL;
		int changes = 1 + round % 3;

		memcpy(map, whole, PAGE_BYTES);
		while (changes--) {
			size_t at;

			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			at = seed % offsetof(struct image, rest);
			map[at] = (unsigned char)(seed >> 40);
		}
		if (module_read(&text, &place, "", &module))
			continue;
		for (uint32_t i = 0; i < module->site_count; i++) {
			const struct site *site = &module->sites[i];

			kept++;
			cr_assert(!site->address || site->address >= module->base);
			cr_assert(site->record % 8 == 0 || site->record >= module->records);
			cr_assert_lt(strlen(site->text), site->text_bytes);
		}
		module_free(module);
	}
	cr_assert_gt(kept, 1000);
}
