package platform

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

const (
	rolloutTTL = 15 * time.Minute // how long a node may take to accept and execute a self-update
	maxVersion = 128
)

// rolloutOrder is an operator's order of a self-update, which is also stored in its task. The token that
// RefreshToken asks for exists only in the response that hands the task out.
type rolloutOrder struct {
	Version      string `json:"version"`
	SHA256       string `json:"sha256"`
	SoakSeconds  int64  `json:"soak_seconds,omitempty"`
	Verifiers    string `json:"task_signing_pubkeys,omitempty"`
	RefreshToken bool   `json:"refresh_token,omitempty"`
}

// check returns what is wrong with an order. The fields of an order are all that a self-update can change; others
// were rejected when it was decoded.
func (o rolloutOrder) check(keyID string) error {
	digest, err := hex.DecodeString(o.SHA256)
	switch {
	case err != nil || len(digest) != 32 || o.SHA256 != strings.ToLower(o.SHA256):
		return web.Errorf(http.StatusBadRequest, "sha256_invalid",
			"a rollout is pinned to the sha256 of its package, in lower-case hex")
	case o.Version == "" || len(o.Version) > maxVersion:
		return web.Errorf(http.StatusBadRequest, "version_invalid", "a rollout names its version")
	case o.SoakSeconds < 0 || o.SoakSeconds > int64(rolloutTTL/time.Second):
		return web.Errorf(http.StatusBadRequest, "soak_invalid", "a soak takes at most %s", rolloutTTL)
	}
	if o.Verifiers == "" {
		return nil
	}
	keys, err := wire.ParseVerifiers(o.Verifiers)
	if err != nil {
		return web.Errorf(http.StatusBadRequest, "task_signing_pubkeys_invalid", "%s", err)
	}
	if _, ok := keys[keyID]; !ok {
		return web.Errorf(http.StatusBadRequest, "verifier_overlap_missing",
			"the new verifier set lacks key %s, which signs this task: old and new must overlap", keyID)
	}
	return nil
}

// decodeOrder decodes an order. It rejects an unknown field, which would ask for something that a self-update may
// not change.
func decodeOrder(text []byte) (o rolloutOrder, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, web.Errorf(http.StatusBadRequest, "update_boundary",
			"a self-update is version, sha256, soak_seconds, task_signing_pubkeys and refresh_token, and nothing else")
	}
	return o, nil
}

// postRollout orders a self-update of one node.
func (p *Platform) postRollout(w http.ResponseWriter, r *http.Request) error {
	var text json.RawMessage
	if err := web.ReadJSON(w, r, &text); err != nil {
		return err
	}
	t, err := p.orderRollout(r.Context(), r.PathValue("id"), text, rolloutTTL, web.CorrelationID(r.Context()))
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, p.taskView(t))
}

// orderRollout checks an order, and creates its task and its rollout, which have the same id.
func (p *Platform) orderRollout(ctx context.Context, nodeID string, text []byte, ttl time.Duration,
	correlationID string) (store.Task, error) {
	o, err := decodeOrder(text)
	if err == nil {
		keyID, _, _ := strings.Cut(p.queue.Pubkeys(), ":")
		err = o.check(keyID)
	}
	if err != nil {
		return store.Task{}, err
	}
	n, err := p.store.Node(ctx, nodeID)
	if err != nil {
		return store.Task{}, notFound(err, "node")
	}
	if n.Identity != "" {
		return store.Task{}, web.Errorf(http.StatusConflict, n.Identity,
			"the node's identity is %s: a self-update cannot repair that", n.Identity)
	}
	b, err := optional(p.store.BootReport(ctx, nodeID))
	if err != nil {
		return store.Task{}, err
	}
	if err := p.rolloutPossible(o, b); err != nil {
		return store.Task{}, err
	}
	payload, err := json.Marshal(o)
	if err != nil {
		return store.Task{}, err
	}
	t := p.queue.NewTask(queue.Spec{NodeID: nodeID, Type: wire.TaskSelfUpdate, Payload: payload, TTL: ttl,
		CorrelationID: correlationID})
	now := wire.Rollout{ID: t.ID, CorrelationID: correlationID, State: wire.RolloutPending,
		Target: wire.Build{Version: o.Version, SHA256: o.SHA256}, SoakSeconds: o.SoakSeconds}
	if b != nil {
		now.Prior = b.Running
	}
	begun, err := p.store.OrderRollout(ctx, t, now,
		store.Evidence{At: p.now(), Kind: store.RolloutCreated, CorrelationID: correlationID,
			NodeID: nodeID, TaskID: t.ID,
			Detail: map[string]any{"version": o.Version, "sha256": o.SHA256, "prior_version": now.Prior.Version,
				"verifiers_change": o.Verifiers != "", "token_refresh": o.RefreshToken}})
	switch {
	case errors.Is(err, store.ErrRolloutActive):
		return store.Task{}, web.Errorf(http.StatusConflict, "rollout_active", "rollout %s of this node is %s", begun.ID,
			begun.State)
	case err != nil:
		return store.Task{}, err
	}
	p.queue.Wake(nodeID)
	return t, nil
}

// rolloutPossible rejects an order that cannot succeed.
func (p *Platform) rolloutPossible(o rolloutOrder, b *wire.BootReport) error {
	if b != nil {
		for _, s := range b.Skipped {
			if s.SHA256 == o.SHA256 {
				return web.Errorf(http.StatusConflict, "version_skipped", "the node tried this build and went back")
			}
		}
		if o.SHA256 == b.Running.SHA256 || o.SHA256 == b.Package.SHA256 {
			return nil // it lies there already
		}
	}
	if _, err := p.artifact(o.SHA256); err != nil {
		return web.Errorf(http.StatusConflict, "artifact_missing", "there is no package with this digest")
	}
	return nil
}

// artifact returns the file of a package, which is named by its digest.
func (p *Platform) artifact(sha string) (string, error) {
	if p.cfg.Artifacts == "" || sha == "" || strings.ContainsAny(sha, "/.") {
		return "", fs.ErrNotExist
	}
	path := filepath.Join(p.cfg.Artifacts, sha)
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	return path, err
}

// byCertificate takes the node id from the certificate, for a path without one. The next handlers verify the
// certificate.
func (p *Platform) byCertificate(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if c, err := presented(r); err == nil {
			r.SetPathValue("node_id", c.Subject.CommonName)
		}
		return next(w, r)
	}
}

// getArtifact serves a package to a node. The ingress and node have verified its certificate, the signed task
// names the package, and the package's name is its digest, so nothing else in the request has to be trusted.
func (p *Platform) getArtifact(w http.ResponseWriter, r *http.Request) error {
	path, err := p.artifact(r.PathValue("sha256"))
	if errors.Is(err, fs.ErrNotExist) {
		return web.Errorf(http.StatusNotFound, "artifact_not_found", "there is no package of this digest")
	}
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > wire.MaxArtifact {
		return web.Errorf(http.StatusConflict, "artifact_too_large", "the package has %d bytes, more than %d", fi.Size(),
			wire.MaxArtifact)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", fi.ModTime(), f)
	return nil
}

// filledRollout returns a self-update's task as it is handed out: with a newly minted token, if one was requested.
// Only the token's digest is stored; handing the task out again mints another one.
func (p *Platform) filledRollout(ctx context.Context, t store.Task) (store.Task, error) {
	o, err := decodeOrder(t.Payload)
	if err != nil {
		return t, err
	}
	payload := wire.SelfUpdatePayload{Version: o.Version, SHA256: o.SHA256, SoakSeconds: o.SoakSeconds,
		Verifiers: o.Verifiers}
	if o.RefreshToken {
		n, err := p.store.Node(ctx, t.NodeID)
		if err != nil {
			return t, err
		}
		row, text, err := p.recoveryToken(n, p.now())
		if err != nil {
			return t, err
		}
		if err := p.store.SaveRotatedToken(ctx, row, t); err != nil {
			return t, err
		}
		payload.RecoveryToken = text.Reveal()
	}
	t.Payload, err = json.Marshal(payload)
	return t, err
}

// rolloutView is the read model of a rollout for the operator.
type rolloutView struct {
	wire.Rollout
	NodeID    string    `json:"node_id"`
	UpdatedAt diag.Time `json:"updated_at"`
}

func viewRollout(r *store.Rollout) *rolloutView {
	if r == nil {
		return nil
	}
	return &rolloutView{Rollout: r.Rollout, NodeID: r.NodeID, UpdatedAt: when(r.UpdatedAt)}
}

func (p *Platform) getRollout(w http.ResponseWriter, r *http.Request) error {
	ro, err := p.store.Rollout(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "rollout")
	}
	return web.Answer(w, http.StatusOK, viewRollout(&ro))
}
