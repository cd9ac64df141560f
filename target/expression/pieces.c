/* SPDX-License-Identifier: MIT */
/* The debug registers that an object takes. */
#include "target/expression/watch_place.h"

#include <inttypes.h>
#include <waymark/error.h>

/* The largest piece that begins there. */
static uint64_t piece_at(uint64_t address, uint64_t bytes)
{
	uint64_t piece = 8;

	while (piece > bytes || address & (piece - 1))
		piece /= 2;
	return piece;
}

size_t expression_pieces(uint64_t address, uint64_t bytes,
			 struct watch_piece pieces[WATCH_REGISTERS])
{
	size_t count = 0;

	while (bytes) {
		uint64_t piece = piece_at(address, bytes);

		if (count < WATCH_REGISTERS)
			pieces[count++] = (struct watch_piece){ address, (uint8_t)piece };
		else if (piece < 8)
			count++;
		else
			count += (piece = bytes & ~7ull) / 8; /* no caller needs them one by one */
		address += piece;
		bytes -= piece;
	}
	return count;
}

int expression_pieces_check(uint64_t address, uint64_t bytes, struct watch_trouble *trouble)
{
	struct watch_piece pieces[WATCH_REGISTERS];
	size_t count = expression_pieces(address, bytes, pieces);

	if (count <= WATCH_REGISTERS)
		return 0;
	return expression_trouble_set(
		trouble, -WM_E_WATCH_LARGE, 0, 0, "%" PRIu64 " bytes%s take %zu registers of %d",
		bytes, address % 8 && bytes <= 8 * WATCH_REGISTERS ? ", as they are aligned," : "",
		count, WATCH_REGISTERS);
}
