/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One run from names: sim/tier/run.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/tier/future.h"
#include "sim/tier/run.h"
#include "sim/tier/trace.h"
#include "sim/tier/work.h"

bool run_has_nodes(const struct cost *cost)
{
	return cost->machine.link_mb_s != 0;
}

/* Tier 0 is the node that the tasks leave, and tier 1 the one they go to. */
static const struct {
	const char *name;
	enum kloc_policy_id policy;
} of_nodes[] = { { "all_remote", KLOC_POLICY_ALL_FAST },
	         { "all_local", KLOC_POLICY_ALL_SLOW } };
#define NR_OF_NODES (sizeof(of_nodes) / sizeof(*of_nodes))

static void name_with(const char *name, char from, char to,
                      char ret_name[RUN_NAME_BYTES])
{
	char *at;

	snprintf(ret_name, RUN_NAME_BYTES, "%s", name);
	for (at = ret_name; *at; at++)
		if (*at == from)
			*at = to;
}

enum kloc_policy_id run_policy_named(const char *name, bool nodes)
{
	char theirs[RUN_NAME_BYTES];
	size_t i;

	for (i = 0; nodes && i < NR_OF_NODES; i++)
		if (strcmp(of_nodes[i].name, name) == 0)
			return of_nodes[i].policy;
	name_with(name, '_', '-', theirs);
	return kloc_policy_named(theirs);
}

const char *run_policy_name(enum kloc_policy_id policy, bool nodes,
                            char ret_name[RUN_NAME_BYTES])
{
	size_t i;

	name_with(kloc_policy_name(policy), '-', '_', ret_name);
	for (i = 0; nodes && i < NR_OF_NODES; i++)
		if (of_nodes[i].policy == policy)
			snprintf(ret_name, RUN_NAME_BYTES, "%s", of_nodes[i].name);
	return ret_name;
}

u32 run_policies(bool nodes, enum kloc_policy_id *ret_policies)
{
	static const enum kloc_policy_id two[] = {
		KLOC_POLICY_ALL_SLOW,  KLOC_POLICY_NAIVE,  KLOC_POLICY_NIMBLE,
		KLOC_POLICY_NIMBLE_PP, KLOC_POLICY_TPP,    KLOC_POLICY_NO_MIGRATION,
		KLOC_POLICY_KLOC,      KLOC_POLICY_ORACLE, KLOC_POLICY_ALL_FAST,
	};
	static const enum kloc_policy_id sockets[] = {
		KLOC_POLICY_ALL_FAST,  KLOC_POLICY_NIMBLE,    KLOC_POLICY_AUTONUMA,
		KLOC_POLICY_KLOC_NUMA, KLOC_POLICY_REPLICATE, KLOC_POLICY_ALL_SLOW,
	};
	size_t bytes = nodes ? sizeof(sockets) : sizeof(two);

	memcpy(ret_policies, nodes ? sockets : two, bytes);
	return (u32)(bytes / sizeof(*two));
}

enum kloc_policy_id run_yardstick(bool nodes)
{
	return nodes ? KLOC_POLICY_ALL_FAST : KLOC_POLICY_ALL_SLOW;
}

static int source_open(const struct run *run, struct tier_source **ret_source)
{
	struct work_options options = { run->seed, run->options.scale, run->reuse,
		                        run->options.cost };
	int err;

	if (run->trace)
		return trace_open(run->trace, run->format, ret_source);
	err = work_open(run->workload, &options, ret_source);
	if (err == -ENOENT)
		fprintf(stderr,
		        "lodic-sim: there is no workload '%s'; --list shows them\n",
		        run->workload);
	else if (err)
		fprintf(stderr, "lodic-sim: %s: %s\n", run->workload, strerror(-err));
	return err;
}

int run_policy(const struct run *run, enum kloc_policy_id policy,
               struct engine_result *ret_result)
{
	struct engine_options options = run->options;
	struct tier_source *source, *in_front;
	int err = source_open(run, &source);

	if (err)
		return err;
	options.policy = policy;
	options.nodes = run_has_nodes(options.cost);
	if (run->record) {
		/* That it cannot be written is no wrong usage. */
		err = trace_record(source, run->record, &in_front) ? -EIO : 0;
		source = err ? source : in_front;
	}
	if (!err && policy == KLOC_POLICY_ORACLE) {
		in_front = future_open(source);
		if (!in_front) {
			err = -ENOMEM;
			fprintf(stderr, "lodic-sim: no memory for the oracle\n");
		}
		source = err ? source : in_front;
	}
	if (!err)
		err = engine_run(source, &options, ret_result);
	source->close(source);
	return err;
}
