// Package platform is the reference control plane: the operator's API, the node API behind the node ingress, and
// the terminal gateway, in one process with one SQLite database and a Redis for session bindings.
//
// More than 25 files: one process with many listeners, each of whose calls has its own file.
//
// The lab runs it as a process, and tests run it in process; the preflight can be used with any other platform
// instead. Its callers are cmd/gpuaas-platform and platformtest.
package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const (
	// shutdownTime is how long requests in flight may take to end: a stop takes at most two seconds.
	shutdownTime = 1500 * time.Millisecond
	// headerTime bounds reading a request's header: even a slow client needs less.
	headerTime = 10 * time.Second
	// idleTime bounds how long a connection without a request is kept.
	idleTime = time.Minute
	// requestTime bounds one request of the node terminal, including body and response, unless it becomes a stream:
	// then HTTP releases the connection and its deadlines.
	requestTime = 30 * time.Second
)

// Deps are the platform's dependencies; the zero value is for production.
type Deps struct {
	Log    *slog.Logger                                     // default: nothing
	Now    func() time.Time                                 // default: time.Now
	Listen func(name, address string) (net.Listener, error) // name is api, node_api, gateway or node_terminal
	Door   PeerLimits
	Store  *store.Store // default: Config.Database, opened; the platform closes it
	// Version is this build's: gpuaas-gpu-policy must have the same. Default: dev.
	Version string
}

// PeerLimits bounds the resources of one peer of the node terminal, which nodes reach directly. The zero value of a
// field means its default.
type PeerLimits struct {
	gateway.Limits
	Idle    time.Duration // without a request; default a minute
	Request time.Duration // for a request that does not become a stream; default 30 s
	// open connections of each plain listener, which only the proxies of this machine reach; default 4096
	Connections int
}

// maxConnections is more than the long polls of a large site, and fewer than a process has descriptors.
const maxConnections = 4096

// Platform is one control plane. Use New, then Run.
type Platform struct {
	cfg   Config
	log   *slog.Logger
	now   func() time.Time
	store *store.Store
	pki   *pki
	queue *queue.Queue
	token diag.Secret

	ingress     diag.Secret // distinguishes the node ingress from other programs on this machine
	gateway     *gateway.Gateway
	waits       waitLimit
	denials     denialGate
	writes      writeCheck
	eventIntake intake
	beatIntake  intake
	metrics     metrics
	gpus        gpuJudge
	version     string

	loops      []loop
	first      sync.WaitGroup // the first round of each loop
	mistrusted bool           // whether the ingress distrusted the signing CA at the last check; used only by checkTrust
	servers    []server
}

// server is one listener and its handler.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// New loads the configuration's files, and opens the database and the listeners. Call Run to serve, or Close
// without Run.
func New(cfg Config, deps Deps) (*Platform, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	p := &Platform{cfg: cfg, log: deps.Log, now: deps.Now, store: deps.Store, version: deps.Version}
	p.log = cmp.Or(p.log, slog.New(slog.DiscardHandler))
	if p.now == nil {
		p.now = time.Now
	}
	if deps.Listen == nil {
		deps.Listen = func(_, address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	p.openGPUs()
	p.loops = p.repeated()
	p.first.Add(len(p.loops))
	if err := p.open(deps); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Platform) open(deps Deps) (err error) {
	if p.pki, err = loadPKI(p.cfg.PKI); err != nil {
		return err
	}
	key, err := loadSigningKey(p.cfg.TaskSigningKey)
	if err != nil {
		return err
	}
	if p.token, err = readSecret(p.cfg.OperatorTokenFile); err != nil {
		return fmt.Errorf("load operator token: %w", err)
	}
	if p.ingress, err = readSecret(p.cfg.IngressSecretFile); err != nil {
		return fmt.Errorf("load ingress secret: %w", err)
	}
	var redis diag.Secret
	if path := p.cfg.RedisPasswordFile; path != "" {
		if redis, err = readSecret(path); err != nil {
			return fmt.Errorf("load Redis password: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // for a migration of a large database
	defer cancel()
	if p.store == nil {
		if p.store, err = store.Open(ctx, p.cfg.Database); err != nil {
			return err
		}
	}
	p.queue = queue.New(p.store, queue.NewSigner(key), p.now, p.taskSettled)
	if err := p.seed(ctx); err != nil {
		return err
	}
	if err := p.store.CloseOrphans(ctx, p.now()); err != nil {
		return fmt.Errorf("close sessions of a former process: %w", err)
	}
	if err := p.recallTrust(ctx); err != nil {
		return fmt.Errorf("recall the trust: %w", err)
	}
	p.checkTrust(ctx, true)
	p.gateway = gateway.New(gateway.Options{
		Store: p.store, Queue: p.queue, Log: p.log, Now: p.now, Denied: p.deniedStream, Keep: p.keepRejection,
		Proven: p.provenStream, Redis: p.cfg.Redis, RedisUser: p.cfg.RedisUser, RedisPassword: redis,
		SessionLimit: seconds(p.cfg.Policy.SessionLimit), IdleLimit: seconds(p.cfg.Policy.SessionIdle),
		NodeStreamTimeout: seconds(p.cfg.Policy.NodeStreamTimeout), TerminalBase: p.cfg.Endpoints.BrowserTerminalBase,
		AllowedOrigins: p.cfg.Endpoints.AllowedOrigins,
	})
	return p.listen(deps)
}

// listen opens the four listeners.
func (p *Platform) listen(deps Deps) error {
	for _, l := range []struct {
		name, address string
		handler       http.Handler
	}{
		{"api", p.cfg.Listen.API, p.apiHandler()},
		{"node_api", p.cfg.Listen.NodeAPI, p.nodeHandler()},
		{"gateway", p.cfg.Listen.Gateway, p.gateway.BrowserHandler()},
		{"node_terminal", p.cfg.Listen.NodeTerminal, p.gateway.NodeHandler()},
	} {
		ln, err := deps.Listen(l.name, l.address)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", l.name, err)
		}
		s := &http.Server{
			Handler: l.handler, ReadHeaderTimeout: headerTime, IdleTimeout: cmp.Or(deps.Door.Idle, idleTime),
			ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
			// of a whole request with its body; a task wait ends it, see taskWait
			ReadTimeout: cmp.Or(deps.Door.Request, requestTime),
		}
		if l.name != "node_terminal" {
			ln = gateway.LimitConnections(ln, cmp.Or(deps.Door.Connections, maxConnections))
		} else {
			ln = gateway.ListenTLS(ln, p.terminalTLS(), deps.Door.Limits, p.handshakeFailed)
			s.WriteTimeout = s.ReadTimeout
		}
		s.ReadHeaderTimeout = min(s.ReadHeaderTimeout, s.ReadTimeout)
		p.servers = append(p.servers, server{name: l.name, listener: ln, http: s})
	}
	return nil
}

// Run serves until ctx is done, then ends within two seconds and closes everything. The error is nil after an
// orderly stop.
func (p *Platform) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	failed := make(chan error, len(p.servers))
	var wg sync.WaitGroup
	for _, s := range p.servers {
		s.http.BaseContext = func(net.Listener) context.Context { return requests }
		p.log.Info("listening", "listener", s.name, "address", s.listener.Addr().String())
		wg.Go(func() {
			if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", s.name, err)
			}
		})
	}
	for _, l := range p.loops {
		wg.Go(func() { p.repeat(ctx, l) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	p.log.Info("stopping")
	cancel()
	endRequests() // long polls return, terminal sessions close
	err = errors.Join(err, p.shutdown(context.WithoutCancel(ctx)))
	p.gateway.Wait()
	wg.Wait()
	return errors.Join(err, p.Close())
}

// shutdown lets requests in flight end, then closes the remaining connections.
func (p *Platform) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	errs := make([]error, len(p.servers))
	var wg sync.WaitGroup
	for i, s := range p.servers {
		wg.Go(func() {
			if err := s.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				errs[i] = s.http.Close()
			} else {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close releases the resources of New. Run calls it; a second call is harmless.
func (p *Platform) Close() error {
	var errs []error
	for _, s := range p.servers {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if p.gateway != nil {
		errs = append(errs, p.gateway.Close())
	}
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	return errors.Join(errs...)
}

// readSecret reads a token from a file that others must not read.
func readSecret(path string) (diag.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return diag.Secret{}, err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return diag.Secret{}, fmt.Errorf("%s has mode %04o: others must not read it", path, mode)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return diag.Secret{}, err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return diag.Secret{}, fmt.Errorf("%s is empty", path)
	}
	return diag.NewSecret(token), nil
}
