/* SPDX-License-Identifier: MIT */
#include "arm.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/site.h"
#include <waymark/marker.h>

#define SEEN_MAX 256
#define SITES_MAX 4096

unsigned int checks_failed;

static struct seen all_seen[SEEN_MAX];
static unsigned int seen_count;
static const struct wm_site *sites[SITES_MAX];
static unsigned int site_count;

void arm_stub(void);
void arm_record(const unsigned char *payload, struct seen *seen);

/*
 * The code that sites call. Keeps all registers, but before it saves them back it spoils each one,
 * the flags and the stack below it, so that code which relies on more than the contract fails.
 */
__asm__(".text\n"
	".globl arm_stub\n"
	".hidden arm_stub\n"
	".type arm_stub, @function\n"
	"arm_stub:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t"
	"push %rbp\n\t"
	"mov %rsp, %rbp\n\t"
	"push %rax\n\tpush %rbx\n\tpush %rcx\n\tpush %rdx\n\tpush %rsi\n\tpush %rdi\n\t"
	"push %r8\n\tpush %r9\n\tpush %r10\n\tpush %r11\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov %rsp, %rbx\n\t"
	"sub $1024, %rsp\n\t"
	"and $-64, %rsp\n\t"
	"fxsave64 (%rsp)\n\t"
	"mov 24(%rbp), %rdi\n\t"
	"mov 16(%rbp), %rsi\n\t"
	"cld\n\t"
	"call arm_record\n\t"
	"pcmpeqd %xmm0, %xmm0\n\tpcmpeqd %xmm1, %xmm1\n\tpcmpeqd %xmm2, %xmm2\n\tpcmpeqd %xmm3, %xmm3\n\t"
	"pcmpeqd %xmm4, %xmm4\n\tpcmpeqd %xmm5, %xmm5\n\tpcmpeqd %xmm6, %xmm6\n\tpcmpeqd %xmm7, %xmm7\n\t"
	"fxrstor64 (%rsp)\n\t"
	"mov %rbx, %rsp\n\t"
	"xor %eax, %eax\n\tsub $1, %rax\n\t" /* flags */
	"pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %r11\n\tpop %r10\n\tpop %r9\n\tpop %r8\n\t"
	"pop %rdi\n\tpop %rsi\n\tpop %rdx\n\tpop %rcx\n\tpop %rbx\n\tpop %rax\n\t"
	"pop %rbp\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size arm_stub, . - arm_stub\n\t");

void arm_record(const unsigned char *payload, struct seen *seen)
{
	seen->hits++;
	if (seen->bytes)
		memcpy(seen->payload, payload, seen->bytes);
}

void check_at(int ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	checks_failed++;
	printf("%s:%d: failed: %s\n", file, line, what);
}

static const void *resolve(const int32_t *offset)
{
	return (const char *)offset + *offset;
}

static size_t payload_bytes(const uint8_t *types)
{
	static const uint8_t bytes_of[] = {
		[WM_TYPE_I8] = 1,   [WM_TYPE_U8] = 1,	  [WM_TYPE_I16] = 2,  [WM_TYPE_U16] = 2,
		[WM_TYPE_I32] = 4,  [WM_TYPE_U32] = 4,	  [WM_TYPE_I64] = 8,  [WM_TYPE_U64] = 8,
		[WM_TYPE_BOOL] = 1, [WM_TYPE_F32] = 4,	  [WM_TYPE_F64] = 8,  [WM_TYPE_PTR] = 8,
		[WM_TYPE_STR] = 8,  [WM_TYPE_BYTES] = 16, [WM_TYPE_CHAR] = 1,
	};
	size_t bytes = 0;

	for (int i = 0; i < 16 && types[i]; i++)
		bytes += types[i] & WM_TYPE_ARRAY ? 16 : bytes_of[types[i]];
	return bytes;
}

/* Fill *seen from a site's text; 0, or -1 where it is not six lines. */
static int text_read(const char *text, struct seen *seen)
{
	return sscanf(text, "%c%c\n%31[^\n]\n%31[^\n]\n%*[^\n]\n%*u\n%255[^\n]", &seen->kind,
		      &seen->way, seen->subsys, seen->event, seen->fields) >= 4
		       ? 0
		       : -1;
}

static int site_check(const struct wm_site *site)
{
	const unsigned char *code = resolve(&site->site), *cold = resolve(&site->cold);
	int32_t jump;

	if (!site->site) /* the end of a scope */
		return 0;
	memcpy(&jump, code + 1, sizeof jump);
	return *code == SITE_DORMANT && code + SITE_BYTES + jump == cold ? 0 : -1;
}

static int site_add(const struct wm_site *site)
{
	struct wm_record *record = (struct wm_record *)(uintptr_t)resolve(&site->record);
	struct seen fresh = { 0 }, *seen;

	if (site_count == SITES_MAX || seen_count == SEEN_MAX)
		return -1;
	if (text_read(resolve(&site->text), &fresh)) {
		printf("unreadable text: %s\n", (const char *)resolve(&site->text));
		return -1;
	}
	if (fresh.way == 'j' && site_check(site)) {
		printf("bad site of %s:%s\n", fresh.subsys, fresh.event);
		return -1;
	}
	memcpy(fresh.types, site->types, sizeof fresh.types);
	seen = arm_seen(fresh.kind, fresh.subsys, fresh.event);
	if (!seen->sites) {
		fresh.bytes = payload_bytes(fresh.types);
		*seen = fresh;
		seen_count++;
	}
	if (memcmp(seen->types, fresh.types, sizeof fresh.types)) {
		printf("%s:%s has two types\n", seen->subsys, seen->event);
		return -1;
	}
	seen->sites++;
	record->enter = (uintptr_t)arm_stub;
	record->agent_word = (uintptr_t)seen;
	sites[site_count++] = site;
	return 0;
}

struct seen *arm_seen(char kind, const char *subsys, const char *event)
{
	unsigned int i;

	for (i = 0; i < seen_count; i++) {
		struct seen *seen = &all_seen[i];

		if (seen->kind == kind && !strcmp(seen->subsys, subsys) &&
		    !strcmp(seen->event, event))
			break;
	}
	return &all_seen[i];
}

void arm_reset(void)
{
	for (unsigned int i = 0; i < seen_count; i++)
		all_seen[i].hits = 0;
}

/* A module may hold several equal notes: the first is enough. */
static int module_find(struct dl_phdr_info *info, size_t size, void *failed)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + phdr->p_vaddr;
		const char *end = at + phdr->p_memsz;

		if (phdr->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *owner = at + sizeof *note;
			const char *desc = owner + ((note->n_namesz + 3) & ~3u);

			at = desc + ((note->n_descsz + 3) & ~3u);
			if (note->n_namesz != 8 || memcmp(owner, SITE_NOTE_OWNER, 8))
				continue;

			const struct wm_site_note *bounds = (const void *)desc;
			const struct wm_site *site = resolve(&bounds->sites_start);
			const struct wm_site *stop = resolve(&bounds->sites_stop);

			for (; site < stop; site++)
				if (site_add(site))
					*(int *)failed = 1;
			return 0;
		}
	}
	return 0;
}

int arm_find_all(void)
{
	int failed = 0;

	dl_iterate_phdr(module_find, &failed);
	return failed ? -1 : (int)site_count;
}

static void byte_write(unsigned char *code, unsigned char value)
{
	uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;

	if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		perror("mprotect");
		exit(1);
	}
	__atomic_store_n(code, value, __ATOMIC_SEQ_CST);
	mprotect((void *)page, 4096, PROT_READ | PROT_EXEC);
}

static void set_all(int armed)
{
	for (unsigned int i = 0; i < site_count; i++) {
		const struct wm_site *site = sites[i];
		struct wm_record *record = (struct wm_record *)(uintptr_t)resolve(&site->record);

		record->armed = (uint32_t)armed;
		if (site->site && ((const char *)resolve(&site->text))[1] == 'j')
			byte_write((unsigned char *)(uintptr_t)resolve(&site->site),
				   armed ? SITE_ARMED : SITE_DORMANT);
	}
}

void arm_all(void)
{
	set_all(1);
}

void disarm_all(void)
{
	set_all(0);
}
