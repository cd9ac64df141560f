/* SPDX-License-Identifier: MIT */
/*
 * Call frame information (.eh_frame): where the caller's registers are at an instruction. Read by
 * address, from a file or from memory, with the caller's own reader. No libc, no allocation, and
 * each loop has a bound, so a signal handler may use it, and forged data does no harm.
 */
#ifndef BASE_CFI_H
#define BASE_CFI_H

#include <stddef.h>
#include <stdint.h>

#define CFI_REGISTERS 17 /* as DWARF numbers them for x86-64; the last is the return address */
#define CFI_RBP 6
#define CFI_RSP 7
#define CFI_RETURN 16

struct cfi_reader {
	/* All bytes, or nothing: 0; else it can't be read. */
	int (*read)(void *data, uint64_t address, void *to, size_t bytes);
	void *data;
};

/* What one function's, or part of one's, begins with. */
struct cfi_function {
	uint64_t start, end;	     /* of its code */
	uint64_t common, common_end; /* instructions of the CIE */
	uint64_t own, own_end;	     /* of the FDE */
	uint64_t code_step;
	int64_t data_step;
	uint8_t is_signal; /* what returns here was interrupted: its address is no return address */
	uint8_t encoding;
	uint8_t has_data; /* of its augmentation, in front of the FDE's instructions */
	uint8_t return_register;
};

enum cfi_how {
	CFI_SAME,      /* it was not changed */
	CFI_UNDEFINED, /* of the return address: there is no caller */
	CFI_SAVED,     /* is at the CFA + offset */
	CFI_VALUE,     /* is the CFA + offset */
	CFI_COPIED,    /* is in `reg` */
	CFI_AT,	       /* is at `reg` + offset; of the CFA: is `reg` + offset */
	/* is where `reg` + offset points; of the CFA: is the word at `reg` + offset */
	CFI_AT_DEREF,
	/*
	 * is where the jump leads that ends in byte 30 of the aligned 32 bytes around `reg` +
	 * offset
	 */
	CFI_JUMPED,
	CFI_UNKNOWN, /* in words that are not understood here */
};

struct cfi_rule {
	int32_t offset;
	uint8_t how; /* enum cfi_how */
	uint8_t reg;
};

struct cfi_row {
	struct cfi_rule cfa; /* CFI_AT, CFI_AT_DEREF, CFI_UNKNOWN */
	struct cfi_rule registers[CFI_REGISTERS];
};

/*
 * The one that holds `pc`, by the table at `header` (.eh_frame_hdr). 0; -1: none does, or it can't
 * be read.
 */
int cfi_find(const struct cfi_reader *reader, uint64_t header, uint64_t pc,
	     struct cfi_function *function);

/* Where the table's last function up to `pc` begins, however long it is. 0 or -1, likewise. */
int cfi_start(const struct cfi_reader *reader, uint64_t header, uint64_t pc, uint64_t *start);

/*
 * The rules in force when the instruction at `pc` is about to run. 0 or -1. *until, which may be
 * NULL: they hold below that address.
 */
int cfi_row(const struct cfi_reader *reader, const struct cfi_function *function, uint64_t pc,
	    struct cfi_row *row, uint64_t *until);

/* ---- from one frame to its caller's, by a row ---- */

/* As DWARF numbers them; the last is the program counter. */
struct cfi_registers {
	uint64_t values[CFI_REGISTERS];
	uint32_t known; /* a bit each */
	/* the instruction at the program counter is still to come: it is no return address */
	int is_exact;
};

enum cfi_out {
	CFI_OUT,  /* the registers are the caller's */
	CFI_END,  /* there is no caller */
	CFI_LOST, /* it is unknown */
};

/* `cfa` is of this frame; `reader` reads the stack. */
enum cfi_out cfi_step(const struct cfi_reader *reader, const struct cfi_row *row, uint64_t cfa,
		      struct cfi_registers *registers);

/* 0, or -1: its rules are not understood here. */
int cfi_cfa(const struct cfi_reader *reader, const struct cfi_row *row,
	    const struct cfi_registers *registers, uint64_t *cfa);

/* Whether a signal handler returns there: its instructions are rt_sigreturn(2). */
int cfi_is_restorer(const struct cfi_reader *reader, uint64_t pc);

/*
 * A handler has returned to where the kernel restores what it interrupted: take that from the
 * stack. 0; -1: it is not so.
 */
int cfi_interrupted(const struct cfi_reader *reader, struct cfi_registers *registers);

#endif
