package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// diskParams are the parameters of disk.
type diskParams struct {
	Dir     string `yaml:"dir" json:"dir" jsonschema_description:"a folder of the file system"`
	Fill    string `yaml:"fill" json:"fill" jsonschema:"enum=full,enum=percent,enum=inodes,enum=small" jsonschema_description:"full: to the last byte; percent: past a mark; inodes: until no file can be made; small: a small file system is laid over the folder, as one unit sees it"`
	Percent int    `yaml:"percent,omitempty" json:"percent,omitempty" jsonschema:"minimum=1,maximum=100"`
	Bytes   int64  `yaml:"bytes,omitempty" json:"bytes,omitempty" jsonschema_description:"of small"`
	SeenBy  string `yaml:"seenBy,omitempty" json:"seenBy,omitempty" jsonschema_description:"of small; default: the agent's unit"`
}

// diskKind fills a disk.
func diskKind() Kind {
	return kind(Kind{
		Name: "disk", Title: "fill a disk", Tier: step.TierWatchdog, On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "Unnamed files that the watchdog holds open and tops up; they are gone with it. Or a small memory file " +
			"system over a folder (T2).",
	}, func(p *diskParams) []problem {
		found := append(absolute("dir", p.Dir), word("fill", p.Fill, "full", "percent", "inodes", "small")...)
		if p.Dir == "/" {
			found = word("fill", p.Fill, "full", "percent", "inodes")
		}
		return slices.Concat(found,
			want("percent", (p.Fill == "percent") == (p.Percent > 0) && p.Percent <= 100,
				"belongs to fill: percent, from 1 to 100"),
			want("bytes", (p.Fill == "small") == (p.Bytes > 0) && (p.Bytes == 0 || p.Bytes >= 4096),
				"belongs to fill: small, at least 4096"),
			want("seenBy", p.Fill == "small" || p.SeenBy == "",
				"belongs to fill: small, and only there: a disk is full for everybody"))
	}, func(p *diskParams, c *Case) Questions {
		return Questions{Tools: []string{"stat", "awk"}, Files: []string{p.Dir}, Units: []string{c.unit(p.SeenBy)}}
	}, makeDisk)
}

func makeDisk(p *diskParams, c *Case) (Made, *step.Refusal) {
	f := c.Machine.Files[p.Dir]
	if f.Kind != "dir" {
		return Made{}, step.Refuse(step.RefusedUnsupported, "%s has no folder %s", c.Machine.ID, p.Dir)
	}
	dir := cmp.Or(f.Path, p.Dir)
	hold := &step.Hold{Dir: dir}
	made := Made{Changes: []step.Change{{Hold: hold}}}
	stat := func(format string) step.Exec {
		return step.Exec{Argv: []string{c.tool("stat"), "-f", "-c", format, dir}}
	}
	switch p.Fill {
	case "full":
		hold.Leave = new(int64)
		made.Title = "the disk of " + dir + " is full"
		made.Verify = []step.Check{{Name: "not a byte is free", Exec: stat("free %a."), Has: "free 0.", Within: diskWithin}}
	case "percent":
		hold.Percent = p.Percent
		made.Title = fmt.Sprintf("the disk of %s is %d%% full", dir, p.Percent)
		made.Verify = []step.Check{{Name: "the disk is full enough", Within: diskWithin,
			Exec: step.Exec{Argv: []string{c.tool("awk"), "-v", "dir=" + dir, "-v", "want=" + strconv.Itoa(p.Percent),
				fullEnough}}}}
	case "inodes":
		hold.Inodes = true
		made.Title = "no file can be made on the disk of " + dir
		made.Verify = []step.Check{{Name: "not an inode is free", Exec: stat("free %d."), Has: "free 0.", Within: diskWithin}}
	case "small":
		u, no := c.needUnit(c.unit(p.SeenBy))
		if no == nil && !u.Private {
			no = step.Refuse(step.RefusedUnsupported,
				"%s has no mount namespace of its own on %s (PrivateMounts=yes gives it one)", c.unit(p.SeenBy), c.Machine.ID)
		}
		if no != nil {
			return Made{}, no
		}
		made.Title = fmt.Sprintf("%s has %d bytes for %s", dir, p.Bytes, c.unit(p.SeenBy))
		made.Changes = []step.Change{
			{Mount: &step.Mount{Target: dir, Unit: c.unit(p.SeenBy), Tmpfs: &step.Tmpfs{Bytes: p.Bytes}, Writable: true}},
		}
		check := step.Check{Name: "it is a small file system", Unit: c.unit(p.SeenBy), Exec: stat("%T"), Has: "tmpfs",
			Within: diskWithin}
		made.Verify = []step.Check{check}
	}
	return made, c.needTools("stat", "awk")
}

// fullEnough passes once a disk is as full as requested, according to df.
const fullEnough = `BEGIN { df = "df -P " dir; df | getline; df | getline; sub("%", "", $5); exit !($5 + 0 >= want + 0) }`

// diskWithin bounds the time to fill a disk.
const diskWithin step.Millis = 30_000

func (p *diskParams) ofAgent() bool { return p.Fill == "small" && p.SeenBy == "" }
