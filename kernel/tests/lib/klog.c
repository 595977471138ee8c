// SPDX-License-Identifier: GPL-2.0
#include "klog.h"
#include "ktap.h"

#define MAX_ALARMS 64
#define ALARM_BYTES 80

static char klog_alarms[MAX_ALARMS][ALARM_BYTES];
static u32 klog_nr_alarms;

/* One word or phrase on each line; a line that begins with '#' is a comment. */
static void klog_read_alarms(void)
{
	char path[240], line[ALARM_BYTES];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("alarms"));
	FILE *f;

	if (n <= 0)
		ktap_bail("/proc/self/exe");
	path[n] = 0;
	strcpy(strrchr(path, '/') + 1, "alarms");
	f = fopen(path, "re");
	if (!f)
		ktap_bail("%s", path);
	while (klog_nr_alarms < MAX_ALARMS && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] && line[0] != '#')
			strcpy(klog_alarms[klog_nr_alarms++], line);
	}
	fclose(f);
	if (!klog_nr_alarms || klog_nr_alarms == MAX_ALARMS)
		ktap_bail("%s: %u lines", path, klog_nr_alarms);
}

int klog_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -1;
	klog_read_alarms();
	lseek(fd, 0, SEEK_END);
	return fd;
}

static bool klog_is_alarm(const char *text)
{
	u32 i;

	for (i = 0; i < klog_nr_alarms; i++) {
		if (strstr(text, klog_alarms[i]))
			return true;
	}
	return false;
}

bool klog_look(int fd, char *ret_line, size_t bytes)
{
	char record[2048];
	bool found = false;
	ssize_t n;

	while (fd >= 0) {
		char *text, *end;

		n = read(fd, record, sizeof(record) - 1);
		if (n < 0 && errno == EPIPE)
			continue; /* overwritten: go on with what is left */
		if (n <= 0)
			break;
		record[n] = 0;
		text = strchr(record, ';');
		if (found || !text)
			continue;
		end = strchr(text, '\n');
		if (end)
			*end = 0;
		if (klog_is_alarm(text)) {
			snprintf(ret_line, bytes, "%s", text + 1);
			found = true;
		}
	}
	return found;
}

void klog_skip(int fd)
{
	char line[200];

	klog_look(fd, line, sizeof(line));
}

void klog_check(int fd)
{
	char line[200];

	if (klog_look(fd, line, sizeof(line)))
		ktap_fail("kernel log: %s", line);
}
