/* SPDX-License-Identifier: MIT */
/* What the steps came to: how much is watched. */
#include "target/expression/steps.h"

#include "target/expression/type_make.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

/* The whole expression, for what is wrong with what it came to. */
static int refuse_all(const struct steps *steps, int error, const char *why)
{
	const struct watch_expr *expr = steps->expr;
	struct watch_step all = { .at = expr->at, .bytes = expr->bytes };
	const char *words = strstr(expr->text, expr->words);

	all.from = words ? (size_t)(words - expr->text) : expr->at;
	all.length = words ? strlen(expr->words) : expr->bytes;
	return steps_misfit(steps, error, why, &all);
}

static int refuse_empty(const struct steps *steps, const struct declared *type)
{
	const struct watch_expr *expr = steps->expr;
	char name[DECLARED_NAME_MAX];

	declared_name(type, name, sizeof(name));
	return expression_trouble_set(steps->trouble, -WM_E_WATCH_SYNTAX, expr->at, expr->bytes,
				      "%s is of type %s, which has no bytes", expr->words, name);
}

static int end_code(struct steps *steps)
{
	struct watch_place *place = steps->place;
	char name[DECLARED_NAME_MAX];
	struct declared declared;
	int err = 0;

	if (steps->has_type) {
		declared = steps->type;
		err = steps->is_address ? 0
					: steps_peel(steps, steps->expr->at, steps->expr->bytes);
		if (err)
			return refuse_all(steps, err, MISFIT_VOID);
		if (declared_tag(&steps->type) != DW_TAG_subroutine_type) {
			steps->type = declared;
			return refuse_all(steps, -ENOENT, MISFIT_DATA);
		}
		declared_name(&steps->type, name, sizeof(name));
	} else {
		snprintf(name, sizeof(name), "code");
	}
	place->bytes = 1;
	return type_make_single(&place->type, WATCH_CODE, WM_TYPE_BYTES, 1, name);
}

/*
 * A store to one of the bits writes its byte, at least, and a debug register sees every access to
 * one of its bytes. So the smallest piece that holds all of the bits will do, whatever storage unit
 * the compiler uses for them.
 */
static int end_bits(struct steps *steps)
{
	uint64_t bytes = (steps->bit + steps->bits + 7) / 8, into;

	for (uint64_t unit = 1; unit <= 8; unit *= 2) {
		into = steps->record_offset % unit;
		if (into + bytes > unit || steps->record_offset - into + unit > steps->record_bytes)
			continue;
		if (steps_advance(steps, -(int64_t)into))
			return refuse_all(steps, -WM_E_WATCH_DAMAGED, MISFIT_VOID);
		steps->bit += (unsigned int)into * 8;
		bytes = unit;
		break;
	}
	steps->place->bytes = bytes;
	return type_make(&steps->place->type, &steps->type, bytes, steps->bit, steps->bits,
			 steps->file);
}

int steps_end(struct steps *steps)
{
	const struct watch_expr *expr = steps->expr;
	struct watch_place *place = steps->place;
	struct declared type;
	unsigned int follows = place->follow_count;
	uint64_t bytes;
	int err = 0;

	if (expr->kind == WATCH_EXECUTE)
		return end_code(steps);
	if (expr->length) {
		if (steps->has_type && !steps->is_address)
			err = steps_peel(steps, expr->at, expr->bytes);
		if (err && err != -ENOENT)
			return refuse_all(steps, err, MISFIT_VOID);
		place->bytes = expr->length;
		return expression_type_plain(&place->type, expr->length);
	}
	if (!steps->has_type)
		return refuse_all(steps, -ENOENT, MISFIT_VOID);
	steps->is_address = 0;
	type = steps->type; /* called as it is declared: the typedef's name */
	err = steps_peel(steps, expr->at, expr->bytes);
	if (err)
		return refuse_all(steps, err, MISFIT_VOID);
	if (declared_tag(&steps->type) == DW_TAG_subroutine_type)
		return refuse_all(steps, -ENOENT, MISFIT_FUNCTION);
	if (steps->bits)
		return end_bits(steps);
	err = declared_bytes(&steps->type, &bytes);
	if (err)
		return refuse_all(steps, err, MISFIT_VOID);
	if (!bytes)
		return refuse_empty(steps, &type);
	if (place->follow_count > follows) /* it was a reference */
		type = steps->type;
	place->bytes = bytes;
	err = type_make(&place->type, &type, 0, 0, 0, steps->file);
	return err == -WM_E_WATCH_DAMAGED ? refuse_all(steps, err, MISFIT_VOID) : err;
}
