/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The measurements of `lodic bench`. Each is a command, as cli/command.h says. */
#ifndef LODIC_BENCH_COMMAND_BENCH_H
#define LODIC_BENCH_COMMAND_BENCH_H

int command_bench_counter(int argc, char **argv);
int command_bench_pin(int argc, char **argv);
int command_bench_memory(int argc, char **argv);
int command_bench_service(int argc, char **argv);
int command_bench_tier(int argc, char **argv);

#endif
