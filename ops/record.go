package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// RecordOptions select the record, and how much of it is read.
type RecordOptions struct {
	Dir   string // folder on the node; "": the profile's
	Limit int    // newest entries; pinned ones are always read
}

// KindRecord heads a Record.
const KindRecord = "NodeRecord"

// Record is a node's diagnostic record with its summary.
type Record struct {
	diag.Head

	Node   string           `json:"node,omitempty"`
	Story  record.Story     `json:"story"`
	Record diag.RecordFacts `json:"record"`
}

// NewRecord redacts a record that was read, and summarizes it. Agents redact what they write; this also covers records
// of older agents and manual changes.
func NewRecord(node string, f diag.RecordFacts) *Record {
	Redacted{}.Record(&f)
	return &Record{Head: diag.NewHead(KindRecord), Node: node, Story: record.StoryOf(f), Record: f}
}

// OtherRecordError means that a folder has no record, although there is a copy in memory of the agent's own record,
// which is elsewhere.
type OtherRecordError struct{ Dir, Home, Why string }

func (e *OtherRecordError) Error() string {
	return fmt.Sprintf("%s of the node holds no record: %s (its agent's is in %s)", e.Dir, e.Why, e.Home)
}

// Record reads the node's record over SSH. The agent need not be running. An UnreadError means that nothing was read.
func (s *Session) Record(ctx context.Context, o RecordOptions) (*Record, error) {
	f := s.Follow(o)
	defer f.Close(ctx)
	facts, err := f.Read(ctx, o.Limit)
	if err != nil {
		return nil, err
	}
	return NewRecord(s.of.Node, *facts), nil
}

// Follower reads one record repeatedly, over one connection as long as that lasts.
type Follower struct {
	s  *Session
	o  RecordOptions
	at places // nil: to be connected
}

// Follow returns a follower, which the caller closes. It does not connect yet.
func (s *Session) Follow(o RecordOptions) *Follower { return &Follower{s: s, o: o} }

// Read reads the newest entries. After an error the next call connects again, since a broken connection cannot be
// reused.
func (f *Follower) Read(ctx context.Context, limit int) (*diag.RecordFacts, error) {
	if err := f.s.RequireHost(); err != nil {
		return nil, err
	}
	if f.at == nil {
		f.at = f.s.open()
	}
	r, err := f.s.readRecord(ctx, f.at[hop.Node], f.o.Dir, limit)
	if err != nil {
		f.Close(ctx)
		return nil, err
	}
	Redacted{}.Record(r)
	return r, nil
}

// Close closes the connection.
func (f *Follower) Close(ctx context.Context) {
	if f.at != nil {
		f.at.close(ctx)
		f.at = nil
	}
}

// readRecord reads the record from v. A fact without a record becomes an error with the reason.
func (s *Session) readRecord(ctx context.Context, v hop.Vantage, dir string, limit int) (
	*diag.RecordFacts, error,
) {
	home := s.site.Profile.Agent.Record
	dir = cmp.Or(dir, home)
	f := v.Probe(ctx, []diag.Request{{ID: "record", Op: diag.OpRecord, Limit: limit, Target: dir}})[0]
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return nil, err
	}
	if f.Failure == diag.OK && f.Record != nil {
		if path.Clean(dir) != path.Clean(home) && f.Record.Source == record.SourceMirror {
			return nil, &UnreadError{&OtherRecordError{Dir: dir, Home: home,
				Why: strings.TrimPrefix(f.Record.Degraded, "read the record: ")}}
		}
		return f.Record, nil
	}
	return nil, &UnreadError{fmt.Errorf("the record in %s could not be read (%s): %s",
		dir, cmp.Or(f.Failure, diag.Unknown), cmp.Or(f.Detail, string(f.Failure)))}
}
