/* SPDX-License-Identifier: MIT */
#include "agent/marker/plan.h"

#include "agent/marker/field.h"

void plan_finish(struct plan *plan)
{
	struct plan_step *step = plan->steps;

	plan->payload_bytes = 0;
	plan->has_refs = 0;
	plan->field_count = 0;
	*step = (struct plan_step){ 0 };
	for (unsigned int i = 0; i < sizeof plan->types && plan->types[i]; i++) {
		unsigned int type = plan->types[i] & FIELD_TYPE_MASK;

		plan->field_count++;
		plan->payload_bytes = (uint16_t)(plan->payload_bytes + field_payload_bytes[type]);
		if (type == WM_TYPE_STR || type == WM_TYPE_BYTES) {
			plan->has_refs = 1;
			step->ref = (uint8_t)type;
			*++step = (struct plan_step){ 0 };
		} else {
			step->bytes = (uint8_t)(step->bytes + field_payload_bytes[type]);
		}
	}
	plan->payload_words = (uint16_t)((plan->payload_bytes + 7) / 8);
	plan->is_plain = plan->uses_tsc && plan->consumer_count == 1 && !plan->probe_count;
}
