/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs that open and close contexts. Only calls by which a context is made fail, and in a run
 * one or two of them. Now and then the service stands still for so long that a program loses its
 * connection. At the end the programs sleep, and the auditor counts contexts.
 */
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "lib/port.h"

#define NS_PER_MS ((u64)1000000)
#define MOST_SEATS 6u
/* The library waits 2 s for an answer (wire.c). */
#define LOSES_NS ((u64)2500 * NS_PER_MS)
/* The auditor counts meanwhile, and it waits for less. */
#define SLEEPS_NS ((u64)90000 * NS_PER_MS)

static const u32 seat_calls[] = {
	CALL_ALLOC,        CALL_MAP,          CALL_MEMORY_FILE,  CALL_SEAL,
	CALL_MEMORY_AGAIN, CALL_MEMORY_CLAIM, CALL_PEER_PROCESS, CALL_SEND,
	CALL_RECEIVE,      CALL_MEMORY_LOOK,
};
#define NR_SEAT_CALLS (u32)(sizeof(seat_calls) / sizeof(seat_calls[0]))

static void seats_freeze(void)
{
	struct process *service = world_youngest_service();

	if (service && !service->resume)
		process_stop_for(service, LOSES_NS + machine_draw(2000) * NS_PER_MS);
}

static void seats_rounds(struct lodic *lodic, const struct world_open *open,
                         u32 nr_open, struct lodic_context *contexts[MOST_SEATS],
                         u32 *nr)
{
	u32 which = machine_draw(MOST_SEATS);

	if (which >= *nr) {
		*nr += world_context_open(lodic, &contexts[*nr]) == 0;
	} else if (machine_draw(3) == 0) {
		world_context_close(contexts[which]);
		contexts[which] = contexts[--*nr];
	} else {
		world_rounds(contexts[which], open, nr_open, machine_draw(8));
	}
}

static void seats_work(struct lodic *lodic, u32 nr_rounds)
{
	struct lodic_context *contexts[MOST_SEATS];
	struct world_open open[WORLD_FILES];
	u32 nr_open = 0, nr = 0;

	for (u32 i = 0; i < WORLD_FILES; i++)
		nr_open += world_open(lodic, world_paths[i], &open[nr_open]);
	for (u32 i = nr_rounds; i > 0; i--) {
		if (machine_draw(24) == 0)
			seats_freeze();
		seats_rounds(lodic, open, nr_open, contexts, &nr);
	}
	settle_here();
	if (nr > 0 && machine_draw(2)) {
		world_context_close(contexts[--nr]);
		if (nr > 0)
			world_rounds(contexts[0], open, nr_open, 8);
	}
	port_sleep(SLEEPS_NS);
	while (nr > 0)
		world_context_close(contexts[--nr]);
	for (u32 i = 0; i < nr_open; i++)
		world_close(&open[i]);
}

static void seats_run(void *arg)
{
	world_works(seats_work, arg);
}

void scenario_seats(void)
{
	u32 also;

	world_no_faults();
	machine.fault_call = seat_calls[machine_draw(NR_SEAT_CALLS)];
	machine.fault_which = CALL_MOST_ERRNOS;
	also = machine_draw(2 * NR_SEAT_CALLS);
	if (also < NR_SEAT_CALLS)
		machine.fault_also = seat_calls[also];
	machine.rate[FAULT_ERRNO] = 2u << machine_draw(6);
	for (u32 i = 1 + machine_draw(3); i > 0; i--) {
		u32 nr = 20 + machine_draw(60);
		struct process *p = process_start("sitter", WORLD_USER, seats_run,
		                                  (void *)(uintptr_t)nr);

		settle_expect(p);
	}
}
