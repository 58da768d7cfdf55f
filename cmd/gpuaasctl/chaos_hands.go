package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/history"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/wire"
)

// hands are a drill's machines, each with a connection of its own, and this one.
type hands map[string]*remote.Machine

// hands makes them; nothing is connected yet.
func (j *job) hands(machines []chaos.Machine) hands {
	all := hands{}
	for _, m := range machines {
		all[m.ID] = remote.New(remote.Config{Node: j.machineConfig(m), Programs: vantage.HelperDirs(j.libexec)})
	}
	return all
}

func (h hands) all() map[string]drill.Machine {
	all := map[string]drill.Machine{"": remote.Here()}
	for id, m := range h {
		all[id] = m
	}
	return all
}

func (h hands) close() {
	for _, m := range h {
		_ = m.Close() // whatever there was to say of it was said by its calls
	}
}

// ready makes what the plan needs for this run alone, and plans once more with it; nil where it needs nothing.
func (p planned) ready(plan chaos.Plan, facts chaos.Facts) func(context.Context) (chaos.Plan, error) {
	if len(plan.Material) == 0 {
		return nil
	}
	return func(ctx context.Context) (chaos.Plan, error) {
		own, err := p.job.authority()
		if err != nil {
			return chaos.Plan{}, err
		}
		facts.Material = map[string]chaos.Material{}
		for _, m := range plan.Material {
			if facts.Material[m.Mint.Key()], err = p.job.mint(ctx, m.Mint, own); err != nil {
				return chaos.Plan{}, fmt.Errorf("%s: %w", m.Mint, err)
			}
		}
		return chaos.Make(p.scenario, p.job.Env.Profile, p.subject, facts, plan.Run), nil
	}
}

// authority is the CA that the profile lends to drills; nil where it lends none.
func (j *job) authority() (*chaos.Authority, error) {
	c := j.Env.Profile.Chaos
	if c.CACert == "" || c.CAKey == "" {
		return nil, nil
	}
	cert, err := profile.ReadOwn(c.CACert)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_cert: %w", err)
	}
	key, err := profile.ReadOwn(c.CAKey)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_key: %w", err)
	}
	own, err := chaos.ParseAuthority(cert, key)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_cert, chaos.ca_key: %w", err)
	}
	return own, nil
}

// mint makes one thing: what only the platform or the operator has is theirs to give.
func (j *job) mint(ctx context.Context, m chaos.Mint, own *chaos.Authority) (chaos.Material, error) {
	switch m.What {
	case chaos.MintBearer:
		if j.Env.Token.IsZero() {
			return chaos.Material{}, errors.New("no operator token: auth.token_file in the profile")
		}
		return chaos.Material{Mint: m, Text: "Authorization: Bearer " + j.Env.Token.Reveal() + "\n"}, nil
	case chaos.MintToken:
		env := j.Env
		env.Subject.NodeID = m.Node
		b, err := issueBundle(ctx, &env, "a drill wants a current recovery token", false)
		if err != nil {
			return chaos.Material{}, err
		}
		return chaos.Material{Mint: m, Text: b.Token}, nil
	}
	return m.Make(own, time.Now())
}

// decide tells the platform what a drill's recovery needs an operator for.
func (j *job) decide(ctx context.Context, d chaos.Decision) error {
	body, err := json.Marshal(map[string]string{"reason": d.Reason, "by": operatorName()})
	if err != nil {
		return err
	}
	client, err := operatorClient(j.Env.Profile)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(j.Env.Profile.APIBase, "/")+d.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(wire.HeaderCorrelationID, j.Env.CorrelationID)
	req.Header.Set("Authorization", "Bearer "+j.Env.Token.Reveal())
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	var refused wire.ErrorBody
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxBundle))
	_ = json.Unmarshal(text, &refused) // what is no envelope says nothing more than its status
	return fmt.Errorf("HTTP %d %s %s", resp.StatusCode, refused.Error.Code, refused.Error.Message)
}

// drillsFolder is where runs are kept: beside the history of walks.
func (a *app) drillsFolder() (string, error) {
	path, err := history.Path(a.env, os.Geteuid() == 0)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "drills"), nil
}
