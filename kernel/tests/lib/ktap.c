// SPDX-License-Identifier: GPL-2.0
#include "ktap.h"
#include "options.h"

static u32 ktap_at, ktap_failed, ktap_skipped;
static char ktap_why[400]; /* first reason why the present subtest failed */

bool ktap_failing(void)
{
	return ktap_why[0];
}

void ktap_plan(u32 nr)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("KTAP version 1\n1..%u\n", nr);
	printf("# seed %llu, %u s each, window %u, mappers %u\n",
	       (unsigned long long)opt.seed, opt.seconds, opt.window, opt.mappers);
}

void ktap_diag(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
}

void ktap_fail(const char *fmt, ...)
{
	char text[sizeof(ktap_why)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ktap_diag("%s", text);
	if (!ktap_why[0])
		memcpy(ktap_why, text, sizeof(text));
}

void ktap_result(const char *name)
{
	ktap_at++;
	if (ktap_why[0]) {
		ktap_failed++;
		printf("not ok %u %s: %s\n", ktap_at, name, ktap_why);
	} else {
		printf("ok %u %s\n", ktap_at, name);
	}
	ktap_why[0] = 0;
}

void ktap_skip(const char *name, const char *reason)
{
	printf("ok %u %s # SKIP %s\n", ++ktap_at, name, reason);
	ktap_skipped++;
	ktap_why[0] = 0;
}

int ktap_end(void)
{
	printf("# totals: pass:%u fail:%u skip:%u\n",
	       ktap_at - ktap_failed - ktap_skipped, ktap_failed, ktap_skipped);
	return ktap_failed ? 1 : 0;
}

void ktap_bail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("Bail out! ");
	vprintf(fmt, ap);
	printf(": %s\n", strerror(errno));
	va_end(ap);
	exit(2);
}
