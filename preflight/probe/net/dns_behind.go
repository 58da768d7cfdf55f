package net

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// behindFiles are where resolvers on the host itself write, in the form of resolv.conf, which servers they ask:
// systemd-resolved, NetworkManager, and resolvconf for dnsmasq.
var behindFiles = []string{"/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf",
	"/run/dnsmasq/resolv.conf"}

const (
	// behindAfter is how long a resolver on the host itself may take before the servers behind it are asked as well.
	behindAfter = time.Second
	// behindTimeout is how long they may take.
	behindTimeout = 2 * time.Second
)

// lookupDNS queries the servers of resolv.conf by its rules; without any, it queries this host, as the C library does.
func (p *Prober) lookupDNS(ctx context.Context, resolv, name string) found {
	conf, err := readResolvConf(resolv)
	if err != nil {
		return found{source: sourceDNS, word: diag.FileUnreadable, err: err}
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan struct{})
	behind := p.askBehind(asking, conf, name, failed)
	got := question{servers: conf.servers, names: conf.names(name),
		exact: strings.TrimSuffix(name, ".") + ".", timeout: conf.timeout,
		attempts: conf.attempts, rotate: conf.rotate && len(conf.servers) > 1}.ask(ctx, p)
	got.unset = conf.unset
	switch got.word {
	case diag.DNSServFail, diag.DNSTimeout, diag.DNSRefused:
		close(failed)
		got.file, got.behind = behind()
	}
	return got
}

// askBehind begins to ask, once failed is closed or after a while, the servers that a resolver on the host itself asks,
// if conf names no other resolver. The returned function waits for the answers, and returns the file that names them.
func (p *Prober) askBehind(ctx context.Context, conf resolvConf, name string, failed <-chan struct{}) func() (string,
	[]diag.DNSAnswer) {
	file, servers := p.names.serversBehind(conf)
	answers := make([]diag.DNSAnswer, len(servers))
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(behindAfter)
		defer timer.Stop()
		select {
		case <-failed:
		case <-timer.C:
		case <-ctx.Done():
		}
		ctx, cancel := context.WithTimeout(ctx, behindTimeout)
		defer cancel()
		var wg sync.WaitGroup
		for i, server := range servers {
			wg.Go(func() {
				began := time.Now()
				a, err := askPlain(ctx, server, conf.names(name)[0])
				a.Server, a.Name, a.DurationMS = server, conf.names(name)[0], since(began)
				if err != nil {
					a.Failure = dnsErrorWord(ctx, err)
				}
				answers[i] = a
			})
		}
		wg.Wait()
	}()
	return func() (string, []diag.DNSAnswer) {
		<-done
		return file, answers
	}
}

// serversBehind returns the servers that a resolver on the host itself asks, and the file that names them; none if conf
// has a server elsewhere.
func (n nameFiles) serversBehind(conf resolvConf) (file string, servers []string) {
	if slices.ContainsFunc(conf.servers, func(s string) bool {
		at, err := netip.ParseAddrPort(s)
		return err != nil || !at.Addr().Unmap().IsLoopback()
	}) {
		return "", nil
	}
	for _, file := range n.withDefaults().behind {
		behind, err := readResolvConf(file)
		if err != nil || behind.unset {
			continue
		}
		servers := slices.DeleteFunc(behind.servers, func(s string) bool { return slices.Contains(conf.servers, s) })
		if len(servers) > 0 {
			return file, servers
		}
	}
	return "", nil
}
