//go:build linux && cgo

package main

import (
	"cmp"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

const systemLibrary = "libnvidia-ml.so.1"

// NVML's return codes that the probe distinguishes.
const (
	invalidArgument  = int(nvml.ERROR_INVALID_ARGUMENT)
	notFound         = int(nvml.ERROR_NOT_FOUND)
	driverNotLoaded  = int(nvml.ERROR_DRIVER_NOT_LOADED)
	libraryNotFound  = int(nvml.ERROR_LIBRARY_NOT_FOUND)
	functionNotFound = int(nvml.ERROR_FUNCTION_NOT_FOUND)
)

// gone are the return codes of an unloaded driver, or of one with another version than the library.
var gone = [...]int{int(nvml.ERROR_UNINITIALIZED), driverNotLoaded, int(nvml.ERROR_LIB_RM_VERSION_MISMATCH)}

// driver is the driver's library in this process.
type driver struct {
	options
	nvml    nvml.Interface
	table   *dl.DynamicLibrary // for look-ups before Init
	calls   watch
	records *recorder // nil without --record
	errs    io.Writer
	told    string // why the library cannot be queried, as last written to errs

	// What was read before and is not read again in each sample; of the goroutine that takes samples.
	rares  map[string]*rare // by UUID
	shapes map[string]shape // of MIG instances, by UUID
	users  users
	listed int // processes of this sample

	mu     sync.Mutex      // guards what is below
	has    map[string]bool // symbols that were looked up
	absent []string        // those that are missing
}

func newDriver(o options, errs io.Writer, stuck func(call)) *driver {
	d := &driver{options: o, errs: errs, has: map[string]bool{}, rares: map[string]*rare{}, shapes: map[string]shape{},
		calls: watch{stuck: stuck, deadline: o.deadline}}
	if o.record != "" {
		d.records = newRecorder()
	}
	return d
}

// open loads and initializes the library. Its result is the state in the sample, which depends on Init's code and
// never on a text. A library that cannot be loaded and a driver that is not loaded are distinct states.
func (d *driver) open() report.Library {
	l := report.Library{State: report.Loaded, Path: d.library}
	name := cmp.Or(d.library, systemLibrary)
	if d.table == nil {
		table := dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
		var err error
		done := d.calls.begin(call{symbol: "dlopen", gpu: noGPU})
		err = table.Open()
		done()
		if err != nil {
			l.State, l.Code, l.Why = report.LibraryNotFound, libraryNotFound, *report.Words(err.Error()).Text
			return l
		}
		d.table, d.nvml = table, nvml.New(nvml.WithLibraryPath(name))
	}
	// The binding calls the newest Init of the library, and would end the process if there is none.
	if !d.lookUp("nvmlInit_v2|nvmlInit") || !d.lookUp("nvmlShutdown") {
		l.State, l.Code = report.InitFailed, functionNotFound
		return l
	}
	done := d.calls.begin(call{symbol: "nvmlInit", gpu: noGPU})
	rc := int(d.nvml.Init())
	done()
	d.records.other("Init", nil, rc, nil)
	switch rc {
	case 0:
	case driverNotLoaded:
		l.State, l.Code = report.DriverNotLoaded, rc
	case libraryNotFound:
		l.State, l.Code = report.LibraryNotFound, rc
	default:
		l.State, l.Code = report.InitFailed, rc
	}
	return l
}

// lookUp reports whether the library has one of the symbols: "nvmlInit_v2|nvmlInit". Calling a missing symbol
// would end the process.
func (d *driver) lookUp(symbols string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	has, known := d.has[symbols]
	if known {
		return has
	}
	for name := range strings.SplitSeq(symbols, "|") {
		has = has || d.table.Lookup(name) == nil
	}
	d.has[symbols] = has
	if !has {
		name, _, _ := strings.Cut(symbols, "|")
		d.absent = append(d.absent, name)
	}
	return has
}

func (d *driver) missing() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.absent...)
}

// noGPU is the index of a call that is not about a GPU.
const noGPU = -1

// call is a call into the library that is in progress.
type call struct {
	symbol string
	gpu    int
	uuid   string
	allow  time.Duration // added to the deadline, for a call that is meant to wait
	began  time.Time
}

// watch reports calls that do not return in time. They continue: nothing can stop them.
type watch struct {
	deadline time.Duration
	stuck    func(call)
}

// begin notes the start of a call; its result notes the end.
func (w *watch) begin(c call) func() bool {
	c.began = time.Now()
	return time.AfterFunc(w.deadline+c.allow, func() { w.stuck(c) }).Stop
}
