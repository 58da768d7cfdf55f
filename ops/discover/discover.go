// Package discover finds out what an environment has before a profile describes it: which CA signs its API, which page
// says that the API is well, whether a login reaches a node, and what runs there. It trusts nothing by itself: a CA or
// a host key that nobody has accepted yet is described, and only questions that need neither are asked.
package discover

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

const (
	// serverTime bounds the questions to one server, and nodeTime those to a node.
	serverTime = 12 * time.Second
	nodeTime   = 20 * time.Second
)

// Question is what to look at. What is empty is not looked at.
type Question struct {
	API, Terminal string // base URLs
	// Accept is the SHA-256, in hex, of a CA certificate that the operator accepts for the servers.
	Accept string
	// ReadModel is a path of the API that is about the node. It is asked with the token, and only if the API's certificate
	// verifies.
	ReadModel string
	Token     diag.Secret
	Node      *vantage.NodeConfig
}

// Found is what was seen. A part that was not looked at is nil.
type Found struct {
	API, Terminal *Server
	Node          *Node
}

// Inspect asks servers and node at once, and returns within half a minute.
func Inspect(ctx context.Context, q Question) Found {
	var found Found
	var wg sync.WaitGroup
	server := func(base, readModel string, into **Server) {
		if base == "" {
			return
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, serverTime)
			defer cancel()
			*into = inspectServer(ctx, base, q.Accept, readModel, q.Token)
		})
	}
	server(q.API, q.ReadModel, &found.API)
	server(q.Terminal, "", &found.Terminal)
	if q.Node != nil {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, nodeTime)
			defer cancel()
			found.Node = inspectNode(ctx, *q.Node)
		})
	}
	wg.Wait()
	return found
}
