/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What core/pte_gate.h wants defined, for schemes over process spaces. */
#ifndef LODIC_CORE_OWNED_GATE_H
#define LODIC_CORE_OWNED_GATE_H

#include "core/owned/count_owned.h"

struct gate_frame {
	u32 nr;
};

struct gate_words {
	struct count *c;
};

static inline bool gate_present(u64 pte)
{
	return pte_present(pte);
}

static inline bool gate_maps(u64 pte, struct gate_frame frame)
{
	return pte_maps(pte, frame.nr);
}

static inline void gate_add(struct gate_words words, u64 pte, u64 n)
{
	host_fetch_add(&count_owned_words(words.c, pte_frame(pte))->global, n);
}

#include "core/pte_gate.h"

#endif
