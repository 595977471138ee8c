/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Commands of lodic-sim: argv[0] is what argp prints as the program's name. They return
 * the exit status. */
#ifndef LODIC_SIM_DRBH_MAIN_H
#define LODIC_SIM_DRBH_MAIN_H

int drbh_main(int argc, char **argv);  /* schemes over CPUs */
int table_main(int argc, char **argv); /* the paper's numbers beside the model's */
int fit_main(int argc, char **argv);   /* the two parameters that are fitted */

/* What the LODIC paper's text has for reads of one hot block on 120 CPUs, in Mops/s. */
#define PAPER_CPUS 120u
#define PAPER_LODIC 164.16     /* LODIC s.5.2.4, Table 3: one thread in each process */
#define PAPER_LODIC_TIMES 65.0 /* LODIC s.5.2.3: LODIC to vanilla */
#define PAPER_VANILLA (PAPER_LODIC / PAPER_LODIC_TIMES)
#define PAPER_REFCACHE 186.0 /* LODIC s.5.2.1: without collisions */

#endif
