/* SPDX-License-Identifier: MIT */
#include "arch/insn.h"
#include "arch/x86_64/testing/insn_oracle.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT 0x401000u
#define ROOM 40 /* as much as insn_decode() takes for plenty, and more */

/* The same ones each time. */
static uint64_t random_state;

static uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fill(uint8_t code[ROOM])
{
	for (size_t i = 0; i < ROOM; i += sizeof(uint64_t)) {
		uint64_t word = any();

		memcpy(code + i, &word, sizeof(word));
	}
}

static unsigned int check(const uint8_t *code, size_t left, int amd)
{
	unsigned int bytes;
	const char *what = insn_differs(code, left, amd, &bytes);
	char hex[64] = "";

	if (!what)
		return bytes;
	for (size_t i = 0; i < INSN_BYTES_MAX && i < left; i++)
		sprintf(hex + 3 * i, "%02x ", code[i]);
	cr_assert_fail("%s: %s(%zu bytes, AMD %d)", what, hex, left, amd);
	return 0;
}

/* ---- every opcode ---- */

/* Now and then one of those that VEX and EVEX bear; returns how many bytes. */
static size_t put_prefix(uint8_t code[ROOM])
{
	uint64_t which = any() % 8;

	if (which > 2)
		return 0;
	code[0] = "\x64\x65\x67"[which];
	return 1;
}

/* For each ModRM byte: what comes before and behind is any of all. */
static void sweep_modrm(uint8_t code[ROOM], size_t modrm_at)
{
	for (unsigned int modrm = 0; modrm < 256; modrm++) {
		uint64_t tail = any();

		code[modrm_at] = (uint8_t)modrm;
		memcpy(code + modrm_at + 1, &tail, sizeof(tail));
		check(code, ROOM, modrm & 1);
	}
}

static void sweep_legacy(const uint8_t *map, size_t map_bytes, unsigned int prefixes)
{
	static const uint8_t repeats[] = { 0, 0xf3, 0xf2 };
	uint8_t code[ROOM];

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		size_t at = 0;

		fill(code);
		if (prefixes & 1)
			code[at++] = 0x66;
		if (repeats[prefixes >> 1 & 3])
			code[at++] = repeats[prefixes >> 1 & 3];
		if (any() % 4 == 0)
			code[at++] = "\x64\x65\x67\xf0\x2e\x3e"[any() % 6];
		if (prefixes >> 3)
			code[at++] = 0x40 | (uint8_t)(any() & 7) | (prefixes >> 4 & 1 ? 8 : 0);
		memcpy(code + at, map, map_bytes);
		at += map_bytes;
		code[at++] = (uint8_t)opcode;
		sweep_modrm(code, at);
	}
}

Test(insn, every_legacy_opcode)
{
	random_state = 1;
	for (unsigned int prefixes = 0; prefixes < 32; prefixes++) {
		if ((prefixes >> 1 & 3) == 3 || prefixes >> 3 == 2)
			continue;
		sweep_legacy((const uint8_t *)"", 0, prefixes);
		sweep_legacy((const uint8_t *)"\x0f", 1, prefixes);
		sweep_legacy((const uint8_t *)"\x0f\x38", 2, prefixes);
		sweep_legacy((const uint8_t *)"\x0f\x3a", 2, prefixes);
	}
}

Test(insn, every_3dnow_opcode)
{
	uint8_t code[ROOM];

	random_state = 2;
	for (unsigned int modrm = 0; modrm < 256; modrm++)
		for (unsigned int last = 0; last < 256; last++) {
			fill(code);
			code[0] = 0x0f;
			code[1] = 0x0f;
			code[2] = (uint8_t)modrm;
			for (size_t at = 3; at < 9; at++) /* one of them is the opcode */
				code[at] = (uint8_t)last;
			check(code, ROOM, 0);
		}
}

static void sweep_vex(uint8_t first, unsigned int map)
{
	for (unsigned int context = 0; context < 32; context++)
		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			uint8_t code[ROOM];
			uint8_t v = context & 8 ? 0x78 : any() & 0x78;
			size_t at;

			fill(code);
			at = put_prefix(code);
			code[at++] = first;
			code[at] = (uint8_t)((code[at] & 0xe0) | map);
			code[++at] = (uint8_t)((context & 16) << 3 | v | (context & 7));
			code[++at] = (uint8_t)opcode;
			sweep_modrm(code, at + 1);
		}
}

Test(insn, every_vex_opcode)
{
	random_state = 3;
	for (unsigned int map = 1; map < 4; map++)
		sweep_vex(0xc4, map);
}

Test(insn, every_xop_opcode)
{
	random_state = 4;
	for (unsigned int map = 8; map < 11; map++)
		sweep_vex(0x8f, map);
}

static void sweep_evex(unsigned int map, unsigned int context, unsigned int opcode)
{
	for (unsigned int modrm = 0; modrm < 256; modrm++) {
		uint8_t code[ROOM];
		uint64_t bits = any();

		uint8_t *at = code;

		fill(code);
		at += put_prefix(code);
		at[0] = 0x62;
		at[1] = (uint8_t)((at[1] & 0xf0) | map);
		at[2] = (uint8_t)((at[2] & 0x78) | context >> 2 << 7 | 4 | (context & 3));
		if (bits & 1) { /* else few that name no second source are met */
			at[2] |= 0x78;
			at[3] |= 8;
		}
		if (bits & 2)
			at[3] &= 0x6f;
		at[4] = (uint8_t)opcode;
		at[5] = (uint8_t)modrm;
		check(code, ROOM, 0);
	}
}

Test(insn, every_evex_opcode)
{
	random_state = 5;
	for (unsigned int map = 0; map < 8; map++)
		for (unsigned int context = 0; context < 8 * 4; context++)
			for (unsigned int opcode = 0; opcode < 256; opcode++)
				sweep_evex(map, context & 7, opcode);
}

/* ---- any bytes ---- */

/* Some prefixes, then a byte of those that lead on, more often than chance would have it. */
static void compose(uint8_t code[ROOM])
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0xf0, 0x67, 0x64, 0x65,
					    0x2e, 0x3e, 0x48, 0x41, 0x44, 0x40, 0x4f };
	static const uint8_t first[] = { 0x0f, 0xc4, 0xc5, 0x62, 0x8f };
	unsigned int count = any() & 3;

	fill(code);
	for (unsigned int i = 0; i < count; i++)
		code[i] = prefixes[any() % sizeof(prefixes)];
	if (any() & 1)
		code[count] = first[any() % sizeof(first)];
}

Test(insn, any_bytes)
{
	uint8_t code[ROOM];

	random_state = 6;
	for (int i = 0; i < 2000000; i++) {
		compose(code);
		check(code, ROOM, i & 1);
	}
}

Test(insn, cut_ones_are_none)
{
	uint8_t code[ROOM];
	struct insn insn;

	random_state = 7;
	for (int i = 0; i < 300000; i++) {
		unsigned int bytes;

		compose(code);
		bytes = check(code, ROOM, 0);
		if (!bytes)
			continue;
		cr_assert_eq(check(code, bytes, 0), bytes);
		for (size_t left = 0; left < bytes; left++)
			cr_assert_eq(insn_decode(&insn, code, left, AT, 0), -EILSEQ);
	}
}

/* Bytes behind the end must not be read. */
Test(insn, decode_reads_no_byte_behind_end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	uint8_t code[ROOM];

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
	random_state = 8;
	for (int i = 0; i < 200000; i++) {
		size_t left = any() % ROOM;
		uint8_t *at = pages + page - left;
		struct insn insn;

		compose(code);
		memcpy(at, code, left);
		insn_decode(&insn, at, left, AT, 0);
	}
	munmap(pages, 2 * page);
}

/* ---- what compilers and people write ---- */

#define INSTRUCTIONS_MAX 700000

static void walk(const uint8_t *code, size_t bytes)
{
	size_t at = 0;

	for (int i = 0; i < INSTRUCTIONS_MAX && at < bytes; i++) {
		unsigned int step = check(code + at, bytes - at, 0);

		at += step ? step : 1;
	}
}

static void walk_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	const Elf64_Ehdr *header;
	const Elf64_Shdr *sections;

	if (fd < 0)
		return; /* not every machine has it */
	cr_assert_eq(fstat(fd, &stat), 0);
	header = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	cr_assert_neq(header, MAP_FAILED);
	sections = (const void *)((const uint8_t *)header + header->e_shoff);
	for (unsigned int i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_flags & SHF_EXECINSTR && sections[i].sh_type == SHT_PROGBITS)
			walk((const uint8_t *)header + sections[i].sh_offset, sections[i].sh_size);
	munmap((void *)(uintptr_t)header, (size_t)stat.st_size);
}

Test(insn, libraries)
{
	walk_file("/proc/self/exe");
	walk_file("/lib/x86_64-linux-gnu/libc.so.6");
	walk_file("/lib/x86_64-linux-gnu/libm.so.6");
	walk_file("/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
	walk_file("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
	walk_file("/usr/bin/python3");
	walk_file("/usr/bin/node");
}

/* ---- by name ---- */

#define REG(n) (1u << (n))
#define RAX REG(0)
#define RCX REG(1)
#define RDX REG(2)
#define RBX REG(3)
#define RSP REG(4)
#define RSI REG(6)
#define RDI REG(7)
#define R9 REG(9)
#define ALL 0xffffu

struct sample {
	const char *what;
	uint8_t code[12];
	uint8_t bytes, kind;
	uint16_t needs, kills, traits;
};

/* Encodings, flags and operands of the Intel SDM, volume 2. */
static const struct sample samples[] = {
	{ "mov %ecx,%eax", { 0x89, 0xc8 }, 2, TRAIL_FALL, RCX, RAX, 0 },
	{ "mov %cx,%ax", { 0x66, 0x89, 0xc8 }, 3, TRAIL_FALL, RCX | RAX, 0, 0 },
	{ "mov %ch,%al", { 0x88, 0xe8 }, 2, TRAIL_FALL, RCX | RAX, 0, 0 },
	{ "mov %bpl,%al", { 0x40, 0x88, 0xe8 }, 3, TRAIL_FALL, REG(5) | RAX, 0, 0 },
	{ "xor %eax,%eax", { 0x31, 0xc0 }, 2, TRAIL_FALL, 0, RAX, INSN_KILLS_FLAGS },
	{ "xor %al,%al", { 0x30, 0xc0 }, 2, TRAIL_FALL, RAX, 0, INSN_KILLS_FLAGS },
	{ "xor %ax,%ax", { 0x66, 0x31, 0xc0 }, 3, TRAIL_FALL, RAX, 0, INSN_KILLS_FLAGS },
	{ "xor %eax,%r8d", { 0x41, 0x31, 0xc0 }, 3, TRAIL_FALL, RAX | REG(8), 0, INSN_KILLS_FLAGS },
	{ "sub %r9,%r9", { 0x4d, 0x29, 0xc9 }, 3, TRAIL_FALL, 0, R9, INSN_KILLS_FLAGS },
	{ "sbb %eax,%eax",
	  { 0x19, 0xc0 },
	  2,
	  TRAIL_FALL,
	  RAX,
	  0,
	  INSN_READS_FLAGS | INSN_KILLS_FLAGS },
	{ "inc %eax", { 0xff, 0xc0 }, 2, TRAIL_FALL, RAX, 0, INSN_READS_FLAGS },
	{ "cmove %ecx,%eax", { 0x0f, 0x44, 0xc1 }, 3, TRAIL_FALL, RAX | RCX, 0, INSN_READS_FLAGS },
	{ "sete %al", { 0x0f, 0x94, 0xc0 }, 3, TRAIL_FALL, RAX, 0, INSN_READS_FLAGS },
	{ "shl $3,%eax", { 0xc1, 0xe0, 3 }, 3, TRAIL_FALL, RAX, 0, INSN_KILLS_FLAGS },
	{ "shl $32,%eax", { 0xc1, 0xe0, 32 }, 3, TRAIL_FALL, RAX, 0, INSN_READS_FLAGS },
	{ "shl $32,%rax", { 0x48, 0xc1, 0xe0, 32 }, 4, TRAIL_FALL, RAX, 0, INSN_KILLS_FLAGS },
	{ "shl %cl,%eax", { 0xd3, 0xe0 }, 2, TRAIL_FALL, RAX | RCX, 0, INSN_READS_FLAGS },
	{ "rol $1,%eax", { 0xd1, 0xc0 }, 2, TRAIL_FALL, RAX, 0, INSN_READS_FLAGS },
	{ "bsf %ecx,%eax", { 0x0f, 0xbc, 0xc1 }, 3, TRAIL_FALL, RAX | RCX, 0, INSN_KILLS_FLAGS },
	{ "tzcnt %ecx,%eax",
	  { 0xf3, 0x0f, 0xbc, 0xc1 },
	  4,
	  TRAIL_FALL,
	  RAX | RCX,
	  0,
	  INSN_KILLS_FLAGS },
	{ "popcnt %ecx,%eax", { 0xf3, 0x0f, 0xb8, 0xc1 }, 4, TRAIL_FALL, RCX, RAX, INSN_KILLS_FLAGS },
	{ "rdsspq %rax", { 0xf3, 0x48, 0x0f, 0x1e, 0xc8 }, 5, TRAIL_FALL, RAX, 0, 0 },
	{ "endbr64", { 0xf3, 0x0f, 0x1e, 0xfa }, 4, TRAIL_FALL, 0, 0, 0 },
	{ "xchg %r8,%rax", { 0x49, 0x90 }, 2, TRAIL_FALL, RAX | REG(8), 0, 0 },
	{ "nop", { 0x90 }, 1, TRAIL_FALL, 0, 0, 0 },
	{ "mul %ecx", { 0xf7, 0xe1 }, 2, TRAIL_FALL, RAX | RCX, RDX, INSN_KILLS_FLAGS },
	{ "cltd", { 0x99 }, 1, TRAIL_FALL, RAX, RDX, 0 },
	{ "rdtsc", { 0x0f, 0x31 }, 2, TRAIL_FALL, 0, RAX | RDX, 0 },
	{ "lea (%rcx,%rdx),%eax", { 0x8d, 0x04, 0x11 }, 3, TRAIL_FALL, RCX | RDX, RAX, 0 },
	{ "lea %gs:(%rcx),%eax", { 0x65, 0x8d, 0x01 }, 3, TRAIL_FALL, RCX, RAX, 0 },
	{ "mov %gs:(%rcx),%eax", { 0x65, 0x8b, 0x01 }, 3, TRAIL_FALL, RCX, RAX, INSN_GS },
	{ "mov %fs,%gs: the last", { 0x64, 0x65, 0x8b, 0x01 }, 4, TRAIL_FALL, RCX, RAX, INSN_GS },
	{ "mov %fs:(%rcx),%eax", { 0x65, 0x64, 0x8b, 0x01 }, 4, TRAIL_FALL, RCX, RAX, 0 },
	{ "mov %eax,%gs", { 0x8e, 0xe8 }, 2, TRAIL_FALL, RAX, 0, INSN_GS },
	{ "push %gs", { 0x0f, 0xa8 }, 2, TRAIL_FALL, RSP, 0, INSN_GS },
	{ "swapgs", { 0x0f, 0x01, 0xf8 }, 3, TRAIL_FALL, 0, 0, INSN_GS },
	{ "rdgsbase %rax", { 0xf3, 0x48, 0x0f, 0xae, 0xc8 }, 5, TRAIL_FALL, 0, RAX, INSN_GS },
	{ "wrgsbase %rax", { 0xf3, 0x48, 0x0f, 0xae, 0xd8 }, 5, TRAIL_FALL, RAX, 0, INSN_GS },
	{ "mov %eax,%ss", { 0x8e, 0xd0 }, 2, TRAIL_FALL, RAX, 0, INSN_SHADOWS },
	{ "xlat %gs:(%rbx)", { 0x65, 0xd7 }, 2, TRAIL_FALL, RAX | RBX, 0, INSN_GS },
	{ "movabs", { 0xa1, 1, 2, 3, 4, 5, 6, 7, 8 }, 9, TRAIL_FALL, 0, RAX, 0 },
	{ "movabs, short", { 0x67, 0xa1, 1, 2, 3, 4 }, 6, TRAIL_FALL, 0, RAX, 0 },
	{ "movs", { 0xa4 }, 1, TRAIL_FALL, RSI | RDI, 0, 0 },
	{ "rep movs", { 0xf3, 0xa4 }, 2, TRAIL_FALL, RSI | RDI | RCX, 0, INSN_STRING },
	{ "repe cmps",
	  { 0xf3, 0xa6 },
	  2,
	  TRAIL_FALL,
	  RSI | RDI | RCX,
	  0,
	  INSN_STRING | INSN_READS_FLAGS },
	{ "lods", { 0xad }, 1, TRAIL_FALL, RSI, RAX, 0 },
	{ "rep lods", { 0xf3, 0xad }, 2, TRAIL_FALL, RSI | RAX | RCX, 0, INSN_STRING },
	{ "pushf", { 0x9c }, 1, TRAIL_FALL, RSP, 0, INSN_PUSHES_FLAGS | INSN_READS_FLAGS },
	{ "popf", { 0x9d }, 1, TRAIL_FALL, RSP, 0, INSN_POPS_FLAGS | INSN_KILLS_FLAGS },
	{ "iretq", { 0x48, 0xcf }, 2, TRAIL_FAR, ALL, 0, INSN_POPS_FLAGS | INSN_READS_FLAGS },
	{ "std", { 0xfd }, 1, TRAIL_FALL, 0, 0, INSN_DIRECTION },
	{ "cld", { 0xfc }, 1, TRAIL_FALL, 0, 0, INSN_DIRECTION },
	{ "pop %rax", { 0x58 }, 1, TRAIL_FALL, RSP, RAX, 0 },
	{ "enter $16,$1", { 0xc8, 16, 0, 1 }, 4, TRAIL_FALL, RSP | REG(5), 0, 0 },
	{ "ret $16", { 0xc2, 16, 0 }, 3, TRAIL_RETURN, RSP, 0, 0 },
	{ "syscall", { 0x0f, 0x05 }, 2, TRAIL_SYSCALL, ALL, 0, INSN_READS_FLAGS },
	{ "int $0x80", { 0xcd, 0x80 }, 2, TRAIL_SYSCALL, ALL, 0, INSN_READS_FLAGS },
	{ "int $3", { 0xcd, 0x03 }, 2, TRAIL_STOP, ALL, 0, INSN_READS_FLAGS },
	{ "jrcxz", { 0xe3, 0 }, 2, TRAIL_BRANCH, RCX, 0, INSN_SHORT },
	{ "loop", { 0xe2, 0 }, 2, TRAIL_BRANCH, RCX, 0, INSN_SHORT },
	{ "je", { 0x74, 0 }, 2, TRAIL_BRANCH, 0, 0, INSN_READS_FLAGS },
	{ "xabort", { 0xc6, 0xf8, 0 }, 3, TRAIL_FALL, RAX, 0, INSN_TRANSACTION },
	{ "xtest", { 0x0f, 0x01, 0xd6 }, 3, TRAIL_FALL, 0, 0, INSN_TRANSACTION | INSN_KILLS_FLAGS },
	{ "cmpxchg8b (%rdi)",
	  { 0x0f, 0xc7, 0x0f },
	  3,
	  TRAIL_FALL,
	  RAX | RBX | RCX | RDX | RDI,
	  0,
	  INSN_READS_FLAGS },
	{ "maskmovdqu", { 0x66, 0x0f, 0xf7, 0xc1 }, 4, TRAIL_FALL, RDI, 0, 0 },
	{ "fnstenv (%rax)", { 0xd9, 0x30 }, 2, TRAIL_FALL, RAX, 0, INSN_TELLS_IP },
	{ "fnsave (%rax)", { 0xdd, 0x30 }, 2, TRAIL_FALL, RAX, 0, INSN_TELLS_IP },
	{ "fxsave (%rdi)",
	  { 0x0f, 0xae, 0x07 },
	  3,
	  TRAIL_FALL,
	  RDI,
	  0,
	  INSN_TELLS_IP | INSN_VECTORS },
	{ "xsavec (%rdi)",
	  { 0x0f, 0xc7, 0x27 },
	  3,
	  TRAIL_FALL,
	  RDI | RAX | RDX,
	  0,
	  INSN_TELLS_IP | INSN_VECTORS },
	{ "xrstor (%rdi)", { 0x0f, 0xae, 0x2f }, 3, TRAIL_FALL, RDI | RAX | RDX, 0, INSN_VECTORS },
	{ "vzeroupper", { 0xc5, 0xf8, 0x77 }, 3, TRAIL_FALL, 0, 0, INSN_ZEROUPPER },
	{ "vzeroall", { 0xc5, 0xfc, 0x77 }, 3, TRAIL_FALL, 0, 0, INSN_VECTORS },
	{ "movaps %xmm15,%xmm0", { 0x41, 0x0f, 0x28, 0xc7 }, 4, TRAIL_FALL, 0, 0, INSN_VECTOR15 },
	{ "movaps %xmm7,%xmm0", { 0x0f, 0x28, 0xc7 }, 3, TRAIL_FALL, 0, 0, 0 },
	{ "movaps (%r15),%xmm0", { 0x41, 0x0f, 0x28, 0x07 }, 4, TRAIL_FALL, REG(15), 0, 0 },
	{ "vpaddq %ymm0,%ymm15,%ymm0",
	  { 0xc5, 0x85, 0xd4, 0xc0 },
	  4,
	  TRAIL_FALL,
	  0,
	  0,
	  INSN_VECTOR15 },
	{ "vblendvps %xmm15",
	  { 0xc4, 0xe3, 0x79, 0x4a, 0xc1, 0xf0 },
	  6,
	  TRAIL_FALL,
	  0,
	  0,
	  INSN_VECTOR15 },
	{ "vpgatherdd %ymm15",
	  { 0xc4, 0xa2, 0x75, 0x90, 0x04, 0x38 },
	  6,
	  TRAIL_FALL,
	  RAX,
	  0,
	  INSN_VECTOR15 },
	{ "vmovaps %zmm31,%zmm0", { 0x62, 0x91, 0x7c, 0x48, 0x28, 0xc7 }, 6, TRAIL_FALL, 0, 0, 0 },
	{ "vmovaps %zmm15,%zmm0",
	  { 0x62, 0xd1, 0x7c, 0x48, 0x28, 0xc7 },
	  6,
	  TRAIL_FALL,
	  0,
	  0,
	  INSN_VECTOR15 },
	{ "REX that does not count", { 0x48, 0x66, 0x89, 0xc8 }, 4, TRAIL_FALL, RAX | RCX, 0, 0 },
};

Test(insn, samples_are_what_they_are)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *sample = &samples[i];
		struct insn insn;

		cr_assert_eq(insn_decode(&insn, sample->code, sample->bytes, AT, 0), 0, "%s",
			     sample->what);
		cr_expect_eq(insn.bytes, sample->bytes, "%s: bytes %u", sample->what, insn.bytes);
		cr_expect_eq(insn.kind, sample->kind, "%s: kind %u", sample->what, insn.kind);
		cr_expect_eq(insn.needs, sample->needs, "%s: needs %x", sample->what, insn.needs);
		cr_expect_eq(insn.kills, sample->kills, "%s: kills %x", sample->what, insn.kills);
		cr_expect_eq(insn.traits, sample->traits, "%s: traits %x", sample->what,
			     insn.traits);
	}
}

Test(insn, makers_differ_in_near_branches_of_16_bits)
{
	static const uint8_t code[] = { 0x66, 0xe9, 0x00, 0x10, 0x00, 0x00 };
	struct insn insn;

	cr_assert_eq(insn_decode(&insn, code, sizeof(code), AT, 0), 0);
	cr_expect_eq(insn.bytes, 6);
	cr_expect_eq(insn.target, AT + 6 + 0x1000);
	cr_expect_eq(insn.disp_at, 2);
	cr_assert_eq(insn_decode(&insn, code, sizeof(code), AT, 1), 0);
	cr_expect_eq(insn.bytes, 4);
	cr_expect_eq(insn.target, (AT + 4 + 0x1000) & 0xffff);
	cr_expect_eq(insn.disp_at, 0);
}

Test(insn, more_than_15_bytes_are_none)
{
	uint8_t code[ROOM];
	struct insn insn;

	memset(code, 0x66, sizeof(code));
	code[14] = 0x90;
	cr_expect_eq(insn_decode(&insn, code, sizeof(code), AT, 0), 0);
	cr_expect_eq(insn.bytes, 15);
	code[14] = 0x66;
	code[15] = 0x90;
	cr_expect_eq(insn_decode(&insn, code, sizeof(code), AT, 0), -EILSEQ);
}
