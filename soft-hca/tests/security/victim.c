/*
 * A program with memory that it has registered, which others may use, and memory that it has not.
 *
 *   victim open|unreadable
 *
 * It prints the address of each area, a line each, and waits for SIGUSR1. Then it looks whether memory that nobody may
 * write is unchanged. An unreadable one has forbidden its user's other programs to look into it.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { BYTES = 4096, PART = 1024 };

/* An area, whose middle is registered, or was. */
struct area {
	const char *name;
	int access;
	char *bytes;
	struct ibv_mr *mr;
};

static struct area areas[] = {
	{ "secret", -1, NULL, NULL },
	{ "readable", 0, NULL, NULL },
	{ "writable", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, NULL, NULL },
	{ "gone", IBV_ACCESS_LOCAL_WRITE, NULL, NULL },
};
enum { AREAS = sizeof areas / sizeof *areas };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int is_intact(const struct area *area)
{
	int is_writable = strcmp(area->name, "writable") == 0;
	for (int i = 0; i < BYTES; i++)
		if (!(is_writable && i >= PART && i < 2 * PART) && area->bytes[i] != area->name[0])
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	sigset_t wanted;
	int got, count;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	if (argc > 1 && strcmp(argv[1], "unreadable") == 0 && prctl(PR_SET_DUMPABLE, 0))
		fail("PR_SET_DUMPABLE");
	struct ibv_device **devices = ibv_get_device_list(&count);
	struct ibv_context *context = devices && count ? ibv_open_device(devices[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd)
		fail("ibv_open_device, ibv_alloc_pd");
	for (struct area *area = areas; area < areas + AREAS; area++) {
		area->bytes = malloc(BYTES);
		memset(area->bytes, area->name[0], BYTES);
		if (area->access >= 0 && !(area->mr = ibv_reg_mr(pd, area->bytes + PART, PART, area->access)))
			fail("ibv_reg_mr");
		printf("%s %lu %u\n", area->name, (unsigned long)(area->bytes + PART), area->mr ? area->mr->lkey : 0);
	}
	if (ibv_dereg_mr(areas[AREAS - 1].mr))
		fail("ibv_dereg_mr");
	printf("waits\n");
	fflush(stdout);
	sigwait(&wanted, &got);
	for (struct area *area = areas; area < areas + AREAS; area++)
		printf("%s %s\n", area->name, is_intact(area) ? "is as it was" : "HAS CHANGED");
	return 0;
}
