/* SPDX-License-Identifier: MIT */
/* Which bytes a masked store wrote. The frames are built here, so any processor runs the tests. */
#include "arch/access_decode.h"
#include "arch/x86_64/frame_state.h"

#include <criterion/criterion.h>
#include <string.h>

#define FRAME_BYTES 2816u
#define HAVE_AT 512u
#define FORMAT_AT 520u
#define YMM_HIGH_AT 576u
#define MASKS_AT_AMD 832u    /* no MPX in front of them */
#define MASKS_AT_INTEL 1088u /* both as cpuid 0xd.5 says there */
#define YMM 0x04u
#define MASKS 0x20u
#define RAX_AT 0x10000u
#define RDI_AT 0x20000u

static uint8_t frame[FRAME_BYTES] __attribute__((aligned(64)));
static ucontext_t context;

static void put(unsigned int at, uint64_t value, size_t bytes)
{
	memcpy(frame + at, &value, bytes);
}

static void frame_make(uint32_t masks_at)
{
	static const uint8_t signs[32] = {
		[0] = 0x80, [3] = 0x80, [7] = 0xff, [15] = 0x80, [16] = 0x80, [31] = 0x80
	};

	memset(frame, 0, sizeof(frame));
	frame_masks_at = masks_at;
	put(464, 0x46505853, 4);
	put(472, 3 | YMM | MASKS, 8);
	put(480, FRAME_BYTES, 4);
	put(HAVE_AT, 3 | YMM | MASKS, 8);
	put(masks_at + 8, 0x00000000000000f1, 8);
	put(masks_at + 16, ~UINT64_C(0), 8);
	/* xmm1, ymm1 */
	memcpy(frame + 160 + 16, signs, 16);
	memcpy(frame + YMM_HIGH_AT + 16, signs + 16, 16);
	memset(&context, 0, sizeof(context));
	context.uc_mcontext.fpregs = (fpregset_t)(void *)frame;
	context.uc_mcontext.gregs[REG_RAX] = RAX_AT;
	context.uc_mcontext.gregs[REG_RDI] = RDI_AT;
}

/* Code that is read and not run. */
#define CODE(name, text)                                                                           \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n" #name ":\n\t" text "\n" #name "_end:\n\t.popsection");
#define FORMS(X)                                                                                   \
	X(dqu8, "vmovdqu8 %zmm16, 64(%rax){%k1}", 64, 64, ~UINT64_C(0xf1))                         \
	X(dqu8_x, "vmovdqu8 %xmm3, (%rax){%k1}", 0, 16, UINT64_C(0xff0e))                          \
	X(dqu16, "vmovdqu16 %ymm3, (%rax){%k1}", 0, 32, UINT64_C(0xffff00fc))                      \
	X(dqu32, "vmovdqu32 %ymm3, 32(%rax){%k1}", 32, 32, UINT64_C(0x0000fff0))                   \
	X(dqa64, "vmovdqa64 %zmm3, (%rax){%k1}", 0, 64, UINT64_C(0x00000000ffffff00))              \
	X(ups, "vmovups %ymm20, (%rax){%k1}", 0, 32, UINT64_C(0x0000fff0))                         \
	X(apd, "vmovapd %ymm3, (%rax){%k1}", 0, 32, UINT64_C(0xffffff00))                          \
	X(ss, "vmovss %xmm3, 4(%rax){%k1}", 4, 4, 0)                                               \
	X(sd, "vmovsd %xmm3, 8(%rax){%k3}", 8, 8, UINT64_C(0xff))                                  \
	X(all, "vmovdqu8 %zmm16, (%rax){%k2}", 0, 64, 0)                                           \
	X(none, "vmovdqu8 %zmm16, (%rax){%k3}", 0, 64, ~UINT64_C(0))                               \
	X(unmasked, "vmovdqu8 %zmm16, (%rax)", 0, 64, 0)                                           \
	X(compress_b, "vpcompressb %ymm3, 2(%rax){%k1}", 2, 32, UINT64_C(0xffffffe0))              \
	X(compress_q, "vpcompressq %zmm3, 8(%rax){%k1}", 8, 64, UINT64_C(0xffffff0000000000))      \
	X(compress_ps, "vcompressps %zmm3, 4(%rax){%k1}", 4, 64, ~UINT64_C(0xfffff))               \
	X(down_qb, "vpmovqb %zmm3, 64(%rax){%k1}", 64, 8, UINT64_C(0x0e))                          \
	X(down_dw, "vpmovdw %ymm3, (%rax){%k1}", 0, 16, UINT64_C(0x00fc))                          \
	X(extract, "vextracti32x4 $2, %zmm3, 16(%rax){%k1}", 16, 16, UINT64_C(0xfff0))             \
	X(extract_half, "vextracti64x4 $1, %zmm3, 32(%rax)", 32, 32, 0)                            \
	X(extract_byte, "vpextrb $3, %xmm17, 5(%rax)", 5, 1, 0)                                    \
	X(half_floats, "vcvtps2ph $0, %zmm3, (%rax){%k1}", 0, 32, UINT64_C(0xffff00fc))            \
	X(fx_save, "fxsave (%rax)", 0, 416, 0)                                                     \
	X(x87_save, "fnsave (%rax)", 0, 108, 0)                                                    \
	X(x87_save_narrow, "data16 fnsave (%rax)", 0, 94, 0)                                       \
	X(x87_environment, "fnstenv (%rax)", 0, 28, 0)                                             \
	X(x87_environment_w, ".byte 0x66, 0x48, 0xd9, 0x30", 0, 28, 0)                             \
	X(maskmov_ps, "vmaskmovps %ymm2, %ymm1, (%rax)", 0, 32, UINT64_C(0x0fff0f00))              \
	X(maskmov_pd, "vmaskmovpd %xmm2, %xmm1, (%rax)", 0, 16, 0)                                 \
	X(maskmov_d, "vpmaskmovd %ymm2, %ymm1, (%rax)", 0, 32, UINT64_C(0x0fff0f00))               \
	X(maskmov_q, "vpmaskmovq %ymm2, %ymm1, (%rax)", 0, 32, UINT64_C(0x00ff0000))

#define FORM_CODE(name, text, at, bytes, kept) CODE(name, text)
#define FORM_ROW(name, text, at, bytes, kept) { text, name, name##_end, at, bytes, kept },

FORMS(FORM_CODE)
CODE(mask_move, "maskmovdqu %xmm1, %xmm2")
CODE(mask_move_vex, "vmaskmovdqu %xmm1, %xmm2")
CODE(mask_move_fs, ".byte 0x64\n\tmaskmovdqu %xmm1, %xmm2")
CODE(part_of_ymm, "vextracti32x4 $3, %ymm3, (%rax)")
CODE(part_byte, "vpextrb $0x13, %xmm17, (%rax)")
CODE(part_byte_sse, "pextrb $2, %xmm3, (%rax)")
CODE(part_byte_vex, "vpextrb $2, %xmm3, (%rax)")
CODE(gather, "vpgatherdd %ymm2, (%rax,%ymm1,4), %ymm3")
CODE(move_64, "movdir64b 8(%rax), %rdi")
CODE(move_64_short, "movdir64b 8(%eax), %edi")
CODE(move_direct, "movdiri %rdi, 8(%rax)")
CODE(move_direct_short, "movdiri %edi, 8(%rax)")
CODE(scatter, "vpscatterdd %zmm3, (%rax,%zmm4,4){%k1}")
CODE(scatter_ymm, "vpscatterdd %ymm3, 4(%rax,%ymm1,4){%k1}")

static const struct form {
	const char *name;
	const uint8_t *code, *end;
	unsigned int at, bytes;
	uint64_t kept;
} forms[] = { FORMS(FORM_ROW) };

static int decode(struct written *written, const uint8_t *code, const uint8_t *end)
{
	return written_tell(written, code, (size_t)(end - code), &context, NULL);
}

static void check_forms(void)
{
	struct written written;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *form = &forms[i];

		cr_assert_eq(decode(&written, form->code, form->end), 0, "%s", form->name);
		cr_assert_eq(written.address, RAX_AT + form->at, "%s: %lx", form->name,
			     written.address);
		cr_assert_eq(written.bytes, form->bytes, "%s: %u", form->name, written.bytes);
		cr_assert_eq(written.kept, form->kept, "%s: %lx", form->name, written.kept);
	}
}

Test(masked, kept_bytes_follow_from_the_mask)
{
	frame_make(MASKS_AT_AMD);
	check_forms();
}

Test(masked, masks_are_read_where_cpuid_says)
{
	frame_make(MASKS_AT_INTEL);
	check_forms();
}

Test(masked, maskmovdqu_stores_where_rdi_points)
{
	struct written written;

	frame_make(MASKS_AT_AMD);
	cr_assert_eq(decode(&written, mask_move, mask_move_end), 0);
	cr_assert_eq(written.address, RDI_AT);
	cr_assert_eq(written.bytes, 16);
	cr_assert_eq(written.kept, 0x7f76, "%lx", written.kept);
	cr_assert_eq(decode(&written, mask_move_vex, mask_move_vex_end), 0);
	cr_assert_eq(written.kept, 0x7f76, "%lx", written.kept);
	cr_assert_eq(decode(&written, mask_move_fs, mask_move_fs_end), -1, "%lx", written.address);
}

static int source_read(void *data, void *to, uint64_t from, size_t bytes)
{
	(void)data;
	cr_assert_eq(from, RAX_AT + 8);
	memset(to, 0x42, bytes);
	return 0;
}

/* Its operand in memory is what it reads. It writes 64 bytes, and so each word that is watched. */
Test(masked, movdir64b_stores_where_its_register_points)
{
	struct access_decode access = { .is_told = 1 };

	frame_make(MASKS_AT_AMD);
	cr_assert_eq(decode(&access.written, move_64, move_64_end), 0);
	cr_assert_eq(access.written.address, RDI_AT, "%lx", access.written.address);
	cr_assert_eq(access.written.bytes, 64);
	for (unsigned int i = 0; i <= 64; i += 8) {
		const struct control_watch about = { .address = RDI_AT + i,
						     .bytes = 8,
						     .on = WATCH_ON_WRITE };

		cr_assert_eq(access_decode_covers(&access, &about), i < 64, "%u", i);
	}
	access_decode_copied(&access, source_read);
	cr_assert_eq(access.written.way, WRITTEN_COPIED);
	cr_assert_eq(access.written.value[63], 0x42);
	context.uc_mcontext.gregs[REG_RDI] |= (greg_t)1 << 40;
	cr_assert_eq(decode(&access.written, move_64_short, move_64_short_end), 0);
	cr_assert_eq(access.written.address, RDI_AT);
}

Test(masked, movdiri_stores_its_register)
{
	struct written written;

	frame_make(MASKS_AT_AMD);
	cr_assert_eq(decode(&written, move_direct, move_direct_end), 0);
	cr_assert_eq(written.address, RAX_AT + 8);
	cr_assert_eq(written.bytes, 8);
	cr_assert_eq(written.way, WRITTEN_NEW);
	cr_assert_eq(written.value[0], RDI_AT & 0xff);
	cr_assert_eq(decode(&written, move_direct_short, move_direct_short_end), 0);
	cr_assert_eq(written.bytes, 4);
	cr_assert_eq(written.way, WRITTEN_NEW);
}

/* The processor clears a scatter's mask as it goes: only the stretch of its elements is known. */
Test(masked, scatter_reaches_from_its_first_to_its_last_element)
{
	struct written written;

	frame_make(MASKS_AT_AMD);
	cr_assert_eq(decode(&written, scatter, scatter_end), -1, "the frame has no index");
	for (unsigned int i = 0; i < 4; i++) {
		put(160 + 16 + 4 * i, i == 2 ? (uint32_t)-3 : i, 4);
		put(YMM_HIGH_AT + 16 + 4 * i, 10 + i, 4);
	}
	cr_assert_eq(decode(&written, scatter_ymm, scatter_ymm_end), 0);
	cr_assert_eq(written.address, RAX_AT + 4 - 12, "%lx", written.address);
	cr_assert_eq(written.bytes, 0);
	cr_assert_eq(written.reach, 4 * (3 + 14), "%u", written.reach);
}

/* zmm3 to the 256th bit and zmm17 are where the processor says, each byte its own. */
Test(masked, stores_have_the_values_of_all_registers)
{
	struct written written;

	frame_make(MASKS_AT_AMD);
	frame_zmm_high_at = 896;
	frame_more_at = 1408;
	put(472, 3 | YMM | MASKS | 0xc0, 8);
	put(HAVE_AT, 3 | YMM | MASKS | 0xc0, 8);
	for (unsigned int i = 0; i < 64; i++) {
		put(i < 16   ? 160 + 3 * 16 + i
		    : i < 32 ? YMM_HIGH_AT + 3 * 16 + i - 16
			     : 896 + 3 * 32 + i - 32,
		    i, 1);
		put(1408 + 64 + i, 100 + i, 1);
	}
	cr_assert_eq(decode(&written, extract_half, extract_half_end), 0);
	cr_assert_eq(written.way, WRITTEN_NEW);
	for (unsigned int i = 0; i < 32; i++)
		cr_assert_eq(written.value[i], 32 + i);
	cr_assert_eq(decode(&written, extract, extract_end), 0);
	cr_assert_eq(written.value[15], 47);
	cr_assert_eq(decode(&written, extract_byte, extract_byte_end), 0);
	cr_assert_eq(written.value[0], 103);
	cr_assert_eq(decode(&written, part_byte, part_byte_end), 0);
	cr_assert_eq(written.value[0], 103, "a byte of 16");
	cr_assert_eq(decode(&written, part_of_ymm, part_of_ymm_end), 0);
	cr_assert_eq(written.value[15], 31, "a part of two");
	cr_assert_eq(decode(&written, part_byte_sse, part_byte_sse_end), 0);
	cr_assert_eq(written.way, WRITTEN_NEW);
	cr_assert_eq(written.value[0], 2);
	cr_assert_eq(decode(&written, part_byte_vex, part_byte_vex_end), 0);
	cr_assert_eq(written.way, WRITTEN_NEW);
	cr_assert_eq(written.value[0], 2);
	cr_assert_eq(decode(&written, compress_q, compress_q_end), 0);
	cr_assert_eq(written.way, WRITTEN_NEW);
	cr_assert_eq(written.value[8], 32, "k1 has the bits 0 and 4 to 7");
	cr_assert_eq(decode(&written, half_floats, half_floats_end), 0);
	cr_assert_eq(written.way, WRITTEN_SOMEHOW);
	frame_zmm_high_at = 0;
	cr_assert_eq(decode(&written, extract_half, extract_half_end), 0);
	cr_assert_eq(written.way, WRITTEN_SOMEHOW);
}

Test(masked, gathers_write_no_memory)
{
	struct written written;

	frame_make(MASKS_AT_AMD);
	cr_assert_eq(decode(&written, gather, gather_end), -1);
}

static uint64_t kept_of(const uint8_t *code, const uint8_t *end)
{
	struct written written;

	cr_assert_eq(decode(&written, code, end), 0);
	return written.kept;
}

Test(masked, without_the_mask_all_may_be_written)
{
	frame_make(MASKS_AT_AMD);
	context.uc_mcontext.fpregs = NULL;
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0);
	cr_assert_eq(kept_of(maskmov_d, maskmov_d_end), 0);
	cr_assert_eq(kept_of(mask_move, mask_move_end), 0);
	frame_make(MASKS_AT_AMD);
	frame_masks_at = 0;
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0);
	frame_make(MASKS_AT_AMD);
	put(464, 0, 4);
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0, "no extended state");
	cr_assert_eq(kept_of(maskmov_d, maskmov_d_end), 0);
	frame_make(MASKS_AT_AMD);
	put(472, 3, 8);
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0, "not in this frame");
	frame_make(MASKS_AT_AMD);
	put(480, MASKS_AT_AMD + 63, 4);
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0, "behind the frame's end");
	frame_make(MASKS_AT_AMD);
	put(FORMAT_AT, UINT64_C(1) << 63, 8);
	cr_assert_eq(kept_of(dqu8, dqu8_end), 0, "the compacted format");
}

/* XSAVE leaves out what is in its initial state: all zero. */
Test(masked, state_that_is_left_out_is_zero)
{
	frame_make(MASKS_AT_AMD);
	put(HAVE_AT, 3, 8);
	cr_assert_eq(kept_of(dqu8, dqu8_end), ~UINT64_C(0));
	cr_assert_eq(kept_of(maskmov_d, maskmov_d_end), 0xffff0f00);
}

/* ---- a hit ---- */

static int is_repeat_behind;

static const uint8_t *code_at(void *data, uint64_t address, size_t bytes, int has_run,
			      uint8_t *room)
{
	static const uint8_t behind[15] = { 0xf3, 0xaa, 0x90 }; /* rep stosb */
	static const uint8_t nops[15] = { 0x90 };

	(void)data, (void)bytes, (void)has_run, (void)room;
	if (address == (uintptr_t)dqu8)
		return dqu8;
	return is_repeat_behind ? behind : nops;
}

static unsigned int before(void *data, uint64_t end, int *is_start)
{
	(void)data;
	*is_start = 0;
	return end == (uintptr_t)dqu8_end ? (unsigned int)(dqu8_end - dqu8) : 0;
}

/* dqu8 has run, and rdi is that. */
static struct access_decode hit_of(const struct control_watch *about, uint64_t rdi)
{
	const struct access_decode_reads reads = { .code = code_at, .before = before };
	struct access_decode hit = { 0 };

	frame_make(MASKS_AT_AMD);
	context.uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)dqu8_end;
	context.uc_mcontext.gregs[REG_RDI] = (greg_t)rdi;
	access_decode_find(&hit, about, &context, &reads);
	return hit;
}

/* dqu8 writes the bytes 0 and 4 to 7 of the 64 at RAX_AT + 64. */
Test(masked, hit_of_excluded_bytes_is_masked)
{
	static const struct {
		uint64_t at, bytes;
		int is_masked;
	} watches[] = {
		{ 8, 8, 1 }, { 56, 8, 1 }, { 1, 1, 1 }, { 2, 2, 1 },
		{ 0, 8, 0 }, { 4, 4, 0 },  { 0, 1, 0 }, { 7, 1, 0 },
	};

	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		struct control_watch about = { .address = RAX_AT + 64 + watches[i].at,
					       .bytes = (uint8_t)watches[i].bytes,
					       .on = WATCH_ON_WRITE };
		struct access_decode hit = hit_of(&about, RDI_AT);

		cr_assert_eq(hit.ip, (uintptr_t)dqu8);
		cr_assert_eq(access_decode_is_masked(&hit, &about), watches[i].is_masked, "%zu", i);
		cr_assert_eq(access_decode_covers(&hit, &about), !watches[i].is_masked, "%zu", i);
	}
}

/* The hit can be of the repeated store at the program counter, which stored in front of rdi. */
Test(masked, hit_that_another_store_can_have_made_is_kept)
{
	struct control_watch about = { .address = RAX_AT + 64 + 8,
				       .bytes = 8,
				       .on = WATCH_ON_WRITE };
	struct access_decode hit;

	is_repeat_behind = 1;
	hit = hit_of(&about, about.address + 4);
	cr_assert(!access_decode_is_masked(&hit, &about));
	cr_assert_eq(hit.ip, (uintptr_t)dqu8_end);
	hit = hit_of(&about, RDI_AT);
	cr_assert(access_decode_is_masked(&hit, &about));
}
