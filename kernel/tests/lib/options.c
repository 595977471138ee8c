// SPDX-License-Identifier: GPL-2.0
#include "options.h"

struct options opt = { .seconds = 3, .window = 100, .mappers = 1 };

static void options_usage(const char *name)
{
	fprintf(stderr,
	        "usage: %s [-t seconds] [-s subtest] [-r seed] [-d dir] [-p processes]\n"
	        "          [-n threads] [-w window spins] [-m mappers]\n",
	        name);
	exit(2);
}

void options_scale(void)
{
	const char *seconds = getenv("LODIC_SECONDS"), *slow = getenv("LODIC_SLOW");
	const char *burst = getenv("LODIC_BURST");

	if (slow)
		opt.seconds *= atoi(slow);
	if (seconds)
		opt.seconds = atoi(seconds);
	if (burst)
		opt.burst = atoi(burst);
}

void options_parse(int argc, char **argv)
{
	int c;

	opt.seed = 1;
	options_scale();
	while ((c = getopt(argc, argv, "t:s:r:d:p:n:w:m:")) != -1) {
		switch (c) {
		case 't': opt.seconds = atoi(optarg); break;
		case 's': opt.only = optarg; break;
		case 'r': opt.seed = strtoull(optarg, NULL, 0); break;
		case 'd': opt.dir = optarg; break;
		case 'p': opt.procs = atoi(optarg); break;
		case 'n': opt.threads = atoi(optarg); break;
		case 'w': opt.window = atoi(optarg); break;
		case 'm': opt.mappers = atoi(optarg); break;
		default: options_usage(argv[0]);
		}
	}
	if (optind != argc || !opt.seconds)
		options_usage(argv[0]);
}
