// SPDX-License-Identifier: GPL-2.0
/*
 * The holder of the lease is this process. The path runs in a child, which stops between before()
 * and act() until the lease is there. A break comes as SIGIO. The holder then looks whether the
 * file is still what it was, and gives the lease back.
 */
#include "proof.h"
#include "ktap.h"
#include "text.h"

#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>

#define PATIENCE_S 90 /* a client of NFS asks again after 5 and more seconds */
#define SWAP_MAGIC "SWAPSPACE2"

struct trial {
	struct scene *s;
	int fd, watch;
	int from_child, to_child;
	pid_t pid;
	u8 *bytes; /* that the file must have */
	bool leased, broken, early, ended;
	int refused, before, act; /* errors, or 0 */
	bool changed;
	u32 heard;
};

static sigset_t signals; /* a break, the child's end */

bool proof_has_watch(void)
{
	int fd = inotify_init1(IN_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

void proof_init(void)
{
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
}

/* Each file could be swap: its first page has the header. */
static void fill(u8 *bytes, char first)
{
	u32 *info = (u32 *)(bytes + 1024);
	u32 i;

	for (i = 0; i < PROOF_BYTES; i++)
		bytes[i] = first + i / PAGE;
	memset(bytes + 1024, 0, 1024);
	info[0] = 1;                      /* version */
	info[1] = PROOF_BYTES / PAGE - 1; /* the last page */
	memcpy(bytes + PAGE - strlen(SWAP_MAGIC), SWAP_MAGIC, strlen(SWAP_MAGIC));
}

static int make_file(const char *path, const u8 *bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, bytes, PROOF_BYTES) != (ssize_t)PROOF_BYTES || fsync(fd))
		err = -EIO;
	close(fd);
	return err;
}

static bool differs(const struct trial *h)
{
	u8 *now = malloc(PROOF_BYTES);
	struct stat st;
	bool same = !fstat(h->fd, &st) && st.st_size == (off_t)PROOF_BYTES &&
	            pread(h->fd, now, PROOF_BYTES, 0) == (ssize_t)PROOF_BYTES &&
	            !memcmp(now, h->bytes, PROOF_BYTES);

	free(now);
	return !same;
}

static void child(struct trial *h, const struct proof_path *path, int in, int out)
{
	char go;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = path->before ? path->before(h->s) : 0;
	if (write(out, &err, sizeof(err)) != sizeof(err) || read(in, &go, 1) != 1)
		_exit(EPIPE);
	_exit(-path->act(h->s));
}

static void start_child(struct trial *h, const struct proof_path *path)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		ktap_bail("pipe");
	fflush(stdout);
	h->pid = fork();
	if (h->pid < 0)
		ktap_bail("fork");
	if (!h->pid) {
		close(in[1]);
		close(out[0]);
		child(h, path, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	h->to_child = in[1];
	h->from_child = out[0];
	if (read(h->from_child, &h->before, sizeof(h->before)) != sizeof(h->before))
		h->before = -EPIPE;
}

static void take_lease(struct trial *h)
{
	h->fd = open(h->s->path, O_RDONLY | O_CLOEXEC);
	h->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (h->fd < 0 || (h->watch < 0 && errno != ENOSYS))
		ktap_bail("%s", h->s->path);
	if (h->watch >= 0 &&
	    inotify_add_watch(h->watch, h->s->path, IN_MODIFY | IN_ATTRIB) < 0)
		ktap_bail("inotify: %s", h->s->path);
	h->leased = !fcntl(h->fd, F_SETLEASE, F_RDLCK);
	if (!h->leased)
		h->refused = errno;
}

static int next_signal(time_t seconds)
{
	struct timespec limit = { .tv_sec = seconds };

	return sigtimedwait(&signals, NULL, &limit);
}

/* Lets the child go on and waits for its end. */
static void wait_child(struct trial *h)
{
	int status = 0, sig;
	char go = 1;

	if (write(h->to_child, &go, 1) != 1)
		ktap_bail("the child of %s", h->s->path);
	while (!h->ended && (sig = next_signal(PATIENCE_S)) > 0) {
		if (sig == SIGIO && !h->broken) {
			h->broken = true;
			h->early = differs(h);
			fcntl(h->fd, F_SETLEASE, F_UNLCK);
		}
		h->ended = waitpid(h->pid, &status, WNOHANG) == h->pid;
	}
	if (!h->ended) {
		kill(h->pid, SIGKILL);
		waitpid(h->pid, &status, 0);
		h->act = -ETIMEDOUT;
	} else {
		h->act = WIFEXITED(status) ? -WEXITSTATUS(status) : -EFAULT;
	}
	/* A break that did not wait for us has come by now. */
	while ((sig = next_signal(0)) > 0)
		h->broken |= sig == SIGIO;
}

static void hear(struct trial *h)
{
	char buf[4096] __attribute__((aligned(8)));
	const struct inotify_event *e;
	ssize_t n, at;

	while ((n = read(h->watch, buf, sizeof(buf))) > 0) {
		for (at = 0; at < n; at += sizeof(*e) + e->len) {
			e = (const void *)(buf + at);
			h->heard |= e->mask & (IN_MODIFY | IN_ATTRIB);
		}
	}
}

static const char *words(const struct trial *h)
{
	static char text[100];
	char lease[40] = "kept", effect[40] = "same";

	if (h->before) {
		snprintf(text, sizeof(text), "none %s", strerrorname_np(-h->before));
		return text;
	}
	if (h->broken)
		strcpy(lease, h->early ? "early" : "broken");
	else if (!h->leased)
		snprintf(lease, sizeof(lease), "refused-%s",
		         strerrorname_np(h->refused));
	if (h->act)
		snprintf(effect, sizeof(effect), "%s%s", strerrorname_np(-h->act),
		         h->changed ? "-changed" : "");
	else if (h->changed)
		strcpy(effect, "changed");
	snprintf(text, sizeof(text), "%s %s%s%s", lease, effect,
	         h->heard & IN_MODIFY ? " modify" : "",
	         h->heard & IN_ATTRIB ? " attrib" : "");
	return text;
}

const char *proof_run(struct scene *s, const char *make, const struct proof_path *path)
{
	struct trial h = {
		.s = s, .bytes = malloc(2 * PROOF_BYTES), .fd = -1, .watch = -1
	};
	const char *text;
	int err;

	fill(h.bytes, 'a');
	fill(h.bytes + PROOF_BYTES, 'A');
	err = make_file(make, h.bytes);
	if (!err)
		err = make_file(s->other, h.bytes + PROOF_BYTES);
	if (err) {
		errno = -err;
		ktap_bail("%s and %s", make, s->other);
	}
	start_child(&h, path);
	take_lease(&h);
	if (!h.before) {
		wait_child(&h);
		h.changed = differs(&h);
		hear(&h);
	} else {
		kill(h.pid, SIGKILL);
		waitpid(h.pid, NULL, 0);
		next_signal(0);
	}
	text = words(&h);
	close(h.to_child);
	close(h.from_child);
	close(h.fd);
	close(h.watch);
	unlink(s->via);
	unlink(s->other);
	unlink(make);
	free(h.bytes);
	return text;
}
