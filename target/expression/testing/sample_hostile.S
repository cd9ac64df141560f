/* SPDX-License-Identifier: MIT */
/*
 * Debug information that no compiler writes: types that are made of themselves, and far too much of
 * everything. Each variable is at `object`.
 */
	.macro	abbrev code, tag, children
	.uleb128 \code, \tag
	.byte	\children
	.endm
	.macro	has name, form
	.uleb128 \name, \form
	.endm
	.macro	is_all
	.byte	0, 0
	.endm

#define CU 1
#define VARIABLE 2
#define TYPEDEF 3
#define STRUCT 4
#define ANONYMOUS 5
#define ARRAY 6
#define COUNT 7
#define CONST 8
#define INT 9
#define MEMBER 10
#define BASE 11
#define NAMESPACE 12
#define ENUM 13
#define ENUMERATOR 14
#define COPY 15
#define FUNCTION 16
#define PARAMETER 17
#define POINTER 18
#define LOOP 19
#define NEVER 20

	.section .debug_abbrev, "", @progbits
	abbrev	CU, 0x11, 1
	has	0x13, 0x0b	/* language, data1 */
	is_all
	abbrev	VARIABLE, 0x34, 0
	has	0x03, 0x08	/* name, string */
	has	0x49, 0x13	/* type, ref4 */
	has	0x02, 0x18	/* location, exprloc */
	is_all
	abbrev	TYPEDEF, 0x16, 0
	has	0x49, 0x13
	is_all
	abbrev	STRUCT, 0x13, 1
	has	0x03, 0x08
	has	0x0b, 0x0b	/* byte_size, data1 */
	is_all
	abbrev	ANONYMOUS, 0x0d, 0
	has	0x49, 0x13
	has	0x38, 0x0b	/* data_member_location, data1 */
	is_all
	abbrev	ARRAY, 0x01, 1
	has	0x49, 0x13
	is_all
	abbrev	COUNT, 0x21, 0
	has	0x37, 0x07	/* count, data8 */
	is_all
	abbrev	CONST, 0x26, 0
	has	0x49, 0x13
	is_all
	abbrev	INT, 0x24, 0
	has	0x03, 0x08
	has	0x0b, 0x0b
	has	0x3e, 0x0b	/* encoding, data1 */
	is_all
	abbrev	MEMBER, 0x0d, 0
	has	0x03, 0x08
	has	0x49, 0x13
	has	0x38, 0x06	/* data_member_location, data4 */
	is_all
	abbrev	BASE, 0x1c, 0
	has	0x49, 0x13
	has	0x38, 0x0b
	is_all
	abbrev	NAMESPACE, 0x39, 1
	has	0x03, 0x08
	is_all
	abbrev	ENUM, 0x04, 1
	has	0x0b, 0x0b
	is_all
	abbrev	ENUMERATOR, 0x28, 0
	has	0x03, 0x08
	has	0x1c, 0x0b	/* const_value, data1 */
	is_all
	abbrev	COPY, 0x34, 0
	has	0x47, 0x13	/* specification, ref4 */
	has	0x02, 0x18
	is_all
	abbrev	FUNCTION, 0x15, 1
	has	0x49, 0x13
	is_all
	abbrev	PARAMETER, 0x05, 0
	has	0x49, 0x13
	is_all
	abbrev	POINTER, 0x0f, 0
	has	0x49, 0x13
	is_all
	abbrev	LOOP, 0x39, 1
	has	0x01, 0x13	/* sibling, ref4 */
	is_all
	abbrev	NEVER, 0x39, 0
	has	0x01, 0x13
	is_all
	.byte	0

	.macro	die kind
	.uleb128 \kind
	.endm
	.macro	ref to
	.long	\to - .Linfo
	.endm
	.macro	at_object
	.uleb128 9
	.byte	3		/* DW_OP_addr */
	.quad	object
	.endm
	.macro	variable name, type
	die	VARIABLE
	.asciz	"\name"
	ref	\type
	at_object
	.endm

	.section .debug_info, "", @progbits
.Linfo:
	.long	.Lend - .Lversion
.Lversion:
	.value	4
	.long	0
	.byte	8
	die	CU
	.byte	0x21		/* DW_LANG_C_plus_plus_14 */

.Lint:	die	INT
	.asciz	"int"
	.byte	4, 5
.Lgood:	variable good, .Lint

.Lone:	die	TYPEDEF
	ref	.Lother
.Lother: die	TYPEDEF
	ref	.Lone
	variable typedefs, .Lone

.Lconst: die	CONST
	ref	.Lconst
	variable consts, .Lconst

.Lself:	die	STRUCT
	.asciz	"self"
	.byte	8
	die	ANONYMOUS
	ref	.Lself
	.byte	0
	die	ANONYMOUS
	ref	.Lself
	.byte	0
	.byte	0
	variable itself, .Lself

.Lbase:	die	STRUCT
	.asciz	"base"
	.byte	8
	die	BASE
	ref	.Lbase
	.byte	0
	die	BASE
	ref	.Lbase
	.byte	4
	.byte	0
	variable bases, .Lbase

.Larray: die	ARRAY
	ref	.Larray
	die	COUNT
	.quad	2
	.byte	0
	variable array, .Larray

.Lhuge:	die	ARRAY
	ref	.Lint
	die	COUNT
	.quad	0x7fffffffffffffff
	.byte	0
	variable huge, .Lhuge

.Llarge: die	ARRAY
	ref	.Lint
	die	COUNT
	.quad	0x1000000000000000
	die	COUNT
	.quad	0x1000000000000000
	.byte	0
	variable product, .Llarge

.Lout:	die	STRUCT
	.asciz	"out"
	.byte	8
	die	MEMBER
	.asciz	"edge"
	ref	.Lint
	.long	6
	die	MEMBER
	.asciz	"far"
	ref	.Lint
	.long	0xfffffff0
	.byte	0
	variable out, .Lout

.Lnowhere: die	VARIABLE
	.asciz	"nowhere"
	.long	0x7fffffff
	at_object

.Lenum:	die	ENUM
	.byte	1
	.rept	100000
	die	ENUMERATOR
	.asciz	"e"
	.byte	3
	.endr
	.byte	0
	variable enumeration, .Lenum

.Lmany:	die	STRUCT
	.asciz	"many"
	.byte	16
	.rept	100000
	die	MEMBER
	.asciz	"m"
	ref	.Lint
	.long	4
	.endr
	.byte	0
	variable many, .Lmany

.Lcopy:	die	COPY
	ref	.Lcopied
	at_object
.Lcopied: die	COPY
	ref	.Lcopy
	at_object

.Lfunction: die	FUNCTION
	ref	.Lfunction
	.rept	30
	die	PARAMETER
	ref	.Lfunction
	.endr
	.byte	0
.Lpointer: die	POINTER
	ref	.Lpointer
	variable pointer, .Lpointer
.Lcaller: die	POINTER
	ref	.Lfunction
	variable caller, .Lcaller

	.rept	50000
	die	NAMESPACE
	.asciz	"n"
	.endr
	variable deep, .Lint
	.rept	50000
	.byte	0
	.endr
	variable behind, .Lint
	.byte	0
.Lend:

/* A unit whose parts each say that the next one is one before. */
.Lunit:
	.long	.Lunit_end - .Lunit_version
.Lunit_version:
	.value	4
	.long	0
	.byte	8
	die	CU
	.byte	0x21
.Lfirst: die	NEVER
	.long	.Lsecond - .Lunit
.Lsecond: die	LOOP
	.long	.Lfirst - .Lunit
	.byte	0
	.byte	0
.Lunit_end:

	.data
	.balign	8
object:
	.quad	0, 0, 0, 0, 0, 0, 0, 0
	.section .note.GNU-stack, "", @progbits
