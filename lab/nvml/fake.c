/* A library that answers NVML's calls as a control file says. It is no copy of NVIDIA's: types are only as wide as the
 * calls need, declared from the published interface. It keeps no state of its own beyond what is registered.
 *
 * GPUAAS_NVML_FAKE names the control file, which is one of two sorts. A test maps a struct control, and changes it at any
 * time. The lab's machines have a text, see profiles/lab.txt: it is read again when another file is in its place.
 *
 * Built without what a driver of another branch lacks: -DBEFORE_535 and -DBEFORE_560.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15,
       MEMORY = 20 };
enum { GPUS = 16, EVENTS = 256, TEXT = 96 };

#define X(name) C_##name,
enum { 
#include "calls.h"
	CALLS
};
#undef X

/* The control file. Its layout is also in control_test.go. */
struct entry {
	int64_t v[4];
	char text[TEXT];
	int32_t rc;
	uint32_t delay_ms;
	uint32_t hang;  /* while it is 1 the call does not return; woken by a futex */
	uint32_t crash; /* 1: the call ends the process */
	uint32_t asked; /* how often the call was made; woken by a futex */
	uint32_t odd;   /* what else it does, see below */
};
enum {
	FULL = 1,  /* its text fills the whole buffer, without a NUL */
	NOISE = 2, /* the same, of bytes that are no text */
	TALKS = 3, /* it prints to stdout */
	EATS = 4,  /* it takes memory until there is none, or 4 GiB; gives it back, and answers that there was none */
};
struct event {
	uint32_t gpu, gi, ci, pad;
	uint64_t type, data;
};
struct control {
	uint32_t magic, calls, gpus, lost; /* lost: a bit for each GPU whose calls are refused with 15 */
	uint32_t written, taken;           /* events; written is a futex */
	uint32_t impatient, pad;           /* 1: a wait returns at once */
	struct event events[EVENTS];
	struct entry of[GPUS + 1][CALLS];  /* the last is of no GPU */
};

static struct control *control;
static int of_text; /* the control file is a text */
static int ready;
static uint64_t registered[GPUS];
static char handles[GPUS], instances[GPUS * 8], set;

/* A text is read into one of two structs in turn, so that a call that has just begun keeps what it found. */
static struct control texts[2];
static struct stat was;
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static const char *const names[] = {
#define X(name) #name,
#include "calls.h"
#undef X
};

static int call_of(const char *name)
{
	for (int i = 0; i < CALLS; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* line reads a line of a text: [@GPU] gpus N | event TYPE DATA | CALL VALUES | CALL "TEXT" | CALL rc=N | CALL hang.
 * Without @GPU it is about all of them. */
static void line(struct control *c, char *s)
{
	int gpu = -1, call, n;
	char word[64], *quote;
	unsigned long long type, data;

	if (sscanf(s, " @%d%n", &gpu, &n) == 1)
		s += n;
	if (sscanf(s, "%63s%n", word, &n) != 1 || word[0] == '#' || gpu >= GPUS)
		return;
	s += n;
	if (!strcmp(word, "gpus")) {
		c->gpus = strtoul(s, NULL, 0);
		return;
	}
	if (!strcmp(word, "event") && sscanf(s, "%lli %lli", (long long *)&type, (long long *)&data) == 2) {
		if (gpu >= 0 && c->written < EVENTS)
			c->events[c->written++] = (struct event){ gpu, ~0u, ~0u, 0, type, data };
		return;
	}
	if ((call = call_of(word)) < 0)
		return;
	quote = strchr(s, '"');
	for (int g = gpu < 0 ? 0 : gpu; g <= (gpu < 0 ? GPUS : gpu); g++) {
		struct entry *e = &c->of[g][call];
		char *p = s, *end;

		e->hang = strstr(s, "hang") != NULL;
		e->rc = 0;
		if (sscanf(s, " rc=%d", &e->rc) == 1)
			continue;
		if (quote) {
			snprintf(e->text, TEXT, "%.*s", (int)strcspn(quote + 1, "\"\n"), quote + 1);
			continue;
		}
		for (int i = 0; i < 4; i++, p = end) {
			long long v = strtoll(p, &end, 0);

			if (end == p)
				break;
			e->v[i] = v;
		}
	}
}

/* reread reads the text again where it is another one than before. Events that it had before were raised before. */
static void reread(const char *path)
{
	struct control *old = control, *c = &texts[control == texts];
	struct stat is;
	char *s = NULL;
	size_t size = 0;
	FILE *f;

	if (stat(path, &is) < 0 || (old && is.st_ino == was.st_ino && is.st_ctim.tv_sec == was.st_ctim.tv_sec &&
				    is.st_ctim.tv_nsec == was.st_ctim.tv_nsec) || !(f = fopen(path, "re")))
		return; /* as before */
	fstat(fileno(f), &was);
	memset(c, 0, sizeof *c);
	c->calls = CALLS;
	for (int g = 0; g < GPUS; g++)
		for (int i = 0; i < CALLS; i++)
			c->of[g][i].rc = i == C_nvmlDeviceGetHandleByIndex_v2 ? 0 : NOT_SUPPORTED;
	while (getline(&s, &size, f) >= 0)
		line(c, s);
	free(s);
	fclose(f);
	while (old && c->taken < old->taken && c->taken < c->written &&
	       !memcmp(&c->events[c->taken], &old->events[c->taken], sizeof *c->events))
		c->taken++;
	control = c;
}

static struct control *map(void)
{
	const char *path = getenv("GPUAAS_NVML_FAKE");
	char first = 0;
	int fd;
	void *p;

	pthread_mutex_lock(&reading);
	if (path && of_text)
		reread(path);
	if (control || !path || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
		goto out;
	if (pread(fd, &first, 1, 0) == 1 && first == '#') {
		of_text = 1;
		reread(path);
	} else {
		p = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			control = p;
	}
	close(fd);
out:
	pthread_mutex_unlock(&reading);
	return control;
}

static long futex(uint32_t *word, int op, uint32_t value, struct timespec *until)
{
	return syscall(SYS_futex, word, op, value, until, NULL, 0);
}

/* changed waits until the folder of the text has changed, or until the time is over. */
static void changed(long long ns)
{
	static int watch = -1;
	struct timespec t = { ns / 1000000000LL, ns % 1000000000LL };
	char path[4096], events[4096];

	if (watch < 0) {
		snprintf(path, sizeof path, "%s", getenv("GPUAAS_NVML_FAKE"));
		watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		inotify_add_watch(watch, dirname(path), IN_MOVED_TO | IN_CLOSE_WRITE);
		return; /* it may have changed before */
	}
	if (ppoll(&(struct pollfd){ .fd = watch, .events = POLLIN }, 1, &t, NULL) > 0)
		while (read(watch, events, sizeof events) > 0)
			;
}

static struct entry none = { .rc = UNINITIALIZED }, hungry = { .rc = MEMORY };

/* eat takes memory without touching it. What it got beyond a limit of the process answers as a call that works. */
static struct entry *eat(void)
{
	enum { PIECE = 16 << 20, PIECES = 256 };
	static struct entry fed;
	void *got[PIECES];
	int n = 0;

	while (n < PIECES && (got[n] = malloc(PIECE)))
		n++;
	for (int i = 0; i < n; i++)
		free(got[i]);
	return n < PIECES ? &hungry : &fed;
}

/* answer is the entry of a call, after what the control file has it do. */
static struct entry *answer(int gpu, int call)
{
	struct control *c = map();
	struct entry *e;

	if (!c || c->calls != CALLS || (!ready && call != C_nvmlInit_v2))
		return &none;
	if (gpu < -1 || gpu >= GPUS)
		return &none;
	e = &c->of[gpu < 0 ? GPUS : gpu][call];
	__atomic_add_fetch(&e->asked, 1, __ATOMIC_SEQ_CST);
	futex(&e->asked, FUTEX_WAKE, 1 << 30, NULL);
	if (e->delay_ms) {
		struct timespec t = { e->delay_ms / 1000, e->delay_ms % 1000 * 1000000L };
		nanosleep(&t, NULL);
	}
	while (__atomic_load_n(&e->hang, __ATOMIC_SEQ_CST)) {
		if (!of_text) {
			futex(&e->hang, FUTEX_WAIT, 1, NULL);
			continue;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
		e = &map()->of[gpu < 0 ? GPUS : gpu][call];
	}
	if (e->crash)
		raise(SIGSEGV);
	if (e->odd == TALKS) {
		printf("%d %d is called\n", gpu, call);
		fflush(stdout);
	}
	if (e->odd == EATS)
		return eat();
	return e;
}

/* code is what the call returns: a lost GPU refuses all of them but those that the library answers from memory. */
static int code(int gpu, struct entry *e)
{
	if (e != &none && gpu >= 0 && control->lost >> gpu & 1)
		return LOST;
	return e->rc;
}

static int gpu_of(void *device)
{
	char *p = device;

	if (p >= handles && p < handles + GPUS)
		return p - handles;
	return -2;
}

static int instance_of(void *device)
{
	char *p = device;

	return p >= instances && p < instances + sizeof instances ? p - instances : -1;
}

static int text(struct entry *e, int rc, char *to, unsigned int length)
{
	if (rc)
		return rc;
	if (e->odd == FULL || e->odd == NOISE) {
		memset(to, e->odd == FULL ? 'x' : 0xff, length);
		return SUCCESS;
	}
	if (strlen(e->text) >= length)
		return SMALL;
	memset(to, 0, length);
	strcpy(to, e->text);
	return SUCCESS;
}

int nvmlInit_v2(void)
{
	struct entry *e = answer(-1, C_nvmlInit_v2);

	if (e->rc == 0)
		ready = 1;
	return e->rc;
}

int nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return nvmlInit_v2();
}

int nvmlShutdown(void)
{
	struct entry *e = answer(-1, C_nvmlShutdown);

	ready = 0;
	return e->rc;
}

/* A test compares codes: the words of a library that somebody brings are others. */
const char *nvmlErrorString(int rc)
{
	(void)rc;
	return "fake";
}

int nvmlSystemGetDriverVersion(char *s, unsigned int n)
{
	struct entry *e = answer(-1, C_nvmlSystemGetDriverVersion);

	return text(e, e->rc, s, n);
}

int nvmlSystemGetNVMLVersion(char *s, unsigned int n)
{
	struct entry *e = answer(-1, C_nvmlSystemGetNVMLVersion);

	return text(e, e->rc, s, n);
}

int nvmlSystemGetCudaDriverVersion(int *n)
{
	struct entry *e = answer(-1, C_nvmlSystemGetCudaDriverVersion);

	*n = e->v[0];
	return e->rc;
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	struct entry *e = answer(-1, C_nvmlDeviceGetCount_v2);

	*n = e == &none ? 0 : control->gpus;
	return e->rc;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	struct entry *e;

	if (!map() || i >= GPUS || i >= control->gpus)
		return INVALID;
	e = answer(i, C_nvmlDeviceGetHandleByIndex_v2);
	if (e->rc)
		return e->rc;
	*device = handles + i;
	return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	for (unsigned int i = 0; map() && i < control->gpus && i < GPUS; i++)
		if (!strcmp(control->of[i][C_nvmlDeviceGetUUID].text, uuid)) {
			*device = handles + i;
			return SUCCESS;
		}
	return NOT_FOUND;
}

int nvmlDeviceGetIndex(void *device, unsigned int *n)
{
	*n = gpu_of(device);
	return gpu_of(device) < 0 ? INVALID : SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *s, unsigned int n)
{
	int mig = instance_of(device), g = gpu_of(device);
	struct entry *e;

	if (mig >= 0) {
		if (n < 48)
			return SMALL;
		strcpy(s, "MIG-00000000-0000-0000-0000-000000000000");
		s[39] += mig % 8;
		s[38] += mig / 8 % 10;
		return SUCCESS;
	}
	e = answer(g, C_nvmlDeviceGetUUID);
	return text(e, code(g, e), s, n);
}

int nvmlDeviceGetPciInfo_v3(void *device, void *info)
{
	struct {
		char legacy[16];
		unsigned int domain, bus, device, id, subsystem;
		char bus_id[32];
	} *pci = info;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetPciInfo_v3);

	memset(pci, 0, sizeof *pci);
	pci->domain = e->v[0];
	pci->bus = e->v[1];
	pci->device = e->v[2];
	pci->id = e->v[3];
	return code(g, e);
}

/* What answers with one text or one number. */
#define TEXT_CALL(name)                                  \
	int name(void *device, char *s, unsigned int n)  \
	{                                                \
		int g = gpu_of(device);                  \
		struct entry *e = answer(g, C_##name);   \
		return text(e, code(g, e), s, n);        \
	}
#define NUMBER_CALL(name, type)                          \
	int name(void *device, type *n)                  \
	{                                                \
		int g = gpu_of(device);                  \
		struct entry *e = answer(g, C_##name);   \
		*n = (type)e->v[0];                      \
		return code(g, e);                       \
	}
#define TWO_CALL(name, type)                             \
	int name(void *device, type *a, type *b)         \
	{                                                \
		int g = gpu_of(device);                  \
		struct entry *e = answer(g, C_##name);   \
		*a = (type)e->v[0];                      \
		*b = (type)e->v[1];                      \
		return code(g, e);                       \
	}

/* What other readers ask for and the probe does not. */
#define UNANSWERED(name) \
	int name(void) { return NOT_SUPPORTED; }
UNANSWERED(nvmlDeviceGetPcieThroughput)
UNANSWERED(nvmlDeviceGetFanSpeed)
UNANSWERED(nvmlDeviceGetEncoderUtilization)
UNANSWERED(nvmlDeviceGetDecoderUtilization)
UNANSWERED(nvmlDeviceGetProcessUtilization)
UNANSWERED(nvmlDeviceGetGraphicsRunningProcesses)
UNANSWERED(nvmlDeviceGetComputeRunningProcesses)

TEXT_CALL(nvmlDeviceGetSerial)
TEXT_CALL(nvmlDeviceGetVbiosVersion)
TEXT_CALL(nvmlDeviceGetInforomImageVersion)
NUMBER_CALL(nvmlDeviceGetPcieReplayCounter, unsigned int)
NUMBER_CALL(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int)
NUMBER_CALL(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int)
NUMBER_CALL(nvmlDeviceGetCurrPcieLinkWidth, unsigned int)
NUMBER_CALL(nvmlDeviceGetMaxPcieLinkWidth, unsigned int)
NUMBER_CALL(nvmlDeviceGetPowerUsage, unsigned int)
NUMBER_CALL(nvmlDeviceGetEnforcedPowerLimit, unsigned int)
NUMBER_CALL(nvmlDeviceGetPersistenceMode, unsigned int)
NUMBER_CALL(nvmlDeviceGetArchitecture, unsigned int)
NUMBER_CALL(nvmlDeviceGetMaxMigDeviceCount, unsigned int)
NUMBER_CALL(nvmlDeviceGetSupportedEventTypes, unsigned long long)
TWO_CALL(nvmlDeviceGetEccMode, unsigned int)
TWO_CALL(nvmlDeviceGetMigMode, unsigned int)
TWO_CALL(nvmlDeviceGetGspFirmwareMode, unsigned int)

int nvmlDeviceGetUtilizationRates(void *device, unsigned int *gpu_memory)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetUtilizationRates);

	gpu_memory[0] = e->v[0];
	gpu_memory[1] = e->v[1];
	return code(g, e);
}

/* v: megabytes of each MIG instance. */
static unsigned long long instance_mib(void *device)
{
	int mig = instance_of(device);

	return mig < 0 || !control ? 0 : control->of[mig / 8][C_nvmlDeviceGetAttributes_v2].v[0];
}

int nvmlDeviceGetName(void *device, char *s, unsigned int n)
{
	int mig = instance_of(device), g = mig < 0 ? gpu_of(device) : mig / 8;
	struct entry *e = answer(g, C_nvmlDeviceGetName);
	int rc = text(e, code(g, e), s, n);
	unsigned int had = rc ? 0 : strnlen(s, n);

	if (mig >= 0 && !rc && had < n)
		snprintf(s + had, n - had, " MIG 1g.%llugb", (instance_mib(device) + 1023) / 1024);
	return rc;
}

int nvmlDeviceGetAttributes_v2(void *device, void *attributes)
{
	struct {
		unsigned int counts[8];
		unsigned long long mib;
	} *a = attributes;
	int mig = instance_of(device);
	struct entry *e = answer(mig < 0 ? gpu_of(device) : mig / 8, C_nvmlDeviceGetAttributes_v2);

	memset(a, 0, sizeof *a);
	a->mib = instance_mib(device);
	return mig < 0 ? NOT_SUPPORTED : code(mig / 8, e);
}

/* v: of the multiprocessors, of the memory. Type 0 is graphics, which has the clock of the multiprocessors. */
static int clock_of(void *device, int call, unsigned int type, unsigned int *mhz)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, call);

	*mhz = e->v[type == 2];
	return type > 2 ? NOT_SUPPORTED : code(g, e);
}

int nvmlDeviceGetClockInfo(void *device, unsigned int type, unsigned int *mhz)
{
	return clock_of(device, C_nvmlDeviceGetClockInfo, type, mhz);
}

int nvmlDeviceGetMaxClockInfo(void *device, unsigned int type, unsigned int *mhz)
{
	return clock_of(device, C_nvmlDeviceGetMaxClockInfo, type, mhz);
}

/* v: what is reserved; the rest is as the first version answers. */
int nvmlDeviceGetMemoryInfo_v2(void *device, void *memory)
{
	struct {
		unsigned int version;
		unsigned long long total, reserved, free, used;
	} *m = memory;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetMemoryInfo_v2), *first;

	if (m->version != (sizeof *m | 2 << 24))
		return 25;
	if (code(g, e))
		return code(g, e);
	first = &control->of[g][C_nvmlDeviceGetMemoryInfo];
	m->total = first->v[0];
	m->reserved = e->v[0];
	m->free = first->v[0] - first->v[1];
	m->used = first->v[1] - e->v[0];
	return SUCCESS;
}

/* v: how many processes, the id of the first, memory of each, GPU instance plus 1 or 0 for none. */
static int processes(void *device, int call, unsigned int *n, void *infos)
{
	struct {
		unsigned int pid;
		unsigned long long memory;
		unsigned int gi, ci;
	} *p = infos;
	int g = gpu_of(device);
	struct entry *e = answer(g, call);
	unsigned int room = *n;

	if (code(g, e))
		return code(g, e);
	*n = e->v[0];
	if (room < *n)
		return SMALL;
	for (unsigned int i = 0; i < *n; i++) {
		p[i].pid = e->v[1] + i;
		p[i].memory = e->v[2];
		p[i].gi = e->v[3] - 1;
		p[i].ci = e->v[3] ? 0 : ~0u;
	}
	return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *n, void *infos)
{
	return processes(device, C_nvmlDeviceGetComputeRunningProcesses_v3, n, infos);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *n, void *infos)
{
	return processes(device, C_nvmlDeviceGetGraphicsRunningProcesses_v3, n, infos);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned int *n, void *infos)
{
	return processes(device, C_nvmlDeviceGetMPSComputeRunningProcesses_v3, n, infos);
}

/* v: level of GPUs of one half, level between the halves, how many GPUs a half has, 0 for all. */
int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, unsigned int *level)
{
	int g = gpu_of(device), o = gpu_of(other);
	struct entry *e = answer(g, C_nvmlDeviceGetTopologyCommonAncestor);

	if (g < 0 || o < 0)
		return INVALID;
	*level = e->v[e->v[2] && g / e->v[2] != o / e->v[2]];
	return code(g, e);
}

int nvmlDeviceGetGspFirmwareVersion(void *device, char *s)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetGspFirmwareVersion);

	return text(e, code(g, e), s, 64);
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total_free_used)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetMemoryInfo);

	total_free_used[0] = e->v[0];
	total_free_used[1] = e->v[0] - e->v[1];
	total_free_used[2] = e->v[1];
	return code(g, e);
}

int nvmlDeviceGetTotalEccErrors(void *device, unsigned int kind, unsigned int since, unsigned long long *n)
{
	int g = gpu_of(device);
	struct entry *e;

	if (kind > 1 || since > 1)
		return INVALID;
	e = answer(g, C_nvmlDeviceGetTotalEccErrors_0_0 + 2 * kind + since);
	*n = e->v[0];
	return code(g, e);
}

int nvmlDeviceGetMemoryErrorCounter(void *device, unsigned int kind, unsigned int since, unsigned int where,
				    unsigned long long *n)
{
	int g = gpu_of(device);
	struct entry *e;

	if (kind != 1 || since > 1 || (where != 2 && where != 7)) /* 2: device memory, 7: SRAM */
		return NOT_SUPPORTED;
	e = answer(g, C_nvmlDeviceGetMemoryErrorCounter_volatile_dram + 2 * (where == 7) + since);
	*n = e->v[0];
	return code(g, e);
}

int nvmlDeviceGetRemappedRows(void *device, unsigned int *corr, unsigned int *unc, unsigned int *pending,
			      unsigned int *failure)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetRemappedRows);

	*corr = e->v[0];
	*unc = e->v[1];
	*pending = e->v[2];
	*failure = e->v[3];
	return code(g, e);
}

/* v: how many links there are, which of them are active, as bits. */
int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetNvLinkState);

	if (code(g, e))
		return code(g, e);
	if (link >= e->v[0])
		return link >= 18 ? INVALID : NOT_SUPPORTED;
	*active = e->v[1] >> link & 1;
	return SUCCESS;
}

/* v: bus of the first other end, how many there are. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, void *info)
{
	struct {
		char legacy[16];
		unsigned int domain, bus, device, id, subsystem;
		char bus_id[32];
	} *pci = info;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetNvLinkRemotePciInfo_v2);

	memset(pci, 0, sizeof *pci);
	pci->bus = e->v[0] + (e->v[1] ? link % e->v[1] : 0);
	return code(g, e);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetNvLinkRemoteDeviceType);

	(void)link;
	*type = e->v[0];
	return code(g, e);
}

/* v: replays, recoveries, CRC errors of each link. */
int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned int link, unsigned int counter, unsigned long long *n)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetNvLinkErrorCounter);

	(void)link;
	if (counter > 2)
		return NOT_SUPPORTED;
	*n = e->v[counter];
	return code(g, e);
}

int nvmlDeviceGetTemperature(void *device, unsigned int sensor, unsigned int *n)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetTemperature);

	*n = e->v[0];
	return sensor ? INVALID : code(g, e);
}

int nvmlDeviceGetTemperatureThreshold(void *device, unsigned int which, unsigned int *n)
{
	int g = gpu_of(device);
	struct entry *e;

	if (which > 1)
		return NOT_SUPPORTED;
	e = answer(g, C_nvmlDeviceGetTemperatureThreshold_shutdown + which);
	*n = e->v[0];
	return code(g, e);
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int i, void **mig)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetMigDeviceHandleByIndex);

	if (code(g, e))
		return code(g, e);
	if (i >= e->v[0] || i >= 8)
		return NOT_FOUND;
	*mig = instances + 8 * g + i;
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(void *device, unsigned int *n)
{
	*n = instance_of(device) % 8 + 1;
	return instance_of(device) < 0 ? INVALID : SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(void *device, unsigned int *n)
{
	*n = 0;
	return instance_of(device) < 0 ? INVALID : SUCCESS;
}

int nvmlDeviceGetGpuFabricInfo(void *device, void *info)
{
	struct {
		unsigned char cluster[16];
		unsigned int status, clique;
		unsigned char state;
	} *f = info;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetGpuFabricInfo);

	f->state = e->v[0];
	f->status = e->v[1];
	return code(g, e);
}

#ifndef BEFORE_535
#ifndef BEFORE_560
NUMBER_CALL(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)

int nvmlDeviceGetMarginTemperature(void *device, void *info)
{
	struct {
		unsigned int version;
		int margin;
	} *m = info;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetMarginTemperature);

	if (m->version != (sizeof *m | 1 << 24))
		return 25;
	m->margin = e->v[0];
	return code(g, e);
}

int nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
	struct {
		unsigned int version;
		unsigned char cluster[16];
		unsigned int status, clique;
		unsigned char state;
		unsigned int health;
	} *f = info;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetGpuFabricInfoV);

	if (f->version != (sizeof *f | 2 << 24))
		return 25;
	f->state = e->v[0];
	f->status = e->v[1];
	f->health = e->v[2];
	return code(g, e);
}
#endif

int nvmlDeviceGetSramEccErrorStatus(void *device, void *status)
{
	struct {
		unsigned int version;
		unsigned long long counts[11];
		unsigned int exceeded;
	} *s = status;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetSramEccErrorStatus);

	s->exceeded = e->v[0];
	return code(g, e);
}
#endif

/* The name that the reasons have in drivers of every branch. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *n)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetCurrentClocksEventReasons);

	*n = e->v[0];
	return code(g, e);
}

#ifndef WITHOUT_FIELDS
int nvmlDeviceGetFieldValues(void *device, int count, void *values)
{
	static const int ids[] = { 29, 30, 31, 82, 193, 194, 226, 227, 230 };
	struct field {
		unsigned int id, scope;
		long long at, latency;
		unsigned int type, rc;
		union {
			unsigned int u;
			int i;
			unsigned long long n;
		} value;
	} *f = values;
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceGetFieldValues);

	if (code(g, e))
		return code(g, e);
	for (int i = 0; i < count; i++) {
		f[i].rc = NOT_SUPPORTED;
		for (unsigned int k = 0; k < sizeof ids / sizeof *ids; k++)
			if (f[i].id == (unsigned int)ids[k]) {
				e = answer(g, C_field_29 + k);
				f[i].rc = code(g, e);
				f[i].type = e->v[0] < 0 ? 5 : 1; /* signed int, unsigned int */
				f[i].value.n = 0;
				f[i].value.i = e->v[0];
			}
	}
	return SUCCESS;
}
#endif

int nvmlEventSetCreate(void **s)
{
	struct entry *e = answer(-1, C_nvmlEventSetCreate);

	*s = &set;
	return e->rc;
}

int nvmlEventSetFree(void *s)
{
	struct entry *e = answer(-1, C_nvmlEventSetFree);

	(void)s;
	memset(registered, 0, sizeof registered);
	return e->rc;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *s)
{
	int g = gpu_of(device);
	struct entry *e = answer(g, C_nvmlDeviceRegisterEvents);

	(void)s;
	if (code(g, e))
		return code(g, e);
	registered[g] = types;
	return SUCCESS;
}

/* Waits as long as it is asked to, unless an event of a registered kind comes; impatient: not at all. */
int nvmlEventSetWait_v2(void *s, void *data, unsigned int timeout_ms)
{
	struct {
		void *device;
		unsigned long long type, data;
		unsigned int gi, ci;
	} *d = data;
	struct entry *e = answer(-1, C_nvmlEventSetWait_v2);
	struct timespec now, end;

	(void)s;
	if (e->rc)
		return e->rc;
	if (control->impatient)
		return TIMEOUT;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	for (;;) {
		struct control *c = map();
		uint32_t written = __atomic_load_n(&c->written, __ATOMIC_SEQ_CST);
		long long left;
		struct timespec rest;

		while (c->taken != written) {
			struct event *v = &c->events[c->taken++ % EVENTS];

			if (v->gpu >= GPUS || !(registered[v->gpu] & v->type))
				continue;
			d->device = handles + v->gpu;
			d->type = v->type;
			d->data = v->data;
			d->gi = v->gi;
			d->ci = v->ci;
			return SUCCESS;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = (end.tv_sec - now.tv_sec) * 1000000000LL + end.tv_nsec - now.tv_nsec;
		if (left <= 0)
			return TIMEOUT;
		if (of_text) {
			changed(left);
			continue;
		}
		rest.tv_sec = left / 1000000000LL;
		rest.tv_nsec = left % 1000000000LL;
		futex(&c->written, FUTEX_WAIT, written, &rest);
	}
}
