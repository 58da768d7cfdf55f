package net

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// askAll queries servers that take turns at once, so that the result does not depend on whose turn it is: it is that of
// the first server in the list with an address, and each server's answer is kept. After the first address it waits only
// Briefly for the others.
func (q question) askAll(ctx context.Context, name string) found {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	results := make([]found, len(q.servers))
	took := make([]diag.Millis, len(q.servers))
	var (
		wg    sync.WaitGroup
		hurry sync.Once
	)
	for i, server := range q.servers {
		wg.Go(func() {
			began := time.Now()
			results[i] = askBoth(ctx, server, name)
			took[i] = since(began)
			if len(results[i].addrs) > 0 {
				hurry.Do(func() { time.AfterFunc(measure.Briefly(ctx, serverGrace), cancel) })
			}
		})
	}
	wg.Wait()
	var got found
	each := make([]diag.DNSAnswer, len(q.servers))
	for i, one := range results {
		a := diag.DNSAnswer{Server: q.servers[i], Name: name, RCode: one.rcode, Truncated: one.cut, DurationMS: took[i]}
		for _, addr := range one.addrs {
			a.Addresses = append(a.Addresses, addr.String())
		}
		late := one.rcode == "" && errors.Is(ctx.Err(), context.Canceled)
		if len(one.addrs) == 0 && one.rcode == "" && !late {
			a.Failure = one.word
		}
		each[i] = a
		switch {
		case i == 0, len(one.addrs) > 0 && len(got.addrs) == 0:
			got = one
		case len(got.addrs) == 0 && !late:
			got = worse(got, one)
		}
	}
	got.each = each
	return got
}

// overUDP begins the error of a query over TCP.
const overUDP = "the answer over UDP is truncated, and over TCP"

// overTCPWord returns the failure of a query over TCP that follows a truncated answer. A server that ends the
// connection did not fail to resolve the name: it does not serve this client over TCP.
func overTCPWord(ctx context.Context, err error) diag.Failure {
	word := dnsErrorWord(ctx, err)
	if ctx.Err() == nil && (word == diag.TCPReset || (word == diag.DNSServFail && broken(err))) {
		return diag.DNSRefused
	}
	return word
}
