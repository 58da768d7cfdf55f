package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// condition is one condition of a rule: why a fact does not meet it, "" if it does or the rule does not ask.
type condition func(r *diag.CheckRule, f *diag.Fact) string

// conditions are asked in this order. A condition about what was not measured is not met.
var conditions = []condition{failures, status, state, exists, file, ages, latency, certificate, disk, counts}

// against returns the first condition of a rule that a fact does not meet, as text; "" if it meets all.
func against(r *diag.CheckRule, f *diag.Fact, fields map[string]string) string {
	if r == nil {
		return ""
	}
	for _, c := range conditions {
		if why := c(r, f); why != "" {
			return why
		}
	}
	if f.HTTP != nil {
		fields = f.HTTP.Fields
	}
	for _, name := range slices.Sorted(maps.Keys(r.Field)) {
		value, there := fields[name]
		if !there {
			return fmt.Sprintf("the answer has no %s", name)
		}
		m := r.Field[name]
		if why := m.Against(value); why != "" {
			return name + " " + why
		}
	}
	if r.Text != nil {
		text := ""
		if f.Command != nil {
			text = f.Command.Out
		}
		if why := r.Text.Against(text); why != "" {
			return "the output " + why
		}
	}
	return ""
}

const unmeasured = "it was not measured"

func failures(r *diag.CheckRule, f *diag.Fact) string {
	if len(r.Failure) == 0 || slices.Contains(r.Failure, f.Failure) {
		return ""
	}
	if f.Failure == diag.OK {
		return "it works, and must not"
	}
	return "it fails with " + string(f.Failure)
}

func status(r *diag.CheckRule, f *diag.Fact) string {
	switch {
	case len(r.Status) == 0:
		return ""
	case f.HTTP == nil:
		return "no answer by HTTP"
	case !slices.Contains(r.Status, f.HTTP.Status):
		return fmt.Sprintf("the status is %d", f.HTTP.Status)
	}
	return ""
}

func state(r *diag.CheckRule, f *diag.Fact) string {
	is, health := "", ""
	switch {
	case f.Unit != nil:
		is = f.Unit.Active
	case f.Container != nil:
		is, health = f.Container.State, f.Container.Health
	}
	switch {
	case len(r.State) > 0 && !slices.Contains(r.State, is):
		return fmt.Sprintf("the state is %q, none of %s", is, strings.Join(r.State, ", "))
	case len(r.Health) > 0 && !slices.Contains(r.Health, health):
		return fmt.Sprintf("the health is %q, none of %s", health, strings.Join(r.Health, ", "))
	}
	return ""
}

func exists(r *diag.CheckRule, f *diag.Fact) string {
	if r.Exists == nil {
		return ""
	}
	there := f.Failure != diag.FileMissing
	if f.Process != nil {
		there = f.Process.Count > 0
	}
	switch {
	case there && !*r.Exists:
		return "it is there, and must not be"
	case !there && *r.Exists:
		return "it is not there"
	}
	return ""
}

func file(r *diag.CheckRule, f *diag.Fact) string {
	switch {
	case r.Mode == "" && r.SHA256 == "":
	case f.File == nil:
		return unmeasured
	case r.Mode != "" && strings.TrimLeft(f.File.Mode, "0") != strings.TrimLeft(r.Mode, "0"):
		return fmt.Sprintf("its mode is %s, not %s", f.File.Mode, r.Mode)
	case r.SHA256 != "" && f.File.SHA256 != r.SHA256:
		return "its digest is " + diag.Digits(f.File.SHA256) + ", not " + diag.Digits(r.SHA256)
	}
	return ""
}

func ages(r *diag.CheckRule, f *diag.Fact) string {
	if r.AgeBelow > 0 {
		if f.File == nil || f.At.IsZero() {
			return unmeasured
		}
		if age := f.At.Sub(f.File.ModTime.Time); age >= time.Duration(r.AgeBelow) {
			return fmt.Sprintf("it was written %s ago, which is not below %s", spoken(age), r.AgeBelow.Words())
		}
	}
	if r.AgeAbove > 0 {
		if f.Process == nil || f.Process.OldestS == nil {
			return unmeasured
		}
		if age := time.Duration(*f.Process.OldestS) * time.Second; age <= time.Duration(r.AgeAbove) {
			return fmt.Sprintf("it started %s ago, which is not above %s", spoken(age), r.AgeAbove.Words())
		}
	}
	return ""
}

func latency(r *diag.CheckRule, f *diag.Fact) string {
	if r.LatencyBelow > 0 && time.Duration(f.DurationMS)*time.Millisecond >= time.Duration(r.LatencyBelow) {
		return fmt.Sprintf("it took %s, which is not below %s", f.DurationMS.Words(), r.LatencyBelow.Words())
	}
	if r.SkewBelow > 0 {
		if f.Clock == nil || f.Clock.OffsetMS == nil {
			return unmeasured
		}
		if off := time.Duration(*f.Clock.OffsetMS) * time.Millisecond; off.Abs() >= time.Duration(r.SkewBelow) {
			return fmt.Sprintf("the clock is off by %s, which is not below %s", spoken(off.Abs()), r.SkewBelow.Words())
		}
	}
	return ""
}

func spoken(d time.Duration) string { return diag.Millis(d.Milliseconds()).Words() }

func certificate(r *diag.CheckRule, f *diag.Fact) string {
	if r.CertDaysLeft == nil {
		return ""
	}
	var leaf *diag.CertInfo
	switch {
	case f.TLS != nil && len(f.TLS.Chain) > 0:
		leaf = &f.TLS.Chain[0]
	case f.Cert != nil:
		leaf = &f.Cert.Leaf
	default:
		return "no certificate was seen"
	}
	if days := int(leaf.NotAfter.Sub(f.At.Time).Hours() / 24); days < *r.CertDaysLeft {
		return fmt.Sprintf("the certificate %s ends in %d days, below %d", leaf.Subject, days, *r.CertDaysLeft)
	}
	return ""
}

func disk(r *diag.CheckRule, f *diag.Fact) string {
	if r.UsedPercentBelow == nil && r.InodePercentBelow == nil {
		return ""
	}
	if f.Disk == nil {
		return unmeasured
	}
	if r.UsedPercentBelow != nil && f.Disk.UsedPercent >= *r.UsedPercentBelow {
		return fmt.Sprintf("%d%% is used, which is not below %d%%", f.Disk.UsedPercent, *r.UsedPercentBelow)
	}
	if r.InodePercentBelow != nil && f.Disk.TotalInodes > 0 {
		used := int(100 * (f.Disk.TotalInodes - min(f.Disk.FreeInodes, f.Disk.TotalInodes)) / f.Disk.TotalInodes)
		if used >= *r.InodePercentBelow {
			return fmt.Sprintf("%d%% of the inodes are used, which is not below %d%%", used, *r.InodePercentBelow)
		}
	}
	return ""
}

func counts(r *diag.CheckRule, f *diag.Fact) string {
	if r.CountAtLeast != nil || r.CountAtMost != nil {
		if f.Process == nil {
			return unmeasured
		}
		n := f.Process.Count
		if (r.CountAtLeast != nil && n < *r.CountAtLeast) || (r.CountAtMost != nil && n > *r.CountAtMost) {
			return strconv.Itoa(n) + " processes were found"
		}
	}
	if r.RestartsAtMost != nil {
		n := -1
		switch {
		case f.Container != nil:
			n = f.Container.Restarts
		case f.Unit != nil && f.Unit.Restarts != nil:
			n = *f.Unit.Restarts
		}
		if n < 0 || n > *r.RestartsAtMost {
			return fmt.Sprintf("it was restarted %d times, above %d", n, *r.RestartsAtMost)
		}
	}
	return ""
}
