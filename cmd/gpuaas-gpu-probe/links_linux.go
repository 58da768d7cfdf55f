//go:build linux && cgo

package main

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// maxLinks is more than the number of NVLinks of any GPU.
const maxLinks = 36

// links queries each NVLink. The driver returns "not supported" for link 0 of a GPU without NVLinks, and for a
// higher link that this GPU does not have.
func (v *device) links() {
	have, active := int64(0), int64(0)
	var failed *report.Reading
	for link := range maxLinks {
		var state nvml.EnableState
		why, ok := v.try("nvmlDeviceGetNvLinkState", []any{link}, func() (any, nvml.Return) {
			var rc nvml.Return
			state, rc = v.handle.GetNvLinkState(link)
			return int(state), rc
		})
		if ok {
			have++
			if state == nvml.FEATURE_ENABLED {
				active, v.up = active+1, append(v.up, link)
			} else {
				v.out.LinksDown = append(v.out.LinksDown, link)
			}
			continue
		}
		if link > 0 && (why.Unsupported || why.FailedWith(invalidArgument)) {
			continue // it has fewer
		}
		failed = &why
		break
	}
	if failed != nil {
		v.set(report.NVLinks, *failed)
		v.set(report.NVLinksActive, *failed)
	} else {
		v.set(report.NVLinks, report.ReadingOf(have))
		v.set(report.NVLinksActive, report.ReadingOf(active))
	}
	for _, c := range [...]struct {
		signal  report.Signal
		counter nvml.NvLinkErrorCounter
	}{
		{report.NVLinkReplayErrors, nvml.NVLINK_ERROR_DL_REPLAY},
		{report.NVLinkRecoveryErrors, nvml.NVLINK_ERROR_DL_RECOVERY},
		{report.NVLinkCRCErrors, nvml.NVLINK_ERROR_DL_CRC_FLIT},
	} {
		v.set(c.signal, v.linkErrors(c.counter, v.up))
	}
}

// linkErrors sums one counter over the active links; there is no sum if one query is refused.
func (v *device) linkErrors(counter nvml.NvLinkErrorCounter, links []int) report.Reading {
	if len(links) == 0 {
		return report.Skipped(report.NotThere)
	}
	sum := int64(0)
	for _, link := range links {
		var n uint64
		why, ok := v.try("nvmlDeviceGetNvLinkErrorCounter", []any{link, int(counter)}, func() (any, nvml.Return) {
			var rc nvml.Return
			n, rc = v.handle.GetNvLinkErrorCounter(link, counter)
			return n, rc
		})
		if !ok {
			return why
		}
		if n > math.MaxInt64-uint64(sum) {
			return report.Skipped(report.NoAnswer)
		}
		sum += int64(n)
	}
	return report.ReadingOf(sum)
}
