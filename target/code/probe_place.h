/* SPDX-License-Identifier: MIT */
/*
 * What the parts of code/ say to each other: a place in a module's code, what to record there, and
 * where each value is. Addresses are as linked, unless it says otherwise: in a process, the
 * module's base is added.
 */
#ifndef TARGET_CODE_PROBE_PLACE_H
#define TARGET_CODE_PROBE_PLACE_H

#include "abi/predicate.h"
#include "abi/sum.h"
#include "base/enumeration.h"

#include <stdint.h>

#define CODE_FIELDS_MAX 16
#define CODE_RETURNS_MAX 16 /* more than one: a structure's members */

enum code_operand_kind {
	/*
	 * general, in DWARF's and the psABI's numbers: 0 rax 1 rdx 2 rcx 3 rbx 4 rsi 5 rdi 6 rbp 7
	 * rsp 8-15
	 */
	OPERAND_REGISTER,
	OPERAND_HIGH,	 /* %ah and its like: bits 8 to 15 of that register */
	OPERAND_VECTOR,	 /* %xmm0 to %xmm15, its low 4 or 8 bytes */
	OPERAND_MEMORY,	 /* base + index * scale + displacement */
	OPERAND_ADDRESS, /* memory at an address of the module (sym(%rip)) */
	OPERAND_CONSTANT,
	OPERAND_ERRNO, /* of a function that has returned; reg: enum code_errno */
};

/* The error if the result says that there was one, else 0. As abi/detour.h counts. */
enum code_errno { ERRNO_OF_INT, ERRNO_OF_LONG, ERRNO_OF_NULL };

#define OPERAND_NONE 0xff /* no base, no index */

/* Where a value is at the point, and how wide it is there. */
struct code_operand {
	uint8_t kind;
	uint8_t bytes; /* 1, 2, 4, 8 */
	uint8_t reg;   /* register; base of memory */
	uint8_t index;
	uint8_t scale; /* 1, 2, 4, 8 */
	/* or the address, or the constant; of a register: the bytes of it below the value */
	int64_t displacement;
};

struct code_field {
	char name[64];
	uint8_t type; /* WM_TYPE_*. The operand has its width, except WM_TYPE_STR's: a pointer */
	struct code_operand from;
	const struct enumeration *names; /* of its values, the file's; may be NULL */
};

enum code_place_kind { PLACE_USDT, PLACE_FUNCTION, PLACE_ADDRESS };

/* Sums that a spec wants in place of events. */
struct code_sums {
	struct sum_field fields[SUM_FIELDS_MAX];
	unsigned int count;
	uint32_t is_wanted; /* 0: events */
};

struct code_place {
	enum code_place_kind kind;
	const char *subsystem; /* provider; the module's short name */
	const char *
		/* the probe's name, the function's; "OFFSET" or "FILE:LINE" for an address */
		event;
	const char *source; /* file of the source, "" if unknown */
	unsigned int line;  /* 0: unknown */
	uint64_t address;   /* the probed point */
	uint64_t semaphore; /* 0: none */
	uint64_t function;  /* start of the function that holds it, 0: unknown */
	uint64_t function_bytes;
	/* address is a function's entry: no red zone, no vector state that counts */
	int is_entry;
	int wants_return, wants_entry;
	/* at most, in a callchain of each event, which then has a field less; 0: none */
	uint32_t callers;
	unsigned int trigger; /* the spec's; 0: none */
	unsigned int handler; /* likewise */
	int is_safe;	      /* not where a uprobe of other tools could leave wrong code behind */
	/* the request's, and which of the event's fields each is about */
	const struct predicate *predicates;
	unsigned int predicate_count;
	uint8_t predicate_fields[PREDICATES_MAX];
	const struct code_sums *sums; /* likewise; NULL: it wants events */
	uint8_t sum_fields[SUM_FIELDS_MAX];
	/*
	 * one event, at the return: the entry's fields, the return's, and `duration`
	 */
	int is_once;
	int replaces; /* of calls that the handler replaces */
	int is_void;  /* likewise, and the function has no result */
	unsigned int field_count;
	unsigned int return_count; /* where wants_return; 0: nothing that a field can hold */
	/*
	 * The entry's, then the return's, in rax, rdx, xmm0, xmm1, errno. Last: a copy may have
	 * these alone.
	 */
	struct code_field fields[CODE_FIELDS_MAX + CODE_RETURNS_MAX];
};

static inline const struct code_field *code_place_returns(const struct code_place *place)
{
	return place->fields + place->field_count;
}

#endif
