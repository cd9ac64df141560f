/* SPDX-License-Identifier: MIT */
/*
 * Rows and tables: the one form of all that the command shows. A table has a name and typed
 * columns; render.h prints its rows.
 */
#ifndef READ_ROWS_ROW_H
#define READ_ROWS_ROW_H

#include <stddef.h>
#include <stdint.h>

#define ROW_COLUMNS_MAX 48

enum row_type { ROW_NULL, ROW_BOOL, ROW_U64, ROW_S64, ROW_DOUBLE, ROW_ADDRESS, ROW_TEXT };

/* The unit ends the column's key in JSON and CSV: _ns, _bytes, _percent. */
enum row_unit {
	ROW_PLAIN,
	ROW_COUNT,
	ROW_NS,	   /* a duration; text has the fitting unit: "1.23 ms" */
	ROW_TIME,  /* ns of the wall clock; text has date and time */
	ROW_SINCE, /* ns since the trace's begin; text has seconds: "0.000001234" */
	ROW_BYTES, /* text has the fitting unit: "1.5 KiB" */
	ROW_SHARE, /* percent */
};

enum row_flag {
	ROW_DETAIL = 1,	  /* for programs: text tables leave the column out */
	ROW_QUIET = 2,	  /* text has '-' for 0, and leaves a column out that has nothing else */
	ROW_FOR_TEXT = 4, /* in text alone: other columns have it in parts */
	ROW_RIGHT = 8,	  /* a text that is right-aligned, as numbers are */
	ROW_QUOTED = 16,  /* a text with quotes and escapes of its own */
};

struct row_column {
	/*
	 * in lower case, "per_second"; its title in text is "PER SECOND", and of "name" the table's
	 * name
	 */
	const char *name;
	enum row_type type;
	enum row_unit unit;
	unsigned int flags;  /* of enum row_flag */
	const char *meaning; /* for the manual */
};

struct row_table {
	const char *name, *meaning;
	const struct row_column *columns;
	unsigned int count;
};

/* A linker that collects garbage keeps it too. */
#if __has_attribute(retain)
#define ROW_KEPT used, retain
#else
#define ROW_KEPT used
#endif

/*
 * The definition of a table `variable`, of an array of columns. The section row_tables has pointers
 * to all: `waymark help --tables` prints them.
 */
#define ROW_TABLE(variable, name, meaning, columns)                                                \
	const struct row_table variable = { name, meaning, columns,                                \
					    sizeof(columns) / sizeof((columns)[0]) };              \
	static const struct row_table *const variable##_listed                                     \
		__attribute__((section("row_tables"), ROW_KEPT)) = &variable

/* A value in a row. Text is borrowed until the next row. */
struct row_value {
	enum row_type type; /* of the column, or ROW_NULL */
	enum row_unit unit; /* for text, where rows differ; 0: the column's */
	union {
		uint64_t u64; /* also of an address and a bool */
		int64_t s64;
		double real;
		const char *text;
	};
};

static inline struct row_value row_null(void)
{
	return (struct row_value){ ROW_NULL, ROW_PLAIN, { 0 } };
}

static inline struct row_value row_u64(uint64_t value)
{
	return (struct row_value){ ROW_U64, ROW_PLAIN, { .u64 = value } };
}

static inline struct row_value row_s64(int64_t value)
{
	return (struct row_value){ ROW_S64, ROW_PLAIN, { .s64 = value } };
}

static inline struct row_value row_bool(int value)
{
	return (struct row_value){ ROW_BOOL, ROW_PLAIN, { .u64 = value != 0 } };
}

static inline struct row_value row_double(double value)
{
	return (struct row_value){ ROW_DOUBLE, ROW_PLAIN, { .real = value } };
}

static inline struct row_value row_address(uint64_t value)
{
	return (struct row_value){ ROW_ADDRESS, ROW_PLAIN, { .u64 = value } };
}

/* NULL becomes null. */
static inline struct row_value row_text(const char *text)
{
	return text ? (struct row_value){ ROW_TEXT, ROW_PLAIN, { .text = text } } : row_null();
}

/* "" becomes null too. */
static inline struct row_value row_words(const char *text)
{
	return row_text(text && *text ? text : NULL);
}

/* The same value; text shows it in that unit. */
static inline struct row_value row_in(struct row_value value, enum row_unit unit)
{
	value.unit = unit;
	return value;
}

/* A number that is unknown at 0. */
static inline struct row_value row_known(uint64_t value)
{
	return value ? row_u64(value) : row_null();
}

#endif
