//go:build linux

package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// answered is a response in a recording.
type answered struct {
	FunctionReturn *int `yaml:"FunctionReturn"`
	ReturnValue    any  `yaml:"ReturnValue"`
}

// recorded is a recording, with the parts that DCGM's NVML injection library reads, and Other, which it ignores.
type recorded struct {
	Global    map[string]yaml.Node            `yaml:"Global"`
	Device    map[string]map[string]yaml.Node `yaml:"Device"`
	MigDevice map[string]map[string]answered  `yaml:"MigDevice"`
	Other     map[string]yaml.Node            `yaml:"Other"`
}

// The format of a value, by key, as that library reads it (NVIDIA/DCGM 72fa3fe, nvml-injection/src:
// InjectedNvml.cpp and NvmlReturnDeserializer.cpp): numbers, including those in a structure; texts; and the number
// of arguments of a key. The library crashes on a file with another format, and rejects one with an unknown key in
// Global.
var (
	globalKeys = []string{"Count", "CudaDriverVersion", "DriverVersion", "NVMLVersion"}
	arguments  = map[string]int{"TotalEccErrors": 2, "MemoryErrorCounter": 3, "NvLinkState": 1, "NvLinkErrorCounter": 2,
		"Temperature": 1, "TemperatureThreshold": 1, "MigDeviceHandleByIndex": 1, "ClockInfo": 1, "MaxClockInfo": 1}
	// Private, or not in a form that is played: no answer to these is in a recording.
	private = []string{"Serial", "ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses",
		"NvLinkRemotePciInfo", "NvLinkRemoteDeviceType", "TopologyCommonAncestor", "Attributes"}
	structures = map[string][]string{
		"PciInfo":           {"bus", "busId", "busIdLegacy", "device", "domain", "pciDeviceId", "pciSubSystemId"},
		"EccMode":           {"current", "pending"},
		"MigMode":           {"currentMode", "pendingMode"},
		"RemappedRows":      {"corrRows", "failureOccurred", "isPending", "uncRows"},
		"MemoryInfo":        {"free", "total", "used"},
		"MemoryInfo_v2":     {"free", "reserved", "total", "used", "version"},
		"UtilizationRates":  {"gpu", "memory"},
		"MarginTemperature": {"marginTemperature", "version"},
		"GpuFabricInfo":     {"cliqueId", "clusterUuid", "state", "status"},
		"GpuFabricInfoV":    {"cliqueId", "clusterUuid", "healthMask", "state", "status", "version"},
		"SramEccErrorStatus": {"aggregateCor", "aggregateUncBucketL2", "aggregateUncBucketMcu", "aggregateUncBucketOther",
			"aggregateUncBucketPcie", "aggregateUncBucketSm", "aggregateUncParity", "aggregateUncSecDed",
			"bThresholdExceeded", "version", "volatileCor", "volatileUncParity", "volatileUncSecDed"},
		"GspFirmwareMode": {"isEnabled"}, // the library does not play it back
	}
	textKeys = []string{"UUID", "Name", "VbiosVersion", "InforomImageVersion", "GspFirmwareVersion"}
)

// record runs the probe for one sample, and reads its recording.
func (b *built) record(t *testing.T, c *control) recorded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recording.yaml")
	if out, err := b.command(t, b.fake, c, patient, "--record", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc recorded
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc
}

// find returns the response to a call with arguments, or nil.
func find(t *testing.T, of map[string]yaml.Node, key string, args ...int) *answered {
	t.Helper()
	node, ok := of[key]
	for _, arg := range args {
		next := map[int]yaml.Node{}
		if !ok || node.Decode(&next) != nil {
			return nil
		}
		node, ok = next[arg]
	}
	if !ok {
		return nil
	}
	var a answered
	if err := node.Decode(&a); err != nil || a.FunctionReturn == nil {
		t.Fatalf("%s %v: %v", key, args, err)
	}
	return &a
}

// keyedBy returns the key and the arguments of an entry of the control file.
func keyedBy(entry string) (key string, args []int) {
	key, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(entry, "nvmlDeviceGet"), "nvmlSystemGet"), "_")
	switch rest {
	case "v2", "":
		if key == "MemoryInfo" && rest != "" {
			key = "MemoryInfo_v2"
		}
	case "v3":
	case "shutdown":
		args = []int{0}
	case "slowdown":
		args = []int{1}
	case "volatile_dram":
		args = []int{1, 0, 2}
	case "aggregate_dram":
		args = []int{1, 1, 2}
	case "volatile_sram":
		args = []int{1, 0, 7}
	case "aggregate_sram":
		args = []int{1, 1, 7}
	default:
		for arg := range strings.SplitSeq(rest, "_") {
			n, _ := strconv.Atoi(arg)
			args = append(args, n)
		}
	}
	switch key {
	case "Temperature", "NvLinkState":
		args = []int{0}
	case "ClockInfo", "MaxClockInfo":
		args = []int{1}
	case "NvLinkErrorCounter":
		args = []int{0, 0}
	}
	return key, args
}

// recording: every call of a sample and its response are in the file, in the format of DCGM's injection library.
func recording(t *testing.T, b *built) {
	for _, profile := range [...]string{"h100x8", "a100-mig", "t4"} {
		c := newControl(t, profile)
		c.refuse(1, "nvmlDeviceGetPowerUsage", 15)
		doc := b.record(t, c)
		var order []string
		if node := doc.Global["DeviceOrder"]; node.Decode(&order) != nil || len(order) != int(c.head().gpus) {
			t.Fatalf("%s: the order is %q", profile, order)
		}
		for key := range doc.Global {
			if key != "DeviceOrder" && (!slices.Contains(globalKeys, key) || find(t, doc.Global, key).ReturnValue == nil) {
				t.Errorf("%s: %s is not played", profile, key)
			}
		}
		if len(doc.Global) != 1+len(globalKeys) || *find(t, doc.Other, "Init").FunctionReturn != 0 {
			t.Errorf("%s: %v, and beside it %v", profile, slices.Collect(maps.Keys(doc.Global)), doc.Other)
		}
		for i, uuid := range order {
			whatIsRecorded(t, c, doc.Device[uuid], i)
			shapes(t, doc.Device[uuid], profile)
		}
		if profile == "a100-mig" {
			var list []string
			node := doc.Device[order[0]]["MigDeviceUUID"]
			if err := node.Decode(&list); err != nil || len(list) != 4 || len(doc.MigDevice) != 4 ||
				doc.MigDevice[list[3]]["GpuInstanceId"].ReturnValue != 4 {
				t.Errorf("instances of MIG: %q, %v, %v", list, doc.MigDevice, err)
			}
		}
	}
	c := newControl(t, "h100x8")
	c.refuse(3, "nvmlDeviceGetHandleByIndex_v2", 15)
	if doc := b.record(t, c); len(doc.Device) != 7 || *find(t, doc.Other, "HandleByIndex", 3).FunctionReturn != 15 {
		t.Errorf("a GPU without a handle: %v", doc.Other)
	}
}

// whatIsRecorded compares the calls about a GPU with the recording.
func whatIsRecorded(t *testing.T, c *control, got map[string]yaml.Node, gpu int) {
	t.Helper()
	fields := fieldsOf(t, got)
	for _, entry := range callNames(t) {
		key, args := keyedBy(entry)
		if c.asked(gpu, entry) == 0 || strings.HasPrefix(entry, "nvmlEvent") || key == "HandleByIndex" {
			continue
		}
		want := int(c.entry(gpu, entry).rc)
		if id, ok := strings.CutPrefix(entry, "field_"); ok {
			i := slices.IndexFunc(fields, func(f field) bool { return strconv.Itoa(f.ID) == id })
			if i < 0 || fields[i].Return != want || (want == 0 && fields[i].Value != c.entry(gpu, entry).v[0]) {
				t.Errorf("GPU %d: %s is %v", gpu, entry, fields)
			}
			continue
		}
		if key == "FieldValues" || (key == "MigDeviceHandleByIndex" && want == 0) {
			continue // its parts are recorded
		}
		if slices.Contains(private, key) {
			if _, there := got[key]; there {
				t.Errorf("GPU %d: %s is recorded", gpu, key)
			}
			continue
		}
		a := find(t, got, key, args...)
		if a == nil || *a.FunctionReturn != want || (a.ReturnValue == nil) != (want != 0) {
			t.Errorf("GPU %d: %s %v is recorded as %+v, want %d", gpu, key, args, a, want)
		}
	}
}

// field returns the recorded value of a field.
type field struct {
	ID     int   `yaml:"fieldId"`
	Type   int   `yaml:"valueType"`
	Return int   `yaml:"nvmlReturn"`
	Value  int64 `yaml:"value"`
}

// fieldsOf returns the fields in the order of the file.
func fieldsOf(t *testing.T, of map[string]yaml.Node) (all []field) {
	t.Helper()
	var doc struct {
		FunctionReturn int       `yaml:"FunctionReturn"`
		ReturnValue    yaml.Node `yaml:"ReturnValue"`
	}
	node := of["FieldValues"]
	if err := node.Decode(&doc); err != nil || doc.FunctionReturn != 0 || len(doc.ReturnValue.Content) != 2*9 {
		t.Fatalf("%d fields: %v", len(doc.ReturnValue.Content)/2, err)
	}
	const lastPlayed = 4 // type of a value; the library stops at another one
	for i := 1; i < len(doc.ReturnValue.Content); i += 2 {
		var f field
		parts := map[string]any{}
		if err := errors.Join(doc.ReturnValue.Content[i].Decode(&f), doc.ReturnValue.Content[i].Decode(&parts)); err != nil ||
			len(parts) != 7 {
			t.Fatalf("a field is %v: %v", parts, err)
		}
		if n := len(all); n > 0 && all[n-1].Type > lastPlayed && f.Type <= lastPlayed {
			t.Errorf("field %d is behind one that is not played", f.ID)
		}
		all = append(all, f)
	}
	return all
}

// shapes checks every response about a GPU against the format in which it is read.
func shapes(t *testing.T, of map[string]yaml.Node, profile string) {
	t.Helper()
	for key, node := range of {
		if key == "FieldValues" || key == "MigDeviceUUID" {
			continue
		}
		leaves := []*yaml.Node{&node}
		for range arguments[key] {
			var next []*yaml.Node
			for _, l := range leaves {
				for i := 0; i < len(l.Content); i += 2 {
					if _, err := strconv.Atoi(l.Content[i].Value); err != nil {
						t.Errorf("%s: %s: the argument %q", profile, key, l.Content[i].Value)
					}
					next = append(next, l.Content[i+1])
				}
			}
			leaves = next
		}
		for _, l := range leaves {
			var a answered
			if err := l.Decode(&a); err != nil || a.FunctionReturn == nil || !formOf(key, a.ReturnValue) {
				t.Errorf("%s: %s is %+v: %v", profile, key, a, err)
			}
		}
	}
}

// formOf reports whether a value has the format of its key.
func formOf(key string, value any) bool {
	if names, ok := structures[key]; ok && value != nil {
		of, _ := value.(map[string]any)
		return slices.Equal(slices.Sorted(maps.Keys(of)), names)
	}
	switch value.(type) {
	case nil:
		return true
	case string:
		return slices.Contains(textKeys, key)
	case int:
		return !slices.Contains(textKeys, key)
	}
	return false
}
