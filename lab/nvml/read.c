/* nvml-read GPU: what NVIDIA's library of this machine answers about one GPU, one answer a line: "temperature 29",
 * "handle rc=15". It is the second reader of the lab's drills, beside gpuaas-gpu-probe, with which it has no line in common.
 *
 * It loads GPUAAS_NVML_LIBRARY, on the lab's nodes the fake. Exit status: 0 it has answered, 1 there is no such library, 3 a
 * call has not returned within 2 s.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library, *device;

static void late(int n)
{
	static const char words[] = "a call does not return\n";

	(void)n;
	(void)!write(1, words, sizeof words - 1);
	_exit(3);
}

/* call returns a call of the library, as a function of whatever it takes. */
static int (*call(const char *name))()
{
	int (*f)();

	*(void **)&f = dlsym(library, name);
	if (!f) {
		printf("%s is missing\n", name);
		exit(1);
	}
	return f;
}

static void show(const char *name, int rc, long long n)
{
	if (rc)
		printf("%s rc=%d\n", name, rc);
	else
		printf("%s %lld\n", name, n);
}

/* events shows the events that the library raises now. */
static void events(void)
{
	struct {
		void *device;
		unsigned long long type, data;
		unsigned int gi, ci;
	} e;
	void *set;

	if (call("nvmlEventSetCreate")(&set) || call("nvmlDeviceRegisterEvents")(device, 0x8008ULL, set))
		return;
	while (!call("nvmlEventSetWait_v2")(set, &e, 10))
		printf("event %#llx %llu\n", e.type, e.data);
}

int main(int argc, char **argv)
{
	unsigned int n = 0, rows[4] = { 0 }, on, up = 0, links = 0;
	unsigned long long errors = 0;
	struct {
		unsigned int id, scope;
		long long at, latency;
		unsigned int type, rc;
		long long value;
	} action = { .id = 230 };
	int rc;

	if (argc != 2) {
		fputs("usage: nvml-read GPU\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	setenv("GPUAAS_NVML_FAKE", "/run/gpuaas-lab/nvml", 0);
	setenv("GPUAAS_NVML_LIBRARY", "/usr/local/lib/gpuaas-lab/libnvidia-ml-fake.so", 0);
	signal(SIGALRM, late);
	alarm(2);
	if (!(library = dlopen(getenv("GPUAAS_NVML_LIBRARY"), RTLD_NOW))) {
		puts("no library");
		return 1;
	}
	show("init", call("nvmlInit_v2")(), 1);
	rc = call("nvmlDeviceGetCount_v2")(&n);
	show("count", rc, n);
	rc = call("nvmlDeviceGetHandleByIndex_v2")(atoi(argv[1]), &device);
	show("handle", rc, 1);
	if (rc)
		return 0;
	rc = call("nvmlDeviceGetTemperature")(device, 0, &n);
	show("temperature", rc, n);
	rc = call("nvmlDeviceGetTotalEccErrors")(device, 1, 0, &errors);
	show("double-bit errors", rc, errors);
	rc = call("nvmlDeviceGetRemappedRows")(device, rows, rows + 1, rows + 2, rows + 3);
	show("remap pending", rc, rows[2]);
	show("remap failure", rc, rows[3]);
	for (; !call("nvmlDeviceGetNvLinkState")(device, links, &on); links++)
		up += on;
	printf("links %u of %u\n", up, links);
	rc = call("nvmlDeviceGetFieldValues")(device, 1, &action);
	show("recovery action", rc ? rc : (int)action.rc, action.value);
	events();
	return 0;
}
