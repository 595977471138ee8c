/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Machines from text files. A topology (sim/topologies) says how many sockets and CPUs
 * there are, how far apart they are and how fast they tick. A parameter file
 * (sim/parameters) says what everything costs, with a source and perhaps a band (sim/keys.h).
 * The sensitivity set has a machine for each end of each band. What was fitted is fitted again
 * at such an end. "low_hold_ns = 1150 64" has base_work and same_socket_percent where hold_ns
 * is lowest, "high_hold_ns" where it is highest. `lodic-sim fit` prints these lines.
 */
#ifndef LODIC_SIM_MACHINE_H
#define LODIC_SIM_MACHINE_H

#include "host/sim/sim.h"

#define MACHINE_MAX_BANDS 12u
/* The machine itself, and two for each band. */
#define MACHINE_MAX_SET (1u + 2u * MACHINE_MAX_BANDS)

/* What is fitted to the papers' results. */
struct machine_fit {
	u32 base_work, same_socket_percent;
};

struct machine_band {
	u32 parameter;    /* which one: private to machine.c */
	u32 ends[2];      /* the lowest and the highest */
	bool refitted[2]; /* at this end the fit is another one */
	struct machine_fit fits[2];
};

struct machine {
	struct sim_machine timing;
	u32 table_cycle_ps;  /* clock of the machine that latencies were measured on */
	char parameters[32]; /* the file's name */
	char hash[17];       /* of its text, in hex */
	struct machine_band bands[MACHINE_MAX_BANDS];
	u32 nr_bands;
};

/* Reads a topology by its name or as a file ("8x15", "./mine"), and its parameters, or
 * those in parameters if that is not NULL. "host" is this computer: one socket with as
 * many CPUs as are online, and the parameters of 1x2. Prints what is wrong with a file
 * to stderr. Returns 0. -ENOENT: no such file. -EINVAL: something in it is wrong or
 * missing. */
int machine_read(const char *topology, const char *parameters,
                 struct machine *ret_machine);

/* The machine and its variants, each with one banded parameter at one end. ret_set has
 * room for MACHINE_MAX_SET. Returns how many. */
u32 machine_set(const struct machine *machine, struct sim_machine *ret_set);

/* The machine with this band's parameter at one end (0 lowest, 1 highest), and the name of the
 * line that has its fit. false: it is the machine itself, or there is no such band. */
#define MACHINE_FIT_BYTES 48u
bool machine_at(const struct machine *machine, u32 band, u32 end,
                struct sim_machine *ret_timing, char ret_name[MACHINE_FIT_BYTES]);

static inline u32 machine_nr_cpus(const struct machine *machine)
{
	return machine->timing.nr_sockets * machine->timing.cpus_per_socket;
}

#endif
