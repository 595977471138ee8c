// SPDX-License-Identifier: GPL-2.0
/*
 * The server asks user space who a client is and what a directory or a file handle belongs to. It
 * reads the answers from "channels" of its caches. We write them there before anybody asks, so no
 * one has to wait for questions. Its lock manager wants to register with rpcbind, for which a
 * thread here says yes to everything.
 */
#include "knfsd.h"
#include "ktap.h"
#include "text.h"

#include <arpa/inet.h>
#include <linux/nfs.h>
#include <linux/nfs_mount.h>
#include <linux/nfsd/export.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CONTROL "/tmp/lodic-nfsd"
#define CLIENT "lodic"
#define FOREVER "2147483647"
#define RPCBIND_PORT 111
#define NFS_TCP_PORT 2049
#define RECORD_END 0x80000000u

static char exported[100];
static int rpcbind_fd = -1;
static pthread_t rpcbind_thread;

static int loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	struct sockaddr_in *a = (void *)&r.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	a->sin_family = AF_INET;
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (ioctl(fd, SIOCSIFADDR, &r))
		err = -errno;
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (!err && ioctl(fd, SIOCSIFFLAGS, &r))
		err = -errno;
	close(fd);
	return err;
}

/* One call: its number comes back with "accepted, done, true". */
static bool rpcbind_answer(int fd)
{
	u32 head, call[256], reply[8];
	u32 bytes;

	if (recv(fd, &head, sizeof(head), MSG_WAITALL) != sizeof(head))
		return false;
	bytes = ntohl(head) & ~RECORD_END;
	if (bytes > sizeof(call) ||
	    recv(fd, call, bytes, MSG_WAITALL) != (ssize_t)bytes)
		return false;
	memset(reply, 0, sizeof(reply));
	reply[0] = htonl(RECORD_END | (sizeof(reply) - sizeof(reply[0])));
	reply[1] = call[0];
	reply[2] = htonl(1); /* a reply */
	reply[7] = htonl(1); /* true */
	return send(fd, reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

static void *rpcbind_run(void *arg)
{
	int fd;

	while ((fd = accept(rpcbind_fd, NULL, NULL)) >= 0) {
		while (rpcbind_answer(fd))
			;
		close(fd);
	}
	return arg;
}

static int rpcbind_start(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		                 .sin_port = htons(RPCBIND_PORT),
		                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	rpcbind_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (rpcbind_fd < 0 || bind(rpcbind_fd, (void *)&a, sizeof(a)) ||
	    listen(rpcbind_fd, 8))
		return -errno;
	pthread_create(&rpcbind_thread, NULL, rpcbind_run, NULL);
	return 0;
}

static int say(const char *file, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int say(const char *file, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	int err;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err = text_append(file, text);
	if (err)
		ktap_diag("%s to %s: %s", text, file, strerror(-err));
	return err;
}

/* The client's name, its rights to the directory, and the handle that means the directory. */
static int fill_caches(const char *dir)
{
	u32 flags = NFSEXP_FSID | NFSEXP_INSECURE_PORT | NFSEXP_NOSUBTREECHECK;
	int err;

	err = say("/proc/net/rpc/auth.unix.ip/channel",
	          "nfsd 127.0.0.1 " FOREVER " " CLIENT "\n");
	if (!err)
		err = say("/proc/net/rpc/nfsd.export/channel",
		          CLIENT " %s " FOREVER " %u 65534 65534 0\n", dir, flags);
	if (!err)
		err = say("/proc/net/rpc/nfsd.fh/channel",
		          CLIENT " %u \\x00000000 " FOREVER " %s\n", 1, dir);
	return err;
}

int knfsd_start(const char *dir)
{
	int err;

	mkdir(CONTROL, 0755);
	if (mount("nfsd", CONTROL, "nfsd", 0, NULL))
		return -errno;
	snprintf(exported, sizeof(exported), "%s", dir);
	err = loopback_up();
	if (!err)
		err = rpcbind_start();
	if (!err)
		err = fill_caches(dir);
	if (!err)
		err = say(CONTROL "/versions", "+3 +4 +4.1 +4.2\n");
	if (!err)
		err = say(CONTROL "/nfsv4leasetime", "10\n");
	if (!err)
		err = say(CONTROL "/nfsv4gracetime", "10\n");
	if (!err)
		err = say(CONTROL "/portlist", "tcp %d\n", NFS_TCP_PORT);
	if (!err)
		err = say(CONTROL "/threads", "4\n");
	return err;
}

/* The handle of the exported directory, which mountd would give to a client of version 3. */
static int root_handle(struct nfs3_fh *ret_fh)
{
	char text[300];
	int fd = open(CONTROL "/filehandle", O_RDWR | O_CLOEXEC);
	ssize_t n;
	u32 i;

	if (fd < 0)
		return -errno;
	snprintf(text, sizeof(text), CLIENT " %s %u\n", exported, NFS3_FHSIZE);
	if (write(fd, text, strlen(text)) < 0 ||
	    (n = read(fd, text, sizeof(text) - 1)) < 2) {
		close(fd);
		return -errno;
	}
	close(fd);
	text[n] = 0;
	for (i = 0; i < sizeof(ret_fh->data) &&
	            sscanf(text + 2 + 2 * i, "%2hhx", &ret_fh->data[i]) == 1;
	     i++)
		;
	ret_fh->size = i;
	return 0;
}

static int mount_v3(const char *at)
{
	struct nfs_mount_data d = {
		.version = NFS_MOUNT_VERSION,
		.flags = NFS_MOUNT_VER3 | NFS_MOUNT_TCP | NFS_MOUNT_NONLM |
		         NFS_MOUNT_NOACL,
		.timeo = 600,
		.retrans = 2,
		.namlen = 255,
		.addr = { .sin_family = AF_INET,
		          .sin_port = htons(NFS_TCP_PORT),
		          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
		.hostname = "127.0.0.1",
	};
	int err = root_handle(&d.root);

	if (err)
		return err;
	return mount("127.0.0.1:/", at, "nfs", 0, &d) ? -errno : 0;
}

int knfsd_mount(u32 version, const char *at)
{
	mkdir(at, 0755);
	if (version == 3)
		return mount_v3(at);
	return mount("127.0.0.1:/", at, "nfs4", 0,
	             "vers=4.2,sec=sys,port=2049,addr=127.0.0.1,clientaddr=127.0.0.1")
	               ? -errno
	               : 0;
}

void knfsd_stop(void)
{
	say(CONTROL "/threads", "0\n");
	shutdown(rpcbind_fd, SHUT_RDWR);
	pthread_join(rpcbind_thread, NULL);
	close(rpcbind_fd);
	/* Their entries hold the directory. */
	text_write_number("/proc/net/rpc/nfsd.fh/flush", time(NULL) + 1);
	text_write_number("/proc/net/rpc/nfsd.export/flush", time(NULL) + 1);
	umount(CONTROL);
}
