package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/workload"
)

// goodbye is how long open requests of the sample workload may take after the signal to stop.
const goodbye = 2 * time.Second

// serveWorkload serves the sample workload until SIGTERM or SIGINT.
func serveWorkload(listen, files string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := &http.Server{Addr: listen, Handler: workload.Handler(files), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe() }()
	select {
	case err := <-ended:
		fmt.Fprintf(stderr, "gpuaas-platform: serve the workload at %s: %v\n", listen, err)
		return exitError
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := s.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintf(stderr, "gpuaas-platform: end the workload: %v\n", err)
		return exitError
	}
	return exitOK
}
