/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/insn_tables_form.h"
#include "arch/x86_64/insn_tables.h"

static ZydisDecoder decoder;

int form_prepare(void)
{
	return ZYAN_FAILED(
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64));
}

static uint8_t *put_legacy(uint8_t *at, const struct form *form)
{
	uint8_t rex = (uint8_t)(form->w << 3 | form->r << 2 | form->x << 1 | form->b3);

	if (form->p66)
		*at++ = 0x66;
	if (form->repeat)
		*at++ = form->repeat == 1 ? 0xf3 : 0xf2;
	if (rex)
		*at++ = 0x40 | rex;
	if (form->space != INSN_PLAIN)
		*at++ = 0x0f;
	if (form->space == INSN_0F38)
		*at++ = 0x38;
	if (form->space == INSN_0F3A)
		*at++ = 0x3a;
	*at++ = form->space == INSN_3DNOW ? 0x0f : form->opcode;
	return at;
}

static uint8_t *put_vex(uint8_t *at, const struct form *form)
{
	int is_xop = form->space >= INSN_XOP;
	int map = is_xop ? form->space - INSN_XOP + 8 : form->space - INSN_VEX + 1;

	*at++ = is_xop ? 0x8f : 0xc4;
	*at++ = (uint8_t)(!form->r << 7 | !form->x << 6 | !form->b3 << 5 | map);
	*at++ = (uint8_t)(form->w << 7 | (~form->v & 15) << 3 | form->l << 2 | form->pp);
	*at++ = form->opcode;
	return at;
}

static uint8_t *put_evex(uint8_t *at, const struct form *form)
{
	*at++ = 0x62;
	*at++ = (uint8_t)(!form->r << 7 | !form->x << 6 | !form->b3 << 5 | !form->r2 << 4 |
			  (form->space - INSN_EVEX + 1));
	*at++ = (uint8_t)(form->w << 7 | (~form->v & 15) << 3 | 4 | form->pp);
	*at++ = (uint8_t)(form->z << 7 | form->l << 5 | form->b << 4 | !form->v2 << 3 | form->aaa);
	*at++ = form->opcode;
	return at;
}

static uint8_t *put_modrm(uint8_t *at, const struct form *form)
{
	int bytes = form->mod == 1					  ? 1
		    : form->mod == 2 || (form->mod == 0 && form->rm == 5) ? 4
									  : 0;

	*at++ = (uint8_t)(form->mod << 6 | form->reg << 3 | form->rm);
	if (form->mod != 3 && form->rm == 4)
		*at++ = (uint8_t)(form->index << 3);
	return at + bytes;
}

static int is_knights_corner(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.isa_set) {
	case ZYDIS_ISA_SET_KNCE:
	case ZYDIS_ISA_SET_KNCJKBR:
	case ZYDIS_ISA_SET_KNCSTREAM:
	case ZYDIS_ISA_SET_KNCV:
	case ZYDIS_ISA_SET_KNC_MISC:
	case ZYDIS_ISA_SET_KNC_PF_HINT:
		return 1;
	default:
		return 0;
	}
}

int form_ask(struct answer *answer, const struct form *form)
{
	uint8_t code[32] = { 0 }, *at = code;

	if (form->lock)
		*at++ = 0xf0;
	if (form->p67)
		*at++ = 0x67;
	at = form->space >= INSN_EVEX  ? put_evex(at, form)
	     : form->space >= INSN_VEX ? put_vex(at, form)
				       : put_legacy(at, form);
	if (form->has_modrm)
		at = put_modrm(at, form);
	answer->head = (uint8_t)(at - code);
	if (form->space == INSN_3DNOW)
		*at = form->opcode;
	return ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code, sizeof(code), &answer->insn,
						  answer->operands)) ||
	       is_knights_corner(&answer->insn);
}

int form_is_asked(const struct form *form)
{
	struct answer answer;

	return !form_ask(&answer, form);
}
