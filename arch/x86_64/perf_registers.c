/* SPDX-License-Identifier: MIT */
#include "arch/perf_registers.h"

#include <asm/perf_regs.h>
#include <stddef.h>
#include <string.h>

const uint64_t perf_registers_general = UINT64_C(0xff02ff);
const unsigned int perf_register_ip = PERF_REG_X86_IP;
const unsigned int perf_register_result = PERF_REG_X86_AX;

const unsigned int perf_registers_arguments[PERF_REGISTERS_ARGUMENTS] = {
	PERF_REG_X86_DI, PERF_REG_X86_SI, PERF_REG_X86_DX,
	PERF_REG_X86_CX, PERF_REG_X86_R8, PERF_REG_X86_R9,
};

const unsigned int perf_registers_dwarf[PERF_REGISTERS_DWARF] = {
	PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,	PERF_REG_X86_SI,
	PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,	PERF_REG_X86_R9,
	PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
	PERF_REG_X86_R15, PERF_REG_X86_IP,
};

void perf_registers_context(const uint64_t *registers, ucontext_t *context)
{
	static const struct {
		uint8_t to, from;
	} pairs[] = {
		{ REG_RAX, PERF_REG_X86_AX },  { REG_RBX, PERF_REG_X86_BX },
		{ REG_RCX, PERF_REG_X86_CX },  { REG_RDX, PERF_REG_X86_DX },
		{ REG_RSI, PERF_REG_X86_SI },  { REG_RDI, PERF_REG_X86_DI },
		{ REG_RBP, PERF_REG_X86_BP },  { REG_RSP, PERF_REG_X86_SP },
		{ REG_RIP, PERF_REG_X86_IP },  { REG_EFL, PERF_REG_X86_FLAGS },
		{ REG_R8, PERF_REG_X86_R8 },   { REG_R9, PERF_REG_X86_R9 },
		{ REG_R10, PERF_REG_X86_R10 }, { REG_R11, PERF_REG_X86_R11 },
		{ REG_R12, PERF_REG_X86_R12 }, { REG_R13, PERF_REG_X86_R13 },
		{ REG_R14, PERF_REG_X86_R14 }, { REG_R15, PERF_REG_X86_R15 },
	};

	memset(context, 0, sizeof(*context));
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		context->uc_mcontext.gregs[pairs[i].to] = (greg_t)registers[pairs[i].from];
}
