/* SPDX-License-Identifier: MIT */
#include "target/code/probe_fields.h"

#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct spec spec;
static struct code_place place;
static struct code_values values;
static char name[64];

static int choose(const char *text)
{
	spec_release(&spec);
	cr_assert_eq(spec_read(&spec, text, (struct detail){ 0 }), 0, "%s", text);
	return code_fields_choose(spec.request, &values, &place, name);
}

/* int a in edi, double b in xmm0, what is nowhere, char c on the stack */
static void set_values(void)
{
	values = (struct code_values){
		.all = { { "a", WM_TYPE_I32, { OPERAND_REGISTER, 4, 5, OPERAND_NONE, 0, 0 }, NULL },
			 { "b", WM_TYPE_F64, { OPERAND_VECTOR, 8, 0, OPERAND_NONE, 0, 0 }, NULL },
			 { "lost", 0, { 0 }, NULL },
			 { "c", WM_TYPE_CHAR, { OPERAND_MEMORY, 1, 7, OPERAND_NONE, 1, 8 }, NULL } },
		.count = 4,
		.with_registers = 1,
		.is_told = 1,
		.lost_err = -WM_E_PARAMETER_LOST,
	};
}

Test(field, what_is_told_is_recorded_when_nothing_is_named)
{
	set_values();
	cr_assert_eq(choose("func:f"), 0);
	cr_assert_eq(place.field_count, 3);
	cr_assert_str_eq(place.fields[2].name, "c");
	cr_assert_eq(choose("func:f/ret/"), 0);
	cr_assert_eq(place.field_count, 3);
	values.is_told = 0;
	cr_assert_eq(choose("func:f/ret/"), 0);
	cr_assert_eq(place.field_count, 0);
	cr_assert_eq(choose("func:f/args/"), 0);
	cr_assert_eq(place.field_count, 3);
}

Test(field, a_probe_with_an_unreadable_argument_is_refused_by_its_name)
{
	set_values();
	values.lost_err = -WM_E_OPERAND;
	cr_assert_eq(choose("usdt:a:b"), -WM_E_OPERAND);
	cr_assert_str_eq(name, "lost");
	cr_assert_eq(choose("usdt:a:b/a/"), 0);
	cr_assert_eq(choose("usdt:a:b/arg3/"), -WM_E_OPERAND);
}

Test(field, by_name_by_place_by_register)
{
	set_values();
	cr_assert_eq(choose("func:f/c,arg1,rsi,xmm3:f32,al/"), 0);
	cr_assert_eq(place.field_count, 5);
	cr_assert_eq(place.fields[0].from.kind, OPERAND_MEMORY);
	cr_assert_str_eq(place.fields[1].name, "arg1");
	cr_assert_eq(place.fields[1].type, WM_TYPE_I32);
	cr_assert_eq(place.fields[2].from.reg, 4);
	cr_assert_eq(place.fields[2].type, WM_TYPE_U64);
	cr_assert_eq(place.fields[3].type, WM_TYPE_F32);
	cr_assert_eq(place.fields[3].from.bytes, 4);
	cr_assert_eq(place.fields[4].type, WM_TYPE_U8);
	values.lost_errs[2] = -WM_E_PARAMETER_TYPE;
	cr_assert_eq(choose("func:f/lost/"), -WM_E_PARAMETER_TYPE);
	values.lost_errs[2] = 0;
	cr_assert_eq(choose("func:f/lost/"), -WM_E_PARAMETER_LOST);
	cr_assert_eq(choose("func:f/arg5/"), -WM_E_NO_PARAMETER);
	cr_assert_str_eq(name, "arg5");
	cr_assert_eq(choose("func:f/nothing/"), -WM_E_NO_PARAMETER);
	values.with_registers = 0;
	cr_assert_eq(choose("func:f/rdi/"), -WM_E_NO_PARAMETER);
}

Test(field, a_type_must_fit_what_it_is_read_from)
{
	set_values();
	code_values_registers(&values);
	cr_assert_eq(choose("func:f/arg1:str,arg2:u8,arg3:i32,arg4:x,arg5:char,arg6:bool/"), 0);
	cr_assert_eq(place.fields[0].from.bytes, 8);
	cr_assert_eq(place.fields[1].from.bytes, 1);
	cr_assert_eq(place.fields[2].type, WM_TYPE_I32);
	cr_assert_eq(place.fields[3].type, WM_TYPE_PTR);
	cr_assert_eq(choose("func:f/arg1:f64/"), -WM_E_FIELD_TYPE);
	set_values();
	cr_assert_eq(choose("func:f/a:u64/"), -WM_E_FIELD_TYPE);
	cr_assert_eq(choose("func:f/a:str/"), -WM_E_FIELD_TYPE);
	cr_assert_eq(choose("func:f/a:x/"), 0);
	cr_assert_eq(place.fields[0].type, WM_TYPE_U32);
	cr_assert_eq(choose("func:f/b:f32/"), 0);
	cr_assert_eq(choose("func:f/b:u8/"), -WM_E_FIELD_TYPE);
}
